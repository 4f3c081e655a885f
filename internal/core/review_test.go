package core_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/test/seeds"
)

func (w *world) attempt(id model.JobID, task int) model.AttemptID {
	w.t.Helper()
	j, ok := w.s.Job(id)
	if !ok {
		w.t.Fatalf("job %d has ended", id)
	}
	return model.AttemptID{Job: id, Gang: j.Tasks[task].Gang, N: j.Tasks[task].Attempt}
}

// Only the node that refused is blamed: not those of the gang's other tasks,
// which were stopped before they started, nor those of jobs stopped by users.
func TestOnlyTheRefusingNodeIsBlamed(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 4}))
	never := model.Exit{Code: 1, Cause: model.NeverStarted, Message: "it was stopped before it was started"}
	for i := range 3 {
		g := w.submit(gangJob("g"+string(rune('0'+i)), "a", 10, 1, 4))
		w.do(model.Stop{Job: g})
		w.tell(model.TaskExited{Attempt: w.attempt(g, 0), Task: 0, Exit: never})
	}
	for _, n := range w.s.Nodes() {
		want(t, string(n.Name)+" is suspect after stops", n.Suspect, 0)
	}
	g := w.submit(gangJob("gang", "a", 10, 2, 4))
	at, js := w.attempt(g, 0), func() model.JobStatus { j, _ := w.s.Job(g); return j }()
	refuser := js.Tasks[0].Node
	w.tell(model.TaskRefused{Attempt: at, Task: 0, Reason: "no device"})
	w.tell(model.TaskExited{Attempt: at, Task: 1, Exit: never})
	avoided := 0
	for _, r := range w.log {
		if e, ok := r.Event.(model.NodeAvoided); ok {
			avoided++
			want(t, "the avoided node", e.Node, refuser)
		}
	}
	want(t, "nodes avoided", avoided, 1)
}

// Jobs whose image does not come put no node aside, however many they are.
func TestImagesThatDoNotComeBlameNoNode(t *testing.T) {
	for _, fetch := range []bool{true, false} {
		w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
		for i := range 3 {
			id := w.submit(gangJob(fmt.Sprint("j", i), "a", 10, 1, 4))
			for range 2 { // each node refuses it
				w.tell(model.TaskRefused{Attempt: w.attempt(id, 0), Task: 0, Reason: "its registry is away", Fetch: fetch})
			}
			want(t, "it waits", w.reason(id), model.BackOff)
		}
		for _, n := range w.s.Nodes() {
			if aside := n.Suspect > 0; aside == fetch {
				t.Errorf("behind fetches that failed (%v), is %s aside: %v", fetch, n.Name, aside)
			}
		}
		other := w.submit(gangJob("other", "a", 10, 1, 4))
		defer func() { // the end of a suspicion takes its reason along
			w.do(model.Cordon{Node: "n0"})
			n := w.s.Nodes()[0]
			if n.Name != "n0" || n.Suspect != 0 || n.Reason != "" {
				t.Errorf("uncordoned, it is %+v", n)
			}
		}()
		if waits := w.reason(other) == model.BackOff; waits == fetch {
			t.Errorf("behind fetches that failed (%v), another job waits: %v", fetch, waits)
		}
	}
}

// A refusal proves that a task never ran, also when nothing was known of it.
func TestRefusedWhileUnknown(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	g := w.submit(gangJob("g", "a", 10, 1, 4))
	at := w.attempt(g, 0)
	w.tell(model.NodeHealth{Node: "n0", Up: false})
	want(t, "its cells", w.reason(g), model.HeldUnknown)
	w.tell(model.TaskRefused{Attempt: at, Task: 0, Reason: "no"})
	want(t, "it runs elsewhere", w.where(g), "n1[0 1 2 3]")
}

