package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/seeds"
)

// TestPlanAgreesWithApply changes the configuration of random clusters in every
// way while jobs run: what the plan says is what comes of it, and the same file
// again changes nothing.
func TestPlanAgreesWithApply(t *testing.T) {
	fates := map[model.Fate]int{}
	renamed, tried, differ := 0, 0, 0
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 3))
		first := randomConfig(r)
		first.Renamed, first.RenamedNodes = nil, nil
		w := newWorld(t, first.Config)
		cfgs := []*model.Config{first.Config}
		for step := range 60 {
			w.now += model.Time(r.IntN(3_000_000))
			if r.IntN(6) > 0 {
				w.step(r, cfgs, step)
				continue
			}
			tried += 2
			if !w.thereAndBack(cfgs[0], randomConfig(r).Config) {
				differ++
			}
			if !w.sameEnd(randomConfig(r).Config, randomConfig(r).Config) {
				differ++
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
				if v.Kind == model.Renamed {
					renamed++
				}
			}
			w.do(c)
			cfgs = []*model.Config{c.Config}
		}
		w.heal(cfgs[0])
		w.replay()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, f := range []model.Fate{model.Keeps, model.Opportunistic, model.Regains, model.Drains, model.DrainsNoMore, model.IsStopped, model.Leaves, model.WaitsAgain, model.NeverStarts, model.CanStart} {
		if fates[f] == 0 && seeds.Modest() {
			t.Errorf("no change made a job's fate %q: the test looks at less than it should; %v", f, fates)
		}
	}
	if t.Logf("what is guaranteed depended on an earlier configuration in %d of %d", differ, tried); differ > 1+tried/500 {
		t.Errorf("what is guaranteed depends on an earlier configuration in %d of %d", differ, tried)
	}
	if renamed == 0 && seeds.Modest() {
		t.Error("no virtual cluster was renamed")
	}
}

// checkPlan compares a plan with what comes of it on a copy of the state.
func (w *world) checkPlan(c model.Reconfigure) *model.ConfigPlan {
	w.t.Helper()
	before := w.s.Digest()
	plan, no := w.s.At(w.now).PlanConfig(c)
	if no != nil {
		w.t.Fatalf("refused: %v", no)
	}
	want(w.t, "the state after planning", w.s.Digest(), before)
	events, ans, _ := w.s.Check(c, w.now)
	after := w.s.Clone()
	for _, e := range events {
		after.Apply(model.Record{Seq: after.Seq() + 1, Time: w.now, Event: e})
	}
	if err := after.Verify(); err != nil {
		w.t.Fatal(err)
	}
	w.compareNever(plan, after.Clone())
	if plan.Changed { // else what is decided now is no effect of it
		after.Report(&ans, after.Settle(w.now))
	}
	if err := after.Verify(); err != nil {
		w.t.Fatal(err)
	}
	if d := cmp.Diff(plan.Effects, append([]string{}, ans.Effects...)); d != "" {
		w.t.Errorf("applied differs from planned: %s", d)
	}
	want(w.t, "the state beside its copy", w.s.Digest(), before)
	w.compareJobs(plan, after)
	w.compareShape(plan, after)
	again, no := after.PlanConfig(c)
	if no != nil || again.Changed || len(again.Effects) > 0 {
		w.t.Errorf("the same file again: %+v, %v", again, no)
	}
	c.Config = reversed(c.Config)
	if again, no = after.PlanConfig(c); no != nil || again.Changed {
		w.t.Errorf("the same file in another order: %+v, %v", again, no)
	}
	return plan
}

