package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/tables"
)

// A lazily preempted attempt keeps its place in its VC's order: it stands in a
// list of its own beside the queue of those that wait, and a policy ranks both
// together. When its turn comes and its VC has room around its very leaves, it is
// guaranteed again. It never blocks anybody and never makes anybody leave.

// keepLazy puts a lazily preempted attempt into its VC's list.
func (s *State) keepLazy(a *tables.Attempt) {
	e := s.Entry(a)
	q := &s.Lazy[s.Space(s.Jobs[a.Job].Spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, e, index.Queued.Compare); !found {
		*q = slices.Insert(*q, i, e)
	}
	s.DirtyAll()
}

// dropLazy takes an attempt out of its VC's list, if it is there.
func (s *State) dropLazy(a *tables.Attempt) {
	q := &s.Lazy[s.Space(s.Jobs[a.Job].Spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, s.Entry(a), index.Queued.Compare); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// relistLazy builds the lists anew, after the VCs changed.
func (s *State) relistLazy() {
	s.Lazy = make([][]index.Queued, s.Cluster.NumSpaces())
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.Lazy {
			space := s.Space(s.Jobs[a.Job].Spec.VC)
			s.Lazy[space] = append(s.Lazy[space], s.Entry(a))
		}
	}
	for i := range s.Lazy {
		slices.SortFunc(s.Lazy[i], index.Queued.Compare)
	}
}

// verifyLazy checks that the lists hold exactly the lazily preempted attempts.
func (s *State) verifyLazy(add func(string, ...any)) {
	listed, lazy := 0, 0
	for i := range s.Lazy {
		listed += len(s.Lazy[i])
		if !slices.IsSortedFunc(s.Lazy[i], index.Queued.Compare) {
			add("the list of lazily preempted gangs of space %d is out of order", i)
		}
	}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || !a.Lazy {
			continue
		}
		lazy++
		if _, found := slices.BinarySearchFunc(s.Lazy[s.Space(s.Jobs[a.Job].Spec.VC)], s.Entry(a),
			index.Queued.Compare); !found {
			add("lazily preempted attempt %v is not listed", a.ID)
		}
	}
	if listed != lazy {
		add("%d lazily preempted attempts, listed %d", lazy, listed)
	}
}

// WaitsAgain reports whether an attempt is being stopped and its gang waits again then, at its
// place: nothing ends its job meanwhile, and no user holds it.
func (s *State) WaitsAgain(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return a.Cause.Resumes() && !j.Stop && j.Completing == nil && !j.Held() && !a.Orphaned &&
		!s.IsExtra(a) && j.Gangs[a.ID.Gang].Next == tables.None
}

// recounting changes what waitsAgain asks of a job, and counts what is being stopped of it anew.
// What waits no more leaves its room to others.
func (s *State) recounting(slot int32, change func()) {
	j := &s.Jobs[slot]
	s.lookBehind(j)
	var leaving []*tables.Attempt
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || !s.Attempts[at].Cause.Resumes() || s.Shared(&s.Attempts[at]) &&
			s.Counted(&s.Attempts[at]).ID != s.Attempts[at].ID {
			continue
		}
		leaving = append(leaving, &s.Attempts[at])
		s.count(&s.Attempts[at], -1)
	}
	if change(); len(leaving) == 0 {
		return
	}
	for _, a := range leaving {
		s.count(a, 1)
	}
	s.Dirty.Freed++
	s.DirtyVC(j.Space, cell.MinGuaranteed)
}
