package core_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// page is what a program reads of an explanation: its JSON, and no text of it.
type page struct {
	Job   model.JobID
	Name  string
	Gangs []struct {
		Gang   int32
		Reason struct {
			Code      model.Code
			Message   string // for the report of a failure
			Jobs      []model.JobID
			Nodes     []cell.NodeName
			More      int
			MoreNodes int `json:"more_nodes"`
			Besides   []model.Code
		}
		Suggestions []model.Suggestion
	}
	Ahead, Blockers []struct{ Job model.JobID }
	AheadMore       int `json:"ahead_more"`
	BlockersMore    int `json:"blockers_more"`

	jobs  []model.JobID // all that it names, by number
	nodes []cell.NodeName
}

// pages counts what was tried.
type pages struct {
	all, named, besides, cut, anyway, others int
	codes                                    map[model.Code]int
}

// In random histories of all kinds a job starts when all is gone that its explanation names, at one
// instant, and one after the other; and a job that it does not name would not let it start by
// ending alone.
func TestExplanationNamesAllInTheWay(t *testing.T) {
	n := pages{codes: map[model.Code]int{}}
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 42))
		w := varied(t, r)
		for i := range 3 {
			all := w.s.Jobs()
			for k := 0; k < len(all); k += 1 + len(all)/12 { // of many a few
				j := all[k]
				if p, ok := w.page(j.ID); ok && j.Phase == model.Waiting && !j.Stopping {
					w.namesEveryOne(seed, &p, &n)
				}
			}
			if i < 2 {
				w.runTo(w.now.Add(model.Duration(1+r.IntN(20))*model.Minute), nil)
				w.arrives(r, 40+i)
			}
		}
	}
	t.Logf("%+v", n)
	if seeds.Modest() && (n.named < 400 || n.others < 1000 || n.cut < 3 || n.besides < 3 || len(n.codes) < 10) {
		t.Errorf("too little was tried: %+v", n)
	}
}

// page reads what is told of a job that waits. Where lists are cut, it checks how many more there
// are said to be, and takes the whole.
func (w *world) page(id model.JobID) (p page, ok bool) {
	w.t.Helper()
	w.s = w.s.At(w.now)
	e, _ := w.s.Explain(id)
	text, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if len(p.Gangs) == 0 {
		return p, false
	}
	g := &p.Gangs[0].Reason
	p.jobs, p.nodes = slices.Clone(g.Jobs), g.Nodes
	for _, b := range slices.Concat(p.Ahead, p.Blockers) {
		p.jobs = append(p.jobs, b.Job)
	}
	if g.More+g.MoreNodes+p.AheadMore+p.BlockersMore > 0 {
		whole, ahead, blockers := core.Whole(w.s, id)
		r := &whole.Gangs[0].Reason
		p.jobs, p.nodes = slices.Concat(r.Jobs, ahead, blockers), r.Nodes
		if len(r.Jobs) != len(g.Jobs)+g.More || len(r.Nodes) != len(g.Nodes)+g.MoreNodes || len(ahead) != len(p.Ahead)+p.AheadMore || len(blockers) != len(p.Blockers)+p.BlockersMore {
			w.t.Errorf("%s: it does not say how many it leaves out: %+v of %+v, %v ahead, %v in the way", p.Name, p, r, ahead, blockers)
		}
	}
	slices.Sort(p.jobs)
	p.jobs = slices.DeleteFunc(slices.Compact(p.jobs), func(id model.JobID) bool { return id == p.Job })
	return p, true
}

// ownReasons are those for which a gang waits whatever jobs and nodes do.
var ownReasons = []model.Code{model.QuarantinedJob, model.NeverFits, model.QuotaExceeded, model.BackOff, model.HeldUnknown, model.OnHold, model.NotYetDecided}

