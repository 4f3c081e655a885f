package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

func (s *State) applyBooked(e model.Booked) {
	slot, ok := s.Slots.Get(e.Job)
	if !ok || int(e.Gang) >= len(s.Jobs[slot].Gangs) {
		return
	}
	if e.Over != "" {
		s.Unbook(slot, e.Gang)
		return
	}
	s.setBooking(&s.Jobs[slot].Gangs[e.Gang], model.GangRef{Job: e.Job, Gang: e.Gang}, &e)
}

func (s *State) setBooking(g *tables.Gang, ref model.GangRef, b *model.Booked) {
	tables.SetRare(&g.Rare).Booked = b
	s.Bookings = max(s.Bookings, b.Turn)
	if i, found := slices.BinarySearchFunc(s.Booked, ref, model.GangRef.Compare); !found {
		s.Booked = slices.Insert(s.Booked, i, ref)
	}
	s.SetTimer(b.Start, ref.Job, ref.Gang)
}

// loadBooking takes a booking over from a snapshot.
func (s *State) loadBooking(g *tables.Gang, id model.JobID, at int32, b *model.Booked) {
	if b != nil {
		s.setBooking(g, model.GangRef{Job: id, Gang: at}, b)
	}
}

func (s *State) unbookAll() {
	for len(s.Booked) > 0 {
		last := s.Booked[len(s.Booked)-1]
		s.Unbook(s.Slots.Of(last.Job), last.Gang)
	}
}

// verifyBooking checks that a gang is listed as booked if and only if it is, and
// that only gangs are that wait, at most with a reservation: that may be revoked.
func (s *State) verifyBooking(j *tables.Job, g int32, add func(string, ...any)) {
	gg := &j.Gangs[g]
	_, listed := slices.BinarySearchFunc(s.Booked, model.GangRef{Job: j.ID, Gang: g}, model.GangRef.Compare)
	switch b := tables.RareOf(gg.Rare).Booked; {
	case listed != (b != nil):
		add("gang %d of job %d: booked %v, listed %v", g, j.ID, b != nil, listed)
	case b != nil && (!gg.Waiting || gg.Attempt != tables.None &&
		s.Attempts[gg.Attempt].State != model.AttemptReserving):
		add("gang %d of job %d is booked, but it waits for nothing", g, j.ID)
	case b != nil && (b.Job != j.ID || b.Gang != g || b.Start == 0 && len(b.Leaves) == 0):
		add("gang %d of job %d has a booking that is not its: %+v", g, j.ID, *b)
	}
}
