package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const testdata = "../../../testdata/config"

// known are the policies of these tests: drf takes the parameter by alone.
var known = Policies{Names: []string{"drf", "fifo"}, New: func(c model.VCConfig) (model.Policy, error) {
	var bad model.BadParams
	for _, p := range c.Params {
		if c.Policy != "drf" || p.Key != "by" {
			bad = append(bad, model.BadParam{Key: p.Key, Why: fmt.Sprintf("%s takes no %s", c.Policy, p.Key)})
		}
	}
	if c.Policy == "fifo" && len(bad) > 0 {
		bad = append(bad, model.BadParam{Key: "absent", Why: "absent must not be absent"})
	}
	if bad == nil {
		return nil, nil
	}
	return nil, bad
}}

func read(t *testing.T, name string) *Cluster {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	c, _, problems := Parse(name, src, known)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if _, err := cell.New(&c.Config.Cluster); err != nil {
		t.Fatalf("%s: the core refuses it: %v", name, err)
	}
	return c
}

func TestManual(t *testing.T) {
	c := read(t, "manual.yaml")
	leaves := []cell.CellSpec{{Type: "K80", Address: "0"}, {Type: "K80", Address: "1"}, {Type: "K80", Address: "2"}, {Type: "K80", Address: "3"}}
	want := &model.Config{
		Cluster: cell.Spec{
			SKUs: []cell.SKU{{Name: "K80", GPU: 1, MilliCPU: 5000, MemoryMB: 54 << 10, Device: "nvidia", EnvVar: "CUDA_VISIBLE_DEVICES"}},
			Chains: []cell.ChainSpec{{Name: "K80-NODE-POOL", Levels: []cell.LevelSpec{
				{Type: "K80"}, {Type: "K80-NODE", Fanout: 4, IsNode: true}, {Type: "K80-NODE-POOL", Fanout: 3}}}},
			Cells: []cell.CellSpec{{Type: "K80-NODE-POOL", Address: "0", Children: []cell.CellSpec{
				{Type: "K80-NODE", Address: "node1", Children: leaves},
				{Type: "K80-NODE", Address: "node2", Pinned: "VC2-PIN", Children: leaves},
				{Type: "K80-NODE", Address: "node3", Children: leaves}}}},
			VCs: []cell.VCSpec{
				{Name: "vc1", Quota: []cell.QuotaSpec{{Chain: "K80-NODE-POOL", Level: 2, Number: 1}}},
				{Name: "vc2", Quota: []cell.QuotaSpec{{Chain: "K80-NODE-POOL", Level: 2, Number: 1}}, Pinned: []cell.PinnedID{"VC2-PIN"}}},
		},
		VCs: []model.VCConfig{{Name: "vc1"}, {Name: "vc2"}},
	}
	if d := cmp.Diff(want, c.Config); d != "" {
		t.Error(d)
	}
}

