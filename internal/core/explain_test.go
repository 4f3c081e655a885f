package core_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

// copyOf continues a world on a copy of its state.
func (w *world) copyOf() *world {
	return &world{t: w.t, s: w.s.Clone(), now: max(w.now, w.s.Now()), once: w.once, ends: w.ends}
}

func (w *world) explain(id model.JobID) model.Explanation {
	w.t.Helper()
	before := w.s.Digest()
	e, ok := w.s.Explain(id)
	if !ok {
		w.t.Fatalf("job %d cannot be explained", id)
	}
	want(w.t, "digest after explain", w.s.Digest(), before)
	return e
}

// obey lets every attempt that was told to stop end, first those whose cells were promised
// to a job last.
func (w *world) obey(first ...model.JobID) {
	var victims []model.AttemptID
	for _, r := range w.log {
		if e, ok := r.Event.(model.Reserved); ok && slices.Contains(first, e.Attempt.Job) {
			victims = append(victims, e.Victims...) // of each of its gangs
		}
	}
	for _, j := range w.s.Jobs() {
		for _, a := range j.Attempts {
			for o, t := range j.Tasks {
				if a.State == model.AttemptStopping && t.Gang == a.ID.Gang && (len(first) == 0 || slices.Contains(victims, a.ID)) {
					w.tell(model.TaskExited{Attempt: a.ID, Task: int32(o), Exit: model.Exit{Code: 143}})
				}
			}
		}
	}
	if len(first) > 0 {
		w.obey()
	}
}

// apply does what a suggestion says, as its user would, and returns the number of
// the job that should have started.
func (w *world) applySuggestion(id model.JobID, g model.Suggestion) model.JobID {
	spec, _ := w.s.Spec(id)
	instead := func(change func(*model.Job)) model.JobID {
		next := *spec
		next.Roles = slices.Clone(spec.Roles)
		change(&next)
		w.do(model.Stop{Job: id})
		return w.submit(&next)
	}
	role := slices.IndexFunc(spec.Roles, func(r model.Role) bool { return r.Name == g.Role })
	kind := g.Kind
	if kind == model.AtMost && g.Tasks > 0 {
		kind = model.FewerTasks
	} else if kind == model.AtMost {
		kind = model.SmallerTasks
	}
	switch kind {
	case model.FewerTasks:
		return instead(func(j *model.Job) {
			j.Roles[role].Tasks = g.Tasks
			j.Gangs = []model.Gang{{Name: "default"}}
			n := int32(0)
			for _, r := range j.Roles {
				for range r.Tasks {
					j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, n)
					n++
				}
			}
		})
	case model.SmallerTasks:
		return instead(func(j *model.Job) { j.Roles[role].Leaves = g.Leaves })
	case model.AnotherSKU:
		return instead(func(j *model.Job) {
			for i := range j.Roles {
				j.Roles[i].SKUs = []cell.TypeName{g.SKU}
			}
		})
	case model.ShorterLimit:
		return instead(func(j *model.Job) { j.TimeLimit = g.TimeLimit })
	case model.HigherPriority:
		return instead(func(j *model.Job) { j.Priority = g.Priority })
	case model.PinnedCell:
		return instead(func(j *model.Job) {
			for i := range j.Roles {
				j.Roles[i].Pinned = g.Pinned
			}
		})
	case model.AnotherVC:
		return instead(func(j *model.Job) { j.VC = g.VC })
	case model.AsBorrower:
		return instead(func(j *model.Job) { j.Priority = cell.Opportunistic })
	case model.AnyNode:
		return instead(func(j *model.Job) { j.AllowedNodes, j.AvoidedNodes = nil, nil })
	case model.AfterJobs, model.WithoutAhead:
		w.withdraw(g.Jobs)
		w.decide()
	case model.AfterTime:
		w.runTo(g.At, nil)
	case model.HardwareFixed:
		for _, n := range g.Nodes {
			var events []model.Event
			events = append(events, w.s.Accept(model.NodeHealth{Node: n, Up: true})...)
			events = append(events, model.NodeCordoned{Node: n})
			for d := range int32(4) {
				events = append(events, w.s.Accept(model.LeafHealth{Node: n, SKU: "G", Device: d, Good: true})...)
			}
			w.record(append(events, model.NodeSuspected{Node: n}))
		}
		w.withdraw(g.Jobs)
		w.decide()
	default:
		w.t.Fatalf("nobody knows how to apply %q", g.Kind)
	}
	return id
}

