package core_test

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// fragile is a policy that panics at one place.
type fragile struct{ at *string }

func (f fragile) breaks(at string) {
	if *f.at == at {
		panic("broken " + at)
	}
}

func (f fragile) Rank(v model.View) iter.Seq[model.Wish] {
	f.breaks("Rank")
	return func(yield func(model.Wish) bool) {
		f.breaks("order")
		for g := range v.WaitingByKey(math.MaxInt64) {
			w := model.Wish{Gang: g.Ref, Strict: true, Preemptible: func(func(model.GangRef) bool) { f.breaks("Over") },
				IsBehind: func(model.GangRef) bool { f.breaks("Passes"); return false }}
			if !yield(w) {
				return
			}
			f.breaks("after a wish")
		}
		f.breaks("end")
		for range v.RunningByKey() {
			break
		}
	}
}

func (f fragile) Key(*model.GangView) model.Key { f.breaks("Key"); return model.Key{} }

func (f fragile) Stand(*model.GangView) model.Key { f.breaks("Stand"); return model.Key{} }

func (f fragile) NextChange(model.View) model.Time { f.breaks("NextChange"); return 0 }

func (f fragile) Tune(model.View) iter.Seq[model.Wish] {
	return func(func(model.Wish) bool) { f.breaks("Tune") }
}

func (f fragile) Watch(*model.GangView) ([]byte, string) {
	f.breaks("Watch")
	return []byte("seen"), ""
}

func (f fragile) Learn([]byte, *model.GangView) []byte { f.breaks("Learn"); return []byte("learnt") }

func (f fragile) Permanent(model.Exit) bool { f.breaks("Permanent"); return false }

// fragileWorld is a world in which VC a, with one of three nodes, has that policy; a job of a
// runs, and others of a and b wait.
func fragileWorld(t *testing.T, at *string) (w *world, runs model.JobID) {
	c := cluster(4, map[cell.VCName]int32{"a": 2, "b": 2})
	c.VCs[0].Policy = "fragile"
	c.VCs[0].Params = []model.Param{{Key: "of", Value: "fragile"}}
	w = &world{t: t, now: 1_000_000, policies: func(c model.VCConfig) (model.Policy, error) {
		if c.Policy == "fragile" {
			return fragile{at}, nil
		}
		return policy.New(c)
	}}
	w.s = core.New(w.policies)
	w.do(model.Reconfigure{Config: c})
	job := gangJob("runs", "a", 10, 1, 4)
	job.Retries = 1
	runs = w.submit(job)
	w.start(runs)
	low := gangJob("low", "a", 5, 1, 4)
	w.start(w.submit(low))
	w.submit(gangJob("promised", "a", 10, 1, 4))
	return w, runs
}

// disturb lets everything happen to the VC of which its policy is told.
func disturb(s *core.State, now model.Time, runs model.JobID) {
	at := model.AttemptID{Job: runs, N: 1}
	apply := func(events []model.Event) {
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
		}
		s.Decide(now)
		s.Wake()
		now++
	}
	events, _, _ := s.Check(model.Submit{Job: gangJob("another", "a", 10, 1, 4)}, now)
	apply(events)
	apply(s.Accept(model.Progress{Attempt: at, Step: 1}))
	apply(s.Accept(model.TaskExited{Attempt: at, Exit: model.Exit{Code: 1}}))
	events, _, _ = s.Check(model.Stop{Job: runs}, now)
	apply(events)
}

// failing disturbs a copy of the state and returns whose policy panicked.
func (w *world) failing(runs model.JobID) (e model.PolicyFailed, failed bool) {
	s := w.s.Clone()
	defer func() {
		p := recover()
		if p == nil {
			w.t.Fatal("nothing panics")
		}
		w.t.Log(p)
		if _, ok := p.(model.Blame); ok {
			w.t.Error("a job is blamed")
		}
		e, failed = s.Failing()
	}()
	disturb(s, w.now+1, runs)
	return e, failed
}

// Wherever a policy panics it is known whose it was. Then fifo serves its VC, nobody else
// notices, and a snapshot and a replay agree.
func TestFailingPolicies(t *testing.T) {
	for _, place := range []string{"Rank", "order", "after a wish", "end", "Over", "Passes", "Key", "Stand", "NextChange", "Tune", "Watch", "Learn", "Permanent"} {
		t.Run(place, func(t *testing.T) { failingPolicy(t, place) })
	}
}

