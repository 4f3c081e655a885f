package core_test

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// told is a policy that wishes what a test says, for who waits and for who runs.
type told struct{ sizes map[model.JobID]int32 }

func (p *told) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for g := range v.Waiting() {
			if n := p.sizes[g.Ref.Job]; n != model.Pause && !yield(model.Wish{Gang: g.Ref, Size: n}) {
				return
			}
		}
	}
}

func (p *told) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		var refs []model.GangRef
		for g := range v.Running() {
			refs = append(refs, g.Ref)
		}
		slices.SortFunc(refs, func(a, b model.GangRef) int { return int(a.Job - b.Job) })
		for _, ref := range refs {
			if n := p.sizes[ref.Job]; n != 0 && !yield(model.Wish{Gang: ref, Size: n}) {
				return
			}
		}
	}
}

// elasticJob has one to so many members of one leaf each.
func elasticJob(name string, vc cell.VCName, prio cell.Priority, most int32) *model.Job {
	j := gangJob(name, vc, prio, most, 1)
	j.Hints.Checkpoint = true
	j.Gangs = []model.Gang{{Name: "all", Tasks: []int32{0}}}
	for o := int32(1); o < most; o++ {
		j.Gangs = append(j.Gangs, model.Gang{Name: "more", Tasks: []int32{o}, Extra: true})
	}
	return j
}

// sizedWorld is a world whose VC a does what a test says.
func sizedWorld(t *testing.T) (*world, *told) {
	p := &told{sizes: map[model.JobID]int32{}}
	w := &world{t: t, s: core.New(func(model.VCConfig) (model.Policy, error) { return p, nil }), now: 1_000_000}
	w.do(model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 2})})
	return w, p
}

// look decides once more, as if something had happened.
func (w *world) look() {
	w.t.Helper()
	w.s.LookAgain()
	w.decide()
}

// A start with a size is of the first so many members, and one event says it.
func TestStartWithSize(t *testing.T) {
	w, p := sizedWorld(t)
	p.sizes[1] = 2
	one := w.submit(elasticJob("one", "a", 10, 4))
	want(t, "two of four", w.where(one), "n0[0] n0[1] Waiting Waiting")
	at := slices.IndexFunc(w.log, func(r model.Record) bool { return r.Event == model.Event(model.Sized{Job: one, Size: 2}) })
	if at < 0 || model.KindOf(w.log[at+1].Event) != "Placed" {
		t.Errorf("no event says the size before the start")
	}
	e, _ := w.s.Why(one)
	want(t, "members it may have", e.Size, 2)
	want(t, "members it can have", e.Most, 4)
	want(t, "of it waits", len(e.Gangs), 0)
	w.start(one)
	w.look()
	want(t, "nothing more starts", w.where(one), "n0[0] n0[1] Waiting Waiting")

	fresh, err := core.Load(w.s.Save(), func(model.VCConfig) (model.Policy, error) { return p, nil })
	if err != nil {
		t.Fatal(err)
	}
	want(t, "after a restart", fresh.Digest(), w.s.Digest())
	fresh.LookAgain()
	if more := fresh.Decide(w.now); slices.ContainsFunc(more, decides) {
		t.Errorf("after a restart more is decided: %v", more)
	}
	w.exit(one, 0)
	want(t, "it is complete without the others", w.where(one), "ended")
}

// Who runs grows, shrinks from the last member on, and pauses; none of it counts as a
// preemption.
func TestResize(t *testing.T) {
	w, p := sizedWorld(t)
	p.sizes[1] = 1
	one := w.submit(elasticJob("one", "a", 10, 4))
	w.start(one)
	p.sizes[1] = 3
	w.look()
	want(t, "grown", w.where(one), "n0[0] n0[1] n0[2] Waiting")
	w.start(one)
	w.now += model.Time(model.Minute)
	p.sizes[1] = 1
	w.look()
	var stopped []int32
	for _, r := range w.log {
		if e, ok := r.Event.(model.StopSent); ok && e.Cause == model.EndResized {
			stopped = append(stopped, e.Attempt.Gang)
		}
	}
	if !slices.Equal(stopped, []int32{2, 1}) {
		t.Errorf("stopped are the members %v, want 2, then 1", stopped)
	}
	for _, g := range []int32{1, 2} {
		w.tell(model.TaskExited{Attempt: model.AttemptID{Job: one, Gang: g, N: 1}, Task: g, Exit: model.Exit{Code: 143}})
	}
	w.look()
	st, _ := w.s.Job(one)
	want(t, "its phase", st.Phase, model.Active)
	want(t, "the second member", st.Tasks[1].State, model.TaskWaiting)
	want(t, "preemptions", st.Preempted, 0)

	p.sizes[1] = model.Pause
	w.look()
	w.exit(one, 143)
	w.look()
	st, _ = w.s.Job(one)
	want(t, "paused", st.Phase, model.Waiting)
	want(t, "preemptions", st.Preempted, 0)
	p.sizes[1] = 4
	w.look()
	want(t, "it goes on", w.where(one), "n0[0] n0[1] n0[2] n0[3]")
}

