package explain

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// maxNamed bounds how many jobs or nodes a reason names. It says how many more there are.
const maxNamed = 10

// firstNamed cuts a list to maxNamed entries and returns how many were left out. With s.NameAll it
// leaves out none, since all that a reason names is then tried.
func firstNamed[T any](s *Explainer, all []T) ([]T, int) {
	if s.NameAll || len(all) <= maxNamed {
		return slices.Clone(all), 0
	}
	return slices.Clone(all[:maxNamed]), len(all) - maxNamed
}

// shortReason cuts the jobs and nodes of a reason as firstNamed does.
func shortReason(s *Explainer, r model.Reason) model.Reason {
	if more := len(r.Jobs) - maxNamed; more > 0 && !s.NameAll {
		r.Jobs, r.More = slices.Clone(r.Jobs[:maxNamed]), r.More+more
	}
	if more := len(r.Nodes) - maxNamed; more > 0 && !s.NameAll {
		r.Nodes, r.MoreNodes = slices.Clone(r.Nodes[:maxNamed]), r.MoreNodes+more
	}
	return r
}

// jobsText is a text of the first maxNamed jobs, as a reader calls them, and of how many more there
// are: those of ids that are left out, and more.
func jobsText(s *Explainer, reader model.Subject, ids []model.JobID, more int) string {
	if len(ids) == 0 {
		return "no job"
	}
	var out []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		out = append(out, s.nameTo(reader, id))
	}
	if more += len(ids) - len(out); more > 0 {
		return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(out, ", ")
}

// firstNodesText is a text of the first maxNamed nodes and of how many more there are.
func firstNodesText(nodes []cell.NodeName) string {
	if more := len(nodes) - maxNamed; more > 0 {
		return model.NodesText(nodes[:maxNamed]) + fmt.Sprintf(" and %d more", more)
	}
	return model.NodesText(nodes)
}

// aheadOf returns the waiting jobs of the VC that are served before one. A job of which only
// members above the minimum wait has no place in the order: all jobs of at least its priority are
// ahead.
func aheadOf(s *Explainer, j *tables.Job) []model.JobID {
	order := s.order(s.Space(j.Spec.VC))
	n := int(s.Orders.position[j.ID]) - 1
	if n < 0 {
		n = sort.Search(len(order), func(i int) bool { return s.Find(order[i]).Spec.Priority < j.Spec.Priority })
	}
	return order[:n]
}

// union returns the jobs of a, and then those of b that are not in a.
func union(a, b []model.JobID) []model.JobID {
	out := slices.Clone(a)
	seen := map[model.JobID]bool{}
	for _, id := range a {
		seen[id] = true
	}
	for _, id := range b {
		if !seen[id] {
			seen[id], out = true, append(out, id)
		}
	}
	return out
}

const (
	besidesMost  = 8   // rounds in which a missing obstacle is looked for
	firstMost    = 4   // rounds in which jobs are looked for that would take the cells first
	otherVCsMost = 8   // jobs of other virtual clusters whose end is tried
	aloneMost    = 32  // jobs whose end is tried, each alone
	behindMost   = 12  // of these, jobs that wait behind it, or in one other virtual cluster
	namedMost    = 100 // jobs and nodes that are removed in one try
)

