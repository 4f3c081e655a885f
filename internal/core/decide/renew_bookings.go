package decide

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// How a walk takes over existing bookings: those whose cells can still be had stay, as much
// later as what is before them; the others are made anew.

// enterPriority takes over the bookings of a priority when the walk reaches it, in the order in
// which they were made. One whose cells cannot be had is made anew beside those before it, and
// those after it give way. One without a time comes last: it was told none.
func (o *bookings) enterPriority(p cell.Priority) {
	if p == o.prio {
		return
	}
	o.prio = p
	o.waiters = o.waiters[:0]
	clear(o.failed)
	clear(o.unbookable)
	clear(o.endless)
	var lost []candidate
	for _, a := range o.bookedGangs(p) {
		if !o.mayBook(a) {
			continue
		}
		if b, ok := o.restore(a); ok && o.add(b) {
			continue
		}
		o.rehold() // without the cells that restore held
		if a.told() == 0 {
			lost = append(lost, a)
			continue
		}
		o.rebook(a)
	}
	for _, a := range lost {
		o.rebook(a)
	}
	o.retime()
	o.forward()
}

// bookedGangs returns the booked gangs of a priority, in the order in which their bookings were
// made.
func (o *bookings) bookedGangs(p cell.Priority) []candidate {
	var out []candidate
	for _, ref := range o.s.Booked {
		j := o.s.Find(ref.Job)
		if o.s.Space(j.Spec.VC) == o.space && j.Spec.Priority == p && o.s.Eligible(j, ref.Gang) &&
			j.Gangs[ref.Gang].Attempt == tables.None {
			out = append(out, o.candidateOf(j, ref.Gang))
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(a.turn, b.turn) })
	return out
}

// told is the start of a gang's booking as it was told; 0 without a booking or a time.
func (a candidate) told() model.Time {
	if was := tables.RareOf(a.j.Gangs[a.g].Rare).Booked; was != nil {
		return was.Start
	}
	return 0
}

// rebook books a gang again: under easy at each walk, else because its booking lost its cells.
func (o *bookings) rebook(a candidate) {
	b, _, ok := o.search(a, o.s.Now)
	if !ok {
		return
	}
	was := a.told()
	switch {
	case b.start == 0 || was == 0:
	case !o.easy:
		b.first, b.freeUnpassed = b.start, b.start
	case was < b.start && b.start <= was.Add(maxUntold):
		b.start = was // close enough to what was told
	}
	b.due = b.free == o.s.Now && was == o.s.Now
	o.add(b)
}

// restore restores a booking that keeps its cells, if they can still be had.
func (o *bookings) restore(a candidate) (booking, bool) {
	defer o.s.BlameJob(a.ref.Job) // not the job whose turn it is
	was := tables.RareOf(a.j.Gangs[a.g].Rare).Booked
	if len(was.Leaves) == 0 {
		return booking{}, false
	}
	leaves, binds, ok := o.standing(was)
	if !ok {
		return booking{}, false
	}
	b := o.newBook(a, was.Start, leaves, binds)
	if !o.delay(a, &b) || !o.obtainable(a, &b) || !slices.Equal(binds, was.Binds) && !o.packs(a, &b) {
		return booking{}, false
	}
	b.due, b.keepsCells = b.free == o.s.Now, true
	if was.Start == 0 {
		b.after = o.unlimited(a, b.leaves)
	}
	return b, true
}

// retime gives bookings of this priority that have no time one, if it is known by now beside
// all others.
func (o *bookings) retime() {
	for i := range len(o.books) {
		b := &o.books[i]
		if b.ended || b.prio != o.prio || b.start != 0 || len(o.books) == maxNoted {
			continue
		}
		a := o.candidateOf(o.s.Find(b.ref.Job), b.ref.Gang)
		t, res, ok := o.earliest(a, o.instants(a, o.s.Now+1))
		switch {
		case ok:
			o.replace(a, o.timedBook(a, t, res))
		case len(b.after) == 0: // only other bookings are in the way by now
			o.forget(a.ref)
			o.rehold()
			o.rebook(a)
		}
	}
}

// replace puts a booking in the place of the gang's old one.
func (o *bookings) replace(a candidate, b booking) {
	o.forget(a.ref)
	o.rehold()
	o.add(b)
}

