package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/fewest"
	"github.com/combsched/comb/internal/habit"
)

// detailsMost bounds how many gangs of one job are explained in full: those of
// one shape wait for the same.
const detailsMost = 4

// Explain says all about why a job waits: Why, and for each shape of its gangs
// the cells of every level and the changes that would let it start; who is before
// it, and who holds what it could use. It takes decisions on copies, so it must
// not be called in the loop.
func (s *State) Explain(id JobID) (Explanation, bool) {
	e, ok := s.Why(id)
	if !ok {
		return e, false
	}
	j := s.find(id)
	e.Ahead = s.ahead(j)
	var shapes, besides, plain []string
	var first []int // of each shape
	for i := range e.Gangs {
		r := &e.Gangs[i]
		gg := &j.gangs[r.Gang]
		r.ReservedAt, r.Bound = places{s}.bookedBy(j, r.Gang)
		if n := slices.Index(shapes, gg.shape.text); n >= 0 {
			if addBesides(&r.Reason, besides[n]); r.Reason.Message == plain[n] {
				r.Reason = e.Gangs[first[n]].Reason
			}
			continue
		}
		if len(shapes) == detailsMost {
			r.Untried = true
			continue
		}
		why, _ := s.restrained(j, r.Gang)
		if why == "" {
			why = s.unshared(j, r.Gang)
		}
		if why == "" {
			why, _ = s.sheltered(j, r.Gang)
		}
		shapes, besides = append(shapes, gg.shape.text), append(besides, why)
		addBesides(&r.Reason, why)
		plain, first = append(plain, r.Reason.Message), append(first, i)
		s.detail(j, r, e.Ahead)
	}
	e.Blockers, e.Order = s.blockers(j, e.Gangs), orderText(s, j, &e)
	return e, true
}

func (s *State) detail(j *job, r *GangReason, ahead []JobBrief) {
	r.Levels = s.levels(j, int(r.Gang))
	if b := s.cutShort(j, r.Gang); b != 0 {
		r.Cut = fmt.Sprintf("not every placement was tried: the search ends after %s", b)
	}
	t := newSuggester(s, j, r.Gang)
	t.besides(&r.Reason, ahead)
	r.Suggestions, r.Untried = t.suggest(r.Reason.Code)
}

// cutShort returns the bounds that the searches for a gang's cells reach now, on free ones, on those of all
// that it may make leave, and in all that a decision tries, when they find nothing.
func (s *State) cutShort(j *job, g int32) (hit cell.Bounds) {
	if j.gangs[g].attempt != none {
		return 0
	}
	had, was := s.cl.Budget(), s.mem.moving
	if _, ok := s.plan(j, int(g), nil); !ok && s.cl.Work().Over() {
		hit = cell.OutOfSteps
	}
	s.mem.moving = was
	s.cl.EndBudget(had)
	q := s.request(j, int(g))
	if res, ok := s.cl.Place(&q); !ok {
		hit |= res.Bounds
	}
	if j.spec.Priority < cell.MinGuaranteed || j.spec.Gangs[g].Extra {
		return hit
	}
	q = s.lifting(q, j.spec.Priority)
	if res, ok := s.cl.Place(&q); !ok && res.Bounded {
		hit |= res.Bounds
	}
	return hit
}

// ahead tells who is served before a job: nobody when nothing of it waits. Of one
// whose members above the minimum wait, those are all of its priority.
func (s *State) ahead(j *job) []JobBrief {
	var out []JobBrief
	if !slices.ContainsFunc(j.gangs, func(g gang) bool { return g.waiting }) {
		return out
	}
	for _, id := range s.order(s.space(j.spec.VC)) {
		o := s.find(id)
		if id == j.id || o.spec.Priority < j.spec.Priority || len(out) == maxNamed {
			break
		}
		out = append(out, s.brief(o))
	}
	return out
}

// blockers tells who holds what the gangs could use, the first to end first, and
// whom the reasons name besides.
func (s *State) blockers(j *job, gangs []GangReason) []JobBrief {
	var ids []JobID
	for _, g := range gangs {
		if ids = s.inTheWay(j, int(g.Gang), &g.Reason); len(ids) > 0 {
			break // the gangs of one job wait for about the same
		}
	}
	var out []JobBrief
	for _, id := range ids {
		out = append(out, s.brief(s.find(id)))
	}
	slices.SortStableFunc(out, func(a, b JobBrief) int {
		return cmp.Or(cmp.Compare(uint64(a.Ends-1), uint64(b.Ends-1)), cmp.Compare(a.Job, b.Job))
	})
	return out
}