// withdraw lets jobs end, all at once, so that nobody slips in between.
func (w *world) withdraw(ids []model.JobID) {
	for _, x := range ids {
		events, _, _ := w.s.Check(model.Stop{Job: x}, w.now)
		for _, e := range events {
			w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e})
		}
		j, _ := w.s.Job(x)
		for o, t := range j.Tasks {
			for _, e := range w.s.Accept(model.TaskExited{Attempt: model.AttemptID{Job: x, Gang: t.Gang, N: t.Attempt}, Task: int32(o)}) {
				w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e})
			}
		}
	}
}

// record applies events without deciding.
func (w *world) record(events []model.Event) {
	for _, e := range events {
		r := model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e}
		w.s.Apply(r)
		w.log = append(w.log, r)
	}
}

// runTo lets the cluster run until a time: tasks start at once, end with their
// own duration if runs says one and else go on until a time limit, and take their
// whole grace when they are stopped. What falls on one instant is one batch.
func (w *world) runTo(end model.Time, runs map[model.JobName]model.Duration) {
	due := map[model.AttemptID]model.Time{}
	stopped := map[model.AttemptID]bool{}
	for {
		next := w.s.Wake()
		var over []model.AttemptID
		for _, j := range w.s.Jobs() {
			w.start(j.ID)
			spec, _ := w.s.Spec(j.ID)
			j, _ = w.s.Job(j.ID) // it may have started just now
			for _, a := range j.Attempts {
				d := runs[j.Name]
				if w.ends != nil {
					d = w.ends(spec)
				}
				if d > 0 && due[a.ID] == 0 && a.State == model.AttemptRunning {
					due[a.ID] = a.Started.Add(d)
				}
				if a.State == model.AttemptStopping && !stopped[a.ID] {
					due[a.ID], stopped[a.ID] = a.Told.Add(spec.Grace), true
				}
				if at := due[a.ID]; at > 0 && a.State != model.AttemptOver && (at <= w.now || next == 0 || at < next) {
					next = max(at, w.now)
				}
			}
		}
		if again := w.s.Wake(); again > 0 && (next == 0 || again < next) {
			next = again
		}
		w.now = max(w.now, min(next, end))
		if next == 0 {
			w.now = end
		}
		for _, j := range w.s.Jobs() {
			for _, a := range j.Attempts {
				if due[a.ID] > 0 && due[a.ID] <= w.now && a.State != model.AttemptOver {
					over = append(over, a.ID)
				}
			}
		}
		for _, id := range over {
			j, _ := w.s.Job(id.Job)
			exit := model.Exit{}
			if slices.ContainsFunc(j.Attempts, func(a model.AttemptStatus) bool { return a.ID == id && a.State == model.AttemptStopping }) {
				exit.Code = 143
			}
			for o := range j.Tasks {
				w.record(w.s.Accept(model.TaskExited{Attempt: id, Task: int32(o), Exit: exit}))
			}
		}
		w.decide()
		if len(over) == 0 && w.now >= end {
			return
		}
	}
}

