package index

import (
	"slices"

	"github.com/combsched/comb/internal/core/tables"
)

// KeepLazy puts a lazily preempted attempt into its VC's list.
func (s *Index) KeepLazy(a *tables.Attempt) {
	e := s.Entry(a)
	q := &s.Lazy[s.Space(s.Jobs[a.Job].Spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, e, Queued.Compare); !found {
		*q = slices.Insert(*q, i, e)
	}
	s.DirtyAll()
}

// DropLazy takes an attempt out of its VC's list, if it is there.
func (s *Index) DropLazy(a *tables.Attempt) {
	q := &s.Lazy[s.Space(s.Jobs[a.Job].Spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, s.Entry(a), Queued.Compare); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// RelistLazy builds the lists anew, after the VCs changed.
func (s *Index) RelistLazy() {
	s.Lazy = make([][]Queued, s.Cluster.NumSpaces())
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.Lazy {
			space := s.Space(s.Jobs[a.Job].Spec.VC)
			s.Lazy[space] = append(s.Lazy[space], s.Entry(a))
		}
	}
	for i := range s.Lazy {
		slices.SortFunc(s.Lazy[i], Queued.Compare)
	}
}

// VerifyLazy checks that the lists hold exactly the lazily preempted attempts.
func (s *Index) VerifyLazy(add func(string, ...any)) {
	listed, lazy := 0, 0
	for i := range s.Lazy {
		listed += len(s.Lazy[i])
		if !slices.IsSortedFunc(s.Lazy[i], Queued.Compare) {
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
			Queued.Compare); !found {
			add("lazily preempted attempt %v is not listed", a.ID)
		}
	}
	if listed != lazy {
		add("%d lazily preempted attempts, listed %d", lazy, listed)
	}
}

// WaitsAgain reports whether an attempt is being stopped and its gang waits again then, at its
// former place in the order: nothing ends its job meanwhile, and no user holds it.
func (s *Index) WaitsAgain(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return a.Cause.Resumes() && !j.Stop && j.Completing == nil && !j.Held() && !a.Orphaned &&
		!s.IsExtra(a) && j.Gangs[a.ID.Gang].Next == tables.None
}