// standing returns the present cells of a booking, and holds them: a booking names cells of the
// VC, and follows them when they are bound elsewhere.
func (o *bookings) standing(was *model.Booked) ([]cell.LeafID, []cell.Bind, bool) {
	binds, held, ok := o.s.Cluster.HoldAnew(o.space, was.Binds)
	if !ok {
		return nil, nil, false
	}
	o.held = append(o.held, held...)
	f := o.s.Cluster.Forest()
	leaves := slices.Clone(was.Leaves)
	for i, l := range was.Leaves {
		k := slices.IndexFunc(was.Binds, func(b cell.Bind) bool {
			return b.Space == 0 &&
				f.Contains(b.Cell, f.Leaves[l])
		})
		if k < 0 {
			return nil, nil, false
		}
		leaves[i] = f.Cells[binds[k].Cell].FirstLeaf + l - f.Cells[was.Binds[k].Cell].FirstLeaf
	}
	slices.Sort(leaves)
	return leaves, binds, true
}

// packs reports whether a gang fits exactly the leaves of a booking. After its cells moved,
// they may no longer be on one node together.
func (o *bookings) packs(a candidate, b *booking) bool {
	r := o.s.Preempting(o.s.Request(place.Want{J: a.j, G: a.g, Prefer: o.prefer}), a.prio)
	var elsewhere cell.LeafSet
	for l := range o.s.Cluster.Forest().Leaves {
		elsewhere = elsewhere.Add(cell.LeafID(l))
	}
	r.Excluded = elsewhere.Without(b.set)
	r.Gone = func(id cell.AllocID) bool { return b.start == 0 || o.gone(id, b.free) }
	_, ok := o.placeLater(a, &r)
	return ok
}

// newBook makes a booking of leaves in preassigned cells of the VC. The cells of VCs around it
// come with these and are not listed.
func (o *bookings) newBook(a candidate, start model.Time, leaves []cell.LeafID, binds []cell.Bind) booking {
	binds = slices.DeleteFunc(slices.Clone(binds), func(b cell.Bind) bool { return b.Space != 0 })
	b := booking{ref: a.ref, prio: a.prio, start: start, first: start, free: start, end: forever, leaves: leaves,
		binds: binds, since: o.s.Now}
	if start > 0 {
		b.end = a.until(start)
	}
	if was := tables.RareOf(a.j.Gangs[a.g].Rare).Booked; a.turn != 0 {
		b.turn, b.since = was.Turn, was.Since
		if first := cmp.Or(was.First, was.Start); first != 0 && start != 0 {
			b.first = min(first, start)
		}
	}
	if b.freeUnpassed = b.first; b.turn == 0 {
		o.lastTurn++
		b.turn = o.lastTurn
	}
	b.chains, b.pins = o.s.ChainsAndPins(a.j, a.g)
	for _, l := range leaves {
		b.set = b.set.Add(l)
	}
	return b
}

// delay makes a booking later by as much as the gangs before it on its cells leave later than
// told: limits count from the start, which takes a while. Bookings stay on their cells and in
// their order. It is false if a gang there has no limit or should have left more than maxUntold
// ago.
func (o *bookings) delay(a candidate, b *booking) bool {
	if b.start == 0 {
		return true
	}
	o.read()
	b.free = max(b.first, o.s.Now)
	for _, l := range b.leaves {
		hold, promised := o.s.Cluster.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None || o.preemptible(a, id) {
				continue
			}
			end := o.leftBy[o.s.ByAlloc[id]]
			if end.Add(maxUntold) < o.s.Now || end == forever {
				return false
			}
			if b.free = max(b.free, end); o.before(id, b) {
				b.freeUnpassed = max(b.freeUnpassed, end)
			}
		}
	}
	for again := true; again; {
		again = false
		b.end, a.atBooking, a.late = a.until(b.free), true, b.late()
		m := o.mask(a, b.free, b.end)
		for i := range o.books {
			by := &o.books[i]
			if m>>i&1 == 0 || !by.set.Meets(b.set) {
				continue
			}
			if by.end == forever {
				return false
			}
			b.free, again = by.end, true
			if by.prio > b.prio || by.turn < b.turn {
				b.freeUnpassed = max(b.freeUnpassed, by.end)
			}
			break
		}
	}
	return true
}

