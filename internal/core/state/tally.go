package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// count adds an attempt, once for all that share its leaves, to its VC's tally, or with sign -1
// subtracts it. It is called before and after every change of what the tally depends on.
func (s *State) count(a *tables.Attempt, sign int32) {
	s.NoteChanged(a)
	if s.Shared(a) {
		a = s.Counted(a)
	}
	j := &s.Jobs[a.Job]
	space := s.Cluster.Alloc(a.Alloc).Space
	t := &s.Tallies[space]
	s.ForgetNextChange(space)
	if a.Cause != 0 {
		t.Leaving += sign
	}
	for by := model.By(1); t.Holdings.Asked>>by != 0; by++ {
		if t.Holdings.Asked>>by&1 != 0 {
			s.CountHoldings(&t.Holdings, by, a, int64(sign))
		}
	}
	if a.Lazy || j.Spec.Priority < cell.MinGuaranteed {
		if a.State != model.AttemptReserving {
			s.accrue(space)
			s.borrows(t, a, int64(sign))
			n := j.Gangs[a.ID.Gang].Leaves
			if a.Orphaned { // only the leaves that it still holds can be lent
				n = int32(len(LeavesOf(&s.Cluster.Alloc(a.Alloc).Placement)))
			}
			t.Borrowed += int64(sign) * int64(n)
		}
		return
	}
	i, found := slices.BinarySearchFunc(t.Ranks, j.Spec.Priority,
		func(r index.Ranks, p cell.Priority) int { return int(r.Prio) - int(p) })
	if !found {
		t.Ranks = slices.Insert(t.Ranks, i, index.Ranks{Prio: j.Spec.Priority})
	}
	r := &t.Ranks[i]
	r.All += sign
	if a.Cause == 0 && !a.Orphaned { // one that lost cells has fewer leaves than it asked for
		r.Leaves += int64(sign) * int64(j.Gangs[a.ID.Gang].Leaves)
	} else if s.WaitsAgain(a) {
		r.Back += int64(sign) * int64(j.Gangs[a.ID.Gang].Leaves)
	}
	if s.AllowsLazy(a) {
		r.AllowLazy += sign
	}
	if r.All == 0 {
		t.Ranks = slices.Delete(t.Ranks, i, i+1)
	}
}

// recounted returns the tallies as they follow from attempts and jobs.
func (s *State) recounted() []index.Tally {
	was := s.Tallies
	s.Tallies, s.Recount = make([]index.Tally, s.Cluster.NumSpaces()), true
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && !a.NotFirst {
			s.count(a, 1)
		}
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Spec != nil && j.Spec.Partial() {
			s.CountPartial(j, 1)
		}
	}
	now := s.Tallies
	s.Tallies, s.Recount = was, false
	return now
}

// verifyTallies counts anew and compares.
func (s verifier) verifyTallies() {
	was := s.Tallies
	s.Tallies = s.recounted()
	for i := range was {
		for by := model.By(1); was[i].Holdings.Asked>>by != 0; by++ {
			if was[i].Holdings.Asked>>by&1 != 0 {
				s.AskHoldings(int32(i), by)
			}
		}
	}
	now := s.Tallies
	s.Tallies = was
	for i, want := range now {
		if got := s.Tallies[i]; got.Partials != want.Partials || got.Leaving != want.Leaving ||
			got.Borrowed != want.Borrowed || !index.EqualLent(got.BorrowedByChain, want.BorrowedByChain) ||
			!slices.Equal(got.Ranks, want.Ranks) || !got.Holdings.Equal(&want.Holdings) {
			s.add("space %d is counted as %v, but has %v", i, got, want)
		}
	}
}

// verifier checks a state, and adds each breach that it finds.
type verifier struct {
	*State
	add func(format string, a ...any)
}
