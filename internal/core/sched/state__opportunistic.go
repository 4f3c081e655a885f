package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// A lazily preempted attempt keeps its place in its VC's order: it stands in a
// list of its own beside the queue of those that wait, and a policy ranks both
// together. When its turn comes and its VC has room around its very leaves, it is
// guaranteed again. It never blocks anybody and never makes anybody leave.

// keepLazy puts a lazily preempted attempt into its VC's list.
func (s *fold) keepLazy(a *attempt) {
	e := s.entry(a)
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, e, queued.compare); !found {
		*q = slices.Insert(*q, i, e)
	}
	s.lookAll()
}

// dropLazy takes an attempt out of its VC's list, if it is there.
func (s *fold) dropLazy(a *attempt) {
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, s.entry(a), queued.compare); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// relistLazy builds the lists anew, after the VCs changed.
func (s *fold) relistLazy() {
	s.lazy = make([][]queued, s.cl.NumSpaces())
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.lazy {
			space := s.space(s.jobs[a.job].spec.VC)
			s.lazy[space] = append(s.lazy[space], s.entry(a))
		}
	}
	for i := range s.lazy {
		slices.SortFunc(s.lazy[i], queued.compare)
	}
}

// verifyLazy checks that the lists hold exactly the lazily preempted attempts.
func (s *fold) verifyLazy(add func(string, ...any)) {
	listed, lazy := 0, 0
	for i := range s.lazy {
		listed += len(s.lazy[i])
		if !slices.IsSortedFunc(s.lazy[i], queued.compare) {
			add("the list of lazily preempted gangs of space %d is out of order", i)
		}
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || !a.lazy {
			continue
		}
		lazy++
		if _, found := slices.BinarySearchFunc(s.lazy[s.space(s.jobs[a.job].spec.VC)], s.entry(a), queued.compare); !found {
			add("lazily preempted attempt %v is not listed", a.id)
		}
	}
	if listed != lazy {
		add("%d lazily preempted attempts, listed %d", lazy, listed)
	}
}

// waitsAgain reports whether an attempt is being stopped and its gang waits again then, at its
// place: nothing ends its job meanwhile, and no user holds it.
func (s *fold) waitsAgain(a *attempt) bool {
	j := &s.jobs[a.job]
	return a.cause.Resumes() && !j.stop && j.completing == nil && !j.held() && !a.orphaned &&
		!s.isExtra(a) && j.gangs[a.id.Gang].next == none
}

// recounting changes what waitsAgain asks of a job, and counts what is being stopped of it anew.
// What waits no more leaves its room to others.
func (s *fold) recounting(slot int32, change func()) {
	j := &s.jobs[slot]
	s.lookBehind(j)
	var leaving []*attempt
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || !s.attempts[at].cause.Resumes() || s.shared(&s.attempts[at]) && s.counted(&s.attempts[at]).id != s.attempts[at].id {
			continue
		}
		leaving = append(leaving, &s.attempts[at])
		s.count(&s.attempts[at], -1)
	}
	if change(); len(leaving) == 0 {
		return
	}
	for _, a := range leaving {
		s.count(a, 1)
	}
	s.looks.freed++
	s.lookIn(j.space, cell.MinGuaranteed)
}