// proven applies every suggestion of a job to a copy and sees it start.
func (w *world) proven(id model.JobID) []model.SuggestionKind {
	w.t.Helper()
	w.s = w.s.At(w.now)
	e := w.explain(id)
	var kinds []model.SuggestionKind
	for _, g := range e.Gangs {
		for _, sug := range g.Suggestions {
			kinds = append(kinds, sug.Kind)
			c := w.copyOf()
			what := c.applySuggestion(id, sug)
			if sug.Kind == model.AtMost { // it was accepted
				continue
			}
			c.obey(what) // whoever else ends before its victims, and waits again, may come first
			if !c.started(what, g.Gang, sug.Kind) {
				why, _ := c.s.Why(what)
				w.t.Fatalf("job %s waits for %s; after %q it is %s: %+v", e.Name, g.Reason.Message, sug.Message, why.Phase, why.Gangs)
			}
			if sug.Message == "" {
				w.t.Errorf("suggestion %+v says nothing", sug)
			}
		}
	}
	return kinds
}

// started reports whether a gang got its cells; of a job that was submitted anew,
// any gang. (A job of higher priority may have taken them again.)
func (w *world) started(id model.JobID, gang int32, k model.SuggestionKind) bool {
	same := slices.Contains([]model.SuggestionKind{model.AfterJobs, model.WithoutAhead, model.AfterTime, model.HardwareFixed}, k)
	return slices.ContainsFunc(w.log, func(r model.Record) bool {
		e, ok := r.Event.(model.Placed)
		return ok && e.Attempt.Job == id && (e.Attempt.Gang == gang || !same)
	})
}

func wantKinds(t *testing.T, what string, got []model.SuggestionKind, want ...model.SuggestionKind) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: suggestions %v, want %v", what, got, want)
	}
}

func limited(j *model.Job, d model.Duration) *model.Job {
	j.TimeLimit = d
	return j
}

// A full VC: smaller, elsewhere, later; and every one of them works.
func TestSuggestionsForABusyVC(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 1}))
	one := w.submit(limited(gangJob("one", "a", 10, 1, 4), 10*model.Minute))
	two := w.submit(gangJob("two", "a", 10, 1, 2))
	w.start(one)
	w.start(two)
	wait := w.submit(gangJob("wait", "a", 10, 1, 4))
	behind := w.submit(gangJob("behind", "a", 10, 1, 1))
	wantKinds(t, "wait", w.proven(wait), model.SmallerTasks, model.AnotherVC, model.AsBorrower, model.AfterJobs, model.AfterTime)
	wantKinds(t, "behind", w.proven(behind), model.HigherPriority, model.AnotherVC, model.AsBorrower, model.AfterJobs, model.WithoutAhead, model.AfterTime)

	e := w.explain(behind)
	want(t, "ahead", fmt.Sprintf("%d %s %d %s", len(e.Ahead), e.Ahead[0].Name, e.Ahead[0].Leaves, e.Ahead[0].User), "1 wait 4 u")
	want(t, "first to end", e.Blockers[0].Name, "one")
	want(t, "its end, with its grace", e.Blockers[0].Ends, w.now.Add(10*model.Minute+model.Second))
	want(t, "the other declares nothing", fmt.Sprintf("%d %s", e.Blockers[1].Ends, e.Blockers[1].Basis), "0 declares no time limit")
	e = w.explain(wait)
	if sug := e.Gangs[0].Suggestions[0]; sug.Leaves != 1 {
		t.Errorf("two has 2 leaves, and behind takes one before wait is back: %+v", sug)
	}
	if sug := e.Gangs[0].Suggestions[3]; !slices.Equal(sug.Jobs, []model.JobID{one}) {
		t.Errorf("the job whose end helps first: %+v", sug)
	}
}

// A gang of several tasks, hardware, nodes that it insists on.
func TestSuggestionsForAGang(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 3}))
	w.submit(gangJob("one", "a", 10, 1, 4))
	w.tell(model.LeafHealth{Node: "n2", SKU: "G", Device: 1})
	w.do(model.Cordon{Node: "n3", On: true})
	gang := w.submit(gangJob("gang", "a", 10, 2, 4))
	got := w.proven(gang)
	wantKinds(t, "gang", got, model.FewerTasks, model.SmallerTasks, model.AfterJobs, model.HardwareFixed)
	e := w.explain(gang)
	for _, sug := range e.Gangs[0].Suggestions {
		if sug.Kind == model.HardwareFixed && len(sug.Nodes) != 1 {
			t.Errorf("one node is enough: %+v", sug)
		}
	}
	picky := gangJob("picky", "a", 10, 1, 4)
	picky.AllowedNodes = []cell.NodeName{"n0"}
	w.do(model.Stop{Job: gang})
	wantKinds(t, "picky", w.proven(w.submit(picky)), model.AnyNode, model.AfterJobs)
}

