package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// Nobody of a lower priority holds up the first gang that waits in a VC: if all of them in its
// VC were gone, with what they were promised, and all opportunistic work, it would still find no
// cells. What may be alive on a lost node stays, and who leaves already; so does what gave its
// guarantee up and has a higher priority in that VC, which no gang behind it stops.
func TestNobodyIsHeldUpFromBelow(t *testing.T) {
	asked, beside := 0, 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, halves())
		for n := range 30 {
			w.now += model.Time(r.IntN(20_000_000))
			w.comeAndGo(r, n)
			for _, q := range w.firstInLine() {
				below, heldUp := w.withoutLower(q)
				if asked++; below > 0 {
					beside++
				}
				if heldUp {
					t.Fatalf("seed %d: %s waits, and has room without lower priorities: %s", seed, q.Spec.Name, describe(w.s))
				}
			}
		}
	}
	t.Logf("%d gangs were asked for, %d of them with lower priorities beside", asked, beside)
	if seeds.Modest() && beside == 0 {
		t.Error("no gang of a higher priority waited beside lower ones")
	}
}

// Neither are they where there are many of them, each with a cell of its own.
func TestManyHoldNobodyUp(t *testing.T) {
	const nodes = 20
	w := newWorld(t, cluster(2*nodes, map[cell.VCName]int32{"a": nodes}))
	free := map[cell.NodeName]bool{}
	for n := range 2 * nodes {
		free[cell.NodeName(fmt.Sprintf("n%d", n))] = true
	}
	for i := range 4 * nodes {
		id := w.submit(gangJob(fmt.Sprint("low", i), "a", 1, 1, 1))
		w.start(id)
		for _, h := range w.s.Held() {
			for _, task := range w.s.Cluster().Alloc(h.Alloc).Placement.Tasks {
				delete(free, task.Node)
			}
		}
	}
	j := gangJob("high", "a", 2, 1, 4)
	for n := range free {
		j.AllowedNodes = append(j.AllowedNodes, n)
	}
	slices.Sort(j.AllowedNodes)
	id := w.submit(j)
	if q, _ := w.s.Job(id); len(free) != nodes || q.Tasks[0].State != model.TaskStarting {
		t.Errorf("of %d free nodes it has none: %s", len(free), describe(w.s))
	}
}

// comesBack reports whether a job is being stopped that stands before a gang: it keeps its place
// from the instant its stop is decided, and so the gang is not the first of its VC.
func (w *world) comesBack(q *core.InLine) bool {
	return slices.ContainsFunc(w.s.Held(), func(h core.Held) bool {
		return h.State == model.AttemptStopping && h.Cause == model.EndPreempted && standsBefore(&h, q)
	})
}

// standsBefore reports whether a job stands before a gang in the order of its VC.
func standsBefore(h *core.Held, q *core.InLine) bool {
	return h.Spec.VC == q.Spec.VC && (h.Spec.Priority > q.Spec.Priority || h.Spec.Priority == q.Spec.Priority && h.ID.Job < q.Job)
}

// firstInLine returns the first gang that waits for the guarantee of each VC, and was promised
// nothing.
func (w *world) firstInLine() []core.InLine {
	var out []core.InLine
	seen := map[int32]bool{}
	for _, q := range w.s.Waiting() {
		if !seen[q.Space] && q.Spec.Priority >= cell.MinGuaranteed && !q.Promise && !q.Spec.Gangs[q.Gang].Extra && !w.comesBack(&q) {
			out = append(out, q)
		}
		seen[q.Space] = seen[q.Space] || q.Spec.Priority >= cell.MinGuaranteed
	}
	return out
}

// withoutLower reports how many of lower priority run with a guarantee in a gang's VC, and
// whether it would find cells without them.
func (w *world) withoutLower(q core.InLine) (below int, fits bool) {
	cl := w.s.Cluster().Clone()
	for _, h := range w.s.Held() {
		oppo := cl.Alloc(h.Alloc).Opportunistic()
		runs := h.Cause == 0 && (h.State == model.AttemptStarting || h.State == model.AttemptRunning)
		lower := !oppo && h.Spec.VC == q.Spec.VC && h.Spec.Priority < q.Spec.Priority && (runs || h.State == model.AttemptReserving)
		if lower {
			below++
		}
		stays := h.Lazy && h.Spec.VC == q.Spec.VC && h.Spec.Priority > q.Spec.Priority
		if lower || oppo && runs && !stays {
			cl.Release(h.Alloc)
		}
	}
	_, fits = cl.Place(&q.Request)
	return below, fits
}

// comeAndGo submits a job, or lets one end, and lets some of those that were told to stop obey.
func (w *world) comeAndGo(r *rand.Rand, n int) {
	jobs := w.s.Jobs()
	if len(jobs) > 0 && r.IntN(3) == 0 {
		w.start(jobs[r.IntN(len(jobs))].ID)
		w.exit(jobs[r.IntN(len(jobs))].ID, 0)
		return
	}
	if r.IntN(3) == 0 {
		w.obey()
	}
	leaves := int32(1) << r.IntN(3)
	j := gangJob(fmt.Sprint("j", n), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 10, 10, 100, 1000}[r.IntN(5)], 1+r.Int32N(4/leaves), leaves)
	j.LazyPreempt = r.IntN(2) == 0
	j.Roles[0].SKUs = []cell.TypeName{"G"}
	if r.IntN(3) == 0 {
		j.AllowedNodes = []cell.NodeName{cell.NodeName(fmt.Sprint("n", r.IntN(2)))}
	}
	w.start(w.submit(j))
}

// describe lists who holds and who waits.
func describe(s *core.State) string {
	out := ""
	for _, h := range s.Held() {
		out += fmt.Sprintf("\n%s %v priority %d in %s: %v lazy %v cause %v %v", h.Spec.Name, h.ID, h.Spec.Priority, h.Spec.VC, h.State, h.Lazy, h.Cause, h.Placement)
	}
	for _, q := range s.Waiting() {
		out += fmt.Sprintf("\n%s.%d waits, priority %d in %s: %+v", q.Spec.Name, q.Gang, q.Spec.Priority, q.Spec.VC, q.Request.Members)
	}
	return out
}
