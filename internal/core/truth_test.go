package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// truths counts what explanations said.
type truths struct {
	pages, named, more, inTurn int
	booked, sooner, late       int
	codes                      map[model.Code]int
}

// On random clusters, under all policies, with hardware out of service, each statement of an
// explanation is true: a job starts when all that its page names is gone, and when the jobs of a
// sentence end one after the other as it lists them.
func TestExplanationsAreTrue(t *testing.T) {
	n := truths{codes: map[model.Code]int{}}
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 17))
		w := troubled(t, r)
		for i := range 3 {
			for _, j := range w.s.Jobs() {
				if j.Phase == model.Waiting && !j.Stopping {
					w.tellsTruth(seed, j.ID, &n)
				}
			}
			if i < 2 {
				w.runTo(w.now.Add(model.Duration(1+r.IntN(20))*model.Minute), nil)
				w.comes(r, 40+i)
			}
		}
	}
	t.Logf("%d bookings kept, %d of them later where jobs ended sooner", n.booked, n.late)
	t.Logf("%d pages, %d that name what is in the way, %d that it waits even so, %d sentences of several jobs; %v", n.pages, n.named, n.more, n.inTurn, n.codes)
	if seeds.Modest() && (n.named < 200 || n.inTurn < 20 || n.booked < 50 || n.late*20 > n.booked) {
		t.Errorf("too little was tried: %+v", n)
	}
}

// troubled lets jobs of all kinds come to two VCs while nodes go out of service and come back.
func troubled(t *testing.T, r *rand.Rand) *world {
	cfg := cluster(4, map[cell.VCName]int32{"a": 1 + int32(r.IntN(2)), "b": 1 + int32(r.IntN(2))})
	for i := range cfg.VCs {
		cfg.VCs[i].Policy = policy.Names()[r.IntN(len(policy.Names()))]
		cfg.VCs[i].Backfill = []string{"", "easy", "conservative"}[r.IntN(3)]
	}
	w := newWorld(t, cfg)
	w.once = true
	for i := range 14 {
		w.now += model.Time(r.IntN(60_000_000))
		switch k := r.IntN(12); {
		case k == 0:
			w.do(model.Cordon{Node: cell.NodeName(fmt.Sprint("n", r.IntN(4))), On: r.IntN(4) > 0})
		case k == 1:
			w.tell(model.LeafHealth{Node: cell.NodeName(fmt.Sprint("n", r.IntN(4))), SKU: "G", Device: int32(r.IntN(4)), Good: r.IntN(4) == 0})
		case k == 2:
			w.runTo(w.now.Add(model.Duration(r.IntN(15))*model.Minute), nil)
		default:
			w.comes(r, i)
		}
	}
	w.runTo(w.now+1, nil)
	w.s = w.s.At(w.now)
	return w
}

// comes submits a random job.
func (w *world) comes(r *rand.Rand, i int) {
	j := gangJob(fmt.Sprint("j", i), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 10, 10, 10, 100}[r.IntN(5)], 1+int32(r.IntN(2)), []int32{1, 2, 4, 4}[r.IntN(4)])
	j.User, j.Grace = model.Subject(fmt.Sprint("u", r.IntN(3))), []model.Duration{0, 30 * model.Second}[r.IntN(2)]
	j.LazyPreempt = r.IntN(5) == 0
	events, ans, no := w.s.Check(model.Submit{Job: limited(j, model.Duration(1+r.IntN(50))*model.Minute)}, w.now)
	if no != nil { // it can never start
		return
	}
	w.apply(events)
	w.start(ans.Job)
}

// tellsTruth checks what is said of one job that waits.
func (w *world) tellsTruth(seed uint64, id model.JobID, n *truths) {
	w.s = w.s.At(w.now)
	e := w.explain(id)
	if len(e.Gangs) == 0 {
		return
	}
	n.pages++
	n.codes[e.Gangs[0].Reason.Code]++
	w.namesAll(seed, &e, n)
	w.keepsTime(seed, &e, n)
	for _, s := range e.Gangs[0].Suggestions {
		if len(s.Jobs) < 2 {
			continue
		}
		n.inTurn++
		c := w.copyOf()
		if !c.inTurn(id, s) {
			w.t.Errorf("seed %d: %s waits for %s; after %q, one after the other, it still waits", seed, e.Name, e.Gangs[0].Reason.Message, s.Message)
		}
	}
}

// keepsTime checks until when a gang starts at the latest that was booked cells, with jobs that all
// run to their limits; and counts how often it comes later where they end sooner, since others may
// pass then.
func (w *world) keepsTime(seed uint64, e *model.Explanation, n *truths) {
	g := &e.Gangs[0]
	if g.ReservedAt == 0 {
		return
	}
	n.booked++
	c := w.copyOf()
	if c.runTo(g.ReservedAt.Add(model.Second), nil); !c.started(e.Job, g.Gang, model.AfterTime) {
		est, _ := w.s.Estimate(e.Job, nil)
		w.t.Errorf("seed %d: %s at %d should start by %d (%s) and does not; the estimate is %+v", seed, e.Name, w.now, g.ReservedAt, g.Bound, est)
	}
	c = w.copyOf()
	runs := map[model.JobName]model.Duration{}
	for i, j := range c.s.Jobs() {
		spec, _ := c.s.Spec(j.ID)
		runs[j.Name] = spec.TimeLimit * model.Duration(60+(int(seed)+i*17)%40) / 100
	}
	n.sooner++
	if c.runTo(g.ReservedAt.Add(model.Second), runs); !c.started(e.Job, g.Gang, model.AfterTime) {
		n.late++
	}
}

// namesAll checks that a job starts when all that its page names is gone.
func (w *world) namesAll(seed uint64, e *model.Explanation, n *truths) {
	g := &e.Gangs[0]
	switch g.Reason.Code {
	case model.BadHardware, model.Cordoned, model.Draining, model.HeldUnknown, model.VCBusy, model.ClusterBusy, model.Fragmented, model.PriorityAhead, model.WaitingPreemption:
	default:
		return
	}
	jobs := slices.Clone(g.Reason.Jobs)
	for _, b := range slices.Concat(e.Blockers, e.Ahead) {
		jobs = append(jobs, b.Job)
	}
	slices.Sort(jobs)
	if jobs = slices.Compact(jobs); len(jobs) >= 10 { // there may be more than are named
		return
	}
	if len(g.Reason.Besides) > 0 { // it is said that it waits even so
		n.more++
		return
	}
	n.named++
	c := w.copyOf()
	c.applySuggestion(e.Job, model.Suggestion{Kind: model.HardwareFixed, Nodes: g.Reason.Nodes, Jobs: jobs})
	c.obey(e.Job)
	if !c.started(e.Job, g.Gang, model.HardwareFixed) {
		why, _ := c.s.Why(e.Job)
		w.t.Errorf("seed %d: %s waits: %s %s; with all gone that is named (%v, %v) it still waits: %+v", seed, e.Name, g.Reason.Code, g.Reason.Message, g.Reason.Nodes, jobs, why.Gangs)
	}
}

// inTurn lets the jobs of a suggestion end one after the other.
func (w *world) inTurn(id model.JobID, s model.Suggestion) bool {
	one := s
	for _, x := range s.Jobs {
		if _, ok := w.s.Job(x); !ok { // it has ended
			continue
		}
		one.Jobs = []model.JobID{x}
		w.applySuggestion(id, one)
		for range 5 { // those that are stopped for others as well
			w.obey()
		}
	}
	return w.started(id, 0, s.Kind)
}
