package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A booking is what Booked promises to a waiting gang: that its cells are free at
// a time, or when certain jobs have ended. It is part of the state, so a promise
// survives a restart and everybody can read it; the walk keeps it (backfill.go).

func (a GangRef) compare(b GangRef) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

func (s *fold) applyBooked(e Booked) {
	slot, ok := s.slots.Get(e.Job)
	if !ok || int(e.Gang) >= len(s.jobs[slot].gangs) {
		return
	}
	if e.Over != "" {
		s.unbook(slot, e.Gang)
		return
	}
	s.setBooking(&s.jobs[slot].gangs[e.Gang], GangRef{e.Job, e.Gang}, &e)
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
		s.setBooking(g, GangRef{id, at}, b)
	}
}

// unbook ends a gang's booking, if it has one.
func (s *index) unbook(slot, g int32) {
	j := &s.jobs[slot]
	if odd := j.gangs[g].odd; odd == nil || odd.booked == nil {
		return
	}
	alter(&j.gangs[g].odd).booked = nil
	if i, found := slices.BinarySearchFunc(s.booked, GangRef{j.id, g}, GangRef.compare); found {
		s.booked = slices.Delete(s.booked, i, i+1)
	}
}

// bookedBefore returns the jobs whose bookings a gang must leave alone although
// they are not before it in the order: it began to wait, or waits again, after
// they were promised their cells. Its own job is one when another of its gangs is
// booked.
func (s *index) bookedBefore(j *job, g int32) []model.JobID {
	var out []model.JobID
	for _, ref := range s.booked {
		o := s.find(ref.Job)
		if ref != (GangRef{j.id, g}) && o.spec.VC == j.spec.VC && o.spec.Priority >= j.spec.Priority && !slices.Contains(out, o.id) {
			out = append(out, o.id)
		}
	}
	return out
}

func (s *index) unbookAll() {
	for len(s.booked) > 0 {
		last := s.booked[len(s.booked)-1]
		s.unbook(s.slots.Of(last.Job), last.Gang)
	}
}

// verifyBooking checks that a gang is listed as booked if and only if it is, and
// that only gangs are that wait, at most with a reservation: that may be revoked.
func (s *index) verifyBooking(j *job, g int32, add func(string, ...any)) {
	gg := &j.gangs[g]
	_, listed := slices.BinarySearchFunc(s.booked, GangRef{j.id, g}, GangRef.compare)
	switch b := rare(gg.odd).booked; {
	case listed != (b != nil):
		add("gang %d of job %d: booked %v, listed %v", g, j.id, b != nil, listed)
	case b != nil && (!gg.waiting || gg.attempt != none && s.attempts[gg.attempt].state != model.AttemptReserving):
		add("gang %d of job %d is booked, but it waits for nothing", g, j.id)
	case b != nil && (b.Job != j.id || b.Gang != g || b.Start == 0 && len(b.Leaves) == 0):
		add("gang %d of job %d has a booking that is not its: %+v", g, j.id, *b)
	}
}

// heldBack ends the bookings of gangs of a priority that their policy does not ask for, and
// cannot say when it will: else whoever is to start before them waits for them, and they
// for that.
func (o *outlook) heldBack() {
	if o == nil {
		return
	}
	p, ok := o.s.pol[o.space].(Restrainer)
	if !ok {
		return
	}
	for i := range o.books {
		b := &o.books[i]
		if b.over || b.ranked || b.prio != o.prio || b.prio < cell.MinGuaranteed {
			continue
		}
		was := o.s.ask(o.space)
		why, until := p.Restrains(o.s.view(o.space, b.prio), b.ref)
		o.s.ask(was)
		if why != "" && until == 0 {
			o.end(b)
		}
	}
}

// elsewhere is a search for a gang without the cells that its own booking binds, and those that
// bookings do that it passes: where its VC has cells smaller than a node, or is part of another,
// they may keep it from others that are free by now.
func (o *outlook) elsewhere(a asking, find func(asking) (plan, bool)) (p plan, ok bool) {
	for i := range o.books {
		b := &o.books[i]
		own := b.ref == a.ref && !b.over
		if len(b.binds) == 0 || !own && !o.passes(a, i) {
			continue
		}
		if own {
			a.by = b.free // it is not to wait for who leaves later
		}
		o.aside |= 1 << i
	}
	if o.aside == 0 {
		return plan{}, false
	}
	o.rehold()
	p, ok = find(a)
	if o.aside = 0; !ok {
		o.rehold()
	}
	return p, ok // whoever starts it ends its booking, and those that it passes, and says so
}
