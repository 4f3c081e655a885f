package timeline

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// renewal takes over the bookings that there are.
type renewal struct{ *Timeline }

// How a walk takes over existing bookings: those whose cells can still be had stay, as much
// later as what is before them; the others are made anew.

// enterPriority takes over the bookings of a priority when the walk reaches it, in the order in
// which they were made. One whose cells cannot be had is made anew beside those before it, and
// those after it give way. One without a time comes last: it was told none.
func (tl renewal) enterPriority(p cell.Priority) {
	tl.prio = p
	clear(tl.failed)
	clear(tl.unbookable)
	clear(tl.endless)
	var lost []Candidate
	for _, a := range tl.bookedGangs(p) {
		if !tl.mayBook(a) {
			continue
		}
		if b, ok := tl.restore(a); ok && tl.add(b) {
			continue
		}
		tl.rehold() // without the cells that restore held
		if a.told() == 0 {
			lost = append(lost, a)
			continue
		}
		tl.rebook(a)
	}
	for _, a := range lost {
		tl.rebook(a)
	}
	tl.retime()
	tl.forward()
}

// bookedGangs returns the booked gangs of a priority, in the order in which their bookings were
// made.
func (tl renewal) bookedGangs(p cell.Priority) []Candidate {
	var out []Candidate
	for _, ref := range tl.s.Booked {
		j := tl.s.Find(ref.Job)
		if tl.s.Space(j.Spec.VC) == tl.space && j.Spec.Priority == p && tl.s.Eligible(j, ref.Gang) &&
			j.Gangs[ref.Gang].Attempt == tables.None {
			out = append(out, tl.CandidateOf(j, ref.Gang))
		}
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return cmp.Compare(a.turn, b.turn) })
	return out
}

// rebook books a gang again: under easy at each walk, else because its booking lost its cells.
func (tl renewal) rebook(a Candidate) {
	b, _, ok := finder(tl).search(a, tl.s.Now)
	if !ok {
		return
	}
	was := a.told()
	switch {
	case b.start == 0 || was == 0:
	case !tl.easy:
		b.first, b.freeUnpassed = b.start, b.start
	case was < b.start && b.start <= was.Add(status.MaxUntold):
		b.start = was // close enough to what was told
	}
	b.due = b.free == tl.s.Now && was == tl.s.Now
	tl.add(b)
}

// restore restores a booking that keeps its cells, if they can still be had.
func (tl renewal) restore(a Candidate) (booking, bool) {
	defer tl.s.BlameJob(a.Ref.Job) // not the job whose turn it is
	was := tables.RareOf(a.J.Gangs[a.G].Rare).Booked
	if len(was.Leaves) == 0 {
		return booking{}, false
	}
	leaves, binds, ok := tl.standing(was)
	if !ok {
		return booking{}, false
	}
	b := tl.newBook(a, was.Start, leaves, binds)
	if !tl.delay(a, &b) || !tl.obtainable(a, &b) || !slices.Equal(binds, was.Binds) && !tl.packs(a, &b) {
		return booking{}, false
	}
	b.due, b.keepsCells = b.free == tl.s.Now, true
	if was.Start == 0 {
		b.after = finder(tl).unlimited(a, b.leaves)
	}
	return b, true
}

// retime gives bookings of this priority that have no time one, if it is known by now beside
// all others.
func (tl renewal) retime() {
	for i := range len(tl.books) {
		b := &tl.books[i]
		if b.ended || b.prio != tl.prio || b.start != 0 || len(tl.books) == maxNoted {
			continue
		}
		a := tl.CandidateOf(tl.s.Find(b.ref.Job), b.ref.Gang)
		t, res, ok := finder(tl).earliest(a, finder(tl).instants(a, tl.s.Now+1))
		switch {
		case ok:
			tl.replace(a, finder(tl).timedBook(a, t, res))
		case len(b.after) == 0: // only other bookings are in the way by now
			tl.forget(a.Ref)
			tl.rehold()
			tl.rebook(a)
		}
	}
}

