package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// LeavesOf lists the leaves of a placement, task by task.
func LeavesOf(p *cell.Placement) []cell.LeafID {
	var out []cell.LeafID
	for _, t := range p.Tasks {
		out = append(out, t.Leaves...)
	}
	slices.Sort(out)
	return out
}

// setMood tells the cells what an attempt is about to do, with those that share its
// leaves: these leave when all do, and nobody may count on them when one is lost.
func (s *State) setMood(a *tables.Attempt) {
	mood := a.Mood()
	if s.Shared(a) {
		mood = s.Holder(a.Alloc).Mood()
		for _, m := range s.MembersOf(a.Alloc) {
			if mood == cell.Stuck || m.Mood() == cell.Stuck {
				mood = cell.Stuck
			} else if m.Mood() != mood {
				mood = cell.Staying
			}
		}
	}
	s.Cluster.SetMood(a.Alloc, mood)
}

// UnsavedBy is how long an attempt has run since its last checkpoint or its start, in whole
// milliseconds, for plans: what a decision asks for is decided a microsecond later, which is no
// work.
func UnsavedBy(s *index.Index, a *tables.Attempt) model.Duration {
	from := a.Checkpoint
	if from == a.Started {
		from = a.Placed
	}
	d := s.RanSince(a, from)
	return d - d%model.Millisecond
}

// link puts an attempt, or a promise, into the list of its VC.
func (s *State) link(slot int32) {
	a := &s.Attempts[slot]
	list := &s.Holders[s.Cluster.Alloc(a.Alloc).Space]
	a.At = int32(len(*list))
	*list = append(*list, slot)
}

// unlink takes it out again; the last one takes its place.
func (s *State) unlink(slot int32) {
	a := &s.Attempts[slot]
	s.Unrun(a)
	list := &s.Holders[s.Cluster.Alloc(a.Alloc).Space]
	last := len(*list) - 1
	moves := (*list)[last]
	(*list)[a.At] = moves
	s.Attempts[moves].At = a.At
	*list = (*list)[:last]
}

// relink makes the lists anew, after the VCs changed.
func (s *State) relink() {
	s.Holders = make([][]int32, s.Cluster.NumSpaces())
	s.RunOrders, s.Allocs = make([]index.RunOrder, s.Cluster.NumSpaces()), make([]index.Allocations,
		s.Cluster.NumSpaces())
	for i := range s.Attempts {
		s.Attempts[i].Standing = 0
		if s.Attempts[i].Job != tables.None {
			s.link(int32(i))
		}
	}
}

// verifyHolders checks that the lists hold exactly the attempts and promises.
func (s *State) verifyHolders(add func(string, ...any)) {
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
