package sched_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/seeds"
	"github.com/combsched/comb/internal/setting"
)

// TestPlanAgreesWithApply changes the configuration of random clusters in every
// way while jobs run: what the plan says is what comes of it, and the same file
// again changes nothing.
func TestPlanAgreesWithApply(t *testing.T) {
	fates := map[sched.Fate]int{}
	renamed := 0
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 3))
		first := randomConfig(r)
		first.Renamed, first.RenamedNodes = nil, nil
		w := newWorld(t, first.Config)
		cfgs := []*sched.Config{first.Config}
		for step := range 60 {
			w.now += sched.Time(r.IntN(3_000_000))
			if r.IntN(6) > 0 {
				w.step(r, cfgs, step)
				continue
			}
			c := randomConfig(r)
			plan := w.checkPlan(c)
			for _, e := range plan.Running {
				fates[e.Fate]++
			}
			for _, e := range plan.Waiting {
				fates[e.Fate]++
			}
			for _, v := range plan.VCs {
				if v.Kind == setting.Renamed {
					renamed++
				}
			}
			w.do(c)
			cfgs = []*sched.Config{c.Config}
		}
		w.heal(cfgs[0])
		w.replay()
	}
	for _, f := range []sched.Fate{sched.Keeps, sched.Opportunistic, sched.Drains, sched.WaitsAgain, sched.NeverStarts, sched.CanStart} {
		if fates[f] == 0 && seeds.Modest() {
			t.Errorf("no change made a job's fate %q: the test looks at less than it should; %v", f, fates)
		}
	}
	if renamed == 0 && seeds.Modest() {
		t.Error("no virtual cluster was renamed")
	}
}

// checkPlan compares a plan with what comes of it on a copy of the state.
func (w *world) checkPlan(c sched.Reconfigure) *sched.ConfigPlan {
	w.t.Helper()
	before := w.s.Digest()
	plan, no := w.s.PlanConfig(c)
	if no != nil {
		w.t.Fatalf("refused: %v", no)
	}
	want(w.t, "the state after planning", w.s.Digest(), before)
	events, ans, _ := w.s.Check(c, w.now)
	if d := cmp.Diff(plan.Effects, ans.Effects); d != "" {
		w.t.Errorf("applied differs from planned: %s", d)
	}
	after := w.s.Clone()
	for _, e := range events {
		after.Apply(sched.Record{Seq: after.Seq() + 1, Time: w.now, Event: e})
	}
	if err := after.Verify(); err != nil {
		w.t.Fatal(err)
	}
	want(w.t, "the state beside its copy", w.s.Digest(), before)
	w.compareJobs(plan, after)
	w.compareShape(plan, after)
	again, no := after.PlanConfig(c)
	if no != nil || again.Changed || len(again.Effects) > 0 {
		w.t.Errorf("the same file again: %+v, %v", again, no)
	}
	return plan
}

// compareJobs holds the fates of jobs to what became of them.
func (w *world) compareJobs(plan *sched.ConfigPlan, after *sched.State) {
	w.t.Helper()
	said := map[sched.AttemptID]sched.RunningEffect{}
	for _, e := range plan.Running {
		said[e.Attempt] = e
	}
	lazy := map[sched.AttemptID]bool{}
	for _, j := range w.s.Jobs() {
		for _, a := range j.Attempts {
			lazy[a.ID] = a.Lazy
		}
	}
	var never []string
	for _, j := range after.Jobs() {
		for _, a := range j.Attempts {
			if a.State == sched.AttemptOver {
				continue
			}
			fate := sched.Keeps
			switch demoted := a.Lazy && !lazy[a.ID]; {
			case a.Orphaned && demoted:
				fate = sched.DrainsLazily
			case a.Orphaned:
				fate = sched.Drains
			case demoted:
				fate = sched.Opportunistic
			}
			want(w.t, fmt.Sprintf("the fate of %v", a.ID), said[a.ID].Fate, fate)
			want(w.t, fmt.Sprintf("the VC of %v", a.ID), said[a.ID].VC, j.VC)
			delete(said, a.ID)
		}
		e, _ := after.Why(j.ID)
		for _, g := range e.Gangs {
			holds := func(a sched.AttemptStatus) bool { return a.ID.Gang == g.Gang && a.State == sched.AttemptUnknown }
			if j.Stopping || slices.ContainsFunc(j.Attempts, holds) {
				continue // it will not start anyhow, or may still run
			}
			if (g.Reason.Code == sched.NeverFits || g.Reason.Code == sched.QuotaExceeded) && !slices.Contains(never, string(j.Name)) {
				never = append(never, string(j.Name))
			}
		}
	}
	for id, e := range said {
		want(w.t, fmt.Sprintf("the fate of %v, which is gone", id), e.Fate, sched.WaitsAgain)
	}
	var planned []string
	for _, e := range plan.Waiting {
		if e.Fate == sched.NeverStarts {
			planned = append(planned, string(e.Name))
		}
	}
	if d := cmp.Diff(planned, never); d != "" {
		w.t.Errorf("jobs that can never start (-planned +are): %s", d)
	}
}

