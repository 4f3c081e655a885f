package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// LeavesOf returns the leaves of a placement, sorted.
func LeavesOf(p *cell.Placement) []cell.LeafID {
	var out []cell.LeafID
	for _, t := range p.Tasks {
		out = append(out, t.Leaves...)
	}
	slices.Sort(out)
	return out
}

// setIntent tells the cells the intent of an attempt and of all that share its leaves: they are
// leaving if all members are, and of unknown state if one member is.
func (s *State) setIntent(a *tables.Attempt) {
	mood := a.Intent()
	if s.Shared(a) {
		mood = s.Holder(a.Alloc).Intent()
		for _, m := range s.MembersOf(a.Alloc) {
			if mood == cell.Unknown || m.Intent() == cell.Unknown {
				mood = cell.Unknown
			} else if m.Intent() != mood {
				mood = cell.Staying
			}
		}
	}
	s.Cluster.SetIntent(a.Alloc, mood)
}

// MembersOf returns the members of an allocation, in order of their ids.
func (s *State) MembersOf(id cell.AllocID) []*tables.Attempt {
	var out []*tables.Attempt
	for at := s.ByAlloc[id]; at != tables.None; at = s.Attempts[at].NextMember {
		out = append(out, &s.Attempts[at])
	}
	return out
}
