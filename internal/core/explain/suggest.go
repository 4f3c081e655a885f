package explain

import (
	"fmt"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Bounds on how many changes are tried for one explanation: each costs a copy of
// the state and one or two decisions.
const (
	triesMost   = 24  // changes of the job
	endsMost    = 16  // jobs that might end
	aheadMost   = 8   // jobs that stand before it
	othersMost  = 8   // other SKUs, other VCs
	forwardMost = 100 // steps of a forecast by declared ends
	// copiedMost is how many jobs all these copies may have together. So an explanation takes about
	// as long where many jobs wait as where few do. It says that something was left untried.
	copiedMost = 600_000
	// suggestSteps is how many steps the decisions on all these copies may take together, and
	// trySteps how many on one copy. A try that was cut has no result and counts as untried.
	suggestSteps = 600_000
	trySteps     = suggestSteps / 3
)

// suggester looks for changes that would let one gang start.
type suggester struct {
	s          *Explainer // the state as it is; only read
	withoutJob *Explainer // a copy from which the job was withdrawn
	j          *tables.Job
	g          int32
	triesLeft  int   // how many changes of the job may still be tried
	jobsLeft   int   // how many jobs may still be copied
	stepsLeft  int64 // how many steps may still be taken
	// startsAnyway is set when the gang starts without any change, once what is being stopped for
	// it has ended. Then only a change with which it starts at once is a suggestion.
	startsAnyway bool
	found        []model.Suggestion
	untried      bool // something was left untried
}

func newSuggester(s *Explainer, j *tables.Job, g int32) *suggester {
	return &suggester{s: s, j: j, g: g, jobsLeft: copiedMost, stepsLeft: suggestSteps}
}

// suggest tries one change after the other by deciding on a copy of the state, and
// returns those that worked and whether something was left untried. why is the code of
// the gang's reason.
func (t *suggester) suggest(why model.Code) ([]model.Suggestion, bool) {
	s, j, g := t.s, t.j, t.g
	gg := &j.Gangs[g]
	if j.Quarantined || j.Stop || j.Held() || gg.Attempt != tables.None &&
		s.Attempts[gg.Attempt].State == model.AttemptUnknown {
		return nil, false
	}
	if why != model.NeverFits && why != model.QuotaExceeded && why != model.BackOff {
		_, t.startsAnyway = t.startsAfter(nil, nil)
	}
	if s.Phase(j) == model.Waiting && !j.Spec.Gangs[g].Extra && why != model.BackOff {
		w := &WhatIf{Explainer: s.CloneIn(&s.memoryForCopies().base), At: s.Now}
		w.Cluster.Work().Within(trySteps)
		w.finish(j.ID)
		w.Decide()
		if t.withoutJob, t.triesLeft = w.Explainer, triesMost; t.uncut(w) {
			w.Cluster.Work().Restore(0)
			w.Cluster.Work().Within(trySteps) // for what couldFit asks
			t.cheapChanges(why)
			t.sizes()
			if why == model.NeverFits || why == model.QuotaExceeded {
				t.atMost()
			}
			t.elsewhere()
		}
	}
	switch why {
	case model.NeverFits, model.QuotaExceeded:
	case model.BackOff:
		t.afterTime()
	default:
		found := t.startsAnyway || t.afterJobs()
		if !t.startsAnyway {
			t.withoutAhead()
		}
		t.afterTime()
		if !t.startsAnyway {
			t.repairs(outOfServiceCode(why) || !found)
		}
		if len(t.found) == 0 && t.withoutJob != nil { // nothing else helps
			t.higherPriority(true)
		}
	}
	return t.found, t.untried
}

// copy returns a copy of a state, valid until the next call. It is nil, and the rest stays untried,
// when the budget of copied jobs or of steps is used up.
func (t *suggester) copy(of *Explainer) *WhatIf {
	if t.jobsLeft -= len(of.Jobs); t.jobsLeft < 0 || t.stepsLeft <= 0 {
		t.untried = true
		return nil
	}
	w := &WhatIf{Explainer: of.CloneIn(&t.s.memoryForCopies().tried), At: of.Now}
	if w.Cluster != nil {
		w.Cluster.Work().Within(min(t.stepsLeft, trySteps))
	}
	return w
}

// uncut counts the steps that were taken on a copy, and reports whether they sufficed.
func (t *suggester) uncut(w *WhatIf) bool {
	t.stepsLeft -= w.Steps()
	if w.Cluster.Work().Over() {
		t.untried = true
		return false
	}
	return true
}

// add adds a change that worked to the suggestions.
func (t *suggester) add(g model.Suggestion, preempts []model.Displaced, format string, a ...any) {
	g.Message = fmt.Sprintf(format, a...)
	for _, d := range preempts {
		g.Preempts = append(g.Preempts, d.Job)
	}
	if len(preempts) > 0 {
		g.Message += fmt.Sprintf(", after preempting %s", t.s.jobList(t.j.Spec.User, g.Preempts))
	}
	t.found = append(t.found, g)
}

// tryInstead submits a changed job in place of this one, and reports whether the gang of the
// same role starts and which jobs give way.
func (t *suggester) tryInstead(spec *model.Job) ([]model.Displaced, bool) {
	if t.triesLeft--; t.triesLeft < 0 {
		t.untried = true
		return nil, false
	}
	w := t.copy(t.withoutJob)
	if w == nil {
		return nil, false
	}
	events, ans, no := w.Admit(model.Submit{Job: spec})
	if no != nil {
		return nil, false
	}
	w.ApplyEvents(events...)
	preempts, ok := w.starts(ans.Job, gangWith(spec, t.role()))
	return preempts, t.uncut(w) && ok && !(t.startsAnyway && len(preempts) > 0)
}

// role is the largest role of the gang: the one whose size matters most.
func (t *suggester) role() int32 { return largestRole(t.j, t.g) }

func largestRole(j *tables.Job, g int32) int32 {
	best, most := int32(0), int64(-1)
	var tasks int32
	for i, o := range j.Spec.Gangs[g].Tasks {
		r := j.Tasks[o].Role
		if i == 0 || r != j.Tasks[j.Spec.Gangs[g].Tasks[i-1]].Role {
			tasks = 0
		}
		tasks++
		if n := int64(tasks) * int64(j.Spec.Roles[r].Leaves); n > most {
			best, most = r, n
		}
	}
	return best
}

// gangWith returns the first gang that has a task of a role.
func gangWith(spec *model.Job, role int32) int32 {
	var first int32
	for _, r := range spec.Roles[:role] {
		first += r.Tasks
	}
	return int32(max(0, slices.IndexFunc(spec.Gangs, func(g model.Gang) bool {
		return slices.ContainsFunc(g.Tasks, func(o int32) bool {
			return o >= first &&
				o < first+spec.Roles[role].Tasks
		})
	})))
}

// couldFit asks the placing code alone whether a job would find cells, with
// preemption but without the jobs ahead of it. If not, no decision would start it.
func (t *suggester) couldFit(spec *model.Job) bool {
	j := t.withoutJob.NewJob(t.withoutJob.NextJob, spec, t.withoutJob.Now, tables.JobMemory{})
	defer t.withoutJob.Cluster.EndBudget(t.withoutJob.Cluster.Budget())
	_, ok := t.withoutJob.Plan(place.Want{J: &j, G: gangWith(spec, t.role())})
	t.untried = t.untried || !ok && t.withoutJob.Cluster.Work().Over()
	return ok
}

// sizes looks for the most tasks, and for the largest tasks, that would start now.
func (t *suggester) sizes() {
	spec, role := t.j.Spec, t.role()
	r := &spec.Roles[role]
	if tasks := t.s.tasksOf(t.j, t.g, role); tasks > 1 && len(spec.Gangs[t.g].Tasks) > 1 {
		with := func(n int32) *model.Job { return model.WithTasks(spec, role, n) }
		if n, preempts, ok := t.largest(r.Tasks-1, with); ok {
			t.add(model.Suggestion{Kind: model.FewerTasks, Role: r.Name, Tasks: n}, preempts,
				"it would start with %s in role %s instead of %d",
				model.Plural(n, "task", "tasks"), r.Name, r.Tasks)
		}
	}
	if r.Leaves > 1 && !t.j.Gangs[t.g].Shape.NoSKUFits {
		with := func(n int32) *model.Job { return model.WithLeaves(spec, role, n) }
		if n, preempts, ok := t.largest(r.Leaves-1, with); ok {
			t.add(model.Suggestion{Kind: model.SmallerTasks, Role: r.Name, Leaves: n}, preempts,
				"it would start with %s per task in role %s instead of %s",
				t.s.AmountOf(r.SKUs, n), r.Name, t.s.AmountOf(r.SKUs, r.Leaves))
		}
	}
}

// tasksOf counts a gang's tasks of one role.
func (s *Explainer) tasksOf(j *tables.Job, g, role int32) (n int32) {
	for _, o := range j.Spec.Gangs[g].Tasks {
		if j.Tasks[o].Role == role {
			n++
		}
	}
	return n
}

// largest finds the largest size up to most with which the job starts. It first asks
// the placing code alone for the largest that finds cells. If that one does not start,
// it searches below: where not even size 1 starts, the order in the VC is the reason.
func (t *suggester) largest(most int32, with func(int32) *model.Job) (int32, []model.Displaced, bool) {
	n := int32(sort.Search(int(most), func(i int) bool { return !t.couldFit(with(int32(i) + 1)) }))
	if n == 0 {
		return 0, nil, false
	}
	if preempts, ok := t.tryInstead(with(n)); ok {
		return n, preempts, true
	}
	best, found := int32(0), []model.Displaced(nil)
	for low, high := int32(1), n-1; low <= high; {
		try := (low + high) / 2
		if low == 1 && best == 0 {
			try = 1
		}
		preempts, ok := t.tryInstead(with(try))
		if !ok {
			high = try - 1
			continue
		}
		best, found, low = try, preempts, try+1
	}
	return best, found, best > 0
}

// elsewhere tries the same job on other SKUs, in other VCs, without its guarantee and
// without its restriction to nodes.
func (t *suggester) elsewhere() {
	spec := t.j.Spec
	t.otherSKUs()
	pinned := slices.ContainsFunc(spec.Roles, func(r model.Role) bool { return r.Pinned != "" })
	tried := []cell.VCName{spec.VC}
	for i := int32(1); i < t.s.Cluster.NumSpaces() && !pinned; i++ {
		out := *spec
		if out.VC = t.s.Cluster.Space(i).Name; slices.Contains(tried, out.VC) {
			continue
		}
		if tried = append(tried, out.VC); len(tried) > othersMost {
			t.untried = true
			break
		}
		if preempts, ok := t.tryIfFits(&out); ok {
			t.add(model.Suggestion{Kind: model.AnotherVC, VC: out.VC}, preempts, "it would start in virtual cluster %s",
				out.VC)
		}
	}
	if spec.Priority >= cell.MinGuaranteed && !pinned {
		out := *spec
		out.Priority = cell.Opportunistic
		if preempts, ok := t.tryIfFits(&out); ok {
			t.add(model.Suggestion{Kind: model.AsBorrower}, preempts,
				"it would start as an opportunistic job, without a guarantee")
		}
	}
	if len(spec.AllowedNodes) > 0 || len(spec.AvoidedNodes) > 0 {
		out := *spec
		out.AllowedNodes, out.AvoidedNodes = nil, nil
		if preempts, ok := t.tryIfFits(&out); ok {
			t.add(model.Suggestion{Kind: model.AnyNode}, preempts, "it would start without its restriction to nodes")
		}
	}
}

// tryIfFits is instead, tried only for a job that could find cells.
func (t *suggester) tryIfFits(spec *model.Job) ([]model.Displaced, bool) {
	if !t.couldFit(spec) {
		return nil, false
	}
	return t.tryInstead(spec)
}

// otherSKUs tries every other SKU that carries at least what the gang's largest
// role asks for, and the same kind of device where that is known.
func (t *suggester) otherSKUs() {
	role := &t.j.Spec.Roles[t.role()]
	if len(role.SKUs) == 0 || role.Pinned != "" {
		return
	}
	var seen []cell.TypeName
	for _, ch := range t.s.Cluster.Forest().Chains {
		if slices.Contains(role.SKUs, ch.SKU) || slices.Contains(seen, ch.SKU) || !t.carries(ch.SKU, role) {
			continue
		}
		if seen = append(seen, ch.SKU); len(seen) > othersMost {
			t.untried = true
			return
		}
		out := *t.j.Spec
		out.Roles = slices.Clone(out.Roles)
		for i := range out.Roles {
			if slices.Equal(out.Roles[i].SKUs, role.SKUs) && t.carries(ch.SKU, &out.Roles[i]) {
				out.Roles[i].SKUs = []cell.TypeName{ch.SKU}
			}
		}
		if preempts, ok := t.tryIfFits(&out); ok {
			t.add(model.Suggestion{Kind: model.AnotherSKU, Role: role.Name, SKU: ch.SKU}, preempts,
				"it would start on SKU %s instead of %s", ch.SKU, tables.SKUText(role.SKUs))
		}
	}
}

// carries reports whether a SKU carries what a task of a role asks for, on the same kind of device
// as the role's first SKU if that is known.
func (t *suggester) carries(name cell.TypeName, r *model.Role) bool {
	sku, was := t.s.Cluster.SKU(name), t.s.Cluster.SKU(r.SKUs[0])
	known := was.Device != "" // not after the SKU was renamed in the configuration
	return (!known || sku.Device == was.Device && sku.Part == was.Part) && t.s.Covers(name, r)
}

// afterJobs looks for the fewest jobs with whose end the gang starts, the first to end by declared
// limits. If hardware is out of service and jobs of its own guarantee do not suffice, jobs of other
// virtual clusters are tried as well. It reports whether its own sufficed.
func (t *suggester) afterJobs() (found bool) {
	ids := t.endCandidates(false)
	if len(ids) > endsMost {
		ids, t.untried = ids[:endsMost], true
	}
	set, preempts := t.inOrder(nil, ids)
	if found = len(set) > 0; !found && t.s.Cluster.AnyBadOrUnknown() {
		if others := t.otherVCHolders(); len(others) > 0 {
			set, preempts = t.inOrder(nil, slices.Concat(ids, others))
		}
	}
	if len(set) > 0 {
		yet := slices.DeleteFunc(slices.Clone(set), func(id model.JobID) bool { return t.s.Phase(t.s.Find(id)) == model.Active })
		text := fmt.Sprintf("it would start when %s %s", t.s.jobList(t.j.Spec.User, set),
			verb(set, "ends", "have ended"))
		if len(yet) > 0 {
			text += fmt.Sprintf(" (not started yet: %s)", t.s.jobList(t.j.Spec.User, yet))
		}
		t.add(model.Suggestion{Kind: model.AfterJobs, Jobs: set}, preempts, "%s", text)
	}
	return found
}

// endCandidates returns jobs whose end may let the gang start: if its user is limited, first the
// user's jobs, with waiting also those ahead that wait; then the jobs that hold its cells.
func (t *suggester) endCandidates(waiting bool) []model.JobID {
	ids := t.s.endable(t.j, int(t.g))
	if t.s.UserLimits(t.j) == nil {
		return ids
	}
	own := slices.Clone(t.s.UserHas(t.j.Space, t.j.Spec.User).Jobs)
	for _, id := range t.s.order(t.j.Space) {
		if !waiting || id == t.j.ID || len(own) > endsMost {
			break
		}
		if t.s.Find(id).Spec.User == t.j.Spec.User {
			own = append(own, id)
		}
	}
	own = slices.DeleteFunc(own, func(id model.JobID) bool { return id == t.j.ID })
	return append(own, slices.DeleteFunc(ids, func(id model.JobID) bool { return slices.Contains(own, id) })...)
}

// withoutAhead looks for the fewest waiting jobs ahead of the gang without which it would start.
func (t *suggester) withoutAhead() {
	ids := t.s.order(t.s.Space(t.j.Spec.VC))
	ids = ids[:max(0, slices.Index(ids, t.j.ID))]
	if len(ids) > aheadMost {
		ids, t.untried = ids[:aheadMost], true
	}
	if set, preempts := t.inOrder(nil, ids); len(set) > 0 {
		t.add(model.Suggestion{Kind: model.WithoutAhead, Jobs: set}, preempts, "it would start if %s, ahead of it, %s withdrawn", t.s.jobList(t.j.Spec.User, set), verb(set, "were", "were all"))
	}
}

// inOrder finds the fewest jobs with whose end the gang starts, after some nodes were repaired. It
// must start when they end at one instant, and when they end one after the other in the order of
// the list. Jobs that take cells in between have to end as well, and are added.
func (t *suggester) inOrder(nodes []int32, ids []model.JobID) ([]model.JobID, []model.Displaced) {
	set, preempts := budget.Fewest(ids, func(ids ...model.JobID) ([]model.Displaced,
		bool) {
		return t.startsAfter(nodes, ids)
	})
	for range betweenMost {
		if len(set) < 2 {
			return set, preempts
		}
		took, ok := t.inTurn(nodes, set)
		if ok {
			return set, preempts
		}
		more := slices.DeleteFunc(took, func(id model.JobID) bool {
			o := t.s.Find(id)
			return o == nil || id == t.j.ID || slices.Contains(set, id) || !t.mayBlock(o)
		})
		if len(more) == 0 {
			break
		}
		set = slices.Concat(set, more)
		if preempts, ok = t.startsAfter(nodes, set); !ok {
			break
		}
	}
	return nil, nil
}

// betweenMost bounds how often inOrder adds jobs that start in between.
const betweenMost = 4

// inTurn reports whether the gang starts when jobs end one after the other, and which jobs took
// cells in between.
func (t *suggester) inTurn(nodes []int32, ids []model.JobID) (took []model.JobID, ok bool) {
	w := t.copyAfter(nodes, ids[:1])
	if w == nil {
		return nil, false
	}
	for i := range ids {
		if i > 0 {
			w.finish(ids[i])
		}
		if _, ok = w.starts(t.j.ID, t.g); ok {
			break
		}
		if w.endStopping(); w.Placed(t.j.ID, t.g) {
			ok = true
			break
		}
	}
	slices.Sort(w.gotCells)
	return slices.Compact(w.gotCells), t.uncut(w) && ok
}

// afterTime finds when the gang starts if nothing is changed: when a back-off or the
// suspicion of a node is over, or when running jobs end as they declare.
func (t *suggester) afterTime() {
	w := t.copy(t.s)
	if w == nil {
		return
	}
	f := Forecast{WhatIf: w, pace: Slow, MaxSteps: forwardMost, DeclaredOnly: true}
	if at, ok := f.run(t.j.ID, t.g); t.uncut(w) && ok {
		text := "it starts in at most %s"
		switch accepts := ifAccepted(&t.s.Tables, t.j, t.g); {
		case accepts != "" && !f.bases.Any():
			text = "it is tried again in at most %s, and starts if the node accepts it"
		case keptFromStarting(&t.s.Tables, t.j, t.g) && !f.bases.Any():
			text = "it is tried again in at most %s, and starts if what kept its last attempt from starting " +
				"is over"
		case f.bases.Only(model.BasisLimit):
			text += ", when running jobs reach their time limits"
		case f.bases.Any(): // a job may outrun its declared duration
			text = "it would start in about %s, if running jobs end as they declare"
		case f.ended > 0: // only stops
			text += ", when stopped jobs have had their grace period"
		}
		t.add(model.Suggestion{Kind: model.AfterTime, At: at}, nil, text, model.AtMostText(int64(at-t.s.Now)))
	}
}

// repairs looks for the fewest nodes that must be back in service for the gang to start: of those
// that it may use, else of all, since other jobs' cells could then be bound there. Where none
// suffice, both says to try whether jobs have to end as well.
func (t *suggester) repairs(both bool) {
	its := t.s.onlyNodes(t.j)
	nodes := t.s.badNodesFor(t.j, int(t.g), its).nodes
	set, preempts := budget.Fewest(nodes, t.startsRepaired)
	if len(set) == 0 && its != nil {
		nodes = t.s.badNodesFor(t.j, int(t.g), nil).nodes
		set, preempts = budget.Fewest(nodes, t.startsRepaired)
	}
	var jobs []model.JobID
	if len(set) == 0 && len(nodes) > 0 && both {
		set, jobs, preempts = t.repairsAndEnds(nodes)
	}
	if len(set) == 0 {
		return
	}
	g := model.Suggestion{Kind: model.HardwareFixed, Jobs: jobs}
	for _, n := range set {
		g.Nodes = append(g.Nodes, t.s.Cluster.Forest().Nodes[n].Name)
	}
	text := fmt.Sprintf("it would start if everything on %s were in service", model.NodesText(g.Nodes))
	if outOfService(t.s, set).onlyHeld() {
		text = "it would start if others held no devices of " + model.NodesText(g.Nodes)
	}
	if len(jobs) > 0 {
		text += fmt.Sprintf(" and %s had ended", t.s.jobList(t.j.Spec.User, jobs))
	}
	t.add(g, preempts, "%s", text)
}

// repairsAndEnds looks for the fewest jobs that have to end if all given nodes are back in service,
// and then for the fewest of these nodes.
func (t *suggester) repairsAndEnds(nodes []int32) ([]int32, []model.JobID, []model.Displaced) {
	ids := t.endCandidates(true)
	jobs, _ := t.inOrder(nodes, ids[:min(len(ids), endsMost)])
	if len(jobs) == 0 {
		return nil, nil, nil
	}
	set, preempts := budget.Fewest(nodes, func(nodes ...int32) ([]model.Displaced, bool) {
		if _, ok := t.inTurn(nodes, jobs); !ok {
			return nil, false
		}
		return t.startsAfter(nodes, jobs)
	})
	return set, jobs, preempts
}

// startsRepaired reports whether the gang starts when all hardware on some nodes is in service.
func (t *suggester) startsRepaired(nodes ...int32) ([]model.Displaced, bool) {
	return t.startsAfter(nodes, nil)
}

// startsAfter reports whether the gang starts when nodes are back in service and then jobs end, all
// at one instant, and which jobs give way.
func (t *suggester) startsAfter(nodes []int32, ids []model.JobID) ([]model.Displaced, bool) {
	w := t.copyAfter(nodes, ids)
	if w == nil {
		return nil, false
	}
	preempts, ok := w.starts(t.j.ID, t.g)
	return preempts, t.uncut(w) && ok
}

// copyAfter returns a copy on which nodes are back in service and jobs have ended, all at one
// instant; nil if the budget of copies is used up.
func (t *suggester) copyAfter(nodes []int32, ids []model.JobID) *WhatIf {
	w := t.copy(t.s)
	if w == nil {
		return nil
	}
	for _, n := range nodes {
		w.repair(w.Cluster.Forest().Nodes[n].Name)
	}
	for _, id := range ids {
		w.finish(id)
	}
	return w
}
