package decide

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are left than are
// owed, so that all other guarantees hold on healthy cells. It takes charges back when there
// are enough.
func (s *Pass) settleDoomed() {
	for {
		if all := s.Cluster.UnneededCharges(); all != nil {
			s.shiftCharges(cell.ChargeMove{Undoomed: all})
			continue
		}
		space, root, id, ok := s.Cluster.DueCharge()
		if !ok {
			return
		}
		name, container := s.Cluster.SpaceName(space)
		s.emit(model.Doomed{VC: name, Root: root, Cell: id, Container: container})
	}
}

func (s *Pass) shiftCharges(sh cell.ChargeMove) {
	for _, ch := range sh.Undoomed {
		name, container := s.Cluster.SpaceName(ch.Space)
		s.emit(model.Spared{VC: name, Root: ch.Root, Container: container})
	}
	for _, ch := range sh.Doomed {
		name, container := s.Cluster.SpaceName(ch.Space)
		s.emit(model.Doomed{VC: name, Root: ch.Root, Cell: ch.Cell, Container: container})
	}
}