// completeReason checks that a reason is complete: on a copy it removes all jobs and nodes that the
// page names, at one instant and one after the other. If the gang still does not start it adds to
// the reason what is missing: jobs that would take the cells first, hardware out of service or work
// of other virtual clusters where the VC's cells could be bound, or what the gang would wait for
// then. alone are the jobs that are named since the end of each alone would start the gang.
func (t *suggester) completeReason(r *model.Reason, ahead, alone []model.JobID) {
	switch {
	case independentReason(r) || slices.Contains(r.Jobs, t.j.ID): // it waits for its own job
		return
	case t.j.Spec.Gangs[t.g].Extra || r.Code == model.HeldUnknown && t.j.Gangs[t.g].Attempt != tables.None:
		return
	}
	was := t.untried
	if len(r.Nodes) > 0 && len(r.Jobs) == 0 { // the reason says that these nodes suffice
		if first, ok := t.startsWithout(t.namedNodes(r), nil); ok && len(first) > 0 {
			r.Message += "; " + t.s.jobList(t.j.Spec.User, first) + " would get that room first"
			r.Jobs = append(r.Jobs, first...)
		}
	}
	for range besidesMost { // what is added now may let other jobs start before the gang
		nodes, jobs := t.named(r, ahead, alone)
		if len(nodes)+len(jobs) > namedMost {
			return // that would cost too much
		}
		had := len(r.Message)
		first, ok := t.startsWithout(nodes, jobs)
		if !ok && t.untried == was {
			more, found := t.addMissing(r, nodes, union(jobs, first))
			if first, ok = union(first, more), found; !ok {
				ok = t.withoutNamed(r, nodes, union(jobs, first), false)
			}
		}
		if len(first) > 0 {
			r.Message += "; " + t.s.jobList(t.j.Spec.User, first) + " would get that room first"
			r.Jobs = union(r.Jobs, first)
		}
		if ok && t.untried == was && len(r.Message) == had && len(r.Besides) == 0 {
			ok = t.withoutNamed(r, nodes, jobs, true)
		}
		switch {
		case t.untried != was || ok && (len(r.Message) == had || len(r.Besides) > 0):
			return
		case !ok:
			r.Message += "; more keeps it waiting than is named here"
			return
		}
	}
}

// independentReason reports whether a gang waits for something else than other jobs and nodes, such
// as a hold or a back-off.
func independentReason(r *model.Reason) bool {
	switch r.Code {
	case model.NeverFits, model.QuotaExceeded, model.QuarantinedJob, model.OnHold, model.BackOff, model.NotYetDecided:
		return true
	case model.HeldBack:
		return len(r.Nodes)+len(r.Jobs) == 0
	}
	return false
}

// namedNodes returns the numbers of the nodes that a reason names.
func (t *suggester) namedNodes(r *model.Reason) (nodes []int32) {
	for _, n := range r.Nodes {
		nodes = append(nodes, t.s.Cluster.Forest().NodeIndex(n))
	}
	return nodes
}

// named returns all nodes and jobs that the page of a job names: what keeps the gang waiting, as
// far as it is known.
func (t *suggester) named(r *model.Reason, ahead, alone []model.JobID) (nodes []int32, jobs []model.JobID) {
	jobs = slices.Concat(r.Jobs, inTheWay(t.s, t.j, int(t.g), r), ahead, alone)
	slices.Sort(jobs)
	return t.namedNodes(r), slices.Compact(jobs)
}

// oneByOne is the order in which jobs are removed one after the other: those that wait, then those
// that run, by number.
func oneByOne(s *status.Status, ids []model.JobID) []model.JobID {
	waits := func(id model.JobID) int { return map[bool]int{true: 0, false: 1}[s.Phase(s.Find(id)) == model.Waiting] }
	out := slices.Sorted(slices.Values(ids))
	slices.SortStableFunc(out, func(a, b model.JobID) int { return waits(a) - waits(b) })
	return out
}

// withoutNamed removes all that is named and adds to the reason what the gang waits for then. It
// reports whether the gang starts or something was added. With turns jobs are removed one after the
// other, else at one instant.
func (t *suggester) withoutNamed(r *model.Reason, nodes []int32, jobs []model.JobID, turns bool) bool {
	all := []model.JobID{}
	if !turns {
		all = jobs
	}
	w := t.copyAfter(nodes, all)
	if w == nil {
		return false
	}
	w.NameAll = true
	settle := func() bool {
		_, ok := w.starts(t.j.ID, t.g)
		if !ok {
			w.endStopping()
			ok = t.anyPlaced(w)
		}
		return ok
	}
	ok := settle()
	if turns {
		for _, id := range oneByOne(&t.s.Status, jobs) {
			if ok {
				break
			}
			w.finish(id)
			ok = settle()
		}
	}
	if ok = ok || t.anyPlaced(w); !t.uncut(w) || ok {
		return ok
	}
	return t.addRemaining(r, w, nodes, jobs, turns)
}

