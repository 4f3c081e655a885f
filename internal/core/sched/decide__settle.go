package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// giveBack takes back what is promised to a job that is held.
func (s *pass) giveBack(slot int32) {
	for g := range s.jobs[slot].gangs {
		s.stay(&s.jobs[slot].gangs[g], "its job is held")
		if at := s.jobs[slot].gangs[g].attempt; at != none && s.attempts[at].state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: s.attempts[at].id, Reason: "its job is held"})
		}
	}
}
