package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// settleTurns gives the turns of an allocation to those of its members that still live.
func (s *pass) settleTurns(slot int32) {
	a := &s.attempts[slot]
	r := s.rotationOf(a)
	if r == nil {
		return
	}
	left := model.Rotation{Quantum: r.Quantum, Epoch: s.now}
	for _, turn := range r.Turns {
		turn = slices.DeleteFunc(slices.Clone(turn), func(id model.AttemptID) bool {
			m := s.live(id)
			return m == nil || m.alive == 0
		})
		if len(turn) > 0 {
			left.Turns = append(left.Turns, turn)
		}
	}
	if len(left.Turns) < 2 {
		left.Quantum = 0
	}
	if len(left.Turns) > 0 && !left.Equal(r) {
		s.emit(Rotated{Rotation: left})
	}
}