// anyPlaced reports whether a gang of the job that waits has its cells on a copy.
func (t *suggester) anyPlaced(w *WhatIf) bool {
	for g := range t.j.Gangs {
		if t.j.Gangs[g].Attempt == tables.None && w.Placed(t.j.ID, int32(g)) {
			return true
		}
	}
	return false
}

// addRemaining adds to a reason what the gang waits for on a copy from which all that is named was
// removed, at one instant or in turns. It reports whether there was something to add, or the next
// decision starts the gang.
func (t *suggester) addRemaining(r *model.Reason, w *WhatIf, nodes []int32, jobs []model.JobID, turns bool) bool {
	j := w.Find(t.j.ID)
	if j == nil || int(t.g) >= len(j.Gangs) || !j.Gangs[t.g].Waiting {
		return false
	}
	why := w.Reason(j, t.g)
	var ills []int32
	for _, n := range why.Nodes {
		if i := t.s.Cluster.Forest().NodeIndex(n); i != cell.None && !slices.Contains(nodes, i) {
			ills = append(ills, i)
			r.Nodes = append(r.Nodes, n)
		}
	}
	var first, others []model.JobID
	for _, id := range union(why.Jobs, inTheWay(w.Explainer, j, int(t.g), &why)) {
		switch {
		case id == t.j.ID || t.s.Find(id) == nil || slices.Contains(jobs, id):
		case slices.Contains(w.gotCells, id):
			first = append(first, id)
		default:
			others = append(others, id)
		}
	}
	r.Jobs = union(r.Jobs, slices.Concat(first, others))
	reader := t.j.Spec.User
	if len(ills) > 0 {
		r.Message += "; besides, " + outOfService(t.s, ills).become("must be repaired", "must be in service")
	}
	switch {
	case len(others) > 0 && why.Code == model.HeldUnknown:
		r.Message += "; besides, contact is lost with tasks of " + t.s.jobList(reader, others)
	case len(others) > 0:
		r.Message += "; besides, " + t.s.jobList(reader, others) + " must end"
	}
	switch {
	case len(first) > 0 && turns:
		r.Message += "; " + t.s.jobList(reader, first) + " may start first, where these end one by one"
	case len(first) > 0:
		r.Message += "; " + t.s.jobList(reader, first) + " would get that room first"
	}
	if len(ills)+len(first)+len(others) > 0 {
		return true
	}
	if why.Code == model.NotYetDecided { // the next decision starts it
		return true
	}
	if independentReason(&why) || why.Code == model.NotLent {
		r.Besides = append(r.Besides, why.Code)
		text := strings.TrimPrefix(strings.TrimPrefix(why.Message, "it would fit, but "), "it would fit apart, but ")
		if text, _, _ = strings.Cut(text, ": it starts"); !strings.Contains(r.Message, text) {
			r.Message += "; besides, " + text
		}
		return true
	}
	return false
}

// addMissing adds to a reason the nodes that must be in service as well, or the jobs of other
// virtual clusters that must end, or both where neither suffices. It returns the jobs that would
// take the cells first even then.
func (t *suggester) addMissing(r *model.Reason, nodes []int32, jobs []model.JobID) (first []model.JobID, ok bool) {
	bad, others := t.s.badNodesFor(t.j, int(t.g), nil).nodes, t.otherVCHolders()
	bad = slices.DeleteFunc(bad, func(n int32) bool { return slices.Contains(nodes, n) })
	others = slices.DeleteFunc(others, func(id model.JobID) bool { return slices.Contains(jobs, id) })
	mended := func(more ...int32) ([]model.JobID, bool) { return t.startsWithout(slices.Concat(nodes, more), jobs) }
	ended := func(more ...model.JobID) ([]model.JobID, bool) {
		return t.startsWithout(nodes, slices.Concat(jobs, more))
	}
	set, first := budget.Fewest(bad, mended)
	ends, after := budget.Fewest(others, ended)
	word := " or "
	switch {
	case len(set)+len(ends) == 0:
		word = " and "
		all := slices.Concat(jobs, others)
		both := func(more ...int32) ([]model.JobID, bool) { return t.startsWithout(slices.Concat(nodes, more), all) }
		if set, first = budget.Fewest(bad, both); len(set) > 0 {
			some := slices.Concat(nodes, set)
			ends, first = budget.Fewest(others, func(more ...model.JobID) ([]model.JobID,
				bool) {
				return t.startsWithout(some, slices.Concat(jobs, more))
			})
		}
		if len(ends) == 0 {
			return nil, false
		}
	case len(set) == 0:
		first = after
	case len(ends) > 0: // either suffices, and both together must, since the page names both
		if first, ok = t.startsWithout(slices.Concat(nodes, set), slices.Concat(jobs, ends)); !ok {
			ends = nil
			first, _ = mended(set...)
		}
	}
	text := ""
	if len(set) > 0 {
		text = outOfService(t.s, set).become("must be repaired", "must be in service")
		for _, n := range set {
			r.Nodes = append(r.Nodes, t.s.Cluster.Forest().Nodes[n].Name)
		}
	}
	if len(ends) > 0 {
		if text != "" {
			text += word
		}
		text += t.s.jobList(t.j.Spec.User, ends) + " must end"
		r.Jobs = append(r.Jobs, ends...)
	}
	r.Message += "; besides, " + text
	return first, true
}

