package simulate

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/spec/trace"
)

// street is a crowd on four machines of four GPUs, and what it was told of.
func street(t *testing.T, m *perf.Model, costs perf.Costs) (*occupancy, *[]string) {
	t.Helper()
	cfg, err := (&Layout{}).Cluster([]trace.NodeGroup{{Nodes: 4, GPUs: 4}}, []Share{{Name: "a", Own: []int32{4}}}, model.VCConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	c := newOccupancy(&plan{model: m, costs: costs}, func(id model.AttemptID, s perf.Speed) { told = append(told, fmt.Sprintf("%v %d", id, s)) })
	c.configure(&cfg.Cluster)
	return c, &told
}

// on is a task on some GPUs of a machine, from 0.
func on(node int, gpus ...int32) cell.Task {
	t := cell.Task{Node: cell.NodeName(fmt.Sprintf("m1-n%05d", node+1)), SKU: "GPU", Devices: gpus}
	for _, g := range gpus {
		t.Leaves = append(t.Leaves, cell.LeafID(4*node)+cell.LeafID(g))
	}
	return t
}

func attempt(job int) model.AttemptID { return model.AttemptID{Job: model.JobID(job), N: 1} }

func of(name string) *model.Job { return &model.Job{Hints: model.Hints{Model: name}} }

func expect(t *testing.T, what string, told *[]string, want ...string) {
	t.Helper()
	if got := fmt.Sprint(*told); got != fmt.Sprint(want) {
		t.Errorf("%s: told of %v; want %v", what, got, want)
	}
	*told = nil
}

// Who shares GPUs: packed they have the speeds of Gavel's pair, in turns they lose a
// suspension each turn, alone again they have full speed. A host's factor is for others
// than those.
func TestCrowdOnSharedGPUs(t *testing.T) {
	w := func(m string) perf.Work { return perf.Work{Model: m, Scale: 1} }
	m := &perf.Model{
		Throughputs: perf.NewThroughputs([]perf.Alone{{Worker: "gpu", Work: w("x"), Rate: 10}, {Worker: "gpu", Work: w("y"), Rate: 4}},
			[]perf.Pair{{Worker: "gpu", A: w("x"), B: w("y"), RateA: 8, RateB: 3}}),
		Factors: &perf.Factors{Hosts: []perf.Factor{{Model: "x", Speed: 500_000}}},
	}
	suspend, err := perf.ParseCost("6")
	if err != nil {
		t.Fatal(err)
	}
	c, told := street(t, m, perf.Costs{Suspend: suspend})
	x, y := attempt(1), attempt(2)
	c.enter(x, of("x"), []cell.Task{on(0, 0)})
	c.enter(y, of("y"), []cell.Task{on(0, 0)})
	*told = nil // for an instant nobody knows that they share
	c.rotate(&model.Rotation{Turns: [][]model.AttemptID{{x, y}}})
	expect(t, "packed", told, "1.0.1 800000", "2.0.1 750000")
	c.rotate(&model.Rotation{Turns: [][]model.AttemptID{{x}, {y}}, Quantum: model.Minute})
	expect(t, "in turns", told, "1.0.1 900000", "2.0.1 900000")
	c.enter(attempt(3), of("y"), []cell.Task{on(0, 1)})
	expect(t, "a neighbour", told, "1.0.1 450000")
	c.leave(y)
	c.rotate(&model.Rotation{Turns: [][]model.AttemptID{{x}}})
	c.leave(attempt(3))
	if s := c.live[x].speed; s != perf.FullSpeed {
		t.Errorf("alone again it has %d", s)
	}
}

// Members above a minimum: with one of two of them a job of three GPUs has two.
func TestCrowdOfOneJob(t *testing.T) {
	f := &perf.Factors{GPUs: []perf.Scale{{Model: "x", GPUs: 1, Rate: 1_000_000}, {Model: "x", GPUs: 2, Rate: 1_800_000}, {Model: "x", GPUs: 3, Rate: 2_000_000}}}
	c, told := street(t, &perf.Model{Factors: f}, perf.Costs{})
	j := of("x")
	j.Roles = []model.Role{{Tasks: 3, Leaves: 1}}
	j.Gangs = []model.Gang{{Tasks: []int32{0}}, {Tasks: []int32{1}, Extra: true}, {Tasks: []int32{2}, Extra: true}}
	gang := func(g int32) model.AttemptID { return model.AttemptID{Job: 1, Gang: g, N: 1} }
	if s := c.enter(gang(0), j, []cell.Task{on(0, 0)}); s != 500_000 {
		t.Errorf("the minimum alone has %d", s)
	}
	if s := c.enter(gang(1), j, []cell.Task{on(1, 0)}); s != 900_000 {
		t.Errorf("with another it has %d", s)
	}
	expect(t, "another machine, the same job", told, "1.0.1 900000")
	c.enter(gang(2), j, []cell.Task{on(2, 0)})
	expect(t, "all", told, "1.0.1 1000000", "1.1.1 1000000")
	c.leave(gang(1))
	expect(t, "one is gone", told, "1.0.1 900000", "1.2.1 900000")
}

// Only those on the same machines are looked at.
func TestCrowdElsewhereIsLeftAlone(t *testing.T) {
	c, told := street(t, &perf.Model{Factors: &perf.Factors{Hosts: []perf.Factor{{Model: perf.Any, Speed: 500_000}}}}, perf.Costs{})
	for i := range 4 {
		c.enter(attempt(i+1), of(""), []cell.Task{on(i, 0)})
	}
	rounds := func(id int) uint64 { return c.live[attempt(id)].round }
	before := rounds(4)
	c.enter(attempt(9), of(""), []cell.Task{on(0, 1), on(1, 1)})
	expect(t, "a gang on two machines", told, "1.0.1 500000", "2.0.1 500000")
	if rounds(4) != before || rounds(1) == before {
		t.Error("who is on no machine of it was looked at, or who is was not")
	}
	c.leave(attempt(9))
	expect(t, "it is gone", told, "1.0.1 1000000", "2.0.1 1000000")
	if len(c.live) != 4 || len(c.machines["m1-n00001"].tenants) != 1 {
		t.Errorf("something is left of it: %v", c.live)
	}
}

// Localities of the cells of a machine, and of a cluster with racks and without.
func TestLocality(t *testing.T) {
	for _, test := range []struct {
		racks int32
		a, b  cell.LeafID
		want  perf.Locality
	}{
		{0, 0, 0, perf.OneGPU}, {0, 0, 1, perf.SameSwitch}, {0, 1, 2, perf.SameSocket}, {0, 0, 7, perf.SameNode}, {0, 0, 8, perf.SameRack}, {0, 3, 31, perf.SameRack},
		{2, 0, 15, perf.SameRack}, {2, 0, 16, perf.CrossRack}, {2, 18, 19, perf.SameSwitch},
	} {
		cfg, err := (&Layout{Racks: test.racks}).Cluster([]trace.NodeGroup{{Nodes: 4, GPUs: 8}}, []Share{{Name: "a", Own: []int32{4}}}, model.VCConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c := newOccupancy(&plan{model: &perf.Model{}}, nil)
		c.configure(&cfg.Cluster)
		if got := c.locality(test.a, test.b); got != test.want {
			t.Errorf("%d racks, GPUs %d to %d: %d, want %d", test.racks, test.a, test.b, got, test.want)
		}
	}
}
