package index

import (
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// Tally counts the attempts of one VC, and its jobs with members above a minimum, so that no
// decision needs to read all of them. Apply keeps it; Verify counts again.
type Tally struct {
	Partials        int
	Leaving         int32   // attempts that were told to stop
	Borrowed        int64   // leaves that opportunistic attempts hold
	BorrowedByChain []int64 // the same by chain, if the configuration has a half-life
	Ranks           []Ranks // guaranteed attempts and promises, by rising priority
	Holdings        holdings
}

// Ranks counts the guaranteed attempts and promises of one priority that were not made
// opportunistic.
type Ranks struct {
	Prio      cell.Priority
	All       int32
	AllowLazy int32 // those of jobs that allow lazy preemption
	Leaves    int64 // without attempts that were told to stop: their leaves may be promised already
	Back      int64 // of attempts that were told to stop and leave their gang waiting again
}

// Counted returns the member of an allocation that its leaves count for: the first that was not
// told to stop, or the first of all when all were.
func (s *Index) Counted(a *tables.Attempt) *tables.Attempt {
	if m := s.FirstStaying(a); m != nil {
		return m
	}
	return s.Holder(a.Alloc)
}

// AllowsLazy reports whether an allocation may become opportunistic: the jobs of all its
// members allow it.
func (s *Index) AllowsLazy(a *tables.Attempt) bool {
	if !s.Shared(a) {
		return s.Jobs[a.Job].Spec.LazyPreempt
	}
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		if !s.Jobs[s.Attempts[at].Job].Spec.LazyPreempt {
			return false
		}
	}
	return true
}

// CountPartial adds a job with members above a minimum to its VC's tally, or with sign -1
// subtracts it.
func (s *Index) CountPartial(j *tables.Job, sign int) {
	if j.Space >= 0 && int(j.Space) < len(s.Tallies) { // there may be no configuration yet
		s.Tallies[j.Space].Partials += sign
	}
}

// AllowsLazyBelow reports whether some attempt of a VC with a lower priority may become
// opportunistic.
func (s *Index) AllowsLazyBelow(space int32, p cell.Priority) bool {
	for _, r := range s.Tallies[space].Ranks {
		if r.Prio < p && r.AllowLazy > 0 {
			return true
		}
	}
	return false
}

// AvailableTo is how many leaves of a VC's guarantee are neither held by nor promised to gangs of
// priority p or above, those that leave not counted. A gang of p can get no more while the others
// stay. Gangs above p that are stopped only to wait again count as well: they would take their
// leaves back.
func (s *Index) AvailableTo(space int32, p cell.Priority) int64 {
	free := s.Dirty.Owned[space]
	for _, r := range s.Tallies[space].Ranks {
		if r.Prio >= p {
			free -= r.Leaves
		}
		if r.Prio > p {
			free -= r.Back
		}
	}
	return max(free, 0)
}

// CloneTallies copies tallies.
func CloneTallies(ts []Tally) []Tally {
	out := slices.Clone(ts)
	for i := range out {
		out[i].Ranks, out[i].Holdings = slices.Clone(out[i].Ranks), out[i].Holdings.clone()
		out[i].BorrowedByChain = slices.Clone(out[i].BorrowedByChain)
	}
	return out
}

// EqualLent compares counts; a missing entry is 0.
func EqualLent(a, b []int64) bool { return collections.EqualPadded(a, b) }