// namesEveryOne checks both of one page.
func (w *world) namesEveryOne(seed uint64, p *page, n *pages) {
	g := &p.Gangs[0].Reason
	n.all++
	n.codes[g.Code]++
	if len(p.jobs) > 10 || g.MoreNodes > 0 {
		n.cut++
	}
	if slices.Contains(ownReasons, g.Code) || g.Code == model.HeldBack && len(g.Jobs)+len(g.Nodes) == 0 {
		return
	}
	waits := func(what string, c *world) {
		why, _ := c.s.Why(p.Job)
		w.t.Errorf("seed %d: %s waits: %s %s; %s (jobs %v, nodes %v): %+v", seed, p.Name, g.Code, g.Message, what, p.jobs, p.nodes, why.Gangs)
	}
	if len(g.Besides) > 0 { // it is said that it waits even so
		n.besides++
		if slices.Contains(g.Besides, model.NotYetDecided) {
			w.t.Errorf("seed %d: %s waits: %s %s; what the next decision starts does not wait", seed, p.Name, g.Code, g.Message)
		}
		if at, c := w.copyOf(), w.copyOf(); at.allGo(p, p.jobs) && (c.allGo(p, nil) || c.oneByOne(p, w.inOrder(p))) {
			waits("it is said to wait even so, and starts when all is gone that is named", c)
		}
	} else {
		n.named++
		if c := w.copyOf(); !c.allGo(p, p.jobs) {
			waits("with all gone that is named it still waits", c)
		}
		if c := w.copyOf(); !c.allGo(p, nil) && !c.oneByOne(p, w.inOrder(p)) {
			waits("with all gone that is named, one after the other, it still waits", c)
		}
	}
	if c := w.copyOf(); c.endsAlone(p.Job, 0) {
		n.anyway++
		return
	}
	for _, o := range w.s.Jobs() {
		if o.ID == p.Job || slices.Contains(p.jobs, o.ID) {
			continue
		}
		n.others++
		if c := w.copyOf(); c.endsAlone(p.Job, o.ID) {
			waits(fmt.Sprintf("it does not name %s, which would let it start by ending alone", o.Name), c)
		}
	}
}

// allGo brings what a page names into service, and lets jobs end, at one instant.
func (w *world) allGo(p *page, jobs []model.JobID) bool {
	w.applySuggestion(p.Job, model.Suggestion{Kind: model.HardwareFixed, Nodes: p.nodes, Jobs: jobs})
	return w.settles(p.Job)
}

// oneByOne lets jobs go one after the other.
func (w *world) oneByOne(p *page, jobs []model.JobID) bool {
	for _, id := range jobs {
		if _, lives := w.s.Job(id); lives {
			w.withdraw([]model.JobID{id})
			w.decide()
		}
		if w.settles(p.Job) {
			return true
		}
	}
	return false
}

// inOrder are the jobs of a page, those that wait first.
func (w *world) inOrder(p *page) (out []model.JobID) {
	for _, phase := range []model.Phase{model.Waiting, model.Active} {
		for _, id := range p.jobs {
			if j, _ := w.s.Job(id); j.Phase == phase {
				out = append(out, id)
			}
		}
	}
	return out
}

// settles lets all end that are being stopped, and reports whether a gang of a job has started.
func (w *world) settles(id model.JobID) bool {
	for range 5 {
		w.obey()
	}
	return w.began(id)
}

func (w *world) began(id model.JobID) bool {
	return slices.ContainsFunc(w.log, func(r model.Record) bool {
		e, ok := r.Event.(model.Placed)
		return ok && e.Attempt.Job == id
	})
}

// endsAlone reports whether a job starts when another one ends, 0 for none, and nothing else but
// what it preempts.
func (w *world) endsAlone(id, other model.JobID) bool {
	if other != 0 {
		w.withdraw([]model.JobID{other})
	}
	w.decide()
	j, _ := w.s.Job(id)
	for _, a := range j.Attempts {
		for _, v := range a.Victims {
			w.dies(v)
		}
	}
	return w.began(id)
}

// dies ends the tasks of an attempt that is being stopped.
func (w *world) dies(a model.AttemptID) {
	j, _ := w.s.Job(a.Job)
	for o, t := range j.Tasks {
		if t.Gang == a.Gang {
			w.tell(model.TaskExited{Attempt: a, Task: int32(o), Exit: model.Exit{Code: 143}})
		}
	}
}

// varied lets jobs of all kinds come to virtual clusters of all kinds, while nodes and devices go
// out of service and come back.
func varied(t *testing.T, r *rand.Rand) *world { return variedEnding(t, r, nil) }