// A job that is set aside gives back what it was promised and never starts.
func TestQuarantinedReservation(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	low := w.submit(gangJob("low", "a", 10, 2, 4))
	w.start(low)
	high := w.submit(gangJob("high", "a", 100, 1, 4))
	want(t, "high", w.reason(high), model.WaitingPreemption)
	w.apply([]model.Event{model.Quarantined{Job: high, Stack: "x"}})
	want(t, "high", w.reason(high), model.QuarantinedJob)
	w.exit(low, 143)
	want(t, "high", w.where(high), "Waiting")
	want(t, "low", w.where(low), "n0[0 1 2 3] n1[0 1 2 3]")
	w.do(model.Stop{Job: high})
	_, there := w.s.Job(high)
	want(t, "high is there after its stop", there, false)
}

// Guaranteed work is never kept out by opportunistic work: when the choice of
// the fewest victims leads nowhere, another packing is tried.
func TestPreemptionPacksAgain(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 3})
	o := w.submit(gangJob("o", "a", -1, 1, 4)) // all of n1, one victim
	p := w.submit(gangJob("p", "a", -1, 1, 1)) // each of these takes one leaf of n0
	q := w.submit(gangJob("q", "a", -1, 1, 1))
	r := w.submit(gangJob("r", "a", -1, 1, 1))
	for _, id := range []model.JobID{o, p, q, r} {
		w.start(id)
	}
	want(t, "o", w.where(o), "n1[0 1 2 3]")
	j := gangJob("g", "a", 10, 1, 3)
	j.Roles = append(j.Roles, model.Role{Name: "v", Tasks: 2, Leaves: 2, MinFailed: 1, MinSucceeded: -1})
	j.Gangs[0].Tasks = []int32{0, 1, 2}
	g := w.submit(j)
	want(t, "g", w.reason(g), model.WaitingPreemption)
}

// A role of any SKU does not take the cells that a role with a SKU needs.
func TestAnySKUBesideSKU(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 0})
	w.tell(model.LeafHealth{Node: "n0", SKU: "G", Device: 2}) // one leaf under each switch is left
	j := gangJob("g", "a", 10, 1, 2)
	j.Roles = append(j.Roles, model.Role{Name: "v", Tasks: 1, Leaves: 4, SKUs: []cell.TypeName{"G"}, MinFailed: 1, MinSucceeded: -1})
	j.Gangs[0].Tasks = []int32{0, 1}
	g := w.submit(j)
	want(t, "g", w.where(g), "n0[1 3] n1[0 1 2 3]")
}

// Jobs that are not whole are refused, never a panic.
func TestHostileJobs(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	empty := gangJob("x", "a", 10, 1, 1)
	empty.Gangs = append(empty.Gangs, model.Gang{Name: "nobody"})
	huge := gangJob("x", "a", 10, 1, 1)
	huge.Roles[0].Leaves = 1<<31 - 1
	negative := gangJob("x", "a", 10, 1, 1)
	negative.Gangs[0].Tasks = []int32{-1}
	for _, j := range []*model.Job{nil, {}, empty, huge, negative} {
		if _, _, no := w.s.Check(model.Submit{Job: j}, w.now); no == nil {
			t.Errorf("%+v was accepted", j)
		}
	}
	if _, _, no := w.s.Check(model.Reconfigure{}, w.now); no == nil {
		t.Error("no configuration was accepted")
	}
	g := w.submit(gangJob("g", "a", 10, 1, 1))
	at := w.attempt(g, 0)
	for _, f := range []model.Fact{
		model.TaskExited{Attempt: at, Task: -1}, model.TaskExited{Attempt: at, Task: 1},
		model.TaskStarted{Attempt: model.AttemptID{Job: g, Gang: -1, N: 1}}, model.TaskStarted{Attempt: model.AttemptID{Job: g, Gang: 1, N: 1}},
		model.TaskUnknown{Attempt: model.AttemptID{Job: -g, N: 1}}, model.NodeHealth{Node: "no such"}, model.LeafHealth{Node: "n0", SKU: "G", Device: -1},
		model.Progress{Attempt: model.AttemptID{Job: g, N: 2}}, model.Notice{Job: 99},
	} {
		want(t, "events of a fact that fits nothing", len(w.s.Accept(f)), 0)
	}
}