// compareShape holds the changes of VCs and nodes to what there is before and after.
func (w *world) compareShape(plan *sched.ConfigPlan, after *sched.State) {
	w.t.Helper()
	nodes, vcs := shape(w.s), quotas(w.s.Config())
	for _, n := range plan.Nodes {
		delete(nodes, n.Was)
		if nodes[n.Name] = n.After; n.Kind == setting.Removed {
			delete(nodes, n.Name)
		}
	}
	if d := cmp.Diff(nodes, shape(after)); d != "" {
		w.t.Errorf("nodes (-planned +are): %s", d)
	}
	for _, v := range plan.VCs {
		cells := vcs[v.Name]
		if v.Kind == setting.Renamed {
			cells = vcs[v.Was]
			delete(vcs, v.Was)
		}
		if cells == nil {
			cells = map[cell.TypeName]int32{}
		}
		for _, c := range v.Cells {
			want(w.t, fmt.Sprintf("%s of %s before", c.Type, v.Name), c.Before, cells[c.Type])
			if cells[c.Type] = c.After; c.After == 0 {
				delete(cells, c.Type)
			}
		}
		if vcs[v.Name] = cells; v.Kind == setting.Removed {
			delete(vcs, v.Name)
		}
	}
	if d := cmp.Diff(vcs, quotas(after.Config())); d != "" {
		w.t.Errorf("virtual clusters (-planned +are): %s", d)
	}
}

// shape counts the leaves of the nodes that are configured.
func shape(s *sched.State) map[cell.NodeName]int32 {
	out := map[cell.NodeName]int32{}
	for _, n := range s.Nodes() {
		for _, k := range n.SKUs {
			out[n.Name] += k.Total
		}
	}
	return out
}

func quotas(c *sched.Config) map[cell.VCName]map[cell.TypeName]int32 {
	out := map[cell.VCName]map[cell.TypeName]int32{}
	for _, v := range c.Cluster.VCs {
		out[v.Name] = map[cell.TypeName]int32{}
		for _, q := range v.Quota {
			if q.Number == 0 {
				continue
			}
			out[v.Name][c.Cluster.Chains[0].Levels[q.Level-1].Type] += q.Number
		}
	}
	return out
}

// randomConfig makes a cluster of a few racks: its VCs, what is inside them, pins
// and names all vary, and sometimes say what they were.
func randomConfig(r *rand.Rand) sched.Reconfigure {
	nodes := 2 + 2*r.IntN(3)
	second := cell.VCName("b")
	out := sched.Reconfigure{}
	if r.IntN(3) == 0 {
		second = "c"
		out.Renamed = append(out.Renamed, sched.Rename{From: "b", To: "c"})
	} else if r.IntN(2) == 0 {
		out.Renamed = append(out.Renamed, sched.Rename{From: "c", To: "b"})
	}
	quota := map[cell.VCName]int32{"a": int32(r.IntN(nodes)), second: 0}
	quota[second] = int32(r.IntN(nodes - int(quota["a"])))
	out.Config = cluster(nodes, quota)
	spec := &out.Config.Cluster
	if r.IntN(2) == 0 {
		spec.VCs = append(spec.VCs, cell.VCSpec{Name: "a.x", Parent: "a", Quota: []cell.QuotaSpec{{Chain: "RACK", Level: 2, Number: int32(r.IntN(2*int(quota["a"]) + 1))}}})
		slices.SortFunc(spec.VCs, func(x, y cell.VCSpec) int { return strings.Compare(string(x.Name), string(y.Name)) })
	}
	node := &spec.Cells[len(spec.Cells)-1].Children[1]
	if int(quota["a"]+quota[second]) < nodes && r.IntN(3) == 0 { // the last node, which is nobody's
		node.Pinned = "P"
		spec.VCs[len(spec.VCs)-1].Pinned = []cell.PinnedID{"P"}
	}
	if r.IntN(3) == 0 {
		out.RenamedNodes = append(out.RenamedNodes, sched.NodeRename{From: cell.NodeName(node.Address), To: cell.NodeName("m" + node.Address)})
		node.Address = "m" + node.Address
	} else if r.IntN(2) == 0 {
		out.RenamedNodes = append(out.RenamedNodes, sched.NodeRename{From: cell.NodeName("m" + node.Address), To: cell.NodeName(node.Address)})
	}
	out.Config.VCs = nil
	for _, v := range spec.VCs {
		out.Config.VCs = append(out.Config.VCs, sched.VCConfig{Name: v.Name, MinRun: sched.Duration(r.IntN(2)) * sched.Minute})
	}
	return out
}

// A file that is in force already changes nothing, and its plan says so of every attempt,
// every reservation and everybody who can never start.
func TestPlanOfThePresentNamesEverybody(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 4}))
	for range 4 {
		w.start(w.submit(gangJob(fmt.Sprint("runs", len(w.s.Jobs())), "a", 0, 1, 4)))
	}
	w.submit(gangJob("never", "a", 0, 3, 4))
	small := func() sched.Reconfigure { return sched.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 1})} }
	w.do(small())
	w.exit(2, 0)
	w.start(w.submit(gangJob("borrows", "a", -1, 1, 4)))
	next := w.submit(gangJob("next", "a", 10, 1, 4))
	want(t, "next", w.reason(next), sched.WaitingPreemption)
	plan := w.checkPlan(small())
	var got []string
	for _, e := range plan.Running {
		got = append(got, fmt.Sprintf("%s %s %d", e.Name, e.Fate, e.Lost))
	}
	for _, e := range plan.Waiting {
		got = append(got, fmt.Sprintf("%s %s %v", e.Name, e.Fate, e.Already))
	}
	want(t, "the plan", strings.Join(got, ", "), "runs0 keeps 0, runs2 drains 4, runs3 drains 4, borrows keeps 0, next keeps 0, never never true")
	if plan.Changed || len(plan.Effects) > 0 {
		t.Errorf("it changes nothing: %+v", plan.Effects)
	}
}