// Another SKU, when one carries as much.
func TestSuggestionOfAnotherSKU(t *testing.T) {
	w := newWorld(t, twoSKUs())
	on := func(name string, sku cell.TypeName) *model.Job {
		j := gangJob(name, "a", 10, 1, 4)
		j.Roles[0].SKUs = []cell.TypeName{sku}
		return j
	}
	w.submit(on("one", "G"))
	w.submit(on("slots", "C"))
	kinds := w.proven(w.submit(on("two", "G")))
	wantKinds(t, "two", kinds, model.AnotherSKU, model.AfterJobs)
}

// twoSKUs is a node of G, one of H and one of CPU slots, all for one VC.
func twoSKUs() *model.Config {
	cfg := cluster(2, map[cell.VCName]int32{"a": 1})
	spec := &cfg.Cluster
	spec.Cells, spec.Chains, spec.VCs[0].Quota = nil, nil, nil
	spec.SKUs = []cell.SKU{{Name: "C", Device: cell.CPU}, {Name: "G", GPU: 1, Device: cell.NVIDIA}, {Name: "H", GPU: 1, Device: cell.NVIDIA}}
	for i, leaf := range []cell.TypeName{"C", "G", "H"} {
		top := "NODE-" + leaf
		spec.Chains = append(spec.Chains, cell.ChainSpec{Name: cell.ChainName(top), Levels: []cell.LevelSpec{{Type: leaf}, {Type: top, Fanout: 4, IsNode: true}}})
		node := cell.CellSpec{Type: top, Address: fmt.Sprintf("n%d", i)}
		for d := range 4 {
			node.Children = append(node.Children, cell.CellSpec{Type: leaf, Address: fmt.Sprint(d)})
		}
		spec.Cells = append(spec.Cells, node)
		spec.VCs[0].Quota = append(spec.VCs[0].Quota, cell.QuotaSpec{Chain: cell.ChainName(top), Level: 2, Number: 1})
	}
	return cfg
}

// The table counts every cell of a level once.
func TestLevels(t *testing.T) {
	w := newWorld(t, cluster(6, map[cell.VCName]int32{"a": 2, "b": 2}))
	one := w.submit(limited(gangJob("one", "b", 10, 1, 3), model.Hour))
	w.start(one)
	w.submit(gangJob("oppo", "b", -1, 1, 2))
	w.submit(gangJob("mine", "a", 10, 1, 4))
	w.tell(model.LeafHealth{Node: "n5", SKU: "G", Device: 1})
	j := gangJob("wait", "a", 10, 2, 4)
	j.AllowedNodes = []cell.NodeName{"n0", "n1", "n2", "n3", "n5"}
	e := w.explain(w.submit(j))
	got := e.Gangs[0].Levels
	if len(got) != 4 {
		t.Fatalf("levels: %+v", got)
	}
	for _, l := range got {
		sum := l.Bad + l.Cordoned + l.Avoided + l.Lent + l.Free
		for _, h := range l.Held {
			sum += h.Cells
		}
		want(t, "cells of level "+string(l.Type), sum, l.Cells)
	}
	node := got[1]
	want(t, "type", node.Type, "NODE")
	want(t, "wanted", node.Wanted, 2)
	want(t, "owned and unused", fmt.Sprint(node.Owned, node.Unused), "2 1")
	want(t, "bad and avoided", fmt.Sprint(node.Bad, node.Avoided), "1 1")
	held := fmt.Sprint(node.Held)
	if !strings.Contains(held, "{a 1}") || !strings.Contains(held, "{b 1}") {
		t.Errorf("held: %s", held)
	}
	want(t, "until", node.Until, w.now.Add(model.Hour+model.Second))
	want(t, "leaves wanted", got[3].Wanted, 8)
}

