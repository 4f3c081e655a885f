package core_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// TestDrainIsForetold: what a plan says of each job is what happens then, when the node is drained.
func TestDrainIsForetold(t *testing.T) {
	at := func(model.Time) string { return "then" }
	on := func(j *model.Job, nodes ...cell.NodeName) *model.Job { j.AllowedNodes = nodes; return j }
	limited := func(j *model.Job, d model.Duration) *model.Job { j.TimeLimit = d; return j }
	for name, c := range map[string]struct {
		quota  map[cell.VCName]int32
		jobs   []*model.Job
		within model.Duration
		says   []string // of those on n0, in order
		others []string
	}{
		"it starts again elsewhere": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{gangJob("x", "a", 10, 1, 4)},
			says: []string{"is stopped, and starts again on n1"}},
		"its guarantee is there": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{gangJob("x", "a", 10, 1, 4), on(gangJob("y", "a", 10, 1, 4), "n1")},
			says: []string{"is stopped, and waits until n0 is back (it has a part of a's guarantee)"}},
		"until another one ends": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{gangJob("x", "a", 10, 1, 4), limited(on(gangJob("y", "a", 10, 1, 4), "n1"), model.Hour)},
			says: []string{"is stopped, and waits until then at the latest, to start again on n1, or until n0 is back (it has a part of a's guarantee)"}},
		"opportunistic": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{gangJob("x", "a", -1, 1, 4), on(gangJob("y", "a", 10, 1, 4), "n1")},
			says: []string{"is stopped, opportunistic, and waits until n0 is back: "}},
		"another one makes room": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{gangJob("x", "a", 100, 1, 4), on(gangJob("y", "a", 10, 1, 4), "n1")},
			says: []string{"is stopped, and starts again on n1 after y made room"}, others: []string{"is stopped for x, and waits"}},
		"it ends before": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{limited(gangJob("x", "a", 10, 1, 4), model.Minute)}, within: model.Hour,
			says: []string{"ends by itself before that, by then"}},
		"one that never fits elsewhere": {quota: map[cell.VCName]int32{"a": 2}, jobs: []*model.Job{on(gangJob("x", "a", 10, 1, 4), "n0")},
			says: []string{"is stopped, and waits until n0 is back"}},
	} {
		w := newWorld(t, cluster(2, c.quota))
		for _, j := range c.jobs {
			j.User = "ann"
			w.start(w.submit(j))
		}
		for _, j := range w.s.Jobs() {
			if j.Phase != model.Active {
				t.Fatalf("%s: %s does not run", name, j.Name)
			}
		}
		drain := model.Cordon{Node: "n0", On: true, Drain: w.now.Add(c.within)}
		before := w.s.Seq()
		p, no := w.s.Clone().PlanDrain(drain)
		if no != nil || w.s.Seq() != before {
			t.Fatalf("%s: %v, %d events", name, no, w.s.Seq()-before)
		}
		p.Say("ann", at)
		check := func(list []model.DrainEffect, says []string) {
			if len(list) != len(says) {
				t.Fatalf("%s: %+v, want %q", name, list, says)
			}
			for i, want := range says {
				if !strings.HasPrefix(list[i].Says, want) {
					t.Errorf("%s: %q, want %q", name, list[i].Says, want)
				}
			}
		}
		check(p.Jobs, c.says)
		check(p.Others, c.others)
		if c.within > 0 {
			continue
		}
		// It comes so: all that is told to stop ends, and what starts, starts where it was said.
		w.do(drain)
		for _, list := range [][]model.DrainEffect{p.Jobs, p.Others} {
			for _, e := range list {
				w.exit(e.Attempt.Job, 143)
			}
		}
		for _, e := range p.Jobs {
			j, _ := w.s.Job(e.Attempt.Job)
			runs := j.Phase == model.Active
			if runs != (e.Fate == "starts") || runs && j.Tasks[0].Node != e.Nodes[0] {
				t.Errorf("%s: said was %q; it is %s on %q", name, e.Says, j.Phase, j.Tasks[0].Node)
			}
			if why := w.reason(j.ID); e.Back && why == "" {
				t.Errorf("%s: it does not wait", name)
			}
		}
		w.do(model.Cordon{Node: "n0"})
		for _, e := range p.Jobs {
			if j, _ := w.s.Job(e.Attempt.Job); e.Back && (j.Phase != model.Active || j.Tasks[0].Node != "n0") {
				t.Errorf("%s: the node is back, and %s is %s", name, j.Name, j.Phase)
			}
		}
	}
}

