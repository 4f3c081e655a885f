package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const nestedVCs = `research:
  virtualCells: [{cellType: R, cellNumber: 1}]
  backfill: easy
  minRunTime: 10m
  preemptionBudget: 2
  virtualClusters:
    vision:
      virtualCells: [{cellType: R.N, cellNumber: 1}]
      formerly: old
      virtualClusters:
        lab: {virtualCells: [{cellType: R.N.G, cellNumber: 1}]}
    audio: {virtualCells: [{cellType: R.N.G, cellNumber: 1}]}
a-z: {virtualCells: [{cellType: R, cellNumber: 0}], formerly: research-old}`

func TestNested(t *testing.T) {
	c, _, problems := Parse("f", []byte(cluster(someTypes, someCells, nestedVCs)), Policies{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	quota := func(level cell.Level) []cell.QuotaSpec {
		return []cell.QuotaSpec{{Chain: "R", Level: level, Number: 1}}
	}
	want := []cell.VCSpec{
		{Name: "a-z"},
		{Name: "research", Quota: quota(3)},
		{Name: "research.audio", Parent: "research", Quota: quota(1)},
		{Name: "research.vision", Parent: "research", Quota: quota(2)},
		{Name: "research.vision.lab", Parent: "research.vision", Quota: quota(1)},
	}
	if d := cmp.Diff(want, c.Config.Cluster.VCs); d != "" {
		t.Error(d)
	}
	budget := int32(2)
	if d := cmp.Diff(model.VCConfig{Name: "research", Backfill: "easy", MinRun: 10 * model.Minute, Budget: &budget}, c.Config.VCs[1]); d != "" {
		t.Error(d)
	}
	renamed := []model.Rename{{From: "research-old", To: "a-z"}, {From: "research.old", To: "research.vision"}, {From: "old", To: "research.vision"},
		{From: "research.old.lab", To: "research.vision.lab"}, {From: "old.lab", To: "research.vision.lab"}}
	if d := cmp.Diff(renamed, c.Renamed); d != "" {
		t.Error(d)
	}
	if !strings.Contains(Summary(c), "virtual cluster research (policy fifo, backfill easy, minRunTime 10m, preemptionBudget 2): 1 R of R\n") {
		t.Error(Summary(c))
	}
}

// Inside a virtual cluster an older name is relative to what that one was called, or is now where
// its own older name is from an earlier change, or is that of one inside none.
func TestNestedOlderNames(t *testing.T) {
	for src, want := range map[string]string{
		"res: {virtualClusters: {eye: {formerly: vis}}}":                                        "res.vis>res.eye vis>res.eye",
		"res: {virtualClusters: {eye: {formerly: res.vis}}}":                                    "res.vis>res.eye",
		"res: {formerly: r, virtualClusters: {eye: {formerly: vis}}}":                           "r>res r.vis>res.eye res.vis>res.eye vis>res.eye",
		"res: {formerly: r, virtualClusters: {eye: {formerly: eye}}}":                           "r>res r.eye>res.eye eye>res.eye",
		"res: {virtualClusters: {eye: {formerly: eye}}}":                                        "eye>res.eye",
		"res: {virtualClusters: {eye: {formerly: eye, virtualClusters: {lab: }}}}":              "eye>res.eye eye.lab>res.eye.lab",
		"a: {virtualClusters: {x: {formerly: o}}}\nb: {virtualClusters: {y: {formerly: o}}}":    "a.o>a.x o>a.x b.o>b.y",
		"res: {formerly: r, virtualClusters: {eye: }}\nb: {formerly: r.eye}":                    "r.eye>b r>res",
		"res: {formerly: r, virtualClusters: {eye: {formerly: vis, virtualClusters: {lab: }}}}": "r>res r.vis>res.eye res.vis>res.eye vis>res.eye r.vis.lab>res.eye.lab res.vis.lab>res.eye.lab vis.lab>res.eye.lab",
		"res: {virtualClusters: {eye: {formerly: res.eye}}}":                                    "f:10:43: virtualClusters.res.virtualClusters.eye.formerly: this virtual cluster is called \"res.eye\" now; write its older name, or remove the key",
		"eye:\nres: {virtualClusters: {eye: {formerly: eye}}}":                                  "f:11:43: virtualClusters.res.virtualClusters.eye.formerly: the virtual cluster \"eye\" is still in this file, at line 10; only one that is gone can have got another name",
		"res: {virtualClusters: {eye: {formerly: vis}, vis: }}":                                 "f:10:43: virtualClusters.res.virtualClusters.eye.formerly: the virtual cluster \"res.vis\" is still in this file, at line 10; only one that is gone can have got another name",
		"res: {virtualClusters: {eye: {formerly: vis}, ear: {formerly: vis}}}":                  "f:10:65: virtualClusters.res.virtualClusters.ear.formerly: another virtual cluster was \"res.vis\", at line 10; its jobs can go to one only",
	} {
		c, _, problems := Parse("f", []byte(cluster(someTypes, someCells, src)), Policies{})
		got := problems.Error()
		if c != nil {
			var list []string
			for _, r := range c.Renamed {
				list = append(list, string(r.From+">"+r.To))
			}
			got = strings.Join(list, " ")
		}
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", src, got, want)
		}
	}
}

func TestParts(t *testing.T) {
	src := `physicalCluster:
  skuTypes:
    1g: {gpu: 1, part: mig, cpu: 1}
    2g: {gpu: 1, part: mig}
    S: {gpu: 1, part: share}
  cellTypes:
    D: {childCellType: 1g, childCellNumber: 3, isDeviceLevel: true}
    N: {childCellType: D, childCellNumber: 2, isNodeLevel: true}
    E: {childCellType: 2g, childCellNumber: 1, isDeviceLevel: true}
    M: {childCellType: E, childCellNumber: 1, isNodeLevel: true}
    X: {childCellType: S, childCellNumber: 2, isDeviceLevel: true}
    O: {childCellType: X, childCellNumber: 1, isNodeLevel: true}
  physicalCells:
  - {cellType: N, cellAddress: n, cellChildren: [{}, {cellAddress: 5, cellChildren: [{}, {cellAddress: "5:4"}, {}]}]}
  - {cellType: M, cellAddress: n, cellChildren: [{cellAddress: 5, cellChildren: [{cellAddress: "5:3"}]}]}
  - {cellType: O, cellAddress: o}
virtualClusters: {v: {virtualCells: [{cellType: N.D, cellNumber: 2}]}}
nodes: {n: {gpu: 2, cpu: 6}}
`
	c, _, problems := Parse("f", []byte(src), Policies{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for i := range c.Config.Cluster.Cells {
		got = append(got, addresses(&c.Config.Cluster.Cells[i]))
	}
	if want := "n(0(0:0 0:1 0:2) 5(5:0 5:4 5:2)) n(5(5:3)) o(0(0:0 0:1))"; strings.Join(got, " ") != want {
		t.Error(got)
	}
	var vars []string
	for _, s := range c.Config.Cluster.SKUs {
		vars = append(vars, string(s.Name)+" "+string(s.Part)+" "+s.EnvVar)
	}
	if want := "1g mig NVIDIA_VISIBLE_DEVICES, 2g mig NVIDIA_VISIBLE_DEVICES, S share CUDA_VISIBLE_DEVICES"; strings.Join(vars, ", ") != want {
		t.Error(vars)
	}
	// Two devices of n, one of them with parts of both types, and one of o.
	if err := CheckMachine(c.Config, Capacity{MilliCPU: Unlimited, MemoryMB: Unlimited, GPU: 3}); err != nil {
		t.Error(err)
	}
	if err := CheckMachine(c.Config, Capacity{MilliCPU: Unlimited, MemoryMB: Unlimited, GPU: 2}); err == nil {
		t.Error("three devices on a machine with two")
	}
}

// A budget of preemptions may be 0; only where it is not given the default holds.
func TestBudget(t *testing.T) {
	c, _, problems := Parse("f", []byte(cluster(someTypes, someCells, "a: {preemptionBudget: 0}\nb: {preemptionBudget: null}\nc: {}")), Policies{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for i, want := range []int32{0, 3, 3} {
		if got := c.Config.VCs[i].PreemptionBudget(); got != want {
			t.Errorf("VC %s has a budget of %d, want %d", c.Config.VCs[i].Name, got, want)
		}
	}
	if !strings.Contains(Summary(c), "preemptionBudget 0)") {
		t.Error(Summary(c))
	}
}

// A virtual cluster says how many of its gangs may move in an hour.
func TestDefragmentation(t *testing.T) {
	c, _, problems := Parse("f", []byte(cluster(someTypes, someCells, "a: {defragmentation: {movesPerHour: 4}}\nb: {defragmentation: null, backfill: easy}")), Policies{})
	if problems != nil || c.Config.VCs[0].Moves != 4 || c.Config.VCs[1].Moves != 0 {
		t.Fatalf("%+v, %v", c.Config.VCs, problems)
	}
	if text := Summary(c); !strings.Contains(text, "policy fifo, defragmentation 4 moves per hour)") {
		t.Error(text)
	}
}
