package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// A VC that lends nothing has its whole unused quota at once, whatever others do: none of their
// jobs is stopped for it, and while one of theirs waits for such cells its page says so, and what
// it suggests is true.
func TestNothingIsLent(t *testing.T) {
	n := truths{codes: map[model.Code]int{}}
	asked, recalled, inner, broken := 0, 0, 0, 0
	for seed := range seeds.Of(t, 60) {
		r := rand.New(rand.NewPCG(seed, 28))
		w := stingy(t, r)
		for i := range 30 {
			w.now += model.Time(r.IntN(60_000_000))
			w.lends(r, i)
			if i%6 == 5 {
				w.runTo(w.now.Add(10*model.Second), nil)
				w.saysWhy(seed, &n)
			}
			if w.leaving() || slices.ContainsFunc(w.s.Nodes(), func(n model.NodeStatus) bool { return n.Cordoned }) {
				broken++
				continue // what is charged for bad hardware is not kept elsewhere
			}
			for _, vc := range []cell.VCName{"b", "b.x", "c"} {
				if w.s.Config().VCs[2].Name != "b.x" && vc == "b.x" {
					continue
				}
				if vc == "b.x" {
					inner++
				}
				if w.s.Config().VCs[slices.IndexFunc(w.s.Config().VCs, func(v model.VCConfig) bool { return v.Name == vc })].Lending == "none" && w.idle(vc) {
					asked++
					w.hasAll(seed, i, vc, 100)
					w.hasAll(seed, i, vc, -1)
				}
			}
		}
		w.replay()
		for _, e := range w.log {
			if s, ok := e.Event.(model.StopSent); ok && s.For != "" {
				recalled++
			}
		}
	}
	t.Logf("%d times all was asked for, %d times one inside another could be asked, %d times something was out of service or leaving, %d attempts stopped for it before; %d pages: %v", asked, inner, broken, recalled, n.pages, n.codes)
	if seeds.Modest() && (asked < 300 || inner < 100 || broken < 100 || recalled < 15 || n.codes[model.NotLent] < 20) {
		t.Errorf("too little was tried: %d asked, %d inside others, %d out of service or leaving, %d recalled, %v", asked, inner, broken, recalled, n.codes)
	}
}

// stingy is a world of three VCs of which some lend nothing.
func stingy(t *testing.T, r *rand.Rand) *world {
	cfg := cluster(8, map[cell.VCName]int32{"a": 1 + int32(r.IntN(2)), "b": 1 + int32(r.IntN(2)), "c": 1 + int32(r.IntN(2))})
	for i := range cfg.VCs {
		cfg.VCs[i].Policy = []string{"fifo", "drf", "las", "sjf", "edf"}[r.IntN(5)]
	}
	if r.IntN(3) == 0 { // a whole rack
		cfg.Cluster.VCs[1].Quota = []cell.QuotaSpec{{Chain: "RACK", Level: 4, Number: 1}}
	} else if r.IntN(3) == 0 { // and one inside, which says for itself whether it lends
		cfg.Cluster.VCs[1].Quota[0].Number = 2
		cfg.Cluster.VCs = slices.Insert(cfg.Cluster.VCs, 2, cell.VCSpec{Name: "b.x", Parent: "b", Quota: []cell.QuotaSpec{{Chain: "RACK", Level: 3, Number: 1}}})
		cfg.VCs = slices.Insert(cfg.VCs, 2, model.VCConfig{Name: "b.x", Policy: "fifo"})
	} else if r.IntN(3) == 0 { // and parts of nodes
		cfg.Cluster.VCs[1].Quota = append(cfg.Cluster.VCs[1].Quota, cell.QuotaSpec{Chain: "RACK", Level: 2, Number: 1})
	}
	w := newWorld(t, cfg)
	w.once = true
	return w
}

// lends does one random thing: a job comes or ends, or what the VCs lend changes.
func (w *world) lends(r *rand.Rand, i int) {
	switch k := r.IntN(14); {
	case k == 12: // a node is out of service for a while
		w.do(model.Cordon{Node: cell.NodeName(fmt.Sprintf("n%d", r.IntN(8))), On: true})
	case k == 13:
		for _, n := range w.s.Nodes() {
			w.do(model.Cordon{Node: n.Name})
		}
	case k == 0 || i == 4:
		cfg := *w.s.Config()
		cfg.VCs = slices.Clone(cfg.VCs)
		for v := range cfg.VCs {
			cfg.VCs[v].Lending = []string{"", "none"}[r.IntN(2)]
		}
		cfg.VCs[1].Lending = "none"
		w.do(model.Reconfigure{Config: &cfg})
	case k < 4:
		if live := w.s.Jobs(); len(live) > 0 {
			w.exit(live[r.IntN(len(live))].ID, 0)
		}
	case k == 4:
		w.runTo(w.now.Add(model.Minute), nil)
	default:
		j := gangJob(fmt.Sprint("j", i), w.s.Config().VCs[r.IntN(len(w.s.Config().VCs))].Name, []cell.Priority{-1, -1, 10, 100}[r.IntN(4)], 1+int32(r.IntN(2)), []int32{1, 2, 4, 4}[r.IntN(4)])
		j.LazyPreempt = r.IntN(3) == 0
		if events, ans, no := w.s.Check(model.Submit{Job: limited(j, model.Hour)}, w.now); no == nil {
			w.apply(events)
			w.start(ans.Job)
		}
	}
}