// In random histories all that the JSON of a plan says of each job comes true, when the node is
// drained so, nothing is submitted, what runs ends as late as it may, and what is stopped takes its
// whole grace.
func TestDrainPlansAreTrue(t *testing.T) {
	n := map[string]int{}
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 43))
		w := variedEnding(t, r, toLimits)
		for _, node := range w.s.Nodes() {
			drain := model.Cordon{Node: node.Name, On: true, Drain: w.now.Add(model.Duration(max(r.IntN(60)-30, 0)) * model.Minute)}
			for _, wrong := range w.drainsAsPlanned(drain, n) {
				t.Errorf("seed %d: %s is drained by %d at %d; %s", seed, node.Name, drain.Drain, w.now, wrong)
			}
		}
	}
	if t.Log(n); seeds.Modest() && (n["starts"] < 5 || n["waits"] < 20 || n["ends"] < 5 || n["later"] < 5 || n["back"] < 5) {
		t.Error("too little was tried")
	}
}

// drainsAsPlanned compares the plan of a drain with what comes of it.
func (w *world) drainsAsPlanned(drain model.Cordon, n map[string]int) (wrong []string) {
	p, no := w.s.Clone().PlanDrain(drain)
	if no != nil {
		return nil
	}
	var plan struct{ Jobs, Others []drained }
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.copyOf()
	c.do(drain)
	for _, e := range slices.Concat(plan.Jobs, plan.Others) {
		n[e.Fate]++
		became := c.copyOf()
		became.log = slices.Clone(c.log)
		not, waits := became.isDrained(&e)
		if e.Starts > 0 {
			n["later"]++
		}
		if e.Back {
			n["back"]++
		}
		if e.Fate == "waits" && not == "" {
			back := c.copyOf()
			back.runTo(waits+100, nil) // all that ends then has ended
			if starts := back.startsIfBack(e.Attempt, drain.Node); starts != e.Back {
				not = fmt.Sprintf("where the node is back, it starts: %v", starts)
			}
		}
		if not != "" {
			wrong = append(wrong, fmt.Sprintf("the plan says %+v: %s", e, not))
		}
	}
	return wrong
}

// drained is what a program reads of a job in the plan of a drain.
type drained struct {
	Attempt               model.AttemptID
	Fate                  string
	Ends, Stopped, Starts model.Time
	Nodes                 []cell.NodeName
	Back                  bool
	After                 []struct{ Job model.JobID }
	For                   *struct{ Job model.JobID }
}

// isDrained lets time pass until all that a plan says of an attempt has come, and says what has
// not; and since when its gang waits without a promise of cells.
func (w *world) isDrained(e *drained) (wrong string, waits model.Time) {
	w.runTo(max(w.now, e.Ends, e.Stopped, e.Starts).Add(3*model.Hour), nil)
	var stopped, over, ended, placed, promised model.Time
	var by model.JobID
	var after []model.JobID
	var nodes []cell.NodeName
	next := func(a model.AttemptID) bool { // of its gang, after it
		return a.Job == e.Attempt.Job && a.Gang == e.Attempt.Gang && a.N > e.Attempt.N && placed == 0
	}
	for _, r := range w.log {
		switch x := r.Event.(type) {
		case model.StopSent:
			if x.Attempt == e.Attempt && x.Cause.Resumes() && stopped == 0 {
				stopped = r.Time
				if x.By != nil {
					by = x.By.Job
				}
			}
		case model.AttemptEnded:
			if x.Attempt == e.Attempt {
				over, waits = r.Time, r.Time
			}
		case model.JobEnded:
			if x.Job == e.Attempt.Job {
				ended = r.Time
			}
		case model.Reserved:
			if next(x.Attempt) {
				promised = r.Time
				after = append(after, w.others(e.Attempt.Job, x.Victims)...)
			}
		case model.Unreserved:
			if next(x.Attempt) {
				if promised <= over.Add(slack) {
					waits = r.Time
				}
				promised, after = 0, nil
			}
		case model.Placed:
			if next(x.Attempt) {
				placed = r.Time
				for _, task := range x.Placement.Tasks {
					nodes = append(nodes, task.Node)
				}
				slices.Sort(nodes)
				nodes = slices.Compact(nodes)
			}
		}
	}
	near := func(a, b model.Time) bool { return max(a, b) <= min(a, b).Add(slack) }
	is := fmt.Sprintf("it is stopped at %d, over at %d, promised cells at %d, starts at %d on %v, and its job ends at %d", stopped, over, promised, placed, nodes, ended)
	if e.Fate != "unknown" && !near(stopped, e.Stopped) {
		return is, waits
	}
	atOnce := placed > 0 && (near(placed, over) || promised > 0 && promised <= over.Add(slack))
	ok := false
	switch e.Fate {
	case "ends":
		ok = stopped == 0 && near(over, e.Ends)
	case "over":
		ok = ended > 0 && placed == 0
	case "starts":
		ok = atOnce && slices.Equal(nodes, e.Nodes)
	case "waits":
		ok = !atOnce && (e.Starts == 0) == (placed == 0) && (e.Starts == 0 || near(placed, e.Starts) && slices.Equal(nodes, e.Nodes))
	case "unknown":
		ok = over == 0 && placed == 0
	}
	var makeRoom []model.JobID
	for _, j := range e.After {
		makeRoom = append(makeRoom, j.Job)
	}
	slices.Sort(makeRoom)
	slices.Sort(after)
	after = slices.Compact(after)
	if e.Fate == "starts" && !slices.Equal(makeRoom, after) || e.For != nil && by != e.For.Job {
		return fmt.Sprintf("%s; it is stopped for job %d, and %v make room for it", is, by, after), waits
	}
	if ok {
		is = ""
	}
	return is, waits
}