// What a suggestion says of one gang holds beside the job's other gangs, of which each is
// promised cells, also when somebody comes back who stands before it.
func TestSuggestionsForOneOfManyGangs(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1, "b": 1}))
	pair := func(name string, vc cell.VCName, prio cell.Priority) *model.Job {
		j := gangJob(name, vc, prio, 2, 1)
		j.Gangs = []model.Gang{{Name: "0", Tasks: []int32{0}}, {Name: "1", Tasks: []int32{1}}}
		return j
	}
	w.start(w.submit(gangJob("full", "a", 0, 1, 4)))
	back := w.submit(gangJob("back", "b", 10, 1, 2))
	w.start(back)
	w.start(w.submit(pair("borrows", "a", -1)))
	whole := w.submit(gangJob("whole", "b", 100, 1, 4))
	ahead := w.submit(pair("ahead", "b", 100))
	wait := w.submit(pair("wait", "b", 0))
	got := w.explain(wait).Gangs[0].Suggestions
	if !slices.ContainsFunc(got, func(s model.Suggestion) bool {
		return s.Kind == model.WithoutAhead && slices.Equal(s.Jobs, []model.JobID{whole, ahead}) && slices.Equal(s.Preempts, []model.JobID{back})
	}) {
		t.Errorf("it does not help to withdraw whole and ahead: %+v", got)
	}
	w.proven(wait)
}

// On random clusters with random faults every suggestion is true.
func TestSuggestionsAreTrue(t *testing.T) {
	kinds := map[model.SuggestionKind]int{}
	jobs := 0
	for seed := range seeds.Of(t, 16) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfgs := []*model.Config{cluster(4, map[cell.VCName]int32{"a": 2, "b": 1}), cluster(6, map[cell.VCName]int32{"a": 2, "b": 2})}
		w := newWorld(t, cfgs[0])
		for step := range 60 {
			w.now += model.Time(r.IntN(3_000_000))
			w.step(r, cfgs, step)
			if step%12 != 11 {
				continue
			}
			jobs += w.proveAll(kinds)
		}
	}
	t.Logf("%d explanations, %v", jobs, kinds)
	if seeds.Modest() && (len(kinds) < 8 || jobs < 100) {
		t.Errorf("too little was tried: %d jobs, %v", jobs, kinds)
	}
}

// proveAll proves the suggestions for all jobs that wait, and counts both.
func (w *world) proveAll(kinds map[model.SuggestionKind]int) (jobs int) {
	for _, j := range w.s.Jobs() {
		if e, _ := w.s.Why(j.ID); j.Phase != model.Waiting || len(e.Gangs) == 0 || j.Stopping {
			continue
		}
		jobs++
		for _, k := range w.proven(j.ID) {
			kinds[k]++
		}
	}
	return jobs
}

// Who is promised cells starts when his victims have left, whatever else changes: nobody
// is told that he should withdraw for that, and no hardware that it should be mended.
func TestNoSuggestionForWhoIsPromisedCells(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	w.tell(model.NodeHealth{Node: "n1"})
	w.start(w.submit(gangJob("low", "a", 0, 1, 4)))
	w.submit(gangJob("ahead", "a", 100, 2, 4))
	next := w.submit(gangJob("next", "a", 10, 1, 4))
	want(t, "next", w.reason(next), model.WaitingPreemption)
	for _, g := range w.explain(next).Gangs {
		for _, sug := range g.Suggestions {
			if sug.Kind == model.WithoutAhead || sug.Kind == model.HardwareFixed || sug.Kind == model.AfterJobs {
				t.Errorf("it starts anyway: %q", sug.Message)
			}
		}
	}
}