func TestServicesConfiguration(t *testing.T) {
	got := Summary(read(t, "services-configuration.yaml"))
	want := `chain CPU-POOL: 1 CPU-POOL > 1 CPU-NODE (node) > 8 CPU-SKU; each CPU-SKU: device cpu, 0 GPU, 1 CPU, 4096 MiB
chain GPU-POOL: 1 GPU-POOL > 2 GPU-NODE (node) > 8 GPU-SKU; each GPU-SKU: device nvidia, 1 GPU, 4 CPU, 12288 MiB
virtual cluster default (policy fifo): 2 GPU-NODE of GPU-POOL, 1 CPU-NODE of CPU-POOL
total: 3 nodes, 16 devices, 2 chains, 1 virtual cluster
`
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestLarge(t *testing.T) {
	c := read(t, "large.yaml")
	got := Summary(c)
	want := `chain BIG-NODE: 2 BIG-NODE (node) > 4 V100-HALF > 8 V100-QUAD > 16 V100-PAIR > 32 V100; each V100: device nvidia, 1 GPU, 6 CPU, 92160 MiB
chain MI50-NODE: 1 MI50-NODE (node) > 2 MI50-SWITCH > 4 MI50; each MI50: device amd, 1 GPU, 8 CPU, 61440 MiB
chain OLD-NODE: 1 OLD-NODE (node) > 1 K20; each K20: device nvidia, 1 GPU, CPU not limited, memory not limited
chain P100-ROW: 1 P100-ROW > 2 RACK-OF-2 > 4 P100-NODE (node) > 16 P100; each P100: device nvidia, 1 GPU, 5 CPU, 55296 MiB
chain RACK-OF-2: 2 RACK-OF-2 > 4 P100-NODE (node) > 16 P100; each P100: device nvidia, 1 GPU, 5 CPU, 55296 MiB
chain RACK-OF-3: 1 RACK-OF-3 > 3 P100-NODE (node) > 12 P100; each P100: device nvidia, 1 GPU, 5 CPU, 55296 MiB
chain RACK-OF-4: 1 RACK-OF-4 > 4 P100-NODE (node) > 16 P100; each P100: device nvidia, 1 GPU, 5 CPU, 55296 MiB
chain XEON-NODE: 1 XEON-NODE (node) > 8 XEON; each XEON: device cpu, 0 GPU, 1 CPU, 4096 MiB
virtual cluster production (policy fifo): 1 V100-QUAD of BIG-NODE, 3 V100 of BIG-NODE, 4 P100-NODE of RACK-OF-4, 1 P100-NODE of RACK-OF-2, 2 XEON of XEON-NODE, pinned BIG-PIN, pinned RACK-PIN
virtual cluster research (policy drf): 1 V100-HALF of BIG-NODE, 1 RACK-OF-3 of RACK-OF-3, 3 P100-NODE of P100-ROW, 1 MI50-SWITCH of MI50-NODE, 6 XEON of XEON-NODE, pinned ONE-GPU
total: 19 nodes, 105 devices, 8 chains, 2 virtual clusters
`
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
	big := c.Config.Cluster.Cells[1]
	if got := addresses(&big); got != "big-2(0(0(0(8 9) 1(10 11)) 1(2(12 13) 3(14 15))) 1(2(4(0 1) 5(2 3)) 3(6(4 5) 7(6 7))))" {
		t.Error(got)
	}
	if got := addresses(&c.Config.Cluster.Cells[0]); got != "big-1(0(0(0(0 1) 1(2 3)) 1(2(4 5) 3(6 7))) 1(2(4(8 9) 5(10 11)) 3(6(12 13) 7(14 15))))" {
		t.Error(got)
	}
	if got := addresses(&c.Config.Cluster.Cells[6]); !strings.HasPrefix(got, "6(12(e1(0 1 2 3) e2(0 1 2 3)) 13(e3") {
		t.Error(got)
	}
	if d := cmp.Diff([]Capacity{{Node: "mixed-1", MilliCPU: 48000, MemoryMB: 512 << 10, GPU: 4}}, c.Nodes); d != "" {
		t.Error(d)
	}
}

// addresses writes a cell's addresses as a tree.
func addresses(s *cell.CellSpec) string {
	if len(s.Children) == 0 {
		return s.Address
	}
	var parts []string
	for i := range s.Children {
		parts = append(parts, addresses(&s.Children[i]))
	}
	return s.Address + "(" + strings.Join(parts, " ") + ")"
}

// Throughputs come in order, however they are written; what is wrong is said where it stands.
func TestThroughputs(t *testing.T) {
	const base = `physicalCluster:
  cellTypes: {N: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}}
  physicalCells: [{cellType: N, cellAddress: n}]
virtualClusters: {b: {virtualCells: [{cellType: N, cellNumber: 1}]}}
throughputs: `
	c, _, problems := Parse("f", []byte(base+`{vgg: {GPU: {2: 19, 1: 10}}, "*": {"*": {1: 1}}}`), Policies{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []model.Throughput{{Model: "*", GPUs: 1, Rate: 1}, {Model: "vgg", SKU: "GPU", GPUs: 1, Rate: 10}, {Model: "vgg", SKU: "GPU", GPUs: 2, Rate: 19}}
	if diff := cmp.Diff(want, c.Config.Throughputs); diff != "" {
		t.Error(diff)
	}
	_, _, problems = Parse("f", []byte(base+`{vgg: {TPU: {1: 1}, GPU: {0: 1, 1: 0, 2: 5, "02": 6}}, "": {GPU: {1: 1}}}`), Policies{})
	for _, text := range []string{`no leaf is of the type "TPU"`, `"0" is not a number of GPUs`, `each once`, `a model needs a name`} {
		if got := problems.Error(); !strings.Contains(got, text) {
			t.Errorf("%s is not among the problems: %s", text, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(testdata, "large.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, warnings, _ := Parse("large.yaml", src, Policies{})
	want := `large.yaml:4:23: kubeApiServerAddress: this key of HiveD has no effect here
large.yaml:5:19: webServerAddress: this key of HiveD has no effect here
large.yaml:6:24: forcePodBindThreshold: this key of HiveD has no effect here
large.yaml:7:36: waitingPodSchedulingBlockMilliSec: this key of HiveD has no effect here`
	if got := warnings.Error(); got != want {
		t.Error(cmp.Diff(want, got))
	}
	src = []byte(`physicalCluster:
  skuTypes: {GPUX: {gpu: 1}}
  cellTypes:
    N: {childCellType: GPU, childCellNumber: 1, isNodeLevel: true}
  physicalCells: [{cellType: N}, {cellType: N, pinnedCellId: P, cellAddress: n}]
virtualClusters:
  a:
  b: {virtualCells: [{cellType: N, cellNumber: 0}]}
`)
	c, warnings, problems := Parse("f", src, Policies{})
	if c == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	want = `f:2:14: physicalCluster.skuTypes.GPUX: no cell has this leaf type; did you mean GPU?
f:5:19: physicalCluster.physicalCells[0]: a node has no cellAddress and is named after its index, "0"; write the machine's name
f:5:62: physicalCluster.physicalCells[1].pinnedCellId: no virtual cluster has the pinned cell "P"; it is used as any other cell
f:7:3: virtualClusters.a: this virtual cluster owns no cells; only opportunistic jobs run in it
f:8:48: virtualClusters.b.virtualCells[0].cellNumber: this entry promises no cells`
	if got := warnings.Error(); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// A rack may lack a node: it is as if the rack were not, but its other nodes are there.
func TestRackLacksNode(t *testing.T) {
	c, warnings, problems := Parse("f", []byte(cluster(someTypes, "- {cellType: R, cellAddress: r0, cellChildren: [{cellAddress: a}]}\n- {cellType: R, cellAddress: r1, cellChildren: [{cellAddress: b}, {cellAddress: c}]}",
		"v: {virtualCells: [{cellType: R, cellNumber: 1}, {cellType: R.N, cellNumber: 1}]}")), Policies{})
	if c == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if got, want := warnings.Error(), "f:7:50: physicalCluster.physicalCells[0].cellChildren: 1 of the 2 N that a R has: no virtual cluster can own this one as a whole, only what is in it"; got != want {
		t.Error(cmp.Diff(want, got))
	}
	if _, err := cell.New(&c.Config.Cluster); err != nil {
		t.Error(err)
	}
	want := `chain R: 2 R > (1 missing) 3 N (node) > 6 G; each G: device nvidia, 1 GPU, CPU not limited, memory not limited
virtual cluster v (policy fifo): 1 R of R, 1 N of R
total: 3 nodes, 6 devices, 1 chain, 1 virtual cluster
`
	if got := Summary(c); got != want {
		t.Error(cmp.Diff(want, got))
	}
	sums := []Capacity{{Node: "a", GPU: 2}, {Node: "b", GPU: 2}, {Node: "c", GPU: 2}}
	if got := NodeSums(c.Config); !cmp.Equal(got, sums) {
		t.Errorf("its nodes have %+v", got)
	}
	if got := Brief(c.Config); got != "3 nodes, 6 GPUs, virtual cluster v" {
		t.Error(got)
	}
	if err := CheckMachine(c.Config, Capacity{MilliCPU: Unlimited, MemoryMB: Unlimited, GPU: 5}); err == nil || !strings.Contains(err.Error(), "6 GPUs, but the machine has 5") {
		t.Error(err)
	}
}

func TestSingle(t *testing.T) {
	c := Single("host", cell.SKU{Name: "GPU", GPU: 1, MilliCPU: 500, MemoryMB: 100}, 3)
	if _, err := cell.New(&c.Cluster); err != nil {
		t.Fatal(err)
	}
	if got := addresses(&c.Cluster.Cells[0]); got != "host(0 1 2)" {
		t.Error(got)
	}
	if got, want := Summary(&Cluster{Config: c}), `chain GPU-NODE: 1 GPU-NODE (node) > 3 GPU; each GPU: device nvidia, 1 GPU, 0.5 CPU, 100 MiB
virtual cluster default (policy fifo): 1 GPU-NODE of GPU-NODE
total: 1 node, 3 devices, 1 chain, 1 virtual cluster
`; got != want {
		t.Error(cmp.Diff(want, got))
	}
	for _, sku := range []cell.SKU{c.Cluster.SKUs[0], {Name: "CPU", MilliCPU: 1000, MemoryMB: 2048}, {Name: "bare", Device: cell.NVIDIA, GPU: 1}} {
		want := Single("7", sku, 3)
		got, _, problems := Parse("own.yaml", SingleFile(want), Policies{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if diff := cmp.Diff(want, got.Config); diff != "" {
			t.Errorf("the file of one machine says something else:\n%s", diff)
		}
	}
	if err := CheckMachine(c, Capacity{MilliCPU: 1500, MemoryMB: 300, GPU: 3}); err != nil {
		t.Error(err)
	}
	if err := CheckMachine(c, Capacity{MilliCPU: Unlimited, MemoryMB: Unlimited, GPU: Unlimited}); err != nil {
		t.Error(err)
	}
	if got := NodeSums(c); !cmp.Equal(got, []Capacity{{Node: "host", MilliCPU: 1500, MemoryMB: 300, GPU: 3}}) {
		t.Errorf("its node has %+v", got)
	}
	err := CheckMachine(c, Capacity{MilliCPU: 1250, MemoryMB: 299, GPU: 2})
	want := "the nodes of this cluster file all stand on this machine, and their cells together have 1.5 CPU cores, but the machine has 1.25; " +
		"300 MiB of memory, but the machine has 299 MiB; 3 GPUs, but the machine has 2; lower the SKUs in skuTypes or the number of cells"
	if fmt.Sprint(err) != want {
		t.Error(err)
	}
}

// TestHostile gives files that would exhaust memory if they were expanded before
// they are measured.
func TestHostile(t *testing.T) {
	types := ""
	for i := range 40 {
		types += fmt.Sprintf("    T%d: {childCellType: T%d, childCellNumber: 1000, isNodeLevel: %v}\n", i, i+1, i == 0)
	}
	head := "physicalCluster:\n  cellTypes:\n"
	tail := "virtualClusters: {a: {virtualCells: [{cellType: N, cellNumber: 1}]}}\n"
	node := "    N: {childCellType: G, childCellNumber: 1000, isNodeLevel: true}\n"
	for name, src := range map[string]string{
		"children":    head + "    N: {childCellType: G, childCellNumber: 1000000000, isNodeLevel: true}\n  physicalCells: [{cellType: N}]\n" + tail,
		"product":     head + types + "  physicalCells: [{cellType: T0}]\n" + tail,
		"many tops":   head + node + "  physicalCells: [" + strings.Repeat("{cellType: N},", 100_000) + "]\n" + tail,
		"long name":   head + "    N: {childCellType: " + strings.Repeat("G", 1<<20) + ", childCellNumber: 1, isNodeLevel: true}\n  physicalCells: [{cellType: N}]\n" + tail,
		"long path":   head + node + "  physicalCells: [{cellType: N}]\nvirtualClusters: {a: {virtualCells: [{cellType: " + strings.Repeat("N.", 1<<20) + "N, cellNumber: 1}]}}\n",
		"many claims": head + node + "  physicalCells: [{cellType: N, cellAddress: n}]\nvirtualClusters: {a: {virtualCells: [" + strings.Repeat("{cellType: N, cellNumber: 2000000},", 60_000) + "]}}\n",
		"nested":      head + node + "  physicalCells: " + strings.Repeat("[", 1_000_000),
		"wrapped":     "hivedscheduler:\n  config: |\n    a: " + strings.Repeat("{a: ", 1_000_000),
		"many keys":   "virtualClusters:\n" + strings.Repeat("  x: 1\n", 1) + manyVCs(90_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := busy(t)
		c, _, problems := Parse("f", []byte(src), Policies{})
		runtime.ReadMemStats(&after)
		if c != nil || len(problems) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if took := busy(t) - start; took > slowness*5*time.Second {
			t.Errorf("%s: took %v of processor time", name, took)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 400<<20 {
			t.Errorf("%s: allocated %d MiB", name, used>>20)
		}
		if n := len(problems.Error()); n > 40_000 {
			t.Errorf("%s: the message has %d bytes", name, n)
		}
	}
}

func manyVCs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  v%d: {}\n", i)
	}
	return b.String()
}

// busy is the processor time that this process has used: unlike the clock it says as
// much on a loaded machine.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A small file may ask for huge machines; how many devices one may have is bounded.
func TestDevicesOfAMachine(t *testing.T) {
	file := func(devices int) []byte {
		return fmt.Appendf(nil, `physicalCluster:
  cellTypes:
    N: {childCellType: G, childCellNumber: %d, isNodeLevel: true}
  physicalCells: [{cellType: N, cellAddress: n1}]
virtualClusters:
  a: {virtualCells: [{cellType: N, cellNumber: 1}]}
`, devices)
	}
	if c, _, problems := Parse("f", file(MaxNodeLeaves), Policies{}); c == nil {
		t.Error(problems)
	}
	if c, _, problems := Parse("f", file(MaxNodeLeaves+1), Policies{}); c != nil || !strings.Contains(problems.Error(), "at most 4096") {
		t.Errorf("accepted, or told otherwise: %v", problems)
	}
}

// TestPretendedGPUs: a file says whether its GPUs are real; where it says nothing, the server does.
func TestPretendedGPUs(t *testing.T) {
	src := []byte(`physicalCluster:
  skuTypes: {A: {gpu: 1}, B: {gpu: 1, pretended: true}, C: {gpu: 1, pretended: false}, S: {cpu: 1}}
  cellTypes:
    AN: {childCellType: A, childCellNumber: 1, isNodeLevel: true}
    BN: {childCellType: B, childCellNumber: 1, isNodeLevel: true}
    CN: {childCellType: C, childCellNumber: 1, isNodeLevel: true}
    DN: {childCellType: D, childCellNumber: 1, isNodeLevel: true}
    SN: {childCellType: S, childCellNumber: 1, isNodeLevel: true}
  physicalCells:
  - {cellType: AN, cellAddress: a}
  - {cellType: BN, cellAddress: b}
  - {cellType: CN, cellAddress: c}
  - {cellType: DN, cellAddress: d}
  - {cellType: SN, cellAddress: s}
virtualClusters: {v: {virtualCells: [{cellType: SN, cellNumber: 1}]}}
`)
	for text, pretend := range map[string]func() (bool, string){
		"A false B true C false D false S false ": nil,
		"A true B true C false D true S false ":   func() (bool, string) { return true, "" },
	} {
		c, _, problems := Parse("f", src, Policies{Pretend: pretend})
		if c == nil {
			t.Fatal(problems)
		}
		got := ""
		for _, s := range c.Config.Cluster.SKUs {
			got += fmt.Sprintf("%s %v ", s.Name, s.Pretended)
		}
		if got != text {
			t.Errorf("%q, not %q", got, text)
		}
		if RealGPUs(c.Config, nil) == "" { // C is real in either case
			t.Error("no real GPUs")
		}
		have := Capacity{MilliCPU: Unlimited, MemoryMB: Unlimited, GPU: 1}
		if err := CheckMachine(c.Config, have); (err == nil) == (pretend == nil) {
			t.Errorf("%s: on a machine with one GPU: %v", text, err)
		}
	}
	asked := 0
	likeOthers := func() (bool, string) { asked++; return true, "those in force are" }
	_, warnings, _ := Parse("f", src, Policies{Pretend: likeOthers})
	if text := warnings.Error(); asked != 1 || strings.Count(text, "are pretended: those in force are; write") != 2 ||
		!strings.Contains(text, "f:2:14: physicalCluster.skuTypes.A: the GPUs of A are pretended") ||
		!strings.Contains(text, "f:7:5: physicalCluster.cellTypes.DN: the GPUs of D are pretended") {
		t.Errorf("asked %d times, warned: %s", asked, text)
	}
	wrong := bytes.Replace(src, []byte("S: {cpu: 1}"), []byte("S: {cpu: 1, pretended: true}"), 1)
	if _, _, problems := Parse("f", wrong, Policies{}); !strings.Contains(problems.Error(), "that could be pretended") {
		t.Error(problems)
	}
	older := Single("n", cell.SKU{Name: "GPU", GPU: 1}, 2)
	c := PretendedBefore(older)
	if c == nil || RealGPUs(c, nil) != "" || RealGPUs(older, nil) != "GPU" || RealGPUs(older, older) != "" ||
		PretendedBefore(c) != nil {
		t.Error("a configuration of an older version")
	}
	if c := PretendedBefore(Single("n", cell.SKU{Name: "NVIDIA-H200", GPU: 1}, 2)); c != nil {
		t.Error("real GPUs of an older version")
	}
	want := Single("n", cell.SKU{Name: "GPU", GPU: 1, Pretended: true}, 2)
	own, _, problems := Parse("own.yaml", SingleFile(want), Policies{})
	if own == nil || !own.Config.Cluster.SKUs[0].Pretended {
		t.Error(problems)
	}
}

// TestLimitsOfProcesses: what a SKU does not say is the cluster's.
func TestLimitsOfProcesses(t *testing.T) {
	src := `limits: {nofile: 65536, memlock: unlimited}
physicalCluster:
  skuTypes: {A: {gpu: 1, deviceFiles: ["/dev/dri/renderD{128}"], limits: {nofile: 1024, stack: 64Mi}, groups: [render, 0044]}}
  cellTypes: {AN: {childCellType: A, childCellNumber: 1, isNodeLevel: true}}
  physicalCells: [{cellType: AN, cellAddress: a}]
virtualClusters: {v: {virtualCells: [{cellType: AN, cellNumber: 1}]}}
`
	c, _, problems := Parse("f", []byte(src), Policies{})
	if c == nil {
		t.Fatal(problems)
	}
	want := cell.TaskLimits{NoFile: 1024, StackMB: 64, MemLockMB: -1}
	if got := c.Config.Cluster.SKUs[0].Limits; got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if got := c.Config.Cluster.SKUs[0].Groups; !slices.Equal(got, []string{"render", "44"}) {
		t.Errorf("its groups are %q", got)
	}
	for _, bad := range []string{"root", "00", "docker", "shadow", "44", "-1", "a b", "wheel"} {
		if c, _, _ := Parse("f", []byte(strings.Replace(src, "render,", bad+",", 1)), Policies{}); c != nil {
			t.Errorf("the group %s is taken", bad)
		}
	}
	for from, to := range map[string]string{"nofile: 65536": "nofile: 3", "stack: 64Mi": "stack: much",
		"memlock: unlimited": "rss: 1", "D{128}": "D{x}", "D{128}\"": "D{128}{1}\""} {
		if c, _, _ := Parse("f", []byte(strings.Replace(src, from, to, 1)), Policies{}); c != nil {
			t.Errorf("%s is taken", to)
		}
	}
}