// variedEnding is the same with jobs that end by themselves.
func variedEnding(t *testing.T, r *rand.Rand, ends func(*model.Job) model.Duration) *world {
	cfg := cluster(4+2*r.IntN(2), map[cell.VCName]int32{"a": 1 + int32(r.IntN(2)), "b": 1 + int32(r.IntN(2))})
	withPolicies(r, []*model.Config{cfg})
	for i := range cfg.VCs {
		v := &cfg.VCs[i]
		v.Backfill = []string{"", "", "easy", "conservative"}[r.IntN(4)]
		v.Placement = []string{"", "spread"}[r.IntN(2)]
		v.Lending = []string{"", "", "none"}[r.IntN(3)]
		switch r.IntN(4) {
		case 0:
			v.Users = &model.UserLimits{GPUs: int64(4 + r.IntN(4))}
		case 1:
			v.Users = &model.UserLimits{Running: int64(1 + r.IntN(3))}
		}
		if v.Backfill == "" && r.IntN(4) == 0 {
			v.Moves = 2
		}
	}
	w := newWorld(t, cfg)
	w.once, w.ends = true, ends
	nodes := len(w.s.Nodes())
	any := func() (id model.JobID) {
		if all := w.s.Jobs(); len(all) > 0 {
			id = all[r.IntN(len(all))].ID
		}
		return id
	}
	for i := range []int{16, 16, 16, 16, 16, 40}[r.IntN(6)] {
		w.now += model.Time(r.IntN(60_000_000))
		node := cell.NodeName(fmt.Sprint("n", r.IntN(nodes)))
		switch k := r.IntN(18); {
		case k == 0:
			w.do(model.Cordon{Node: node, On: r.IntN(4) > 0})
		case k == 1:
			w.tell(model.LeafHealth{Node: node, SKU: "G", Device: int32(r.IntN(4)), Good: r.IntN(4) == 0})
		case k == 2:
			w.runTo(w.now.Add(model.Duration(r.IntN(15))*model.Minute), nil)
		case k == 3:
			w.tell(model.NodeHealth{Node: node, Up: r.IntN(2) == 0})
		case k == 4:
			w.do(model.Cordon{Node: node, On: true, Drain: w.now.Add(model.Duration(r.IntN(120)) * model.Second)})
		case k == 5:
			events, _, _ := w.s.Check(wish(r, any()), w.now)
			w.apply(events)
		case k == 6:
			w.refuseOne(any())
		default:
			w.arrives(r, i)
		}
	}
	w.runTo(w.now+1, nil)
	w.s = w.s.At(w.now)
	return w
}

// arrives submits a random job of any kind.
func (w *world) arrives(r *rand.Rand, i int) {
	j := gangJob(fmt.Sprint("j", i), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 10, 10, 10, 100}[r.IntN(5)], 1+int32(r.IntN(3)), []int32{1, 2, 4, 4}[r.IntN(4)])
	j.User, j.Grace = model.Subject(fmt.Sprint("u", r.IntN(3))), []model.Duration{0, 30 * model.Second}[r.IntN(2)]
	j.LazyPreempt = r.IntN(5) == 0
	j.Hints.Dedicated = r.IntN(6) == 0
	hint(r, j, []*model.Config{w.s.Config()})
	if j.TimeLimit = 0; r.IntN(4) > 0 {
		limited(j, model.Duration(1+r.IntN(50))*model.Minute)
	}
	switch r.IntN(6) {
	case 0:
		j.Gangs = nil
		for i := range j.Roles[0].Tasks {
			j.Gangs = append(j.Gangs, model.Gang{Name: fmt.Sprint(i), Tasks: []int32{i}})
		}
	case 1:
		j.AllowedNodes = slices.Compact([]cell.NodeName{cell.NodeName(fmt.Sprint("n", r.IntN(4))), cell.NodeName(fmt.Sprint("n", r.IntN(4)))})
	}
	events, ans, no := w.s.Check(model.Submit{Job: j}, w.now)
	if no != nil { // it can never start
		return
	}
	w.apply(events)
	w.start(ans.Job)
}
