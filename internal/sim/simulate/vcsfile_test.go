package simulate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/sim/simulate"
)

// hived is a cluster of three racks of two nodes with four V100 in pairs, and a node
// with two K80; three virtual clusters, one inside another.
const hived = `
physicalCluster:
  skuTypes: {V100: {gpu: 1, cpu: 1, memory: 1Gi}, K80: {gpu: 1, cpu: 1, memory: 1Gi}}
  cellTypes:
    PAIR: {childCellType: V100, childCellNumber: 2}
    NODE: {childCellType: PAIR, childCellNumber: 2, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 2}
    OLD: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: RACK, cellChildren: [{cellAddress: n1}, {cellAddress: n2, %s}]}
  - {cellType: RACK, cellChildren: [{cellAddress: n3}, {cellAddress: n4}]}
  - {cellType: RACK, cellChildren: [{cellAddress: n6}, {cellAddress: n7}]}
  - {cellType: OLD, cellAddress: n5}
virtualClusters:
  red:
    policy: {name: las, params: {limits: 60/600}}
    preemptionBudget: 2
    virtualCells: [{cellType: RACK, cellNumber: 1}]
    virtualClusters:
      sun:
        virtualCells: [{cellType: RACK.NODE, cellNumber: 1}]
  blue:
    virtualCells: [{cellType: RACK.NODE.PAIR, cellNumber: 1}, {cellType: RACK.NODE, cellNumber: 1}, {cellType: OLD.K80, cellNumber: 1}]
    %s
`

// clusterFile writes that file.
func clusterFile(t *testing.T, pin, pinned string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vcs.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, hived, pin, pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// configured gives the configuration that a run begins with.
func configured(t *testing.T, spec simulate.Spec) (*model.Config, *simulate.Result, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(file, []byte("job_id,submit_s,duration_s,num_gpus,vc\na,0,100,4,red\nb,0,10,2,red.sun\nc,0,10,2,blue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var c *model.Config
	r, err := simulate.Run(context.Background(), spec, &simulate.Trace{Path: file}, simulate.Options{Policies: policy.New, OnBatch: func(b engine.Batch) {
		for _, rec := range b.Records {
			if e, ok := rec.Event.(model.Configured); ok {
				c = e.Config
			}
		}
	}})
	return c, r, err
}

// owned writes what a configuration's virtual clusters own and do, a line each.
func owned(c *model.Config) string {
	var b strings.Builder
	for i, v := range c.Cluster.VCs {
		fmt.Fprintf(&b, "%s in %q %s%v:", v.Name, v.Parent, c.VCs[i].Policy, c.VCs[i].Params)
		for _, q := range v.Quota {
			fmt.Fprintf(&b, " %d %s", q.Number, levelOf(c, q))
		}
		fmt.Fprintf(&b, ", budget %d\n", c.VCs[i].PreemptionBudget())
	}
	return b.String()
}

func levelOf(c *model.Config, q cell.QuotaSpec) cell.TypeName {
	for _, ch := range c.Cluster.Chains {
		if ch.Name == q.Chain {
			return ch.Levels[q.Level-1].Type
		}
	}
	return "?"
}

func TestVCsFromFile(t *testing.T) {
	file := clusterFile(t, "", "")
	for _, test := range []struct {
		name string
		spec simulate.Spec
		want string
	}{
		{"racks of the same size", simulate.Spec{Cluster: "6x4:V100,2x2:K80", Racks: 2}, `
blue in "" srtf[]: 1 m1-switch-2 1 m1-node 1 K80, budget 2147483647
red in "" las[{limits 60/600}]: 2 m1-node, budget 2
red.sun in "red" srtf[]: 1 m1-node, budget 2147483647
`},
		{"numbers of GPUs", simulate.Spec{Cluster: "6x4:V100,2x2:K80", Quota: "count"}, `
blue in "" srtf[]: 6 V100 1 K80, budget 2147483647
red in "" las[{limits 60/600}]: 8 V100, budget 2
red.sun in "red" srtf[]: 4 V100, budget 2147483647
`},
		{"a node that has what a rack has there", simulate.Spec{Cluster: "3x8:V100,1x2:K80"}, `
blue in "" srtf[]: 1 m1-switch-2 1 m1-switch-4 1 K80, budget 2147483647
red in "" las[{limits 60/600}]: 1 m1-node, budget 2
red.sun in "red" srtf[]: 1 m1-switch-4, budget 2147483647
`},
		{"its own file", simulate.Spec{Cluster: file}, `
blue in "" srtf[]: 1 PAIR 1 NODE 1 K80, budget 2147483647
red in "" las[{limits 60/600}]: 1 RACK, budget 2
red.sun in "red" srtf[]: 1 NODE, budget 2147483647
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spec.VCs, test.spec.Policy = file, "srtf"
			c, r, err := configured(t, test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := owned(c); got != test.want[1:] {
				t.Errorf("got\n%swant%s", got, test.want)
			}
			if r.Refused != 0 || r.Summary.Finished != 3 {
				t.Errorf("%d jobs refused (%v), %d finished", r.Refused, r.Refusals, r.Summary.Finished)
			}
		})
	}
	// Without --vcs the file's virtual clusters without a policy get the flag's, too.
	c, _, err := configured(t, simulate.Spec{Cluster: file, Policy: "srtf"})
	if err != nil || c.VCs[0].Policy != "srtf" || c.VCs[1].Policy != "las" {
		t.Errorf("%v %v", c, err)
	}
}

func TestVCsFromFileAreRefused(t *testing.T) {
	plain, pinned := clusterFile(t, "", ""), clusterFile(t, "pinnedCellId: LAB", "pinnedCells: [{pinnedCellId: LAB}]")
	for _, test := range []struct {
		spec simulate.Spec
		want []string
	}{
		{simulate.Spec{Cluster: "6x4:V100", VCs: plain}, []string{`virtual cluster "blue": it owns cells of K80, which --cluster has none of`}},
		{simulate.Spec{Cluster: "6x6:V100,1x2:K80", VCs: plain}, []string{
			`virtual cluster "red": it owns cells of 8 V100; those of --cluster have 1, 2, 6`, `virtual cluster "red.sun": it owns cells of 4 V100`}},
		{simulate.Spec{Cluster: "6x4:V100,1x2:K80", VCs: pinned}, []string{`virtual cluster "blue" owns pinned cells`}},
		{simulate.Spec{Cluster: "1x4:V100,1x2:K80", VCs: plain}, []string{"the cluster is refused"}},
	} {
		test.spec.Policy = "fifo"
		_, _, err := configured(t, test.spec)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", test.spec.Cluster, err, want)
			}
		}
	}
}
