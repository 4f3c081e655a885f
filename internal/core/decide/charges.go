package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
)

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are
// left than are owed, and takes charges back when there are enough again, so that
// every other guarantee holds on what is healthy.
func (s *Pass) settleDoomed() {
	for {
		if all := s.Cluster.Recovered(); all != nil {
			s.shiftCharges(cell.Shift{Spared: all})
			continue
		}
		space, root, id, ok := s.Cluster.Ailing()
		if !ok {
			return
		}
		name, container := s.Cluster.SpaceName(space)
		s.emit(model.Doomed{VC: name, Root: root, Cell: id, Container: container})
	}
}

// walkPostponed walks the VCs that stopped at somebody for whom charges would move, the first of
// these first: it may move them, with all of its VC who stand before those of others.
func (s *Pass) walkPostponed(late []place.Postponed) {
	defer func() { s.Charges.Movers = place.Everybody }()
	for n := 0; len(late) > 0; n++ {
		slices.SortFunc(late, func(a, b place.Postponed) int { return a.At.Compare(b.At) })
		s.Charges.Movers = place.Everybody
		if len(late) > 1 && n < place.PostponedMost {
			s.Charges.Movers = late[1].At
		}
		first := len(s.Out)
		at, stopped := s.walkVC(late[0].Space)
		if askForStopped(s, first, s.Cluster.NumSpaces()); stopped {
			late[0].At = at
			delete(s.Charges.Had, at.GangRef)
			continue
		}
		late = late[1:]
	}
}

func (s *Pass) shiftCharges(sh cell.Shift) {
	for _, ch := range sh.Spared {
		name, container := s.Cluster.SpaceName(ch.Space)
		s.emit(model.Spared{VC: name, Root: ch.Root, Container: container})
	}
	for _, ch := range sh.Doomed {
		name, container := s.Cluster.SpaceName(ch.Space)
		s.emit(model.Doomed{VC: name, Root: ch.Root, Cell: ch.Cell, Container: container})
	}
}