// Warnings beyond those that are kept do not fill the journal.
func TestNoticesAreBounded(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	g := w.submit(gangJob("g", "a", 10, 1, 1))
	n := 0
	for i := range 100 {
		if events := w.s.Accept(model.Notice{Job: g, Message: string(rune('A' + i))}); len(events) > 0 {
			w.apply(events)
			n++
		}
	}
	want(t, "notices", n, 20)
}

// A notice about something gives way to the next one about it, goes when that is over, and with the
// attempt that it was about.
func TestNoticesGo(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	g := w.submit(gangJob("g", "a", 10, 1, 1))
	tell := func(about, message string, news bool) {
		t.Helper()
		events := w.s.Accept(model.Notice{Job: g, About: about, Message: message})
		want(t, about+" "+message+" is news", len(events) > 0, news)
		w.apply(events)
	}
	have := func(notices ...string) {
		t.Helper()
		status, _ := w.s.Job(g)
		want(t, "notices", strings.Join(status.Notices, "; "), strings.Join(notices, "; "))
		again, err := core.Load(w.s.Save(), policy.New)
		if err != nil {
			t.Fatal(err)
		}
		status, _ = again.Job(g)
		want(t, "notices of the snapshot", strings.Join(status.Notices, "; "), strings.Join(notices, "; "))
	}
	tell("x", "x begins", true)
	tell("x", "x begins", false)
	tell("y", "y begins", true)
	tell("x", "x is half done", true)
	tell("", "a warning", true)
	have("a warning", "y begins", "x is half done")
	tell("x", "", true)
	tell("x", "", false)
	have("a warning", "y begins")
	for i := range 20 {
		tell(fmt.Sprint("z", i), "more", i < 7) // beside y
	}
	w.start(g)
	w.exit(g, 1)
	want(t, "ended", len(w.ended), 1)
	want(t, "notices of what ended", strings.Join(w.ended[0].Notices, "; "), "a warning")
}

// What is told while it lasts may be of any attempt of a job: it goes with the last one.
func TestNoticesStayForOthers(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	j := gangJob("two", "a", 10, 2, 1)
	j.Gangs = []model.Gang{{Name: "x", Tasks: []int32{0}}, {Name: "y", Tasks: []int32{1}}}
	j.Roles[0].MinFailed = 2
	id := w.submit(j)
	w.start(id)
	w.tell(model.Notice{Job: id, About: "the image box", Message: "it comes"})
	status, _ := w.s.Job(id)
	for i, notices := range []string{"it comes", ""} {
		a := status.Attempts[i].ID
		w.tell(model.TaskExited{Attempt: a, Task: a.Gang, Exit: model.Exit{Code: 1}})
		w.decide()
		now, lives := w.s.Job(id)
		if !lives {
			now = w.ended[0]
		}
		want(t, fmt.Sprint("notices when attempts have ended: ", i+1), strings.Join(now.Notices, "; "), notices)
	}
}

// A job that ran too long has no exit code: least of all that of success.
func TestTimeLimitHasNoExit(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	j := gangJob("g", "a", 10, 1, 1)
	j.TimeLimit = model.Minute
	g := w.submit(j)
	w.start(g)
	w.now += model.Time(2 * model.Minute)
	w.decide()
	w.exit(g, 143)
	want(t, "ended", len(w.ended), 1)
	want(t, "phase", w.ended[0].Phase, model.Failed)
	if w.ended[0].Exit != nil {
		t.Errorf("exit %+v of a job over its time limit", *w.ended[0].Exit)
	}
}

