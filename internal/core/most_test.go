package core_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// A job that can never start is told the most that could ever, whatever runs now, and is
// offered it.
func TestTheMostThatCouldEverStart(t *testing.T) {
	for _, c := range []struct {
		tasks, leaves int32
		message       string
		most          []int32 // tasks, and leaves for each
	}{
		{1, 9, "it asks for 9 GPUs, more than the 8 GPUs guaranteed to virtual cluster vision; the most is 4 GPUs for each task", []int32{0, 4}},
		{1, 8, "does not fit the cells of the 8 GPUs guaranteed to virtual cluster vision, even if all are free; the most is 4 GPUs for each task", []int32{0, 4}},
		{5, 4, "(a gang of 5 tasks x 4 GPUs), more than the 8 GPUs guaranteed to virtual cluster vision; the most is 2 tasks x 4 GPUs", []int32{2, 0, 0, 1}},
		{3, 6, "more than the 8 GPUs guaranteed to virtual cluster vision; the most is 4 GPUs for each task", []int32{0, 2}},
		{3, 3, "the most is 2 tasks x 3 GPUs", []int32{2, 0, 0, 2}},
	} {
		for _, busy := range []bool{true, false} {
			w := newWorld(t, cluster(4, map[cell.VCName]int32{"robots": 2, "vision": 2}))
			if busy {
				w.start(w.submit(gangJob("all", "vision", 10, 2, 4)))
				w.start(w.submit(gangJob("too", "robots", 10, 2, 4)))
			}
			w.mostIs(gangJob("asks", "vision", 10, c.tasks, c.leaves), c.message, c.most, busy)
		}
	}
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"robots": 2, "vision": 2}))
	w.mostIs(gangJob("asks", "vision", -1, 1, 5), "does not fit the cells of the cluster's 16 GPUs, even if all are free; the most is 4 GPUs for each task", []int32{0, 4}, false)
}

// mostIs checks what a dry run says of a job that can never start. What is free at once is offered
// as such.
func (w *world) mostIs(j *model.Job, message string, most []int32, busy bool) {
	w.t.Helper()
	e, no := w.s.DryRun(j, nil)
	if no == nil || !strings.Contains(no.Message, message) || no.Message != e.Gangs[0].Reason.Message {
		w.t.Errorf("%+v\nlacks %s", no, message)
	}
	var got []int32
	for _, g := range e.Gangs[0].Suggestions {
		at := g.Kind == model.AtMost
		if at != busy && (at || g.Kind == model.FewerTasks || g.Kind == model.SmallerTasks) || !strings.Contains(g.Message, "could start") && at {
			w.t.Errorf("while all is busy (%v): %+v", busy, g)
		}
		if at || !busy && (g.Kind == model.FewerTasks || g.Kind == model.SmallerTasks) {
			got = append(got, g.Tasks, g.Leaves)
			w.accepts(j, &g)
		}
	}
	if len(got) != len(most) {
		w.t.Fatalf("%d tasks x %d: offered %v, want %v", j.Roles[0].Tasks, j.Roles[0].Leaves, got, most)
	}
	for i := range got {
		if got[i] != most[i] {
			w.t.Errorf("%d tasks x %d: offered %v, want %v", j.Roles[0].Tasks, j.Roles[0].Leaves, got, most)
		}
	}
}

// accepts checks that what is offered can start once, and one more never.
func (w *world) accepts(j *model.Job, g *model.Suggestion) {
	w.t.Helper()
	for more := range int32(2) {
		tasks, leaves := j.Roles[0].Tasks, j.Roles[0].Leaves
		if g.Tasks > 0 {
			tasks = g.Tasks + more
		} else {
			leaves = g.Leaves + more
		}
		_, no := w.s.DryRun(gangJob("less", j.VC, j.Priority, tasks, leaves), nil)
		if (no != nil) != (more == 1) {
			w.t.Errorf("%d tasks x %d leaves of %s: %+v", tasks, leaves, j.VC, no)
		}
	}
}

