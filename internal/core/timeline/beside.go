package timeline

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/status"
)

// Starting a gang beside the bookings of others.

// Want returns what a gang asks for beside the bookings; it leaves keep alone.
func (tl *Timeline) Want(a Candidate, keep cell.LeafSet) place.Want {
	return place.Want{J: a.J, G: a.G, Prefer: tl.Prefer, Blocked: a.Blocked, Keep: keep, Size: a.Size}
}

// Passing looks for cells to start on now, without delaying a booking that the gang must not
// pass.
func (tl *Timeline) Passing(a Candidate) (place.Plan, bool) {
	if i := tl.find(a.Ref); i >= 0 && tl.aside>>i&1 == 0 && tl.books[i].free <= tl.s.Now {
		a.atBooking, a.late = true, tl.books[i].late()
	}
	end := a.until(tl.s.Now)
	p, ok := tl.planBeside(a, tl.mustLeaveAlone(a, tl.s.Now, end))
	if !ok || len(p.Victims) == 0 {
		return p, ok
	}
	// It starts when its victims have left, and ends so much later.
	later := end.Add(graceOf(&tl.s.Index, p.Victims))
	if tl.mustLeaveAlone(a, tl.s.Now, later) == tl.mustLeaveAlone(a, tl.s.Now, end) {
		return p, true
	}
	return tl.planBeside(a, tl.mustLeaveAlone(a, tl.s.Now, forever))
}

func (tl *Timeline) planBeside(a Candidate, mask uint64) (place.Plan, bool) {
	gg := &a.J.Gangs[a.G]
	key := passKey{shape: gg.Shape.Text, mask: mask, by: a.by, limit: a.length > 0, aside: tl.aside}
	for _, other := range a.Others {
		key.shape += map[bool]string{true: "x", false: "o"}[other]
	}
	if i := tl.find(a.Ref); i >= 0 {
		key.by = tl.books[i].free
	}
	if !gg.Avoids() && tl.failed[key] {
		return place.Plan{}, false
	}
	keep := tl.union(mask)
	if key.by != 0 {
		keep = keep.With(tl.leaving(key.by)) // it must not wait for attempts that leave later
	}
	p, ok := tl.planOutside(a, keep)
	if ok {
		tl.useKept(a, mask, keep, &p)
	}
	if !ok && !gg.Avoids() {
		tl.failed[key] = true
	}
	return p, ok
}

func (tl *Timeline) planOutside(a Candidate, keep cell.LeafSet) (place.Plan, bool) {
	return tl.s.Plan(tl.Want(a, keep))
}

// useKept moves a gang that is gone in time onto leaves that are booked for later, so that
// other leaves serve gangs which stay longer.
func (tl *Timeline) useKept(a Candidate, mask uint64, keep cell.LeafSet, p *place.Plan) {
	later := tl.union(tl.mustLeaveAlone(a, 0, forever) &^ mask)
	if later == nil || p.Disturbs() {
		return
	}
	tl.read()
	if in, ok := tl.planOutside(a, keep.With(tl.idle.Without(later))); ok && !in.Disturbs() {
		*p = in
	}
	cell.SwapLeaves(tl.s.Cluster.Forest(), &p.Placement, func(l cell.LeafID) bool {
		return !keep.Has(l) &&
			tl.idle.Has(l) && tl.unused(l)
	},
		func(l cell.LeafID) model.Time {
			if later.Has(l) {
				return 1
			}
			return 0
		})
}

// unused reports whether a leaf is healthy, free and not reserved.
func (tl *Timeline) unused(l cell.LeafID) bool {
	hold, promised := tl.s.Cluster.Holder(l)
	return hold == cell.None && promised == cell.None && !tl.s.LeafBad(l)
}

// graceOf is the longest grace of some holders.
func graceOf(s *index.Index, victims []cell.AllocID) model.Duration {
	var most model.Duration
	for _, v := range victims {
		most = max(most, s.Jobs[s.Holder(v).Job].Spec.Grace)
	}
	return most
}