// BenchmarkWideIncrementalJob decides while one job of very many gangs waits at
// the head of a full queue.
func BenchmarkWideIncrementalJob(b *testing.B) {
	s := core.New(policy.New)
	apply := func(events []model.Event) {
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: 1, Event: e})
		}
	}
	events, _, _ := s.Check(model.Reconfigure{Config: cluster(16, map[cell.VCName]int32{"a": 16})}, 1)
	apply(events)
	j := gangJob("wide", "a", 10, 10_000, 1)
	j.Gangs = nil
	for i := range j.Roles[0].Tasks {
		j.Gangs = append(j.Gangs, model.Gang{Tasks: []int32{i}})
	}
	events, _, no := s.Check(model.Submit{Job: j}, 1)
	if no != nil {
		b.Fatal(no)
	}
	apply(events)
	s.Decide(1)
	for b.Loop() {
		s.LookAgain()
		s.Decide(1)
	}
}

// mixed has nodes that each carry four GPUs and two CPU slots (two chains); VC a
// owns switches and, with pin, the first node's GPUs; VC b owns nodes, by drf.
func mixed(gpusA, gpusB int32, pin bool, nodes int) *model.Config {
	spec := cell.Spec{SKUs: []cell.SKU{{Name: "C", MilliCPU: 1000, Device: cell.CPU}, {Name: "G", GPU: 1, Device: cell.NVIDIA}},
		Chains: []cell.ChainSpec{
			{Name: "CN", Levels: []cell.LevelSpec{{Type: "C"}, {Type: "CN", Fanout: 2, IsNode: true}}},
			{Name: "GN", Levels: []cell.LevelSpec{{Type: "G"}, {Type: "GS", Fanout: 2}, {Type: "GN", Fanout: 2, IsNode: true}}}}}
	leaf := func(ty cell.TypeName, n int) cell.CellSpec { return cell.CellSpec{Type: ty, Address: fmt.Sprint(n)} }
	for n := range nodes {
		name := fmt.Sprintf("n%d", n)
		g := cell.CellSpec{Type: "GN", Address: name}
		if n == 0 && pin {
			g.Pinned = "P"
		}
		for sw := range 2 {
			g.Children = append(g.Children, cell.CellSpec{Type: "GS", Address: fmt.Sprint(sw), Children: []cell.CellSpec{leaf("G", 2*sw), leaf("G", 2*sw+1)}})
		}
		spec.Cells = append(spec.Cells, g, cell.CellSpec{Type: "CN", Address: name, Children: []cell.CellSpec{leaf("C", 0), leaf("C", 1)}})
	}
	a := cell.VCSpec{Name: "a", Quota: []cell.QuotaSpec{{Chain: "GN", Level: 2, Number: gpusA}, {Chain: "CN", Level: 2, Number: 1}}}
	if pin {
		a.Pinned = []cell.PinnedID{"P"}
	}
	b := cell.VCSpec{Name: "b", Quota: []cell.QuotaSpec{{Chain: "GN", Level: 3, Number: gpusB}, {Chain: "CN", Level: 1, Number: 3}}}
	spec.VCs = []cell.VCSpec{a, b}
	return &model.Config{Cluster: spec, VCs: []model.VCConfig{{Name: "a"}, {Name: "b", Policy: "drf"}}}
}

// When a VC makes a gang opportunistic, another VC that was walked before may stop it at
// once: it gets a whole node whose halves two gangs of the former held.
func TestTheLazyServeOtherVCs(t *testing.T) {
	w := newWorld(t, halves())
	first := on("lazy", "b", 0, 2, "n0")
	first.LazyPreempt = true
	lazy := w.submit(first)
	w.submit(on("other", "b", 10, 2, "n1"))
	whole := w.submit(on("whole", "a", 0, 3))
	if got := w.attempt(whole, 0).N; got != 0 {
		t.Fatalf("attempt %d of the gang that wants a node: no node is free", got)
	}
	w.submit(on("last", "b", 10, 1, "n1")) // its VC has no cells left, so the first makes room
	if j, _ := w.s.Job(lazy); j.Tasks[0].State != model.TaskStopping {
		t.Errorf("the lazy gang's task is %v, want it to be stopped", j.Tasks[0].State)
	}
	w.tell(model.TaskExited{Attempt: w.attempt(lazy, 0), Task: 0, Exit: model.Exit{Code: 1, Cause: model.NeverStarted}})
	if j, _ := w.s.Job(whole); j.Tasks[0].Node != "n0" {
		t.Errorf("the gang that wants a node has %q, want n0", j.Tasks[0].Node)
	}
}