// A job that a node refused is tried there again, which is no promise that the node accepts it.
func TestARefusedStartIsNoPromise(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1}))
	id := w.submit(gangJob("asks", "a", 10, 1, 4))
	w.tell(model.TaskRefused{Attempt: w.attempt(id, 0), Task: 0, Reason: "no such group"})
	e := w.explain(id)
	for w.reason(id) != model.BackOff { // the other node refuses it, too
		w.tell(model.TaskRefused{Attempt: w.attempt(id, 0), Task: 0, Reason: "no such group"})
		e = w.explain(id)
	}
	told := ""
	for _, g := range e.Gangs[0].Suggestions {
		told += g.Message + "\n"
	}
	if !strings.Contains(told, "it is tried again in at most") || !strings.Contains(told, "starts if the node accepts it") {
		t.Errorf("told %s", told)
	}
	est, _ := w.s.Estimate(id, nil)
	if !strings.HasSuffix(est.Basis, "only if the node accepts it then") {
		t.Errorf("the estimate: %+v", est)
	}
}

// A VC that has hardware in a pinned cell alone says so to a job that does not name the cell.
func TestPinnedCellsAreNamedToThoseWhoAskForTheirHardware(t *testing.T) {
	w := newWorld(t, mixed(0, 3, true, 4))
	j := gangJob("asks", "a", 10, 1, 1)
	j.Roles[0].SKUs = []cell.TypeName{"G"}
	_, no := w.s.DryRun(j, nil)
	want := "virtual cluster a is guaranteed nothing that fits 1 task x 1 GPU of G, but for G in its pinned cell P, for jobs that name the cell (--pin P)"
	if no == nil || !strings.Contains(no.Message, want) {
		t.Errorf("%+v", no)
	}
	j.Roles[0].Pinned = "P"
	if _, no = w.s.DryRun(j, nil); no != nil {
		t.Errorf("with the cell: %+v", no)
	}
}

// What a refusal says of the most costs one search beside the one that refuses, and of tasks of
// that size it is remembered, however many the next job has.
func TestTheMostCostsOneSearch(t *testing.T) {
	w := newWorld(t, cluster(2000, map[cell.VCName]int32{"a": 1000, "b": 500, "c": 500}))
	for i, c := range []struct {
		tasks, leaves int32
		searches      int
	}{
		{9999, 3, 2}, {9998, 3, 1}, {1001, 3, 1}, {9999, 3, 0}, {10_000, 1, 2}, {9999, 1, 1}, {4001, 1, 1}, {9997, 2, 2}, {5000, 2, 1},
	} {
		was := core.EmptySearches(w.s)
		_, _, no := w.s.Check(model.Submit{Job: gangJob("x", "a", 10, c.tasks, c.leaves)}, w.now)
		if got := core.EmptySearches(w.s) - was; no == nil || got != c.searches {
			t.Errorf("%d: a refusal of %d x %d: %d searches, want %d: %+v", i, c.tasks, c.leaves, got, c.searches, no)
		}
	}
}

// What bounds the search for the most, and what is remembered of it, changes no answer.
func TestTheMostIsThatOfAPlainSearch(t *testing.T) {
	found := 0
	for seed := range seeds.Of(t, 20) {
		r := rand.New(rand.NewPCG(seed, 4))
		cfg := mixed(int32(1+r.IntN(2)), int32(r.IntN(3)), r.IntN(2) == 0, 4)
		if seed%2 == 0 {
			cfg = cluster(6, map[cell.VCName]int32{"a": 3, "b": 2})
		}
		w := newWorld(t, cfg)
		for range 40 {
			vc, prio := []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 10}[r.IntN(2)]
			j := gangJob("x", vc, prio, int32(2+r.IntN(30)), int32(1+r.IntN(4)))
			if r.IntN(3) == 0 {
				j.AllowedNodes = []cell.NodeName{"n1", "n2", "n3"}[:1+r.IntN(3)]
			}
			if r.IntN(4) == 0 {
				j.AvoidedNodes = []cell.NodeName{"n0", "n2"}[:1+r.IntN(2)]
			}
			if j.Priority > 0 && r.IntN(6) == 0 {
				j.Roles[0].Pinned = "P"
			} else if r.IntN(3) == 0 {
				j.Roles[0].SKUs = []cell.TypeName{"G"}
			}
			most, plain, never := core.MostTasks(w.s, j)
			if most != plain {
				t.Errorf("seed %d: of %d x %d of %s (%d, %q, %v, not %v) at most %d, by plain search %d", seed,
					j.Roles[0].Tasks, j.Roles[0].Leaves, j.VC, j.Priority, j.Roles[0].Pinned, j.AllowedNodes, j.AvoidedNodes, most, plain)
			}
			if never && most > 0 {
				found++
			}
		}
	}
	if seeds.Modest() && found < 100 {
		t.Errorf("only %d jobs had a most", found)
	}
}