// inTheWay returns the jobs that run and hold what a gang could use, which waits for a reason; at
// most 10.
func (s *State) inTheWay(j *job, g int, why *Reason) []JobID {
	var all, out []JobID
	switch {
	case outer(why): // only where the reason names it
	case !j.spec.Restricted():
		all = s.endable(j, g)
	case why.Code != VCBusy && why.Code != Fragmented: // these name what stands on its nodes
		own, others := s.holdersFor(j, g)
		all = append(own, others...)
	}
	for _, id := range append(all[:min(len(all), maxNamed)], why.Jobs...) {
		if b := s.find(id); b != nil && b != j && s.phase(b) == Active && !slices.Contains(out, id) && len(out) < maxNamed {
			out = append(out, id)
		}
	}
	return out
}

// outer reports whether a gang waits for something else than cells that jobs hold: for bad or
// cordoned nodes, for such as refused it, or for what drains or is lost.
func outer(r *Reason) bool {
	return r.Code == BadHardware || r.Code == Draining || r.Code == HeldUnknown || r.Code == BackOff && len(r.Nodes) > 0
}

// brief is what others may know about a job.
func (s *State) brief(j *job) JobBrief {
	b := JobBrief{Job: j.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Priority: j.spec.Priority, Takes: amount.TotalText(s.takenBy(j))}
	known := true
	for g := range j.gangs {
		b.Leaves += j.gangs[g].leaves
		at := j.gangs[g].attempt
		if at == none || s.attempts[at].state == AttemptReserving {
			continue
		}
		a := &s.attempts[at]
		end := s.spanOf(a, nil, byReports(s, a))
		ends, basis := end.late, cmp.Or(end.why, end.basis.Text())
		b.Unknown = b.Unknown || a.state == AttemptUnknown
		if known = known && ends > 0; known || ends == 0 {
			b.Basis = basis
		}
		b.Ends, b.Likely = max(b.Ends, ends), b.Likely || end.basis == habit.ByReported
	}
	if !known {
		b.Ends, b.Likely = 0, false
	}
	return b
}

// restrained asks the policy of a gang's VC why it makes it wait.
func (s *State) restrained(j *job, g int32) (string, Time) {
	space := s.space(j.spec.VC)
	if p, ok := s.pol[space].(Restrainer); ok && j.spec.Priority >= cell.MinGuaranteed {
		return p.Restrains(s.view(space, j.spec.Priority), GangRef{j.id, g})
	}
	return "", 0
}

// addBesides adds why the policy would make a gang wait that finds no room, if it found some, or
// why it does not share the room of others.
func addBesides(r *Reason, why string) {
	if why != "" && (r.Code == VCBusy || r.Code == Fragmented) {
		r.Message += "; besides, " + why
	}
}

const (
	besidesMost = 3 // times that what is missing is looked for
	firstMost   = 4 // times that jobs are looked for which would get the room first
	othersEnds  = 8 // jobs of other virtual clusters that might end
)

// besides tries whether the gang starts when all is gone that its page names, and names what is
// missing: jobs that would get the room first; hardware out of service, or work of other virtual
// clusters, where cells of its own could be bound.
func (t *suggester) besides(r *Reason, ahead []JobBrief) {
	switch r.Code {
	case NeverFits, QuotaExceeded, QuarantinedJob, OnHold, BackOff, HeldBack, NotLent, NotYetDecided:
		return
	}
	if t.j.spec.Gangs[t.g].Extra || slices.Contains(r.Jobs, t.j.id) || r.Code == HeldUnknown {
		return // it waits for its own job
	}
	was := t.cut
	for range besidesMost { // what is named besides may be of use to others
		nodes, jobs := t.named(r, ahead)
		if len(jobs) >= maxNamed || len(r.Nodes) >= maxNamed {
			break // there may be more than are named
		}
		first, ok := t.gone(nodes, jobs)
		if !ok && t.cut == was {
			first, ok = t.missing(r, nodes, append(jobs, first...))
		}
		switch {
		case t.cut != was:
			return
		case !ok:
			r.Message += "; more keeps it waiting than is named here"
			return
		case len(first) > 0:
			r.Message += "; " + t.s.jobList(t.j.spec.User, first) + " would get that room first"
			r.Jobs = append(r.Jobs, first...)
		}
		r.Jobs, r.Nodes = r.Jobs[:min(len(r.Jobs), maxNamed)], r.Nodes[:min(len(r.Nodes), maxNamed)]
		if _, more := t.named(r, ahead); len(more) == len(jobs) && len(r.Nodes) == len(nodes) {
			return
		}
	}
}

