package sched

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/combsched/comb/internal/cell"
)

// Bounds on how many changes are tried for one explanation: each costs a copy of
// the state and one or two decisions.
const (
	triesMost   = 24  // changes of the job
	endsMost    = 16  // jobs that might end
	aheadMost   = 8   // jobs that stand before it
	mendMost    = 16  // nodes at fault
	othersMost  = 8   // other SKUs, other VCs
	forwardMost = 100 // steps until declared ends let it start
)

// suggester looks for changes that would let one gang start.
type suggester struct {
	s    *State // as it is; only read
	base *State // the same after the job was withdrawn
	j    *job
	g    int32
	left int // tries
	out  []Suggestion
	cut  bool // something was left untried
}

// suggest tries one change after the other by deciding on a copy of the state.
// What it returns was seen to work.
func (s *State) suggest(j *job, g int32, why ReasonCode) ([]Suggestion, bool) {
	gg := &j.gangs[g]
	if j.quarantined || j.stop || gg.attempt != none && s.attempts[gg.attempt].state == AttemptUnknown {
		return nil, false
	}
	t := &suggester{s: s, j: j, g: g}
	if s.phase(j) == Waiting && !j.spec.Gangs[g].Extra && why != BackOff {
		w := s.whatIf()
		w.finish(j.id)
		w.decide()
		t.base, t.left = w.State, triesMost
		t.sizes()
		t.elsewhere()
	}
	switch why {
	case NeverFits, QuotaExceeded:
	case BackOff:
		t.afterTime()
	default:
		// Who is promised cells starts when his victims have left: no change helps him to that.
		_, anyway := t.without()
		if !anyway {
			t.afterJobs()
			t.withoutAhead()
		}
		t.afterTime()
		if !anyway {
			t.mended()
		}
	}
	return t.out, t.cut
}

// add keeps a change that worked.
func (t *suggester) add(g Suggestion, preempts []Displaced, format string, a ...any) {
	g.Message = fmt.Sprintf(format, a...)
	for _, d := range preempts {
		g.Preempts = append(g.Preempts, d.Job)
	}
	if len(preempts) > 0 {
		g.Message += fmt.Sprintf(", once it has taken the cells of %s", t.s.jobList(g.Preempts))
	}
	t.out = append(t.out, g)
}

// instead submits another job in place of this one and says whether the same part
// of it starts.
func (t *suggester) instead(spec *Job) ([]Displaced, bool) {
	if t.left--; t.left < 0 {
		t.cut = true
		return nil, false
	}
	w := &whatIf{t.base.Clone(), t.base.now}
	events, ans, no := w.Check(Submit{Job: spec}, w.at)
	if no != nil {
		return nil, false
	}
	w.tell(events...)
	return w.starts(ans.Job, gangWith(spec, t.role()))
}

// role is the largest role of the gang: the one whose size matters most.
func (t *suggester) role() int32 {
	best, most := int32(0), int64(-1)
	var tasks int32
	for i, o := range t.j.spec.Gangs[t.g].Tasks {
		r := t.j.tasks[o].role
		if i == 0 || r != t.j.tasks[t.j.spec.Gangs[t.g].Tasks[i-1]].role {
			tasks = 0
		}
		tasks++
		if n := int64(tasks) * int64(t.j.spec.Roles[r].Leaves); n > most {
			best, most = r, n
		}
	}
	return best
}

// gangWith returns the first gang that has a task of a role.
func gangWith(spec *Job, role int32) int32 {
	var first int32
	for _, r := range spec.Roles[:role] {
		first += r.Tasks
	}
	return int32(max(0, slices.IndexFunc(spec.Gangs, func(g Gang) bool {
		return slices.ContainsFunc(g.Tasks, func(o int32) bool { return o >= first && o < first+spec.Roles[role].Tasks })
	})))
}

// couldFit asks the placing code alone whether a job would find cells, with
// preemption but without those before it: no means that trying it is in vain.
func (t *suggester) couldFit(spec *Job) bool {
	j := t.base.newJob(t.base.nextJob, spec, t.base.now, room{})
	_, ok := t.base.plan(&j, int(gangWith(spec, t.role())), nil)
	return ok
}