func failingPolicy(t *testing.T, place string) {
	at := ""
	w, runs := fragileWorld(t, &at)
	at = place
	e, failed := w.failing(runs)
	want(t, "a policy fails", failed, true)
	want(t, "the failure", e, model.PolicyFailed{VC: "a", Policy: "fragile"})
	e.Stack = "c3ab8ff13720e8ad"
	w.apply([]model.Event{e})
	want(t, "it can be replaced again", w.s.Replaceable(e), false)
	loaded, err := core.Load(w.s.Save(), w.policies)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "digest of a loaded state", loaded.Digest(), w.s.Digest())
	vc := loaded.VCs()[0]
	want(t, "policy", fmt.Sprint(vc.Policy, vc.Params, *vc.Failed), fmt.Sprint("fifo", []model.Param(nil), e))
	disturb(loaded, w.now+1, runs)

	w.exit(runs, 0)
	other := w.submit(gangJob("other", "b", 10, 1, 4))
	want(t, "a job of b", w.where(other), "n2[0 1 2 3]")
	waits := w.submit(gangJob("waits", "a", 1, 1, 4))
	x, _ := w.s.Explain(waits)
	if !strings.Contains(x.PolicyFailed, "the policy fragile of virtual cluster a failed") || !strings.Contains(x.PolicyFailed, e.Stack) {
		t.Errorf("explained: %q", x.PolicyFailed)
	}
	at = ""
	w.replay()
	plan, no := w.s.PlanConfig(model.Reconfigure{Config: w.s.Config()})
	if no != nil || !plan.Changed || len(plan.VCs) != 1 {
		t.Errorf("the same configuration again: %+v, %v", plan, no)
	}
	w.do(model.Reconfigure{Config: w.s.Config()})
	vc = w.s.VCs()[0]
	want(t, "policy", vc.Policy, "fragile")
	if vc.Failed != nil {
		t.Errorf("it failed: %v", vc.Failed)
	}
	w.replay()
}

// A panic in what is done about a wish, or where fifo serves already, is no policy's.
func TestNoPolicyFails(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
	if e, ok := w.s.Failing(); ok {
		t.Errorf("%+v fails", e)
	}
	for _, e := range []model.PolicyFailed{{VC: "a", Policy: "fifo"}, {VC: "a", Policy: "las"}, {VC: "c", Policy: "fifo"}} {
		want(t, fmt.Sprintf("%+v can be replaced", e), w.s.Replaceable(e), false)
	}
}

// A job that is set aside a second time ends by facts, and by a stop: its cells come free, and
// neither is it tried again nor its policy asked.
func TestSetAsideAgain(t *testing.T) {
	at := ""
	w, runs := fragileWorld(t, &at)
	at = "Learn"
	for range 2 {
		e, ok := w.s.Aside(runs, "x")
		want(t, "it can be set aside", ok, true)
		w.apply([]model.Event{e})
	}
	w.exit(runs, 1)
	if j, _ := w.s.Job(runs); j.Tasks[0].State != model.TaskFailed || j.Phase.Ended() {
		t.Errorf("it is %s, its task %v", j.Phase, j.Tasks[0].State)
	}
	next := model.JobID(3)
	want(t, "the next job", w.where(next), "n0[0 1 2 3]")
	w.do(model.Stop{Job: runs})
	if _, there := w.s.Job(runs); there {
		t.Error("the stopped job is there")
	}
	e, _ := w.s.Aside(next, "x")
	e.Times = 2
	w.apply([]model.Event{e})
	w.start(next)
	w.do(model.Stop{Job: next})
	if j, _ := w.s.Job(next); j.Tasks[0].State != model.TaskStopping {
		t.Errorf("its task is %v", j.Tasks[0].State)
	}
	w.replay()
}

// The third time nothing is decided on a job any more: it keeps its cells, and others go on.
func TestSetAsideForGood(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
	job := w.submit(gangJob("job", "a", 10, 1, 4))
	w.start(job)
	for i := range 4 {
		e, ok := w.s.Aside(job, "x")
		if want(t, fmt.Sprint("set aside after ", i, " times"), ok, i < 3); ok {
			w.apply([]model.Event{e})
		}
	}
	w.exit(job, 0)
	want(t, "it keeps", w.where(job), "n0[0 1 2 3]")
	other := w.submit(gangJob("other", "a", 10, 1, 4))
	want(t, "another job", w.where(other), "n1[0 1 2 3]")
	loaded, err := core.Load(w.s.Save(), policy.New)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "digest of a loaded state", loaded.Digest(), w.s.Digest())
	w.replay()
}

// A configuration whose policy panics while it is made is refused, and nothing changes.
func TestPolicyThatCannotBeMade(t *testing.T) {
	w := &world{t: t, now: 1_000_000, policies: func(c model.VCConfig) (model.Policy, error) {
		if c.Policy == "unmade" {
			panic("no such thing")
		}
		return policy.New(c)
	}}
	w.s = core.New(w.policies)
	w.do(model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 1})})
	c, was := cluster(2, map[cell.VCName]int32{"a": 1}), w.s.Digest()
	c.VCs[0].Policy = "unmade"
	events, _, no := w.s.Check(model.Reconfigure{Config: c}, w.now)
	if no == nil {
		t.Fatal("it is not refused")
	}
	for _, word := range []string{`virtual cluster "a"`, "the policy unmade failed with an internal error", "no such thing"} {
		if !strings.Contains(no.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, no)
		}
	}
	want(t, "events", len(events), 0)
	want(t, "digest", w.s.Digest(), was)
	w.submit(gangJob("runs", "a", 10, 1, 4))
	w.replay()
}