// startsWithout reports whether the gang starts when nodes are in service and jobs have ended. Jobs
// that take the cells before it are removed as well, and are returned.
func (t *suggester) startsWithout(nodes []int32, jobs []model.JobID) (first []model.JobID, ok bool) {
	for range firstMost {
		w := t.copyAfter(nodes, slices.Concat(jobs, first))
		if w == nil {
			return first, false
		}
		_, ok = w.starts(t.j.ID, t.g)
		if ok = t.uncut(w) && ok; ok {
			return first, true
		}
		had := len(first)
		for _, id := range w.gotCells {
			if o := t.s.Find(id); o != nil && id != t.j.ID && t.mayBlock(o) && !slices.Contains(first, id) {
				first = append(first, id)
			}
		}
		if len(first) == had {
			break
		}
	}
	return first, false
}

// mayBlock reports whether this gang cannot have the cells of another job by its guarantee: it is
// opportunistic, or both are guaranteed.
func (t *suggester) mayBlock(o *tables.Job) bool {
	return t.j.Spec.Priority < cell.MinGuaranteed || o.Spec.Priority >= cell.MinGuaranteed
}

// otherVCHolders returns guaranteed jobs of other virtual clusters that run where the gang could,
// at most otherVCsMost.
func (t *suggester) otherVCHolders() (out []model.JobID) {
	for i := range t.s.Attempts {
		a := &t.s.Attempts[i]
		if a.Job == tables.None || a.State == model.AttemptReserving || len(out) == otherVCsMost {
			continue
		}
		al := t.s.Cluster.Alloc(a.Alloc)
		if al.Space != t.j.Space && !al.Opportunistic() && !slices.Contains(out, a.ID.Job) &&
			t.s.onUsableChain(t.j, int(t.g), a) {
			out = append(out, a.ID.Job)
		}
	}
	return out
}