// sizes looks for the most tasks, and for the largest tasks, that would start now.
func (t *suggester) sizes() {
	spec, role := t.j.spec, t.role()
	r := &spec.Roles[role]
	if tasks := t.s.tasksOf(t.j, t.g, role); tasks > 1 && len(spec.Gangs[t.g].Tasks) > 1 {
		with := func(n int32) *Job { return withTasks(spec, role, n) }
		if n, preempts, ok := t.largest(r.Tasks-1, with); ok {
			t.add(Suggestion{Kind: FewerTasks, Role: r.Name, Tasks: n}, preempts, "it would start with %s in role %s instead of %d",
				plural(n, "task", "tasks"), r.Name, r.Tasks)
		}
	}
	if r.Leaves > 1 && !t.j.gangs[t.g].shape.short {
		with := func(n int32) *Job { return withLeaves(spec, role, n) }
		if n, preempts, ok := t.largest(r.Leaves-1, with); ok {
			t.add(Suggestion{Kind: SmallerTasks, Role: r.Name, Leaves: n}, preempts, "it would start with %s per task in role %s instead of %d",
				plural(n, "leaf", "leaves"), r.Name, r.Leaves)
		}
	}
}

// tasksOf counts a gang's tasks of one role.
func (s *State) tasksOf(j *job, g, role int32) (n int32) {
	for _, o := range j.spec.Gangs[g].Tasks {
		if j.tasks[o].role == role {
			n++
		}
	}
	return n
}

// largest finds the largest size up to most that starts. The placing code alone
// is asked for it first; where the order in the VC stands in the way even of the
// smallest, nothing starts.
func (t *suggester) largest(most int32, with func(int32) *Job) (int32, []Displaced, bool) {
	n := int32(sort.Search(int(most), func(i int) bool { return !t.couldFit(with(int32(i) + 1)) }))
	if n == 0 {
		return 0, nil, false
	}
	if preempts, ok := t.instead(with(n)); ok {
		return n, preempts, true
	}
	best, found := int32(0), []Displaced(nil)
	for low, high := int32(1), n-1; low <= high; {
		try := (low + high) / 2
		if low == 1 && best == 0 {
			try = 1
		}
		preempts, ok := t.instead(with(try))
		if !ok {
			high = try - 1
			continue
		}
		best, found, low = try, preempts, try+1
	}
	return best, found, best > 0
}

// withTasks is a job with fewer tasks in one role: the last ones are left out.
func withTasks(spec *Job, role, n int32) *Job {
	out := *spec
	out.Roles = slices.Clone(spec.Roles)
	out.Roles[role].Tasks = n
	out.Roles[role].MinFailed = min(out.Roles[role].MinFailed, n)
	out.Roles[role].MinSucceeded = min(out.Roles[role].MinSucceeded, n)
	var first int32
	for _, r := range spec.Roles[:role] {
		first += r.Tasks
	}
	gone := spec.Roles[role].Tasks - n
	out.Gangs = nil
	for _, g := range spec.Gangs {
		kept := g
		kept.Tasks = nil
		for _, o := range g.Tasks {
			switch {
			case o < first+n:
				kept.Tasks = append(kept.Tasks, o)
			case o >= first+n+gone:
				kept.Tasks = append(kept.Tasks, o-gone)
			}
		}
		if len(kept.Tasks) > 0 {
			out.Gangs = append(out.Gangs, kept)
		}
	}
	return &out
}

// withLeaves is a job with smaller tasks in one role: each asks for what its leaves carry.
func withLeaves(spec *Job, role, n int32) *Job {
	out := *spec
	out.Roles = slices.Clone(spec.Roles)
	out.Roles[role].Leaves = n
	l := &out.Roles[role].Launch
	l.GPU, l.MilliCPU, l.MemoryMB = 0, 0, 0
	return &out
}

// elsewhere tries the same job on other hardware, in other VCs, without its
// guarantee and without its restrictions.
func (t *suggester) elsewhere() {
	spec := t.j.spec
	t.otherSKUs()
	pinned := slices.ContainsFunc(spec.Roles, func(r Role) bool { return r.Pinned != "" })
	tried := []cell.VCName{spec.VC}
	for i := int32(1); i < t.s.cl.NumSpaces() && !pinned; i++ {
		out := *spec
		if out.VC = t.s.cl.Space(i).Name; slices.Contains(tried, out.VC) {
			continue
		}
		if tried = append(tried, out.VC); len(tried) > othersMost {
			t.cut = true
			break
		}
		if preempts, ok := t.ifFits(&out); ok {
			t.add(Suggestion{Kind: AnotherVC, VC: out.VC}, preempts, "it would start in virtual cluster %s", out.VC)
		}
	}
	if spec.Priority >= cell.MinGuaranteed && !pinned {
		out := *spec
		out.Priority = cell.Opportunistic
		if preempts, ok := t.ifFits(&out); ok {
			t.add(Suggestion{Kind: AsBorrower}, preempts, "it would start as an opportunistic job, which may be stopped at any time")
		}
	}
	if len(spec.AllowedNodes) > 0 || len(spec.AvoidedNodes) > 0 {
		out := *spec
		out.AllowedNodes, out.AvoidedNodes = nil, nil
		if preempts, ok := t.ifFits(&out); ok {
			t.add(Suggestion{Kind: AnyNode}, preempts, "it would start without its restriction to nodes")
		}
	}
}

