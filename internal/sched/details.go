package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
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
	var shapes, besides []string
	for i := range e.Gangs {
		r := &e.Gangs[i]
		gg := &j.gangs[r.Gang]
		r.ReservedAt, r.Bound, _ = s.startBound(j, r.Gang)
		if n := slices.Index(shapes, gg.shape.text); n >= 0 {
			r.Reason.besides(besides[n])
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
		r.Reason.besides(why)
		s.detail(j, r)
	}
	e.Ahead = s.ahead(j)
	e.Blockers = s.blockers(j, e.Gangs)
	return e, true
}

func (s *State) detail(j *job, r *GangReason) {
	r.Levels = s.levels(j, int(r.Gang))
	if b := s.cutShort(j, r.Gang); b != 0 {
		r.Cut = fmt.Sprintf("not every placement was tried: the search ends after %s", b)
	}
	r.Suggestions, r.Untried = s.suggest(j, r.Gang, r.Reason.Code)
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
	case why.outer(): // only where the reason names it
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
func (r *Reason) outer() bool {
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
		ends, basis := end.late, cmp.Or(end.why, end.basis.text())
		b.Unknown = b.Unknown || a.state == AttemptUnknown
		if known = known && ends > 0; known || ends == 0 {
			b.Basis = basis
		}
		b.Ends, b.Likely = max(b.Ends, ends), b.Likely || end.basis == basisReported
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

// besides adds why the policy would make a gang wait that finds no room, if it found some, or
// why it does not share the room of others.
func (r *Reason) besides(why string) {
	if why != "" && (r.Code == VCBusy || r.Code == Fragmented) {
		r.Message += "; besides, " + why
	}
}