// The cost of one explanation, printed.
func TestCostOfExplain(t *testing.T) {
	w := &world{t: t, s: core.New(policy.New), now: 1_000_000}
	apply := func(c model.Command) {
		events, _, no := w.s.Check(c, w.now)
		if no != nil {
			t.Fatal(no)
		}
		for _, e := range events {
			w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: e})
		}
	}
	apply(model.Reconfigure{Config: cluster(1000, map[cell.VCName]int32{"a": 500, "b": 500})})
	for i := range 500 {
		apply(model.Submit{Job: limited(gangJob(fmt.Sprint("run", i), "a", 10, 1, 4), model.Duration(i+1)*model.Minute)})
	}
	w.s.Decide(w.now)
	for i := range 1000 {
		apply(model.Submit{Job: gangJob(fmt.Sprint("wait", i), "a", 10, 2, 4)})
	}
	w.s.Decide(w.now)
	for _, name := range []model.JobName{"wait0", "wait20", "wait999"} {
		id, _ := w.s.ByName("u", name)
		begin := time.Now()
		w.s.Why(id)
		why := time.Since(begin)
		begin = time.Now()
		e, _ := w.s.Explain(id)
		t.Logf("%s at 1,000 nodes with 1,000 waiting: Why %v, Explain %v (%d suggestions)", name, why, time.Since(begin), len(e.Gangs[0].Suggestions))
		begin = time.Now()
		est, _ := w.s.Estimate(id, nil)
		t.Logf("Estimate of %s %v (%d decisions, bound reached: %v)", name, time.Since(begin), est.Steps, est.Bounded)
	}
}

// wideNodes is a VC with twelve nodes of 64 leaves, of which one each is bad.
func wideNodes(t *testing.T) *world {
	cfg := cluster(2, map[cell.VCName]int32{"a": 1})
	spec := &cfg.Cluster
	spec.Chains = []cell.ChainSpec{{Name: "NODE", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "NODE", Fanout: 64, IsNode: true}}}}
	spec.VCs[0].Quota = []cell.QuotaSpec{{Chain: "NODE", Level: 2, Number: 12}}
	spec.Cells = nil
	for n := range 12 {
		node := cell.CellSpec{Type: "NODE", Address: fmt.Sprintf("n%d", n)}
		for d := range 64 {
			node.Children = append(node.Children, cell.CellSpec{Type: "G", Address: fmt.Sprint(d)})
		}
		spec.Cells = append(spec.Cells, node)
	}
	w := newWorld(t, cfg)
	for n := range 12 {
		w.tell(model.LeafHealth{Node: cell.NodeName(fmt.Sprintf("n%d", n)), SKU: "G", Device: 63})
	}
	return w
}

// A search that was cut short says so, with its bound. Such a gang has to be
// looked for: nearly every one packs, or is soon seen not to.
func TestCutSearch(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		j := gangJob("knapsack", "a", 10, 1, 1)
		j.Roles, j.Gangs[0].Tasks = nil, nil
		for left := int32(12*63 - 1); left > 0; {
			n := min(left, 17+int32(r.IntN(15)))
			left -= n
			j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, int32(len(j.Roles)))
			j.Roles = append(j.Roles, model.Role{Name: fmt.Sprint("r", len(j.Roles)), Tasks: 1, Leaves: n, MinFailed: 1, MinSucceeded: -1})
		}
		w := wideNodes(t)
		events, ans, _ := w.s.Check(model.Submit{Job: j}, w.now)
		w.apply(events)
		if e, _ := w.s.Explain(ans.Job); len(e.Gangs) > 0 && e.Gangs[0].Cut != "" {
			want(t, "what it says", e.Gangs[0].Cut, "not every placement was tried: the search ends after 20000 ways to pack tasks or 60000 steps for one gang, and 10 for each node")
			t.Logf("seed %d: %s", seed, e.Gangs[0].Reason.Message)
			return
		}
	}
	t.Error("no search was cut short")
}

// Every bound of the searches for cells stands in the documentation, in the words
// in which an explanation names it.
func TestBoundsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range cell.AllBounds() {
		if !strings.Contains(string(page), "| "+b+" |") {
			t.Errorf("docs/explain.md does not name the bound %q", b)
		}
	}
}
