package engine_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	clusterfile "github.com/combsched/comb/internal/spec/config"
)

// plain starts and stops; able can do what it says.
type plain struct{}

func (plain) Do(model.Action) {}

type able struct {
	plain
	can []model.Ability
}

func (a able) Abilities(engine.Leaves) ([]model.Ability, string) { return a.can, "" }

// choosy can share CPUs alone.
type choosy struct{ plain }

func (choosy) Abilities(l engine.Leaves) ([]model.Ability, string) {
	if l.SKU.Device == cell.CPU {
		return []model.Ability{model.CanSuspend, model.CanPack}, ""
	}
	return nil, fmt.Sprintf("the nodes %v give each to one task", l.Nodes)
}

// needy is a policy that needs what its VC's policy is called.
type needy struct{ needs []model.Ability }

func (needy) Rank(model.View) iter.Seq[model.Wish] { return func(func(model.Wish) bool) {} }
func (n needy) Needs() []model.Ability             { return n.needs }

func policies(c model.VCConfig) (model.Policy, error) {
	switch c.Policy {
	case "slices":
		return needy{[]model.Ability{model.CanSuspend, model.CanPack}}, nil
	case "packs":
		return needy{[]model.Ability{model.CanPack}}, nil
	}
	return policy.New(c)
}

func TestPoliciesThatNeedWhatTheExecutorLacks(t *testing.T) {
	c := &model.Config{VCs: []model.VCConfig{{Name: "vision", Policy: "slices"}, {Name: "speech", Policy: "fifo"},
		{Name: "text", Policy: "packs"}, {Name: "odd", Policy: "no such policy"}}}
	for _, tt := range []struct {
		x    engine.Executor
		want []string // each a part of one line
	}{
		{able{can: []model.Ability{model.CanPack, model.CanSuspend}}, nil},
		{able{can: []model.Ability{model.CanPack}}, []string{"vision: the policy slices needs an executor that can suspend tasks"}},
		{able{}, []string{"vision: the policy slices needs an executor that can suspend", "vision: the policy slices needs an executor that can run",
			"text: the policy packs needs an executor that can run the tasks of several jobs on one device"}},
		{plain{}, []string{"vision", "vision", "text"}},
	} {
		err := engine.CheckAbilities(c, policies, tt.x)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(tt.want) {
			t.Fatalf("%+v: %v", tt.x, err)
		}
		for i, want := range tt.want {
			if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "choose another policy") {
				t.Errorf("%q does not say %q", lines[i], want)
			}
		}
	}
}

// An executor that can do more on some leaves than on others is asked about those of each VC,
// pinned ones as well.
func TestAbilitiesOfLeaves(t *testing.T) {
	c, _, problems := clusterfile.Parse("cluster.yaml", []byte(`
physicalCluster:
  skuTypes:
    A100: {gpu: 1, cpu: 4, memory: 8Gi}
    slot: {gpu: 0, cpu: 1, memory: 1Gi}
  cellTypes:
    a-node: {childCellType: A100, childCellNumber: 2, isNodeLevel: true}
    a-rack: {childCellType: a-node, childCellNumber: 2}
    c-node: {childCellType: slot, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - cellType: a-rack
    cellChildren:
    - {cellAddress: a1, pinnedCellId: own}
    - cellAddress: a2
  - {cellType: c-node, cellAddress: c1}
virtualClusters:
  cpus: {policy: gandiva, virtualCells: [{cellType: c-node, cellNumber: 1}]}
  gpus: {policy: gandiva, virtualCells: [{cellType: a-rack.a-node, cellNumber: 1}]}
  pinned: {policy: gandiva, pinnedCells: [{pinnedCellId: own}]}
`), clusterfile.Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	err := engine.CheckAbilities(c.Config, policy.New, choosy{})
	if err == nil {
		t.Fatal("nothing is refused")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"virtual cluster gpus: ", "virtual cluster gpus: ", "virtual cluster pinned: ", "virtual cluster pinned: "}
	if len(lines) != len(want) {
		t.Fatalf("%v", err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) || !strings.Contains(lines[i], "this one cannot on its leaves of type A100: the nodes [a1 a2] give each to one task; choose another policy") {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
}