func (t *suggester) ifFits(spec *Job) ([]Displaced, bool) {
	if !t.couldFit(spec) {
		return nil, false
	}
	return t.instead(spec)
}

// otherSKUs tries every other SKU that carries at least what the gang's largest
// role asks for, and the same kind of device where that is known.
func (t *suggester) otherSKUs() {
	role := &t.j.spec.Roles[t.role()]
	if len(role.SKUs) == 0 || role.Pinned != "" {
		return
	}
	var seen []cell.TypeName
	for _, ch := range t.s.cl.Forest().Chains {
		if slices.Contains(role.SKUs, ch.SKU) || slices.Contains(seen, ch.SKU) || !t.carries(ch.SKU, role) {
			continue
		}
		if seen = append(seen, ch.SKU); len(seen) > othersMost {
			t.cut = true
			return
		}
		out := *t.j.spec
		out.Roles = slices.Clone(out.Roles)
		for i := range out.Roles {
			if slices.Equal(out.Roles[i].SKUs, role.SKUs) && t.carries(ch.SKU, &out.Roles[i]) {
				out.Roles[i].SKUs = []cell.TypeName{ch.SKU}
			}
		}
		if preempts, ok := t.ifFits(&out); ok {
			t.add(Suggestion{Kind: AnotherSKU, Role: role.Name, SKU: ch.SKU}, preempts, "it would start on SKU %s instead of %s", ch.SKU, skuText(role.SKUs))
		}
	}
}

func (t *suggester) carries(name cell.TypeName, r *Role) bool {
	sku, was := t.s.cl.SKU(name), t.s.cl.SKU(r.SKUs[0])
	known := was.Device != "" // a configuration may have given it another name: what the tasks ask for is left
	return (!known || sku.Device == was.Device && sku.Part == was.Part) && t.s.covers(name, r)
}

// afterJobs looks for the jobs that have to end: the first ones by their declared
// limits that suffice, and of them only those that are needed.
func (t *suggester) afterJobs() {
	ids := t.s.endable(t.j, int(t.g))
	if len(ids) > endsMost {
		ids, t.cut = ids[:endsMost], true
	}
	if set, preempts := t.fewest(ids); len(set) > 0 {
		t.addAfter(preempts, set...)
	}
}

// fewest returns the jobs of a list without which the gang starts: of the
// shortest beginning that suffices, those that are needed.
func (t *suggester) fewest(ids []JobID) ([]JobID, []Displaced) {
	if _, ok := t.without(ids...); !ok || len(ids) == 0 {
		return nil, nil
	}
	n := sort.Search(len(ids)-1, func(i int) bool { _, ok := t.without(ids[:i+1]...); return ok })
	set := slices.Clone(ids[:n+1])
	if preempts, ok := t.without(ids[n]); ok {
		return ids[n : n+1], preempts
	}
	for i := n - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(set), i, i+1)
		if _, still := t.without(fewer...); still {
			set = fewer
		}
	}
	preempts, ok := t.without(set...)
	if !ok {
		return nil, nil
	}
	return set, preempts
}

func (t *suggester) addAfter(preempts []Displaced, ids ...JobID) {
	verb := "ends"
	if len(ids) > 1 {
		verb = "have ended"
	}
	t.add(Suggestion{Kind: AfterJobs, Jobs: ids}, preempts, "it would start when %s %s", t.s.jobList(ids), verb)
}

// without says whether the gang starts when some jobs are over.
func (t *suggester) without(ids ...JobID) ([]Displaced, bool) {
	w := t.s.whatIf()
	for _, id := range ids {
		w.finish(id)
	}
	return w.starts(t.j.id, t.g)
}