// mustLeaveAlone returns the bit set of bookings that a gang must leave alone between two times:
// those of other gangs, of its priority or higher, that begin before it ends.
func (tl *Timeline) mustLeaveAlone(a Candidate, from, to model.Time) uint64 {
	var m uint64
	for i := range tl.books {
		b := &tl.books[i]
		if !b.ended && tl.aside>>i&1 == 0 && b.ref != a.Ref && b.prio >= a.prio && tl.begins(a, b) < to &&
			b.end > from && !tl.outranks(a, i) {
			m |= 1 << i
		}
	}
	return m
}

// begins is from when on a gang must leave the cells of a booking alone. A gang booked before
// may use them until they are free for the later booking. One that comes after must be gone
// when the booking was told to begin, or could have if no gang had passed it: else each would
// delay it a little more. At its own booked turn a gang may be late by its own delay, up to a
// minute, so that a few seconds do not cost it its place.
func (tl *Timeline) begins(a Candidate, b *booking) model.Time {
	switch {
	case b.start == 0:
		return 0
	case a.turn != 0 && b.prio == a.prio && b.turn > a.turn:
		return b.free
	case a.atBooking:
		return min(max(b.freeUnpassed, b.start), b.free).Add(min(a.late, status.MaxUntold))
	}
	return min(b.freeUnpassed, b.start)
}

func (tl *Timeline) union(mask uint64) cell.LeafSet {
	var set cell.LeafSet
	for i := range tl.books {
		if mask>>i&1 != 0 {
			set = set.With(tl.books[i].set)
		}
	}
	return set
}

// kept returns the leaves of the bookings that a gang must leave alone between two times.
func (tl *Timeline) kept(a Candidate, from, to model.Time) cell.LeafSet {
	return tl.union(tl.mustLeaveAlone(a, from, to))
}

// WithoutHeldCells searches for a gang without holding the cells of its own booking and of those
// that it passes. Where the VC has parts of nodes, or is part of another, those held cells may be
// what keeps free ones from it.
func (tl *Timeline) WithoutHeldCells(a Candidate, find func(Candidate) (place.Plan, bool)) (p place.Plan, ok bool) {
	for i := range tl.books {
		b := &tl.books[i]
		own := b.ref == a.Ref && !b.ended
		if len(b.binds) == 0 || !own && !tl.outranks(a, i) {
			continue
		}
		if own {
			a.by = b.free // it must not wait for attempts that leave later
		}
		tl.aside |= 1 << i
	}
	if tl.aside == 0 {
		return place.Plan{}, false
	}
	tl.rehold()
	p, ok = find(a)
	if tl.aside = 0; !ok {
		tl.rehold()
	}
	return p, ok // if it starts, Started ends these bookings and holds the others
}

// Beside returns the leaves of bookings that a gang must leave alone if it starts now.
func (tl *Timeline) Beside(a Candidate) cell.LeafSet { return tl.kept(a, tl.s.Now, a.until(tl.s.Now)) }

// PlanWith makes a plan for a gang that may preempt its own priority, beside the bookings that it
// must leave alone. Gangs later in the order may stop fewer, so where one found nothing, those of
// an equal shape find nothing either, unless alone.
func (tl *Timeline) PlanWith(a Candidate, shape string, alone bool,
	plan func(place.Want) (place.Plan, bool)) (p place.Plan, ok bool) {
	mask := tl.mustLeaveAlone(a, tl.s.Now, forever)
	key := passKey{shape: shape, mask: mask, limit: a.length > 0, aside: tl.aside, size: a.Size, takes: true}
	if i := tl.find(a.Ref); i >= 0 {
		key.by = tl.books[i].free
	}
	if !alone && tl.failed[key] {
		return place.Plan{}, false
	}
	if p, ok = plan(tl.Want(a, tl.union(mask))); !ok && !alone {
		tl.failed[key] = true
	}
	return p, ok
}
