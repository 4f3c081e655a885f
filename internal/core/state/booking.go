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

// loadBooking takes a booking from a snapshot.
func (s loader) loadBooking(g *tables.Gang, id model.JobID, at int32, b *model.Booked) {
	if b != nil {
		s.setBooking(g, model.GangRef{Job: id, Gang: at}, b)
	}
}