// saysWhy checks what is said of the jobs that wait for such cells.
func (w *world) saysWhy(seed uint64, n *truths) {
	c := w.copyOf()
	for _, j := range c.s.Jobs() {
		if c.s = c.s.At(c.now); j.Phase == model.Waiting && c.reason(j.ID) == model.NotLent {
			c.tellsTruth(seed, j.ID, n)
			c.suggestsTruth(seed, j.ID)
		}
	}
}

// leaving reports whether an attempt was told to stop and has not, or waits for one that has not.
func (w *world) leaving() bool {
	return slices.ContainsFunc(w.s.Jobs(), func(j model.JobStatus) bool {
		return slices.ContainsFunc(j.Attempts, func(a model.AttemptStatus) bool {
			return a.State == model.AttemptStopping || a.State == model.AttemptReserving
		})
	})
}

// idle reports whether a VC has no job.
func (w *world) idle(vc cell.VCName) bool {
	return !slices.ContainsFunc(w.s.Jobs(), func(j model.JobStatus) bool { return j.VC == vc })
}

// hasAll checks that an idle VC gets all its cells at once, guaranteed or not.
func (w *world) hasAll(seed uint64, step int, vc cell.VCName, prio cell.Priority) {
	c := w.copyOf()
	i := slices.IndexFunc(w.s.Config().Cluster.VCs, func(v cell.VCSpec) bool { return v.Name == vc })
	j := gangJob("all", vc, prio, 0, 4)
	j.Roles = nil
	for _, q := range w.s.Config().Cluster.VCs[i].Quota {
		if inside := w.s.Config().Cluster.VCs[min(i+1, len(w.s.Config().Cluster.VCs)-1)]; inside.Parent == vc {
			q.Number -= inside.Quota[0].Number
		}
		size := map[cell.Level][2]int32{2: {1, 2}, 3: {1, 4}, 4: {2, 4}}[q.Level]
		j.Roles = append(j.Roles, model.Role{Name: fmt.Sprint("w", q.Level), Tasks: size[0] * q.Number, Leaves: size[1], MinFailed: 1, MinSucceeded: 1})
		for range size[0] * q.Number {
			j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, int32(len(j.Gangs[0].Tasks)))
		}
	}
	n := len(c.log)
	id := c.do(model.Submit{Job: j}).Job
	for _, r := range c.log[n:] {
		if e, ok := r.Event.(model.StopSent); ok && (e.For == "" || e.For == vc) { // another may have to look for its cells elsewhere now
			w.t.Errorf("seed %d, step %d: all that %s has starts only when attempt %v has stopped", seed, step, vc, e.Attempt)
			return
		}
	}
	if !c.started(id, 0, "") {
		w.t.Errorf("seed %d, step %d: %s lends nothing and cannot have all that it has with priority %d: %s", seed, step, vc, prio, c.reason(id))
	}
}

// suggestsTruth checks each change that a page suggests by itself.
func (w *world) suggestsTruth(seed uint64, id model.JobID) {
	e := w.explain(id)
	for _, s := range e.Gangs[0].Suggestions {
		c := w.copyOf()
		now := c.applySuggestion(id, s)
		for range 5 {
			c.obey()
		}
		if !c.started(now, 0, s.Kind) {
			w.t.Errorf("seed %d: %s waits; after %q it still waits", seed, e.Name, s.Message)
		}
	}
}

// What is kept of a large quota that is not lent is found in steps that grow with the cluster, also
// where the VC has opportunistic work of its own, near which it is looked for first.
func TestKeepingIsLinear(t *testing.T) {
	steps := func(nodes int) int64 {
		cfg := cluster(nodes, map[cell.VCName]int32{"a": 1, "b": int32(nodes / 2)})
		cfg.VCs[1].Lending = "none"
		w := newWorld(t, cfg)
		for range 3 {
			w.start(w.submit(gangJob(fmt.Sprint("own", len(w.s.Jobs())), "b", -1, 1, 4)))
		}
		before := w.s.CellSteps()
		for i := range 10 { // each of another shape, and too large for what is lent
			w.submit(gangJob(fmt.Sprint("waits", i), "a", -1, int32(nodes-10+i), 4))
		}
		for _, j := range w.s.Jobs()[3:] {
			if w.reason(j.ID) != model.NotLent && w.reason(j.ID) != model.ClusterBusy {
				t.Errorf("%d nodes: %s waits for %s", nodes, j.Name, w.reason(j.ID))
			}
		}
		return w.s.CellSteps() - before
	}
	small, large := steps(100), steps(400)
	t.Logf("%d steps on 100 nodes, %d on 400", small, large)
	if large > 6*small {
		t.Errorf("%d steps on 100 nodes and %d on 400 are not linear", small, large)
	}
}
