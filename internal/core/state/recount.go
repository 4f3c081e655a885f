package state

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// A lazily preempted attempt keeps its place in its VC's order. It stands in a list of its own
// beside the queue, and a policy ranks both together. When its turn comes and its VC's guarantee
// has room for the very leaves that it holds, it is guaranteed again. It never blocks other gangs
// and never makes any leave.

// recounting makes a change to a job on which WaitsAgain depends, and counts its stopping attempts
// anew. Gangs that then do not wait again leave their capacity to other gangs.
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
	s.Dirty.CellChanges++
	s.DirtyVC(j.Space, cell.MinGuaranteed)
}