// named returns all that a page names: what keeps the gang waiting, as far as that is told.
func (t *suggester) named(r *Reason, ahead []JobBrief) (nodes []int32, jobs []JobID) {
	jobs = slices.Concat(r.Jobs, t.s.inTheWay(t.j, int(t.g), r))
	for i := range ahead {
		jobs = append(jobs, ahead[i].Job)
	}
	slices.Sort(jobs)
	for _, n := range r.Nodes {
		nodes = append(nodes, t.s.cl.Forest().NodeIndex(n))
	}
	return nodes, slices.Compact(jobs)
}

// missing names nodes that must be in service besides, or jobs of other virtual clusters that must
// end, or both where neither suffices. It returns the jobs that would get the room first even so.
func (t *suggester) missing(r *Reason, nodes []int32, jobs []JobID) (first []JobID, ok bool) {
	bad, others := t.s.illsFor(t.j, int(t.g), nil).nodes, t.elsewhereEnds()
	bad = slices.DeleteFunc(bad, func(n int32) bool { return slices.Contains(nodes, n) })
	others = slices.DeleteFunc(others, func(id JobID) bool { return slices.Contains(jobs, id) })
	mended := func(more ...int32) ([]JobID, bool) { return t.gone(slices.Concat(nodes, more), jobs) }
	ended := func(more ...JobID) ([]JobID, bool) { return t.gone(nodes, slices.Concat(jobs, more)) }
	set, first := fewest.Of(bad, mended)
	ends, after := fewest.Of(others, ended)
	word := " or "
	switch {
	case len(set)+len(ends) == 0:
		word = " and "
		all := slices.Concat(jobs, others)
		if set, first = fewest.Of(bad, func(more ...int32) ([]JobID, bool) { return t.gone(slices.Concat(nodes, more), all) }); len(set) > 0 {
			some := slices.Concat(nodes, set)
			ends, first = fewest.Of(others, func(more ...JobID) ([]JobID, bool) { return t.gone(some, slices.Concat(jobs, more)) })
		}
		if len(ends) == 0 {
			return nil, false
		}
	case len(set) == 0:
		first = after
	case len(ends) > 0: // either will do; both, too, since both are named
		if first, ok = t.gone(slices.Concat(nodes, set), slices.Concat(jobs, ends)); !ok {
			ends = nil
			first, _ = mended(set...)
		}
	}
	text := ""
	if len(set) > 0 {
		text = outOfService(t.s.cl, t.s.leaves, set) + " must be in service"
		for _, n := range set {
			r.Nodes = append(r.Nodes, t.s.cl.Forest().Nodes[n].Name)
		}
	}
	if len(ends) > 0 {
		if text != "" {
			text += word
		}
		text += t.s.jobList(t.j.spec.User, ends) + " must end"
		r.Jobs = append(r.Jobs, ends...)
	}
	r.Message += "; besides, " + text
	return first, true
}

// gone reports whether the gang starts when nodes are in service and jobs have ended; those that
// take the room before it leave as well then, and are returned.
func (t *suggester) gone(nodes []int32, jobs []JobID) (first []JobID, ok bool) {
	for range firstMost {
		w := t.changing(nodes, slices.Concat(jobs, first))
		if w == nil {
			return first, false
		}
		_, ok = w.starts(t.j.id, t.g)
		if ok = t.uncut(w) && ok; ok {
			return first, true
		}
		had := len(first)
		for _, id := range w.took {
			if o := t.s.find(id); o != nil && id != t.j.id && t.stronger(o) && !slices.Contains(first, id) {
				first = append(first, id)
			}
		}
		if len(first) == had {
			break
		}
	}
	return first, false
}

// stronger reports whether a gang that starts may keep cells from this one.
func (t *suggester) stronger(o *job) bool {
	return t.j.spec.Priority < cell.MinGuaranteed || o.spec.Priority >= cell.MinGuaranteed
}

// elsewhereEnds returns jobs of other virtual clusters that run with a guarantee where the gang could.
func (t *suggester) elsewhereEnds() (out []JobID) {
	for i := range t.s.attempts {
		a := &t.s.attempts[i]
		if a.job == none || a.state == AttemptReserving || len(out) == othersEnds {
			continue
		}
		al := t.s.cl.Alloc(a.alloc)
		if al.Space != t.j.space && !al.Opportunistic() && !slices.Contains(out, a.id.Job) && t.s.onUsableChain(t.j, int(t.g), a) {
			out = append(out, a.id.Job)
		}
	}
	return out
}