// sufficingAlone returns jobs that the page does not name, of which each would let the gang start
// if it sufficingAlone ended. There are such jobs where hardware is out of service, since cells may
// be bound in many ways, and where a job behind the gang may keep it waiting, as with backfill.
func (t *suggester) sufficingAlone(r *model.Reason, ahead []model.JobID) (out []model.JobID) {
	if independentReason(r) || t.j.Spec.Gangs[t.g].Extra {
		return nil
	}
	_, named := t.named(r, ahead, nil)
	list := t.aloneCandidates(r, named)
	if len(list) == 0 {
		return nil
	}
	starts := func(ids ...model.JobID) bool {
		w := t.copyAfter(nil, ids)
		if w == nil {
			return false
		}
		_, ok := w.starts(t.j.ID, t.g)
		ok = ok || t.anyPlaced(w)
		return t.uncut(w) && ok
	}
	if starts() {
		return nil
	}
	for _, id := range list[:min(len(list), aloneMost)] {
		if starts(id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// aloneCandidates lists the jobs for alone to try, without those that are named: the first that
// wait behind the gang, unless only those ahead can keep it waiting; those that run where it could,
// if hardware is out of service or cells are promised to it; and if bad hardware is charged to VCs
// (doomed), those that wait in other virtual clusters with few waiting jobs.
func (t *suggester) aloneCandidates(r *model.Reason, named []model.JobID) (out []model.JobID) {
	s, seen := t.s, map[model.JobID]bool{t.j.ID: true}
	for _, id := range named {
		seen[id] = true
	}
	add := func(id model.JobID) {
		if !seen[id] {
			seen[id], out = true, append(out, id)
		}
	}
	if space := t.j.Space; space > 0 && (!state.OrdersAhead(&s.Tables, space) || s.VC(space).Backfill != "") {
		order := s.order(space)
		behind := order[min(len(order), len(aheadOf(s, t.j))):]
		for _, id := range behind[:min(len(behind), behindMost)] {
			add(id)
		}
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if (s.Cluster.AnyBadOrUnknown() || r.Code == model.WaitingPreemption) && a.Job != tables.None &&
			s.onUsableChain(t.j, int(t.g), a) {
			add(a.ID.Job)
		}
	}
	for space := int32(1); space < s.Cluster.NumSpaces() && s.Cluster.NumCharges() > 0; space++ {
		if order := s.order(space); space != t.j.Space && len(order) <= behindMost {
			for _, id := range order {
				add(id)
			}
		}
	}
	return out
}

// holdersFor returns the jobs that hold or were promised cells which the job could use
// at its priority, in order of id: those of its own VC, and those of other VCs on the only
// nodes that it may use. If jobs hold leaves of these nodes and its VC has cells to bind
// there, jobs of the VC on other nodes are left out: they are not in its way.
func (s *Explainer) holdersFor(j *tables.Job, g int) (h shapeHolders) {
	all := allHolders(s, j, g)
	h.Own, h.MoreOwn = firstNamed(s, all.Own)
	h.Others, h.MoreOthers = firstNamed(s, all.Others)
	return h
}

// allHolders is holdersFor without a bound on the number; its result is kept for the shape.
func allHolders(s *Explainer, j *tables.Job, g int) shapeHolders {
	r, key := reasonCacheOf(s), fitKeyOf(j, g)
	all, ok := r.holders[key]
	if !ok {
		all.Own, all.Others = holdersNow(s, j, g)
		r.holders[key] = all
	}
	return all
}

// holdersNow finds the jobs for allHolders.
func holdersNow(s *Explainer, j *tables.Job, g int) (own, others []model.JobID) {
	space, opportunistic := s.Space(j.Spec.VC), j.Spec.Priority < cell.MinGuaranteed
	its := s.onlyNodes(j)
	var elsewhere []model.JobID
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None {
			continue
		}
		al := s.Cluster.Alloc(a.Alloc)
		switch same := al.Opportunistic() == opportunistic; {
		case s.holdsOn(j, g, a, its) && (same || opportunistic):
			if al.Space == space {
				own = append(own, a.ID.Job)
			} else {
				others = append(others, a.ID.Job)
			}
		case same && al.Space == space && s.onUsableChain(j, g, a):
			elsewhere = append(elsewhere, a.ID.Job)
		}
	}
	if len(own)+len(others) == 0 || !opportunistic && !s.couldBindOn(j, g, its) {
		own = append(own, elsewhere...)
	}
	slices.Sort(own)
	slices.Sort(others)
	return slices.Compact(own), slices.Compact(others)
}

// onlyNodes are the only nodes that a job may use, nil if all.
func (s *Explainer) onlyNodes(j *tables.Job) cell.NodeSet {
	if !j.Spec.Restricted() {
		return nil
	}
	return s.AllowedNodes(j.Spec)
}

// holdsOn reports whether an attempt holds leaves that a gang could use on given nodes; false for
// nil.
func (s *Explainer) holdsOn(j *tables.Job, g int, a *tables.Attempt, its cell.NodeSet) bool {
	f := s.Cluster.Forest()
	return its != nil && slices.ContainsFunc(s.Cluster.Alloc(a.Alloc).Placement.Tasks, func(t cell.Task) bool {
		if len(t.Leaves) == 0 || !its.Has(f.NodeIndex(t.Node)) {
			return false
		}
		at := f.Leaves[t.Leaves[0]]
		return s.UsableChain(j, g, f.Cells[at].Chain) && !s.PinnedAway(j, g, at)
	})
}

// couldBindOn reports whether a gang fits, by the number of leaves, the cells of its VC that are
// not bound yet or are bound at given nodes.
func (s *Explainer) couldBindOn(j *tables.Job, g int, its cell.NodeSet) bool {
	f := s.Cluster.Forest()
	var around []cell.CellID
	for i := range f.Nodes {
		if its.Has(int32(i)) {
			around = append(around, f.Nodes[i].Cells...)
		}
	}
	var n int32
	sp := s.Cluster.Space(s.Space(j.Spec.VC))
	for i := range sp.Roots {
		r := &sp.Roots[i]
		near := r.Cell == cell.None || slices.ContainsFunc(around,
			func(c cell.CellID) bool { return f.Contains(c, r.Cell) || f.Contains(r.Cell, c) })
		if near && s.UsableChain(j, g, r.Chain) && s.RootServes(j, g, r) {
			n += f.Chains[r.Chain].LeavesAt(r.Level)
		}
	}
	return n >= j.Gangs[g].Leaves
}

// endable returns the jobs whose end could free cells for a gang: those that hold cells of the same
// VC's guarantee or of the only nodes that the gang may use, and those that drain from such cells.
// For an opportunistic gang they are all that hold cells which it could use. The first to end comes
// first; jobs without a limit come last, by id.
func (s *Explainer) endable(j *tables.Job, g int) []model.JobID {
	return s.endableWithout(j, g, s.Slots.Of(j.ID))
}

// endableWithout is endable without the job in a slot; tables.None leaves out no job.
func (s *Explainer) endableWithout(j *tables.Job, g int, own int32) []model.JobID {
	type holder struct {
		id   model.JobID
		ends model.Time
	}
	space := s.Space(j.Spec.VC)
	guaranteed := j.Spec.Priority >= cell.MinGuaranteed
	its := s.onlyNodes(j)
	var all []holder
	at := map[model.JobID]int{}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.Job == own || a.State == model.AttemptReserving {
			continue
		}
		al := s.Cluster.Alloc(a.Alloc)
		beside := guaranteed && (al.Opportunistic() && !s.StandsBefore(a, j, g) || al.Space != space &&
			!s.holdsOn(j, g, a, its)) && a.State != model.AttemptUnknown
		if (beside || !s.onUsableChain(j, g, a)) && !s.drainsFor(j, g, a, its) {
			continue
		}
		ends := s.SpanOf(a, nil, 0).Late
		if ends == 0 {
			ends = 1<<63 - 1
		}
		k, known := at[a.ID.Job]
		if !known {
			k, at[a.ID.Job] = len(all), len(all)
			all = append(all, holder{id: a.ID.Job})
		}
		all[k].ends = max(all[k].ends, ends)
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Or(cmp.Compare(x.ends, y.ends), cmp.Compare(x.id, y.id)) })
	out := make([]model.JobID, len(all))
	for i := range all {
		out[i] = all[i].id
	}
	return out
}

// onUsableChain reports whether an attempt holds leaves of a chain that a gang could use. For
// guaranteed work of the gang's own VC these must be in the pinned cell that the gang asks for, or
// in none if it asks for none.
func (s *Explainer) onUsableChain(j *tables.Job, g int, a *tables.Attempt) bool {
	f := s.Cluster.Forest()
	al := s.Cluster.Alloc(a.Alloc)
	own := j.Spec.Priority >= cell.MinGuaranteed && !al.Opportunistic() && al.Space == s.Space(j.Spec.VC)
	for _, t := range al.Placement.Tasks {
		if len(t.Leaves) == 0 {
			continue
		}
		at := f.Leaves[t.Leaves[0]]
		if s.UsableChain(j, g, f.Cells[at].Chain) && (!own || s.PinServes(j, g, s.pinAround(at, al.Space))) {
			return true
		}
	}
	return false
}
