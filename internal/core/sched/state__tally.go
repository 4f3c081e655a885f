package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// count adds an attempt, with all that share its leaves, to its VC's tally, or with -1
// takes them out. It is called around every change of what the tally depends on.
func (s *fold) count(a *attempt, sign int32) {
	s.rerun(a)
	if s.shared(a) {
		a = s.counted(a)
	}
	j := &s.jobs[a.job]
	space := s.cl.Alloc(a.alloc).Space
	t := &s.tallies[space]
	s.stir(space)
	if a.cause != 0 {
		t.leaving += sign
	}
	for by := By(1); t.holdings.asked>>by != 0; by++ {
		if t.holdings.asked>>by&1 != 0 {
			s.countHoldings(&t.holdings, by, a, int64(sign))
		}
	}
	if a.lazy || j.spec.Priority < cell.MinGuaranteed {
		if a.state != model.AttemptReserving {
			s.accrue(space)
			s.borrows(t, a, int64(sign))
			n := j.gangs[a.id.Gang].leaves
			if a.orphaned { // what drains is nobody's that could be lent
				n = int32(len(leavesOf(&s.cl.Alloc(a.alloc).Placement)))
			}
			t.borrowed += int64(sign) * int64(n)
		}
		return
	}
	i, found := slices.BinarySearchFunc(t.ranks, j.spec.Priority, func(r ranks, p cell.Priority) int { return int(r.prio) - int(p) })
	if !found {
		t.ranks = slices.Insert(t.ranks, i, ranks{prio: j.spec.Priority})
	}
	r := &t.ranks[i]
	r.all += sign
	if a.cause == 0 && !a.orphaned { // which has fewer leaves than it asked for
		r.leaves += int64(sign) * int64(j.gangs[a.id.Gang].leaves)
	} else if s.waitsAgain(a) {
		r.back += int64(sign) * int64(j.gangs[a.id.Gang].leaves)
	}
	if s.willing(a) {
		r.willing += sign
	}
	if r.all == 0 {
		t.ranks = slices.Delete(t.ranks, i, i+1)
	}
}

// recounted returns the tallies as they follow from the attempts and jobs.
func (s *fold) recounted() []tally {
	was := s.tallies
	s.tallies, s.recount = make([]tally, s.cl.NumSpaces()), true
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && !a.joined {
			s.count(a, 1)
		}
	}
	for i := range s.jobs {
		if j := &s.jobs[i]; j.spec != nil && j.spec.Partial() {
			s.countPartial(j, 1)
		}
	}
	now := s.tallies
	s.tallies, s.recount = was, false
	return now
}

// verifyTallies counts again.
func (s *fold) verifyTallies(add func(string, ...any)) {
	was := s.tallies
	s.tallies = s.recounted()
	for i := range was {
		for by := By(1); was[i].holdings.asked>>by != 0; by++ {
			if was[i].holdings.asked>>by&1 != 0 {
				s.askHoldings(int32(i), by)
			}
		}
	}
	now := s.tallies
	s.tallies = was
	for i, want := range now {
		if got := s.tallies[i]; got.partials != want.partials || got.leaving != want.leaving ||
			got.borrowed != want.borrowed || !equalLent(got.lent, want.lent) ||
			!slices.Equal(got.ranks, want.ranks) || !got.holdings.equal(&want.holdings) {
			add("space %d is counted as %v, but has %v", i, got, want)
		}
	}
}
