package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

func (s *fold) applyBooked(e Booked) {
	slot, ok := s.slots.Get(e.Job)
	if !ok || int(e.Gang) >= len(s.jobs[slot].gangs) {
		return
	}
	if e.Over != "" {
		s.unbook(slot, e.Gang)
		return
	}
	s.setBooking(&s.jobs[slot].gangs[e.Gang], GangRef{Job: e.Job, Gang: e.Gang}, &e)
}

func (s *fold) setBooking(g *gang, ref GangRef, b *Booked) {
	alter(&g.odd).booked = b
	s.bookings = max(s.bookings, b.Turn)
	if i, found := slices.BinarySearchFunc(s.booked, ref, GangRef.compare); !found {
		s.booked = slices.Insert(s.booked, i, ref)
	}
	s.at(b.Start, ref.Job, ref.Gang)
}

// loadBooking takes a booking over from a snapshot.
func (s *fold) loadBooking(g *gang, id model.JobID, at int32, b *Booked) {
	if b != nil {
		s.setBooking(g, GangRef{Job: id, Gang: at}, b)
	}
}

func (s *fold) unbookAll() {
	for len(s.booked) > 0 {
		last := s.booked[len(s.booked)-1]
		s.unbook(s.slots.Of(last.Job), last.Gang)
	}
}

// verifyBooking checks that a gang is listed as booked if and only if it is, and
// that only gangs are that wait, at most with a reservation: that may be revoked.
func (s *fold) verifyBooking(j *job, g int32, add func(string, ...any)) {
	gg := &j.gangs[g]
	_, listed := slices.BinarySearchFunc(s.booked, GangRef{Job: j.id, Gang: g}, GangRef.compare)
	switch b := rare(gg.odd).booked; {
	case listed != (b != nil):
		add("gang %d of job %d: booked %v, listed %v", g, j.id, b != nil, listed)
	case b != nil && (!gg.waiting || gg.attempt != none && s.attempts[gg.attempt].state != model.AttemptReserving):
		add("gang %d of job %d is booked, but it waits for nothing", g, j.id)
	case b != nil && (b.Job != j.id || b.Gang != g || b.Start == 0 && len(b.Leaves) == 0):
		add("gang %d of job %d has a booking that is not its: %+v", g, j.id, *b)
	}
}
