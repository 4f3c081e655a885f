package index

import (
	"github.com/combsched/comb/internal/core/tables"
)

// Link puts an attempt, or a promise, into the list of its VC.
func (s *Index) Link(slot int32) {
	a := &s.Attempts[slot]
	list := &s.Holders[s.Cluster.Alloc(a.Alloc).Space]
	a.At = int32(len(*list))
	*list = append(*list, slot)
}

// Unlink takes it out again; the last of the list moves to its place.
func (s *Index) Unlink(slot int32) {
	a := &s.Attempts[slot]
	s.DropFromRunOrder(a)
	list := &s.Holders[s.Cluster.Alloc(a.Alloc).Space]
	last := len(*list) - 1
	moves := (*list)[last]
	(*list)[a.At] = moves
	s.Attempts[moves].At = a.At
	*list = (*list)[:last]
}

// Relink makes the lists anew, after the VCs changed.
func (s *Index) Relink() {
	s.Holders = make([][]int32, s.Cluster.NumSpaces())
	s.RunOrders, s.Allocs = make([]RunOrder, s.Cluster.NumSpaces()), make([]Allocations,
		s.Cluster.NumSpaces())
	for i := range s.Attempts {
		s.Attempts[i].OrderFlags = 0
		if s.Attempts[i].Job != tables.None {
			s.Link(int32(i))
		}
	}
}

// VerifyHolders checks that the lists hold exactly the attempts and promises.
func (s *Index) VerifyHolders(add func(string, ...any)) {
	listed, all := 0, 0
	for space := range s.Holders {
		for at, slot := range s.Holders[space] {
			a := &s.Attempts[slot]
			if listed++; a.Job == tables.None || s.Cluster.Alloc(a.Alloc).Space != int32(space) || a.At != int32(at) {
				add("attempt %v is listed for space %d at %d, not at %d", a.ID, space, at, a.At)
				return
			}
		}
	}
	for i := range s.Attempts {
		if s.Attempts[i].Job != tables.None {
			all++
		}
	}
	if listed != all {
		add("%d attempts are listed by VC, but there are %d", listed, all)
	}
}