// replace puts a booking in the place of the gang's old one.
func (tl renewal) replace(a Candidate, b booking) {
	tl.forget(a.Ref)
	tl.rehold()
	tl.add(b)
}

// standing returns the present cells of a booking, and holds them: a booking names cells of the
// VC, and follows them when they are bound elsewhere.
func (tl renewal) standing(was *model.Booked) ([]cell.LeafID, []cell.Bind, bool) {
	binds, held, ok := tl.s.Cluster.HoldAnew(tl.space, was.Binds)
	if !ok {
		return nil, nil, false
	}
	tl.held = append(tl.held, held...)
	f := tl.s.Cluster.Forest()
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
func (tl renewal) packs(a Candidate, b *booking) bool {
	r := tl.s.Preempting(tl.s.Request(place.Want{J: a.J, G: a.G, Prefer: tl.Prefer}), a.prio)
	var elsewhere cell.LeafSet
	for l := range tl.s.Cluster.Forest().Leaves {
		elsewhere = elsewhere.Add(cell.LeafID(l))
	}
	r.Excluded = elsewhere.Without(b.set)
	r.Gone = func(id cell.AllocID) bool { return b.start == 0 || tl.gone(id, b.free) }
	_, ok := finder(tl).placeLater(a, &r)
	return ok
}

// newBook makes a booking of leaves in preassigned cells of the VC. The cells of VCs around it
// come with these and are not listed.
func (tl *Timeline) newBook(a Candidate, start model.Time, leaves []cell.LeafID, binds []cell.Bind) booking {
	binds = slices.DeleteFunc(slices.Clone(binds), func(b cell.Bind) bool { return b.Space != 0 })
	b := booking{ref: a.Ref, prio: a.prio, start: start, first: start, free: start, end: forever, leaves: leaves,
		binds: binds, since: tl.s.Now}
	if start > 0 {
		b.end = a.until(start)
	}
	if was := tables.RareOf(a.J.Gangs[a.G].Rare).Booked; a.turn != 0 {
		b.turn, b.since = was.Turn, was.Since
		if first := cmp.Or(was.First, was.Start); first != 0 && start != 0 {
			b.first = min(first, start)
		}
	}
	if b.freeUnpassed = b.first; b.turn == 0 {
		tl.lastTurn++
		b.turn = tl.lastTurn
	}
	b.chains, b.pins = tl.s.ChainsAndPins(a.J, a.G)
	for _, l := range leaves {
		b.set = b.set.Add(l)
	}
	return b
}

// delay makes a booking later by as much as the gangs before it on its cells leave later than told:
// limits count from the start, which takes a while. Bookings stay on their cells and in their
// order. It is false if a gang there has no limit or should have left more than status.MaxUntold
// ago.
func (tl *Timeline) delay(a Candidate, b *booking) bool {
	if b.start == 0 {
		return true
	}
	tl.read()
	b.free = max(b.first, tl.s.Now)
	for _, l := range b.leaves {
		hold, promised := tl.s.Cluster.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None || tl.preemptible(a, id) {
				continue
			}
			end := tl.leftBy[tl.s.ByAlloc[id]]
			if end.Add(status.MaxUntold) < tl.s.Now || end == forever {
				return false
			}
			if b.free = max(b.free, end); tl.before(id, b) {
				b.freeUnpassed = max(b.freeUnpassed, end)
			}
		}
	}
	for again := true; again; {
		again = false
		b.end, a.atBooking, a.late = a.until(b.free), true, b.late()
		m := tl.mustLeaveAlone(a, b.free, b.end)
		for i := range tl.books {
			by := &tl.books[i]
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
func (tl *Timeline) before(id cell.AllocID, b *booking) bool {
	h := tl.s.Holder(id)
	if turn := tables.RareOf(h.Rare).BookingTurn; turn != 0 && turn < b.turn {
		return true
	}
	return h.Placed < b.since || tl.s.Cluster.Alloc(id).Priority > b.prio
}

// obtainable reports whether the leaves of a booking are free at its start, as far as limits
// tell, and not kept for another booking.
func (tl *Timeline) obtainable(a Candidate, b *booking) bool {
	a.atBooking, a.late = true, b.late()
	if b.set.Meets(tl.kept(a, b.free, b.end)) {
		return false
	}
	r := tl.s.Request(place.Want{J: a.J, G: a.G, Prefer: tl.Prefer})
	f := tl.s.Cluster.Forest()
	for _, l := range b.leaves {
		hold, promised := tl.s.Cluster.Holder(l)
		node := f.Cells[f.Leaves[l]].Node
		switch {
		case promised != cell.None && !tl.outOfWay(a, promised, b.free), tl.s.LeafBad(l):
			return false
		case r.Avoided.Has(node), r.Allowed != nil && !r.Allowed.Has(node): // the configuration changed
			return false
		case hold == cell.None, tl.outOfWay(a, hold, b.free):
		case b.start != 0 || tl.s.HasUnknown(hold):
			return false
		}
	}
	return true
}

// forward moves bookings of this priority that keep their cells to earlier times: the first, as
// cells may have come free sooner than limits said, and those much later than told. If these
// stay late, users are told the new time.
func (tl renewal) forward() {
	if tl.easy {
		return
	}
	first := true
	for i := range len(tl.books) {
		b := &tl.books[i]
		if b.prio != tl.prio || !b.timed() || b.free <= tl.s.Now || b.ended || len(tl.books) == maxNoted {
			continue
		}
		late := b.free > b.start.Add(status.MaxUntold)
		moved := (first || late) && tl.sooner(b)
		if !moved && (late || b.free.Add(status.MaxUntold) < b.start) {
			b.start = b.free
		}
		first = false
	}
}

// sooner rebooks a gang for an earlier time, if it can.
func (tl renewal) sooner(b *booking) bool {
	defer tl.s.BlameJob(b.ref.Job)
	a := tl.CandidateOf(tl.s.Find(b.ref.Job), b.ref.Gang)
	times := finder(tl).instants(a, tl.s.Now+1)
	for _, t := range times[:min(len(times), maxEarlier)] {
		if t >= b.free {
			return false
		}
		if res, ok := finder(tl).fits(a, t, nil); ok {
			tl.replace(a, finder(tl).timedBook(a, t, res))
			return true
		}
	}
	return false
}

// precedes reports whether a booking binds a lazily preempted attempt: it has a higher
// priority, or was made before the attempt was placed. The attempt keeps its place before later
// bookings.
func (tl *Timeline) precedes(b *booking, a *tables.Attempt) bool {
	prio := tl.s.Jobs[a.Job].Spec.Priority
	switch {
	case b.ended || b.prio < prio:
		return false
	case b.prio == prio && a.Placed == b.since && tables.RareOf(a.Rare).BookingTurn == 0: // in one decision
		return b.ref.Job < a.ID.Job
	}
	return b.prio > prio || !tl.before(a.Alloc, b)
}

// HoldBinding holds only the cells of bookings that bind a lazily preempted attempt.
func (tl *Timeline) HoldBinding(a *tables.Attempt) {
	tl.Release()
	for i := range tl.books {
		if b := &tl.books[i]; tl.precedes(b, a) {
			held, _ := tl.s.Cluster.Hold(tl.space, b.binds)
			tl.held = append(tl.held, held...)
		}
	}
}

// ReholdAfterUpgrade holds the cells of all bookings again, and ends those that lost cells to the
// upgrade.
func (tl *Timeline) ReholdAfterUpgrade() {
	tl.Release()
	tl.HoldAll()
	for i := range tl.books {
		b := &tl.books[i]
		if b.ended || b.start == 0 {
			continue
		}
		if a := tl.CandidateOf(tl.s.Find(b.ref.Job), b.ref.Gang); !tl.obtainable(a, b) {
			tl.end(b)
		}
	}
	tl.rehold()
}