// halves are two nodes of two switches; each VC owns two switches.
func halves() *model.Config {
	cfg := mixed(0, 0, false, 2)
	cfg.VCs[1].Policy = ""
	for i := range cfg.Cluster.VCs {
		cfg.Cluster.VCs[i].Quota = []cell.QuotaSpec{{Chain: "GN", Level: 2, Number: 2}}
	}
	return cfg
}

// on is a job of one task on some nodes.
func on(name string, vc cell.VCName, prio cell.Priority, leaves int32, nodes ...cell.NodeName) *model.Job {
	j := gangJob(name, vc, prio, 1, leaves)
	j.Roles[0].SKUs, j.AllowedNodes = []cell.TypeName{"G"}, nodes
	return j
}

// The same while half a node is left, in the same batch, that somebody waits to borrow: it
// is lent when nobody guaranteed looks again, so the borrower is not started to be stopped.
func TestLendingComesLast(t *testing.T) {
	w := newWorld(t, halves())
	lazy := on("lazy", "b", 0, 2, "n0")
	lazy.LazyPreempt = true
	w.submit(lazy)
	w.submit(on("other", "b", 10, 2, "n1"))
	filler := w.submit(on("filler", "b", -1, 2, "n0"))
	w.submit(on("more", "b", -1, 2, "n1"))
	borrows := w.submit(on("borrows", "b", -1, 2))
	w.start(filler)
	events := w.s.Accept(model.TaskExited{Attempt: w.attempt(filler, 0), Task: 0})
	for _, j := range []*model.Job{on("whole", "a", 0, 4, "n0"), on("last", "b", 10, 1, "n1")} {
		for _, e := range events {
			w.record([]model.Event{e})
		}
		events, _, _ = w.s.Check(model.Submit{Job: j}, w.now)
	}
	w.apply(events)
	if n := w.attempt(borrows, 0).N; n != 0 {
		t.Errorf("the borrower has attempt %d: %s", n, w.where(borrows))
	}
}

// Random histories over two chains on the same nodes, with a pinned cell, mixed
// gangs, tasks that nothing is known of, time limits, and jobs set aside: every
// invariant holds after every event, and when all is healed every job ends.
func TestMixedHistories(t *testing.T) {
	for seed := range seeds.Of(t, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { mixedHistory(t, seed) })
	}
}

func mixedHistory(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	cfgs := []*model.Config{mixed(2, 2, true, 4), mixed(4, 1, false, 4), mixed(1, 1, true, 3), mixed(2, 2, true, 4)}
	if seed%2 == 0 {
		withPolicies(r, cfgs)
	}
	w := newWorld(t, cfgs[0])
	for step := range 150 {
		w.now += model.Time(r.IntN(20_000_000))
		w.mixedStep(r, cfgs, step)
		if r.IntN(10) == 0 {
			again, err := core.Load(w.s.Save(), policy.New)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "digest of a loaded state", again.Digest(), w.s.Digest())
			w.s = again
		}
	}
	w.do(model.Reconfigure{Config: cfgs[0]})
	for i := range int32(8) {
		w.tell(model.LeafHealth{Node: cell.NodeName(fmt.Sprintf("n%d", i/2)), SKU: "C", Device: i % 2, Good: true})
	}
	for _, r := range w.log {
		if e, ok := r.Event.(model.Quarantined); ok {
			events, _, _ := w.s.Check(model.Stop{Job: e.Job}, w.now)
			w.apply(events)
		}
	}
	w.heal(cfgs[0])
	w.replay()
}

