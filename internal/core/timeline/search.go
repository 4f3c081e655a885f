package timeline

import (
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// finder looks for cells to book.
type finder struct{ *Timeline }

// search books a gang from a time on: for the first instant at which it fits, or behind jobs
// without a limit. behind says, on failure, that only other bookings are in the way.
func (tl finder) search(a Candidate, from model.Time) (b booking, behind, ok bool) {
	defer tl.s.BlameJob(a.Ref.Job)
	if t, res, ok := tl.earliest(a, tl.instants(a, from)); ok {
		return tl.timedBook(a, t, res), false, true
	}
	res, ok := tl.placeSoonest(a, tl.kept(a, 0, forever))
	if !ok {
		tl.Release() // without the bookings: booked gangs must not block this one and wait for it
		_, behind = tl.placeSoonest(a, nil)
		tl.HoldAll()
		return booking{}, behind, false
	}
	b = tl.newBook(a, 0, state.LeavesOf(&res.Placement), res.Placement.Binds)
	b.after = tl.unlimited(a, b.leaves)
	return b, true, len(b.after) > 0
}

// instants returns when cells become free for a gang, in order: the ends of guaranteed work and
// of other bookings, and from if that is now.
func (tl finder) instants(a Candidate, from model.Time) []model.Time {
	tl.read()
	var out []model.Time
	if from == tl.s.Now {
		out = append(out, from)
	}
	for _, e := range tl.ends {
		if e.prio >= a.prio && e.at > from && e.at < forever {
			out = append(out, e.at)
		}
	}
	for i, m := 0, tl.mustLeaveAlone(a, from, forever); i < len(tl.books); i++ {
		if b := &tl.books[i]; m>>i&1 != 0 && b.end < forever && b.end > from {
			out = append(out, b.end)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// read collects what searches share, unless it is still valid.
func (tl *Timeline) read() {
	if !tl.moved {
		return
	}
	tl.moved = false
	tl.idle = tl.s.Cluster.IdleLeaves()
	tl.ends, tl.stopping, tl.leftBy = tl.ends[:0], tl.stopping[:0], tl.leftBy[:0]
	for i := range tl.s.Attempts {
		a := &tl.s.Attempts[i]
		tl.leftBy = append(tl.leftBy, forever)
		if a.Job == tables.None {
			continue
		}
		if end, known := tl.s.LeftBy(a); known {
			tl.leftBy[i] = end
		}
		al := tl.s.Cluster.Alloc(a.Alloc)
		if al.Space != tl.space || al.Opportunistic() || a.NotFirst {
			continue
		}
		e := ending{tl.leftBy[i], al.Priority, tl.s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves}
		switch {
		case al.Promised:
			e.leaves = 0 // its leaves are free, or counted with its victims
		case a.Orphaned:
			e.leaves = int32(len(state.LeavesOf(&al.Placement)))
		}
		tl.ends = append(tl.ends, e)
		if tl.s.FirstStaying(a) == nil {
			tl.stopping = append(tl.stopping, int32(i))
		}
	}
}

// gone reports whether a holder has left by a time.
func (tl *Timeline) gone(id cell.AllocID, t model.Time) bool {
	tl.read()
	return tl.leftBy[tl.s.ByAlloc[id]] <= t
}

// outOfWay reports whether a holder is out of a gang's way at a time: it is preemptible or gone.
func (tl *Timeline) outOfWay(a Candidate, id cell.AllocID, t model.Time) bool {
	return tl.preemptible(a, id) || tl.gone(id, t)
}

// preemptible reports whether a holder would be preempted for a gang.
func (tl *Timeline) preemptible(a Candidate, id cell.AllocID) bool {
	al := tl.s.Cluster.Alloc(id)
	if tl.s.HasUnknown(id) {
		return false
	}
	return al.Opportunistic() || al.Space == tl.space && al.Priority < a.prio
}

// unlimited returns the jobs without a time limit that a gang must wait for on some leaves.
func (tl finder) unlimited(a Candidate, leaves []cell.LeafID) []model.JobID {
	var out []model.JobID
	for _, l := range leaves {
		hold, _ := tl.s.Cluster.Holder(l)
		if hold == cell.None || tl.preemptible(a, hold) || tl.gone(hold, forever-1) {
			continue
		}
		for _, m := range tl.s.MembersOf(hold) {
			if _, known := tl.s.AttemptLeftBy(m); !known && !slices.Contains(out, m.ID.Job) {
				out = append(out, m.ID.Job)
			}
		}
	}
	slices.Sort(out)
	return out
}

// hasEnoughLeaves reports whether the VC has as many leaves as a gang needs at a time, of whatever
// shape and without those in keep. It is a cheap test that rules out most searches.
func (tl finder) hasEnoughLeaves(a Candidate, t model.Time, keep cell.LeafSet) bool {
	tl.read()
	room := tl.size
	for _, e := range tl.ends {
		if e.at > t && e.prio >= a.prio {
			room -= e.leaves
		}
	}
	for l := range keep.All() {
		hold, promised := tl.s.Cluster.Holder(l)
		if (hold == cell.None || tl.outOfWay(a, hold, t)) && (promised == cell.None || tl.outOfWay(a, promised, t)) {
			room--
		}
	}
	return room >= a.J.Gangs[a.G].Leaves
}

// earliest returns the first instant at which a gang fits. Without other bookings ever more
// comes free, so it bisects. With them it tries the first maxInstants in turn, and the last.
func (tl finder) earliest(a Candidate, times []model.Time) (model.Time, cell.Result, bool) {
	if tl.mustLeaveAlone(a, 0, forever) != 0 {
		if n := len(times); n > maxInstants {
			times = append(times[:maxInstants:maxInstants], times[n-1])
		}
		for _, t := range times {
			if res, ok := tl.fits(a, t, nil); ok {
				return t, res, true
			}
		}
		return 0, cell.Result{}, false
	}
	lo, hi := 0, len(times)
	if was := tables.RareOf(a.J.Gangs[a.G].Rare).Booked; was != nil && was.Start != 0 {
		if i, found := slices.BinarySearch(times, was.Start); found {
			if _, ok := tl.fits(a, times[i], nil); !ok {
				lo = i + 1
			} else if hi = i; i > 0 {
				if _, ok := tl.fits(a, times[i-1], nil); !ok {
					lo = i
				}
			}
		}
	}
	i := lo + sort.Search(hi-lo, func(k int) bool { _, ok := tl.fits(a, times[lo+k], nil); return ok })
	if i == len(times) {
		return 0, cell.Result{}, false
	}
	res, ok := tl.fits(a, times[i], nil)
	return times[i], res, ok
}

// fits searches a placement at a time: attempts that have left by then are gone, and leaves
// that are booked for others then, or are in extra, are excluded.
func (tl finder) fits(a Candidate, t model.Time, extra cell.LeafSet) (cell.Result, bool) {
	keep := tl.kept(a, t, a.until(t))
	if !tl.hasEnoughLeaves(a, t, keep) {
		return cell.Result{}, false
	}
	r := tl.s.Preempting(tl.s.Request(place.Want{J: a.J, G: a.G, Prefer: tl.Prefer}), a.prio)
	r.Excluded, r.Blocked = keep.With(tl.leaving(t)).With(extra), a.Blocked
	r.Gone = func(id cell.AllocID) bool { return tl.gone(id, t) }
	return tl.placeLater(a, &r)
}

// leaving returns the leaves of attempts that were told to stop and may still be there at a
// time.
func (tl *Timeline) leaving(t model.Time) cell.LeafSet {
	tl.read()
	var set cell.LeafSet
	for _, slot := range tl.stopping {
		h := &tl.s.Attempts[slot]
		if tl.gone(h.Alloc, t) {
			continue
		}
		for _, l := range state.LeavesOf(&tl.s.Cluster.Alloc(h.Alloc).Placement) {
			set = set.Add(l)
		}
	}
	return set
}

// placeLater places a request as if reservations did not exist whose gangs are gone by then, or
// that would be revoked for their lower priority.
func (tl finder) placeLater(a Candidate, r *cell.Request) (cell.Result, bool) {
	if len(tl.s.Promises) == 0 {
		return tl.s.Cluster.Place(r)
	}
	var past []cell.AllocID
	for _, slot := range tl.s.Reservations(tl.space, cell.MaxGuaranteed+1) {
		if id := tl.s.Attempts[slot].Alloc; r.Gone(id) || tl.preemptible(a, id) {
			past = append(past, id)
		}
	}
	return tl.s.Cluster.PlaceLater(r, past)
}

// timedBook books the placement found for a time. Among equal leaves it takes those in use
// until then, so that idle ones serve other gangs meanwhile.
func (tl finder) timedBook(a Candidate, t model.Time, res cell.Result) booking {
	if t > tl.s.Now {
		if busy, ok := tl.fits(a, t, tl.idle); ok {
			res = busy
		}
		keep := tl.kept(a, t, a.until(t))
		cell.SwapLeaves(tl.s.Cluster.Forest(), &res.Placement,
			func(l cell.LeafID) bool { return !keep.Has(l) && tl.freeAt(a, t, l) },
			func(l cell.LeafID) model.Time { return tl.busyUntil(a, l) })
	}
	b := tl.newBook(a, t, state.LeavesOf(&res.Placement), res.Placement.Binds)
	if a.turn != 0 { // gangs that passed it may be there
		tl.delay(a, &b)
		b.free = max(b.free, t)
		b.end = a.until(b.free)
	}
	return b
}

// freeAt reports whether a leaf is free for a gang at a time.
func (tl finder) freeAt(a Candidate, t model.Time, l cell.LeafID) bool {
	hold, promised := tl.s.Cluster.Holder(l)
	if promised != cell.None && !tl.outOfWay(a, promised, t) || tl.s.LeafBad(l) {
		return false
	}
	return hold == cell.None || tl.outOfWay(a, hold, t)
}

// busyUntil is until when a leaf is of no use to other gangs; 0 if it could be used now.
func (tl finder) busyUntil(a Candidate, l cell.LeafID) model.Time {
	hold, _ := tl.s.Cluster.Holder(l)
	if hold == cell.None || tl.preemptible(a, hold) {
		return 0
	}
	end, _ := tl.s.LeftBy(tl.s.Holder(hold))
	return end
}

// placeSoonest finds the placement that is free soonest as far as one can tell: behind the fewest
// holders without a limit, then the least remaining work of those.
func (tl finder) placeSoonest(a Candidate, keep cell.LeafSet) (cell.Result, bool) {
	r := tl.s.Preempting(tl.s.Request(place.Want{J: a.J, G: a.G, Prefer: tl.Prefer}), a.prio)
	r.Excluded, r.Blocked = keep, a.Blocked
	r.Gone = func(id cell.AllocID) bool { return tl.preemptible(a, id) || tl.gone(id, forever-1) }
	r.Preempt.Also = func(id cell.AllocID) bool {
		return tl.s.Cluster.Alloc(id).Space == tl.space && !tl.s.HasUnknown(id)
	}
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := tl.s.Holder(id)
		c := tl.s.OrderCost(a, tl.s.WorkAhead(a))
		c.Earliest, c.EarlySum = 0, -c.EarlySum // of equals the earliest submitted ends first
		return c
	}
	return tl.placeLater(a, &r)
}
