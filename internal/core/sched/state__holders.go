package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func leavesOf(p *cell.Placement) []cell.LeafID {
	var out []cell.LeafID
	for _, t := range p.Tasks {
		out = append(out, t.Leaves...)
	}
	slices.Sort(out)
	return out
}

// setMood tells the cells what an attempt is about to do, with those that share its
// leaves: these leave when all do, and nobody may count on them when one is lost.
func (s *fold) setMood(a *attempt) {
	mood := a.mood()
	if s.shared(a) {
		mood = s.holder(a.alloc).mood()
		for _, m := range s.membersOf(a.alloc) {
			if mood == cell.Stuck || m.mood() == cell.Stuck {
				mood = cell.Stuck
			} else if m.mood() != mood {
				mood = cell.Staying
			}
		}
	}
	s.cl.SetMood(a.alloc, mood)
}

// unsavedBy is how long an attempt has run since its last checkpoint or its start, in whole
// milliseconds, for plans: what a decision asks for is decided a microsecond later, which is no
// work.
func unsavedBy(s *index, a *attempt) model.Duration {
	from := a.checkpoint
	if from == a.started {
		from = a.placed
	}
	d := s.ranSince(a, from)
	return d - d%model.Millisecond
}

// link puts an attempt, or a promise, into the list of its VC.
func (s *fold) link(slot int32) {
	a := &s.attempts[slot]
	list := &s.holders[s.cl.Alloc(a.alloc).Space]
	a.at = int32(len(*list))
	*list = append(*list, slot)
}

// unlink takes it out again; the last one takes its place.
func (s *fold) unlink(slot int32) {
	a := &s.attempts[slot]
	s.unrun(a)
	list := &s.holders[s.cl.Alloc(a.alloc).Space]
	last := len(*list) - 1
	moves := (*list)[last]
	(*list)[a.at] = moves
	s.attempts[moves].at = a.at
	*list = (*list)[:last]
}

// relink makes the lists anew, after the VCs changed.
func (s *fold) relink() {
	s.holders = make([][]int32, s.cl.NumSpaces())
	s.running, s.allocs = make([]runners, s.cl.NumSpaces()), make([]allocations, s.cl.NumSpaces())
	for i := range s.attempts {
		s.attempts[i].standing = 0
		if s.attempts[i].job != none {
			s.link(int32(i))
		}
	}
}

// verifyHolders checks that the lists hold exactly the attempts and promises.
func (s *fold) verifyHolders(add func(string, ...any)) {
	listed, all := 0, 0
	for space := range s.holders {
		for at, slot := range s.holders[space] {
			a := &s.attempts[slot]
			if listed++; a.job == none || s.cl.Alloc(a.alloc).Space != int32(space) || a.at != int32(at) {
				add("attempt %v is listed for space %d at %d, not at %d", a.id, space, at, a.at)
				return
			}
		}
	}
	for i := range s.attempts {
		if s.attempts[i].job != none {
			all++
		}
	}
	if listed != all {
		add("%d attempts are listed by VC, but there are %d", listed, all)
	}
}