func mixedJob(r *rand.Rand, step int) *model.Job {
	j := gangJob(fmt.Sprintf("j%d", step), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 0, 10, 100, 1000}[r.IntN(5)], 1, 1)
	j.User = []model.Subject{"ann", "bob"}[r.IntN(2)]
	j.Roles = nil
	n := int32(0)
	for i := range 1 + r.IntN(3) {
		role := model.Role{Name: fmt.Sprint("r", i), Tasks: 1 + int32(r.IntN(2)), Leaves: 1 + int32(r.IntN(3)),
			SKUs: [][]cell.TypeName{nil, {"G"}, {"C", "G"}, {"C"}}[r.IntN(4)], MinFailed: int32(r.IntN(3)) - 1, MinSucceeded: int32(r.IntN(3)) - 1}
		if j.VC == "a" && j.Priority >= 0 && r.IntN(4) == 0 {
			role.Pinned, role.SKUs = "P", nil
		}
		role.TaskRetries = int32(r.IntN(2))
		j.Roles = append(j.Roles, role)
		n += role.Tasks
	}
	j.LazyPreempt = r.IntN(3) == 0
	j.Retries = int32(r.IntN(2))
	if r.IntN(4) == 0 {
		j.TimeLimit = model.Duration(1+r.IntN(60)) * model.Second
	}
	if r.IntN(6) == 0 {
		j.AllowedNodes = []cell.NodeName{"n1", "n2"}
	}
	j.Gangs = nil
	cut := r.IntN(3)
	for o := range n {
		if o == 0 || cut == 0 || cut == 1 && o == 2 {
			j.Gangs = append(j.Gangs, model.Gang{Name: fmt.Sprint(o)})
		}
		g := &j.Gangs[len(j.Gangs)-1]
		g.Tasks = append(g.Tasks, o)
	}
	return j
}

func (w *world) mixedStep(r *rand.Rand, cfgs []*model.Config, step int) {
	jobs := w.s.Jobs()
	if len(jobs) == 0 || r.IntN(4) == 0 {
		j := mixedJob(r, step)
		hint(r, j, cfgs)
		events, _, _ := w.s.Check(model.Submit{Job: j}, w.now)
		w.apply(events)
		return
	}
	j := jobs[r.IntN(len(jobs))]
	o := r.IntN(len(j.Tasks))
	at := model.AttemptID{Job: j.ID, Gang: j.Tasks[o].Gang, N: j.Tasks[o].Attempt}
	node := cell.NodeName(fmt.Sprintf("n%d", r.IntN(4)))
	switch r.IntN(14) {
	case 0, 1, 2:
		w.start(j.ID)
	case 3:
		w.exit(j.ID, []int32{0, 1, 210}[r.IntN(3)])
	case 4, 5:
		w.tell(model.TaskExited{Attempt: at, Task: int32(o), Exit: model.Exit{Code: int32(r.IntN(2)), Own: r.IntN(2) == 0,
			Cause: []model.ExitCause{"", "", "", model.NeverStarted, model.SupervisorLost, model.OutOfMemory}[r.IntN(6)], Message: "m"}})
	case 6:
		w.tell(model.TaskUnknown{Attempt: at, Task: int32(o)})
	case 7:
		w.tell(model.TaskStarted{Attempt: at, Task: int32(o)})
	case 8:
		w.tell(model.TaskRefused{Attempt: at, Task: int32(o), Reason: "no", Job: r.IntN(4) == 0})
	case 9:
		events, _, _ := w.s.Check(model.Stop{Job: j.ID}, w.now)
		w.apply(events)
	case 10:
		w.tell(model.NodeHealth{Node: node, Up: r.IntN(2) == 0})
	case 11:
		w.tell(model.LeafHealth{Node: node, SKU: []cell.TypeName{"G", "C"}[r.IntN(2)], Device: int32(r.IntN(2)), Good: r.IntN(2) == 0})
	case 12:
		w.do(model.Reconfigure{Config: cfgs[r.IntN(len(cfgs))]})
	case 13:
		if r.IntN(8) == 0 {
			w.apply([]model.Event{model.Quarantined{Job: j.ID, Stack: "x"}})
			vc := w.s.VCs()[r.IntN(2)]
			w.apply([]model.Event{model.PolicyFailed{VC: vc.Name, Policy: vc.Policy, Stack: "x"}})
		}
		w.tell(model.Progress{Attempt: at, Task: int32(o), Step: 1, Checkpoint: true})
	}
}

