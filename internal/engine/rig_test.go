package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
)

const start = model.Time(1_000_000_000)

var ctx = context.Background()

// config is nodes of 2 GPUs each; VC a owns the first, b all others.
func config(nodes int) *model.Config {
	spec := cell.Spec{
		SKUs: []cell.SKU{{Name: "GPU", GPU: 1, MilliCPU: 1000, MemoryMB: 1024, Device: cell.NVIDIA}},
		Chains: []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{
			{Type: "GPU"}, {Type: "NODE", Fanout: 2, IsNode: true}}}},
		VCs: []cell.VCSpec{
			{Name: "a", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: 1}}},
			{Name: "b", Quota: []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: int32(nodes - 1)}}}},
	}
	for i := range nodes {
		spec.Cells = append(spec.Cells, cell.CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", i+1), Children: []cell.CellSpec{
			{Type: "GPU", Address: "0"}, {Type: "GPU", Address: "1"}}})
	}
	return &model.Config{Cluster: spec, VCs: []model.VCConfig{{Name: "a"}, {Name: "b", Policy: "drf"}}}
}

// job is one task that runs for d, or, if d is 0, until it is stopped.
func job(name string, vc cell.VCName, leaves int32, d model.Duration) *model.Job {
	return &model.Job{Name: model.JobName(name), User: "ann", VC: vc, Priority: 10,
		Roles: []model.Role{{Name: "main", Tasks: 1, Leaves: leaves, MinFailed: 1, MinSucceeded: 1,
			Launch: model.Launch{Command: []string{"true"}}}},
		Gangs: []model.Gang{{Name: "main", Tasks: []int32{0}}},
		Grace: model.Second, Hints: model.Hints{Duration: d}}
}

func submit(j *model.Job) model.Submit { return model.Submit{Meta: model.Meta{Subject: "ann"}, Job: j} }

// rig is a simulated world with an engine on a journal; steps are what its user
// does, one each time nothing is left to happen.
type rig struct {
	t       testing.TB
	world   *sim.World
	journal engine.Journal
	engine  *engine.Engine
	options engine.Options
	steps   []func()
	seq     uint64 // durable
}

// newRig configures a cluster of n nodes.
func newRig(t testing.TB, j engine.Journal, nodes int) *rig {
	t.Helper()
	r := &rig{t: t, journal: j}
	r.world = sim.New(sim.Options{Start: start, Idle: r.idle})
	r.options = engine.Options{Inputs: r.world, Executor: r.world, Journal: j, Policies: policy.New, Epoch: 1,
		SnapshotEvery: 20, OnBatch: func(b engine.Batch) { r.seq = b.Last() }}
	r.give(model.Reconfigure{Config: config(nodes)}, nil)
	return r
}

// give hands a command in; the reply goes to to.
func (r *rig) give(c model.Command, to *engine.Reply) {
	r.world.Give(engine.Input{Command: c, Reply: func(got engine.Reply) {
		if to != nil {
			*to = got
		}
	}})
}

func (r *rig) idle() bool {
	if len(r.steps) == 0 {
		return false
	}
	step := r.steps[0]
	r.steps = r.steps[1:]
	step()
	return true
}

// open opens the engine anew on the journal.
func (r *rig) open() {
	r.t.Helper()
	e, err := engine.Open(ctx, r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = e
}

// run opens the engine and lets it run until the steps are done.
func (r *rig) run(steps ...func()) error {
	r.t.Helper()
	r.open()
	r.steps = steps
	return r.engine.Run(ctx)
}

// pass lets time pass.
func (r *rig) pass(d model.Duration) func() {
	return func() { r.world.Extend(r.world.Now().Add(d)) }
}

// state reads the replica as of the last durable event.
func (r *rig) state(f func(*core.State)) {
	r.t.Helper()
	if err := r.engine.Replica().Read(ctx, r.seq, f); err != nil {
		r.t.Fatal(err)
	}
}

// phase is the phase of a live job; "" when there is none.
func (r *rig) phase(id model.JobID) (phase model.Phase) {
	r.t.Helper()
	r.state(func(s *core.State) {
		if j, ok := s.Job(id); ok {
			phase = j.Phase
		}
	})
	return phase
}

// sound verifies the whole journal, and that a fold of it is the replica.
func sound(t testing.TB, h engine.History, p model.Policies, r *engine.Replica) engine.Report {
	t.Helper()
	report, err := engine.Verify(ctx, h, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Errorf("journal verify: event %d: %s", p.Seq, p.Message)
	}
	if r == nil {
		return report
	}
	if err := r.Read(ctx, 0, func(s *core.State) {
		if s.Seq() != report.Events || s.Digest() != report.Digest {
			t.Errorf("the replica is at event %d with digest %s; the journal at %d with %s",
				s.Seq(), s.Digest(), report.Events, report.Digest)
		}
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return report
}
