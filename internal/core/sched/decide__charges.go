package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are
// left than are owed, and takes charges back when there are enough again, so that
// every other guarantee holds on what is healthy.
func (s *pass) settleDoomed() {
	for {
		if all := s.cl.Recovered(); all != nil {
			s.shiftCharges(cell.Shift{Spared: all})
			continue
		}
		space, root, id, ok := s.cl.Ailing()
		if !ok {
			return
		}
		name, container := s.cl.SpaceName(space)
		s.emit(Doomed{VC: name, Root: root, Cell: id, Container: container})
	}
}

// walkPostponed walks the VCs that stopped at somebody for whom charges would move, the first of
// these first: it may move them, with all of its VC who stand before those of others.
func (s *pass) walkPostponed(late []postponed) {
	defer func() { s.charges.movers = everybody }()
	for n := 0; len(late) > 0; n++ {
		slices.SortFunc(late, func(a, b postponed) int { return a.at.compare(b.at) })
		s.charges.movers = everybody
		if len(late) > 1 && n < postponedMost {
			s.charges.movers = late[1].at
		}
		first := len(s.out)
		at, stopped := s.walkVC(late[0].space)
		if askForStopped(s, first, s.cl.NumSpaces()); stopped {
			late[0].at = at
			delete(s.charges.had, at.GangRef)
			continue
		}
		late = late[1:]
	}
}

func (s *pass) shiftCharges(sh cell.Shift) {
	for _, ch := range sh.Spared {
		name, container := s.cl.SpaceName(ch.Space)
		s.emit(Spared{VC: name, Root: ch.Root, Container: container})
	}
	for _, ch := range sh.Doomed {
		name, container := s.cl.SpaceName(ch.Space)
		s.emit(Doomed{VC: name, Root: ch.Root, Cell: ch.Cell, Container: container})
	}
}