// Cells of which nothing proves that they were left count as bad: who waits for
// them says so, and holds nobody up.
func TestLostTaskHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	o := w.submit(gangJob("o", "a", -1, 1, 4))
	w.tell(model.TaskUnknown{Attempt: w.attempt(o, 0), Task: 0})
	head := w.submit(gangJob("head", "a", 10, 2, 4))
	want(t, "head", w.reason(head), model.HeldUnknown)
	next := w.submit(gangJob("next", "a", 10, 1, 4))
	want(t, "next", w.where(next), "n1[0 1 2 3]")
}

// Only reservations that stand in the way are revoked.
func TestRevokesOnlyWhatIsInTheWay(t *testing.T) {
	w := newWorld(t, mixed(4, 0, false, 4))
	x := gangJob("x", "a", 0, 2, 1) // C slots of n0
	x.Roles[0].SKUs = []cell.TypeName{"C"}
	y := gangJob("y", "a", 0, 2, 2)
	y.Roles[0].SKUs = []cell.TypeName{"G"}
	y2 := gangJob("y2", "a", 0, 2, 2)
	y2.Roles[0].SKUs = []cell.TypeName{"G"}
	for _, j := range []*model.Job{x, y, y2} {
		w.start(w.submit(j))
	}
	rc := gangJob("rc", "a", 10, 2, 1)
	rc.Roles[0].SKUs = []cell.TypeName{"C"}
	rg := gangJob("rg", "a", 20, 4, 2)
	rg.Roles[0].SKUs = []cell.TypeName{"G"}
	c := w.submit(rc)
	g := w.submit(rg)
	want(t, "rc", w.reason(c), model.WaitingPreemption)
	want(t, "rg", w.reason(g), model.WaitingPreemption)
	top := gangJob("top", "a", 100, 4, 2)
	top.Roles[0].SKUs = []cell.TypeName{"G"}
	p := w.submit(top)
	want(t, "top", w.reason(p), model.WaitingPreemption)
	for _, r := range w.log {
		if e, ok := r.Event.(model.Unreserved); ok && e.Attempt.Job == c {
			t.Errorf("rc, which uses another chain, lost its reservation: %s", e.Reason)
		}
	}
}

// Of tasks whose ends are told together, the one that came to its end first is named: rank 0 may
// only have failed because rank 1 was gone.
func TestTheTaskThatFailedFirstIsNamed(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1, "b": 1}))
	id := w.submit(gangJob("gang", "a", 10, 3, 1))
	w.start(id)
	at := model.AttemptID{Job: id, N: 1}
	var facts []model.Event
	for i, x := range []model.Exit{{Code: 1, Own: true, At: 30, Message: "connection reset"}, {Code: 3, Own: true, At: 10, Message: "no data"}, {Code: 1, Own: true, At: 20}} {
		facts = append(facts, w.s.Accept(model.TaskExited{Attempt: at, Task: int32(i), Exit: x})...)
	}
	w.apply(facts)
	for _, r := range w.log {
		if e, ok := r.Event.(model.JobEnded); ok {
			want(t, "why", e.Message, "task w-1 failed with exit code 3: no data")
			return
		}
	}
	t.Error("the job did not end")
}