// A size that a job cannot have is refused, as is a pause that would lose work.
func TestNonsensicalSizes(t *testing.T) {
	w, p := sizedWorld(t)
	p.sizes[1], p.sizes[2] = 5, 2
	one := w.submit(elasticJob("one", "a", 10, 4))
	two := w.submit(gangJob("two", "a", 10, 2, 1)) // which is not elastic
	want(t, "more than it can have", w.where(one), "Waiting Waiting Waiting Waiting")
	want(t, "of one size", w.where(two), "Waiting Waiting")
	p.sizes[1], p.sizes[2] = 0, 0
	w.look()
	w.start(two)
	want(t, "without a size", w.where(one), "n0[0] n0[3] n1[0] n1[1]")
	p.sizes[1], p.sizes[2] = -2, model.Pause
	w.look()
	st, _ := w.s.Job(two)
	want(t, "a job without checkpoints is not paused", st.Attempts[0].State, model.AttemptRunning)
	want(t, "less than nothing", w.where(one), "n0[0] n0[3] n1[0] n1[1]")
	for _, size := range []int32{-1, 5} {
		j := elasticJob("three", "a", 10, 4)
		j.Size = size
		if _, _, no := w.s.Check(model.Submit{Job: j}, w.now); no == nil || no.Kind != model.Invalid {
			t.Errorf("a job that begins with %d of 4 members is accepted", size)
		}
	}
}

// Where there is no room for all of a size the minimum makes room for itself, and the
// members above it follow, up to the size; another policy forgets the size.
func TestSizeWithoutRoom(t *testing.T) {
	w, p := sizedWorld(t)
	low := w.submit(gangJob("low", "a", 0, 2, 4))
	w.start(low)
	p.sizes[2] = 2
	one := w.submit(elasticJob("one", "a", 10, 4))
	w.exit(low, 143)
	want(t, "two of four", w.where(one), "n0[0] n0[1] Waiting Waiting")
	w.start(one)
	cfg := cluster(2, map[cell.VCName]int32{"a": 2})
	cfg.VCs[0].Policy = "another"
	clear(p.sizes)
	w.do(model.Reconfigure{Config: cfg})
	want(t, "under another policy", w.where(one), "n0[0] n0[1] n0[2] n0[3]")
}

// A job begins with its usual size where nobody says another.
func TestUsualSize(t *testing.T) {
	w, p := sizedWorld(t)
	j := elasticJob("one", "a", 10, 4)
	j.Size = 3
	one := w.submit(j)
	want(t, "three of four", w.where(one), "n0[0] n0[1] n0[2] Waiting")
	for _, r := range w.log {
		if model.KindOf(r.Event) == "Sized" {
			t.Error("an event says what follows from the job")
		}
	}
	w.start(one)
	p.sizes[1] = 4
	w.look()
	want(t, "four", w.where(one), "n0[0] n0[1] n0[2] n0[3]")
}

// whim is a policy that gives each job another size every 20 seconds, for no reason.
type whim struct{}

func (whim) size(v model.View, g *model.GangView) int32 {
	x := uint64(g.Ref.Job)*0x9E3779B97F4A7C15 + uint64(v.Now()/model.Time(20*model.Second))*0xBF58476D1CE4E5B9
	x ^= x >> 29
	if x%5 == 0 {
		return model.Pause
	}
	return int32(x / 5 % 8) // which may be no size of the job
}

func (p whim) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		for g := range v.Waiting() {
			if n := p.size(v, &g); n != model.Pause && !yield(model.Wish{Gang: g.Ref, Size: n}) {
				return
			}
		}
	}
}

func (p whim) Tune(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		var all []model.GangView
		for g := range v.Running() {
			all = append(all, g)
		}
		slices.SortFunc(all, func(a, b model.GangView) int { return cmp.Or(int(a.Ref.Job-b.Ref.Job), int(a.Ref.Gang-b.Ref.Gang)) })
		for i := range all {
			if n := p.size(v, &all[i]); n != 0 && !yield(model.Wish{Gang: all[i].Ref, Size: n}) {
				return
			}
		}
	}
}

func (whim) NextChange(v model.View) model.Time {
	const every = model.Time(20 * model.Second)
	return (v.Now()/every + 1) * every
}

// Sizes that change at random, with faults, refusals and other configurations: every
// invariant holds after every event, and a replay decides the same.
func TestRandomSizes(t *testing.T) {
	resized := 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfgs := []*model.Config{cluster(4, map[cell.VCName]int32{"a": 2, "b": 1}), cluster(4, map[cell.VCName]int32{"a": 1, "b": 3})}
		cfgs[1].VCs[0].Policy = "another"
		w := &world{t: t, now: 1_000_000, policies: func(model.VCConfig) (model.Policy, error) { return whim{}, nil }}
		w.s = core.New(w.policies)
		w.do(model.Reconfigure{Config: cfgs[0]})
		for step := range 150 {
			w.now += model.Time(r.IntN(8_000_000))
			if r.IntN(3) > 0 {
				w.step(r, cfgs, step)
				continue
			}
			j := randomJob(r, 1000+step)
			j.Hints.Checkpoint = r.IntN(2) == 0
			events, _, _ := w.s.Check(model.Submit{Job: j}, w.now)
			w.apply(events)
		}
		for _, rec := range w.log {
			if e, ok := rec.Event.(model.StopSent); ok && e.Cause == model.EndResized {
				resized++
			}
		}
		w.replay()
	}
	if resized == 0 {
		t.Error("nobody was resized")
	}
}