// others are the jobs of attempts but one.
func (w *world) others(but model.JobID, of []model.AttemptID) (ids []model.JobID) {
	for _, a := range of {
		if a.Job != but {
			ids = append(ids, a.Job)
		}
	}
	return ids
}

// startsIfBack reports whether the gang of an attempt that is over starts when a node is back.
func (w *world) startsIfBack(id model.AttemptID, node cell.NodeName) bool {
	w.do(model.Cordon{Node: node})
	return slices.ContainsFunc(w.log, func(r model.Record) bool {
		x, ok := r.Event.(model.Placed)
		return ok && x.Attempt.Job == id.Job && x.Attempt.Gang == id.Gang && x.Attempt.N > id.N
	})
}

// TestComing: the owner of a job that runs is told what will happen to it, and when.
func TestComing(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	j := gangJob("x", "a", 10, 1, 4)
	j.TimeLimit = 2 * model.Hour
	id := w.submit(j)
	expect := func(what string, want ...string) {
		t.Helper()
		st, _ := w.s.Job(id)
		var got []string
		for _, c := range st.Coming {
			got = append(got, fmt.Sprintf("%s in %d s: %s", c.Kind, max(c.At-w.now, 0)/1_000_000, c.Message))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("it starts")
	w.start(id)
	const limit = "time limit in 7200 s: its time limit of 2 h 0 min is over: it is stopped, and not tried again"
	expect("it runs", limit)
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 1, Reason: "Xid 79"})
	const bad = "hardware in 0 s: G 1 of node n0 is declared bad (Xid 79): the job goes on there, and nothing new starts on it"
	expect("a GPU of it is bad", limit, bad)
	w.do(model.Cordon{Node: "n0", On: true, Drain: w.now.Add(model.Hour), Reason: "new memory"})
	const zero = "; exit code 0 then counts as done, since checkpoint is off"
	const drain = "node n0 is drained (new memory): the job is told to stop, has a grace period of 1 s, and is queued again" + zero
	expect("its node drains", "drain in 3600 s: "+drain, limit, bad)
	if e, ok := w.log[len(w.log)-2].Event.(model.Foretold); !ok || e.Job != id || e.Message != drain {
		t.Errorf("its events do not say that: %+v", w.log[len(w.log)-2].Event)
	}
	w.do(model.Cordon{Node: "n0"})
	expect("it drains no more", limit, bad)
	if e, ok := w.log[len(w.log)-2].Event.(model.Foretold); !ok || e.Message != "the drain of node n0 is cancelled: the job goes on there" {
		t.Errorf("its events do not say that: %+v", w.log[len(w.log)-2].Event)
	}
	w.do(model.Requeue{Job: id})
	expect("it is stopped", "stop in 1 s: it was told to stop (requeued): tasks still running then are killed, and it is queued again"+zero, bad)
	w.do(model.Stop{Job: id})
	expect("for good", "stop in 1 s: it was told to stop (requeued): tasks still running then are killed, and the job ends", bad)
	w.exit(id, 143)
	if len(w.ended) != 1 || w.ended[0].Coming != nil {
		t.Errorf("of a job that has ended: %+v", w.ended)
	}
}

// TestComingLease: who has its GPUs for a lease is told when that ends.
func TestComingLease(t *testing.T) {
	c := cluster(2, map[cell.VCName]int32{"a": 2})
	c.VCs[0].Policy = "themis"
	w := newWorld(t, c)
	id := w.submit(gangJob("x", "a", 10, 1, 4))
	w.start(id)
	if st, _ := w.s.Job(id); len(st.Coming) != 1 || st.Coming[0].Kind != model.ComesLease || st.Coming[0].At-st.Started != 1_200_000_000 {
		t.Errorf("%+v", st.Coming)
	}
}
