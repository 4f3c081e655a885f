package core_test

import (
	"iter"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// silent is a policy that wishes for nothing while its switch is on: as where somebody in
// front leaves nothing to those behind.
type silent struct {
	model.Policy
	on *bool
}

func (p silent) Rank(v model.View) iter.Seq[model.Wish] {
	if *p.on {
		return func(func(model.Wish) bool) {}
	}
	return p.Policy.Rank(v)
}

// broken decides on a copy of the state in which an error was planted, and returns the job
// that is blamed for the panic.
func (w *world) broken(plant func(*core.State)) model.JobID {
	w.t.Helper()
	s := w.s.Clone()
	plant(s)
	s.LookAgain()
	id := blamed(w.t, func() { s.Decide(w.now + 1) })
	if e, ok := s.Failing(); ok {
		w.t.Errorf("a policy is blamed: %+v", e)
	}
	return id
}

// blamed runs what must panic, and returns the job that it blames.
func blamed(t *testing.T, f func()) (id model.JobID) {
	t.Helper()
	defer func() {
		t.Helper()
		switch p := recover().(type) {
		case nil:
			t.Fatal("the planted error does not show")
		case model.Blame:
			id = p.Job
			t.Log(p)
		default:
			t.Fatalf("nobody is blamed for %v", p)
		}
	}()
	f()
	return 0
}

// quiet is a world whose VC a stops wishing when the switch is turned on.
func quiet(t *testing.T, c *model.Config) (*world, *bool) {
	on := new(bool)
	w := &world{t: t, now: 1_000_000, policies: func(c model.VCConfig) (model.Policy, error) {
		p, err := policy.New(c)
		if c.Name == "a" {
			p = silent{p, on}
		}
		return p, err
	}}
	w.s = core.New(w.policies)
	w.do(model.Reconfigure{Config: c})
	return w, on
}

// A promise that is kept behind the walk and breaks the decision is blamed on the job that
// was promised; when that is set aside, the decision goes on without it.
func TestBrokenPromiseIsBlamed(t *testing.T) {
	w, on := quiet(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
	low := w.submit(gangJob("low", "a", 10, 2, 4))
	w.start(low)
	high := w.submit(gangJob("high", "a", 100, 1, 4))
	want(t, "high", w.reason(high), model.WaitingPreemption)
	*on = true
	promise := model.AttemptID{Job: high, N: 1}
	want(t, "blamed", w.broken(func(s *core.State) { s.BreakPromise(promise) }), high)

	w.s.BreakPromise(promise)
	w.apply([]model.Event{model.Quarantined{Job: high, Stack: "x"}})
	w.s.LookAgain()
	w.decide()
	want(t, "high", w.reason(high), model.QuarantinedJob)
	w.exit(low, 0)
	other := w.submit(gangJob("other", "b", 10, 1, 4))
	want(t, "another job", w.where(other), "n0[0 1 2 3]")
}

// An upgrade of a member above a minimum, to which the walk comes without the policy, is
// blamed on its job.
func TestBrokenUpgradeIsBlamed(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2}))
	j := gangJob("lazy", "a", 10, 2, 4)
	j.LazyPreempt, j.Roles[0].MinSucceeded = true, 1
	j.Gangs = []model.Gang{{Name: "least", Tasks: []int32{0}}, {Name: "more", Tasks: []int32{1}, Extra: true}}
	lazy := w.submit(j)
	w.start(lazy)
	high := w.submit(gangJob("high", "a", 100, 2, 4))
	want(t, "high", w.where(high), "n2[0 1 2 3] n3[0 1 2 3]")
	got := w.broken(func(s *core.State) {
		s.BreakGuarantee(model.AttemptID{Job: lazy, Gang: 1, N: 1})
		for o := range int32(2) {
			for _, e := range s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: high, N: 1}, Task: o}) {
				s.Apply(model.Record{Seq: s.Seq() + 1, Time: w.now, Event: e})
			}
		}
	})
	want(t, "blamed", got, lazy)
}
