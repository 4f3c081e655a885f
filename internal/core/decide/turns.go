package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// settleTurns gives the turns of an allocation to those of its members that still live.
func (s *Pass) settleTurns(slot int32) {
	a := &s.Attempts[slot]
	r := s.RotationOf(a)
	if r == nil {
		return
	}
	left := model.Rotation{Quantum: r.Quantum, Epoch: s.Now}
	for _, turn := range r.Turns {
		turn = slices.DeleteFunc(slices.Clone(turn), func(id model.AttemptID) bool {
			m := s.Live(id)
			return m == nil || m.Alive == 0
		})
		if len(turn) > 0 {
			left.Turns = append(left.Turns, turn)
		}
	}
	if len(left.Turns) < 2 {
		left.Quantum = 0
	}
	if len(left.Turns) > 0 && !left.Equal(r) {
		s.emit(model.Rotated{Rotation: left})
	}
}