// endable returns the jobs whose end could make room for a gang: those that hold
// cells of the same guarantee, or for an opportunistic gang any that it could
// use. The first to end comes first, then those without a limit, by id.
func (s *State) endable(j *job, g int) []JobID {
	type holder struct {
		id   JobID
		ends Time
	}
	space := s.space(j.spec.VC)
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	var all []holder
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.job == s.slots.of(j.id) || a.state == AttemptReserving {
			continue
		}
		al := s.cl.Alloc(a.alloc)
		if guaranteed && (al.Opportunistic() || al.Space != space) && a.state != AttemptUnknown || !s.onUsableChain(j, g, a) {
			continue
		}
		ends, _ := s.declaredEnd(a)
		if ends == 0 {
			ends = 1<<63 - 1
		}
		k := slices.IndexFunc(all, func(h holder) bool { return h.id == a.id.Job })
		if k < 0 {
			k = len(all)
			all = append(all, holder{id: a.id.Job})
		}
		all[k].ends = max(all[k].ends, ends)
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Or(cmp.Compare(x.ends, y.ends), cmp.Compare(x.id, y.id)) })
	out := make([]JobID, len(all))
	for i := range all {
		out[i] = all[i].id
	}
	return out
}

// withoutAhead looks for waiting jobs that alone keep the gang from starting.
func (t *suggester) withoutAhead() {
	ids := t.s.order(t.s.space(t.j.spec.VC))
	ids = ids[:max(0, slices.Index(ids, t.j.id))]
	if len(ids) > aheadMost {
		ids, t.cut = ids[:aheadMost], true
	}
	if set, preempts := t.fewest(ids); len(set) > 0 {
		verb := "stands before it, were"
		if len(set) > 1 {
			verb = "stand before it, were all"
		}
		t.add(Suggestion{Kind: WithoutAhead, Jobs: set}, preempts, "it would start if %s, which %s withdrawn", t.s.jobList(set), verb)
	}
}

// afterTime waits: for a back-off or a suspicion to pass, or for the jobs that
// run to reach the ends that they declare.
func (t *suggester) afterTime() {
	w := t.s.whatIf()
	f := forward{whatIf: w, pace: slow, most: forwardMost}
	if at, ok := f.run(t.j.id, t.g); ok {
		text := "it would start %s from now"
		if f.ended > 0 {
			text += ", when the jobs that run have reached the ends that they declare"
		}
		t.add(Suggestion{Kind: AfterTime, At: at}, nil, text, spanText(Duration(at-t.s.now)))
	}
}

// mended repairs what is bad, and looks for the fewest nodes that suffice.
func (t *suggester) mended() {
	f := t.s.cl.Forest()
	var nodes []int32
	for i := range f.Nodes {
		if t.s.nodeAtFault(int32(i)) {
			nodes = append(nodes, int32(i))
		}
	}
	if len(nodes) == 0 {
		return
	}
	n := sort.Search(len(nodes), func(i int) bool { _, ok := t.withMended(nodes[:i+1]); return ok })
	if n == len(nodes) {
		return // even all of them would not do
	}
	nodes = nodes[:n+1]
	for i := min(len(nodes), mendMost) - 1; i >= 0 && len(nodes) > 1; i-- {
		fewer := slices.Delete(slices.Clone(nodes), i, i+1)
		if _, still := t.withMended(fewer); still {
			nodes = fewer
		}
	}
	preempts, ok := t.withMended(nodes)
	if !ok {
		return
	}
	g := Suggestion{Kind: HardwareFixed}
	var names []string
	for _, n := range nodes {
		g.Nodes = append(g.Nodes, f.Nodes[n].Name)
		names = append(names, string(f.Nodes[n].Name))
	}
	t.add(g, preempts, "it would start if everything on %s were in service", strings.Join(names, ", "))
}

func (t *suggester) withMended(nodes []int32) ([]Displaced, bool) {
	w := t.s.whatIf()
	for _, n := range nodes {
		name := w.cl.Forest().Nodes[n].Name
		w.fact(NodeHealth{Node: name, Up: true})
		w.tell(NodeCordoned{Node: name})
		for _, l := range slices.Clone(w.leaves) {
			if l.Node == name {
				w.fact(LeafHealth{Node: name, SKU: l.SKU, Device: l.Device, Part: l.Part, Good: true})
			}
		}
		w.tell(NodeSuspected{Node: name})
	}
	return w.starts(t.j.id, t.g)
}
