package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// tally counts the attempts of one VC, and its jobs with members above a minimum, so that
// no decision needs to read all of them. Apply keeps it; Verify counts again.
type tally struct {
	partials int
	leaving  int32   // attempts that were told to stop
	borrowed int64   // leaves that opportunistic attempts hold
	lent     []int64 // the same by chain, where the configuration has a half-life
	ranks    []ranks // guaranteed attempts and promises, by rising priority
	holdings holdings
}

// ranks counts the guaranteed attempts and promises of one priority that were not
// made opportunistic.
type ranks struct {
	prio    cell.Priority
	all     int32
	willing int32 // those whose jobs allow lazy preemption
	leaves  int64 // without those of attempts that were told to stop: they may be promised already
	back    int64 // those of attempts that were told to stop and wait again then
}

// counted returns the member of an allocation to whom its leaves are counted: the first
// that was not told to stop, or the first when all were.
func (s *index) counted(a *attempt) *attempt {
	if m := s.stays(a); m != nil {
		return m
	}
	return s.holder(a.alloc)
}

// willing reports whether an allocation may become opportunistic: the jobs of all its
// members allow it.
func (s *index) willing(a *attempt) bool {
	if !s.shared(a) {
		return s.jobs[a.job].spec.LazyPreempt
	}
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		if !s.jobs[s.attempts[at].job].spec.LazyPreempt {
			return false
		}
	}
	return true
}

// countPartial adds a job with members above a minimum to its VC's tally, or takes it out.
func (s *index) countPartial(j *job, sign int) {
	if j.space >= 0 && int(j.space) < len(s.tallies) { // there may be no configuration yet
		s.tallies[j.space].partials += sign
	}
}

// willingBelow reports whether some attempt of a VC with a lower priority may
// become opportunistic.
func (s *index) willingBelow(space int32, p cell.Priority) bool {
	for _, r := range s.tallies[space].ranks {
		if r.prio < p && r.willing > 0 {
			return true
		}
	}
	return false
}

// unheld is how many leaves of a VC's guarantee no gang of a priority or above holds or was
// promised, but for those that leave: more than that no gang of it can get while they stay. What
// leaves only to wait again counts for lower priorities: it would take the leaves back.
func (s *index) unheld(space int32, p cell.Priority) int64 {
	free := s.looks.owned[space]
	for _, r := range s.tallies[space].ranks {
		if r.prio >= p {
			free -= r.leaves
		}
		if r.prio > p {
			free -= r.back
		}
	}
	return max(free, 0)
}

func cloneTallies(ts []tally) []tally {
	out := slices.Clone(ts)
	for i := range out {
		out[i].ranks, out[i].holdings = slices.Clone(out[i].ranks), out[i].holdings.clone()
		out[i].lent = slices.Clone(out[i].lent)
	}
	return out
}

// equalLent compares counts; none at all are zeros.
func equalLent(a, b []int64) bool {
	for i := range max(len(a), len(b)) {
		var x, y int64
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
}
