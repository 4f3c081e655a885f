package sched

import "github.com/combsched/comb/internal/cell"

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are
// left than are owed, and takes charges back when there are enough again, so that
// every other guarantee holds on what is healthy.
func (s *State) settleDoomed() {
	for {
		if space, root, ok := s.cl.Recovered(); ok {
			name, container := s.cl.SpaceName(space)
			s.emit(Spared{VC: name, Root: root, Container: container})
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

// charged returns the space that a charge is about.
func (s *State) charged(vc cell.VCName, container bool) int32 {
	if container {
		return s.cl.ContainerOf(vc)
	}
	return s.cl.SpaceOf(vc)
}
