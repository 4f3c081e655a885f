package decide

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// giveBack takes back what is promised to a job that is held.
func (s *Pass) giveBack(slot int32) {
	for g := range s.Jobs[slot].Gangs {
		s.stay(&s.Jobs[slot].Gangs[g], "its job is held")
		if at := s.Jobs[slot].Gangs[g].Attempt; at != tables.None && s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "its job is held"})
		}
	}
}