// before reports whether a holder got its cells, or a booking for them, before a booking was
// made, or has a higher priority.
func (o *bookings) before(id cell.AllocID, b *booking) bool {
	h := o.s.Holder(id)
	if turn := tables.RareOf(h.Rare).BookingTurn; turn != 0 && turn < b.turn {
		return true
	}
	return h.Placed < b.since || o.s.Cluster.Alloc(id).Priority > b.prio
}

// obtainable reports whether the leaves of a booking are free at its start, as far as limits
// tell, and not kept for another booking.
func (o *bookings) obtainable(a candidate, b *booking) bool {
	a.atBooking, a.late = true, b.late()
	if b.set.Meets(o.kept(a, b.free, b.end)) {
		return false
	}
	r := o.s.Request(place.Want{J: a.j, G: a.g, Prefer: o.prefer})
	f := o.s.Cluster.Forest()
	for _, l := range b.leaves {
		hold, promised := o.s.Cluster.Holder(l)
		node := f.Cells[f.Leaves[l]].Node
		switch {
		case promised != cell.None && !o.outOfWay(a, promised, b.free), o.s.LeafBad(l):
			return false
		case r.Avoided.Has(node), r.Allowed != nil && !r.Allowed.Has(node): // the configuration changed
			return false
		case hold == cell.None, o.outOfWay(a, hold, b.free):
		case b.start != 0 || o.s.HasUnknown(hold):
			return false
		}
	}
	return true
}

// forward moves bookings of this priority that keep their cells to earlier times: the first, as
// cells may have come free sooner than limits said, and those much later than told. If these
// stay late, users are told the new time.
func (o *bookings) forward() {
	if o.easy {
		return
	}
	first := true
	for i := range len(o.books) {
		b := &o.books[i]
		if b.prio != o.prio || !b.timed() || b.free <= o.s.Now || b.ended || len(o.books) == maxNoted {
			continue
		}
		late := b.free > b.start.Add(maxUntold)
		moved := (first || late) && o.sooner(b)
		if !moved && (late || b.free.Add(maxUntold) < b.start) {
			b.start = b.free
		}
		first = false
	}
}

// sooner rebooks a gang for an earlier time, if it can.
func (o *bookings) sooner(b *booking) bool {
	defer o.s.BlameJob(b.ref.Job)
	a := o.candidateOf(o.s.Find(b.ref.Job), b.ref.Gang)
	times := o.instants(a, o.s.Now+1)
	for _, t := range times[:min(len(times), maxEarlier)] {
		if t >= b.free {
			return false
		}
		if res, ok := o.fits(a, t, nil); ok {
			o.replace(a, o.timedBook(a, t, res))
			return true
		}
	}
	return false
}

// precedes reports whether a booking binds a lazily preempted attempt: it has a higher
// priority, or was made before the attempt was placed. The attempt keeps its place before later
// bookings.
func (o *bookings) precedes(b *booking, a *tables.Attempt) bool {
	prio := o.s.Jobs[a.Job].Spec.Priority
	switch {
	case b.ended || b.prio < prio:
		return false
	case b.prio == prio && a.Placed == b.since && tables.RareOf(a.Rare).BookingTurn == 0: // in one decision
		return b.ref.Job < a.ID.Job
	}
	return b.prio > prio || !o.before(a.Alloc, b)
}

// holdBinding holds only the cells of bookings that bind a lazily preempted attempt.
func (o *bookings) holdBinding(a *tables.Attempt) {
	o.release()
	for i := range o.books {
		if b := &o.books[i]; o.precedes(b, a) {
			held, _ := o.s.Cluster.Hold(o.space, b.binds)
			o.held = append(o.held, held...)
		}
	}
}

// reholdAfterUpgrade holds the cells of all bookings again, and ends those that lost cells to the
// upgrade.
func (o *bookings) reholdAfterUpgrade() {
	o.release()
	o.holdAll()
	for i := range o.books {
		if b := &o.books[i]; !b.ended && b.start != 0 && !o.obtainable(o.candidateOf(o.s.Find(b.ref.Job), b.ref.Gang),
			b) {
			o.end(b)
		}
	}
	o.rehold()
}