// through applies configurations one after the other to a copy, and decides nothing.
func (w *world) through(all ...*model.Config) *core.State {
	w.t.Helper()
	s := w.s.At(w.now)
	for _, c := range all {
		events, _, no := s.Check(model.Reconfigure{Config: c}, w.now)
		if no != nil {
			w.t.Fatalf("refused: %v", no)
		}
		for _, e := range events {
			s.Apply(model.Record{Seq: s.Seq() + 1, Time: w.now, Event: e})
		}
	}
	if err := s.Verify(); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// sameEnd applies a configuration straight and by way of another one, and reports whether what is
// guaranteed then is the same. The cells that attempts have before are tried first, so that a
// search of so many steps may differ.
func (w *world) sameEnd(by, to *model.Config) bool {
	w.t.Helper()
	straight, around := living(w.through(to)), living(w.through(by, to))
	for id, a := range straight {
		if a.Cause == 0 && a.State != model.AttemptReserving && a.Lazy != around[id].Lazy {
			return false
		}
	}
	return true
}

// thereAndBack applies another configuration and the present one again: guaranteed work is as it
// was, unless what lost its guarantee before has it back, and stands before what has lost it.
func (w *world) thereAndBack(present, other *model.Config) bool {
	w.t.Helper()
	was, is := living(w.s), living(w.through(other, present))
	var gained []model.AttemptID
	for id, a := range was {
		if a.Lazy && !is[id].Lazy {
			gained = append(gained, id)
		}
	}
	for id, a := range was {
		if a.State == model.AttemptReserving || a.Cause != 0 || a.Opportunistic || !is[id].Opportunistic {
			continue
		}
		lost, _ := w.s.Job(id.Job)
		if !slices.ContainsFunc(gained, func(g model.AttemptID) bool {
			j, _ := w.s.Job(g.Job)
			return j.VC == lost.VC && (j.Priority > lost.Priority || j.Priority == lost.Priority && g.Job <= lost.ID)
		}) {
			return false
		}
	}
	return true
}

// reversed is a configuration with its quotas and cells in the opposite order.
func reversed(c *model.Config) *model.Config {
	var turn func([]cell.CellSpec) []cell.CellSpec
	turn = func(cells []cell.CellSpec) []cell.CellSpec {
		cells = slices.Clone(cells)
		slices.Reverse(cells)
		for i := range cells {
			cells[i].Children = turn(cells[i].Children)
		}
		return cells
	}
	out := *c
	out.Cluster.Cells = turn(c.Cluster.Cells)
	out.Cluster.VCs = slices.Clone(c.Cluster.VCs)
	for i := range out.Cluster.VCs {
		v := &out.Cluster.VCs[i]
		v.Quota = slices.Clone(v.Quota)
		slices.Reverse(v.Quota)
	}
	return &out
}

// living are the attempts and promises that hold cells, or are to have some.
func living(s *core.State) map[model.AttemptID]model.AttemptStatus {
	out := map[model.AttemptID]model.AttemptStatus{}
	for _, j := range s.Jobs() {
		for _, a := range j.Attempts {
			if a.State != model.AttemptOver {
				out[a.ID] = a
			}
		}
	}
	return out
}

// compareJobs holds what is said of jobs to what became of them by the time that all was decided.
func (w *world) compareJobs(plan *model.ConfigPlan, after *core.State) {
	w.t.Helper()
	was, is := living(w.s), living(after)
	starts := map[model.AttemptID]model.StartEffect{}
	for _, e := range plan.Starting {
		starts[e.Attempt] = e
	}
	for _, e := range plan.Running {
		then, now := was[e.Attempt], is[e.Attempt]
		_, lives := is[e.Attempt]
		if then.State == model.AttemptReserving {
			_, elsewhere := starts[e.Attempt]
			kept := lives && now.State == model.AttemptReserving && !elsewhere
			want(w.t, fmt.Sprintf("the promise to %v is kept", e.Attempt), e.Fate == model.Keeps, kept)
			delete(was, e.Attempt)
			if kept {
				delete(is, e.Attempt)
			}
			continue
		}
		want(w.t, fmt.Sprintf("the fate of %v", e.Attempt), e.Fate, fateOf(then, now))
		if !lives {
			w.t.Errorf("%v is gone", e.Attempt)
		}
		job, _ := after.Job(e.Attempt.Job)
		want(w.t, fmt.Sprintf("the VC of %v", e.Attempt), e.VC, job.VC)
		want(w.t, fmt.Sprintf("the guarantee of %v", e.Attempt), e.Guaranteed, !now.Opportunistic)
		by := model.JobID(0)
		if now.By != nil && (e.Fate == model.IsStopped || e.Fate == model.Opportunistic && e.For != nil) {
			by = now.By.Job
		}
		called := model.JobCalled{}
		if e.For != nil {
			called = *e.For
		}
		want(w.t, fmt.Sprintf("who %v makes room for", e.Attempt), called.Job, by)
		delete(was, e.Attempt)
		delete(is, e.Attempt)
	}
	for id := range was {
		w.t.Errorf("nothing is said of %v", id)
	}
	for id, a := range is {
		e, said := starts[id]
		want(w.t, fmt.Sprintf("%v, which starts, is named", id), said, true)
		want(w.t, fmt.Sprintf("%v starts at once", id), len(e.After) == 0, len(a.Victims) == 0)
		want(w.t, fmt.Sprintf("the guarantee of %v, which starts", id), e.Guaranteed, !a.Opportunistic)
		delete(starts, id)
	}
	for id := range starts {
		w.t.Errorf("%v starts, as is said, and does not", id)
	}
}

// fateOf is what became of an attempt.
func fateOf(then, now model.AttemptStatus) model.Fate {
	lost, regained := now.Lazy && !then.Lazy, then.Lazy && !now.Lazy
	switch {
	case then.Cause == 0 && now.Cause == model.EndMigrated:
		return model.Moves
	case then.Cause == 0 && now.Cause != 0:
		return model.IsStopped
	case now.Orphaned && lost:
		return model.DrainsLazily
	case now.Orphaned:
		return model.Drains
	case then.Cause != 0:
		return model.Leaves
	case lost:
		return model.Opportunistic
	case regained:
		return model.Regains
	case then.Orphaned:
		return model.DrainsNoMore
	}
	return model.Keeps
}

// compareNever holds what is said of jobs that can never start to their reasons.
func (w *world) compareNever(plan *model.ConfigPlan, after *core.State) {
	w.t.Helper()
	var never []string
	for _, j := range after.Jobs() {
		e, _ := after.Why(j.ID)
		for _, g := range e.Gangs {
			holds := func(a model.AttemptStatus) bool { return a.ID.Gang == g.Gang && a.State == model.AttemptUnknown }
			if j.Stopping || slices.ContainsFunc(j.Attempts, holds) {
				continue // it will not start anyhow, or may still run
			}
			if (g.Reason.Code == model.NeverFits || g.Reason.Code == model.QuotaExceeded) && !slices.Contains(never, string(j.Name)) {
				never = append(never, string(j.Name))
			}
		}
	}
	var planned []string
	for _, e := range plan.Waiting {
		if e.Fate == model.NeverStarts {
			planned = append(planned, string(e.Name))
		}
	}
	if d := cmp.Diff(planned, never); d != "" {
		w.t.Errorf("jobs that can never start (-planned +are): %s", d)
	}
}

// compareShape holds the changes of VCs and nodes to what there is before and after.
func (w *world) compareShape(plan *model.ConfigPlan, after *core.State) {
	w.t.Helper()
	nodes, vcs := shape(w.s), quotas(w.s.Config())
	for _, n := range plan.Nodes {
		delete(nodes, n.Was)
		if nodes[n.Name] = n.After; n.Kind == model.Removed {
			delete(nodes, n.Name)
		}
	}
	if d := cmp.Diff(nodes, shape(after)); d != "" {
		w.t.Errorf("nodes (-planned +are): %s", d)
	}
	for _, v := range plan.VCs {
		cells := vcs[v.Name]
		if v.Kind == model.Renamed {
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
		if vcs[v.Name] = cells; v.Kind == model.Removed {
			delete(vcs, v.Name)
		}
	}
	if d := cmp.Diff(vcs, quotas(after.Config())); d != "" {
		w.t.Errorf("virtual clusters (-planned +are): %s", d)
	}
}

// shape counts the leaves of the nodes that are configured.
func shape(s *core.State) map[cell.NodeName]int32 {
	out := map[cell.NodeName]int32{}
	for _, n := range s.Nodes() {
		for _, k := range n.SKUs {
			out[n.Name] += k.Total
		}
	}
	return out
}

func quotas(c *model.Config) map[cell.VCName]map[cell.TypeName]int32 {
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
func randomConfig(r *rand.Rand) model.Reconfigure {
	nodes := 2 + 2*r.IntN(3)
	second := cell.VCName("b")
	out := model.Reconfigure{}
	if r.IntN(3) == 0 {
		second = "c"
		out.Renamed = append(out.Renamed, model.Rename{From: "b", To: "c"})
	} else if r.IntN(2) == 0 {
		out.Renamed = append(out.Renamed, model.Rename{From: "c", To: "b"})
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
	if k := r.IntN(nodes); int(quota["a"]+quota[second]) < nodes-1 && k < nodes-2 { // a node is missing, not in the last rack
		rack := &spec.Cells[k/2]
		rack.Children = slices.Delete(rack.Children, k%2, k%2+1)
	}
	if len(spec.Cells[0].Children) == 2 && nodes > 2 && quota["a"] >= 2 && r.IntN(2) == 0 { // two nodes as one rack
		q := &spec.VCs[0].Quota
		*q = append(*q, cell.QuotaSpec{Chain: "RACK", Level: 4, Number: 1})
		(*q)[0].Number -= 2
	}
	if r.IntN(3) == 0 {
		out.RenamedNodes = append(out.RenamedNodes, model.NodeRename{From: cell.NodeName(node.Address), To: cell.NodeName("m" + node.Address)})
		node.Address = "m" + node.Address
	} else if r.IntN(2) == 0 {
		out.RenamedNodes = append(out.RenamedNodes, model.NodeRename{From: cell.NodeName("m" + node.Address), To: cell.NodeName(node.Address)})
	}
	out.Config.VCs = nil
	for _, v := range spec.VCs {
		out.Config.VCs = append(out.Config.VCs, model.VCConfig{Name: v.Name, MinRun: model.Duration(r.IntN(2)) * model.Minute})
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
	small := func() model.Reconfigure { return model.Reconfigure{Config: cluster(2, map[cell.VCName]int32{"a": 1})} }
	w.do(small())
	w.exit(2, 0)
	w.start(w.submit(gangJob("borrows", "a", -1, 1, 4)))
	next := w.submit(gangJob("next", "a", 10, 1, 4))
	want(t, "next", w.reason(next), model.WaitingPreemption)
	plan := w.checkPlan(small())
	var got []string
	for _, e := range plan.Running {
		got = append(got, fmt.Sprintf("%s %s %d", e.Name, e.Fate, e.Lost))
	}
	for _, e := range plan.Waiting {
		got = append(got, fmt.Sprintf("%s %s %v", e.Name, e.Fate, e.Already))
	}
	want(t, "the plan", strings.Join(got, ", "), "runs0 leaves 0, runs2 drains 4, runs3 drains 4, borrows keeps 0, next keeps 0, never never true")
	if plan.Changed || len(plan.Effects) > 0 {
		t.Errorf("it changes nothing: %+v", plan.Effects)
	}
}

// What changes of a type (its CPUs, its memory, or that its devices come in parts) is planned as it
// is carried out at the same instant, with the same figures of what a stop loses.
func TestPlanOfTypesAgreesWithApply(t *testing.T) {
	fates, lost := map[model.Fate]int{}, 0
	for seed := range seeds.Of(t, 40) {
		r := rand.New(rand.NewPCG(seed, 23))
		w := newWorld(t, otherType(r).Config)
		for i := range 24 {
			w.now += model.Time(r.IntN(200_000_000))
			j := gangJob(fmt.Sprint("j", i), []cell.VCName{"a", "b"}[r.IntN(2)], []cell.Priority{-1, 0, 10}[r.IntN(3)], 1, 1+r.Int32N(2))
			j.Roles[0].Launch.GPU = int64(j.Roles[0].Leaves)
			j.Roles[0].Launch.MilliCPU = 500 * r.Int64N(4) * j.Roles[0].Launch.GPU
			if events, _, no := w.s.Check(model.Submit{Job: j}, w.now); no == nil {
				w.apply(events)
				w.decide()
			}
			for _, st := range w.s.Jobs() {
				if len(st.Attempts) > 0 && st.Attempts[0].State == model.AttemptStarting {
					w.start(st.ID)
				}
			}
			if r.IntN(3) > 0 {
				continue
			}
			w.now += model.Time(r.IntN(200_000_000))
			c := otherType(r)
			for _, e := range w.checkPlan(c).Running {
				fates[e.Fate]++
				if e.Unsaved > 0 {
					lost++
				}
			}
			w.do(c)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, f := range []model.Fate{model.Keeps, model.Opportunistic, model.Regains, model.IsStopped} {
		if seeds.Modest() && (fates[f] == 0 || lost == 0) {
			t.Errorf("no change made an attempt %q, or none loses work (%d): %v", f, lost, fates)
		}
	}
}

// otherType is a cluster whose only type varies.
func otherType(r *rand.Rand) model.Reconfigure {
	n := 1 + r.Int32N(3)
	c := cluster(4, map[cell.VCName]int32{"a": n, "b": 4 - n})
	sku := &c.Cluster.SKUs[0]
	sku.MilliCPU, sku.MemoryMB = 500*r.Int64N(4), 1024*r.Int64N(2)
	if r.IntN(3) == 0 {
		sku.Part = cell.Share
	}
	return model.Reconfigure{Config: c}
}
