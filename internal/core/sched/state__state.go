package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// fold is what events say: the tables with their index, and the rest of it.
type fold struct {
	index
	policies Policies
	nextJob  model.JobID
	notes    []Noted        // what policies remember about their VCs, sorted by VC
	failed   []PolicyFailed // sorted by VC; never changed in place
	unmade   []PolicyFailed // see Unmade; never changed in place
	promises []int32        // attempt slots of reservations, in no order
	moved    []moved        // when gangs moved lately, sorted by VC
	habits   Habits         // what part of what it declared work took; no decision depends on it
	debts    []debt         // what VCs borrowed over time, sorted by VC
	bookings int64          // the highest turn of a booking
	turns    int            // how many decisions in a row asked for another
	ended    []endedJob     // since somebody asked
}

// TakeEnded returns the final status of the jobs that ended since the last call.
func (s *fold) TakeEnded() []JobStatus {
	if len(s.ended) == 0 {
		return nil
	}
	out := make([]JobStatus, len(s.ended))
	for i := range s.ended {
		out[i] = s.finalStatus(&s.ended[i])
	}
	s.DropEnded()
	return out
}

// DropEnded forgets the jobs that ended, where nobody wants their status.
func (s *fold) DropEnded() {
	for i := range s.ended {
		s.arenas.rooms.leave(&s.ended[i].job)
	}
	clear(s.ended)
	s.ended = s.ended[:0]
}
