package decide

import (
	"slices"
	"sort"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// attemptLeftBy returns when an attempt has left its cells at the latest: its limit or the stop
// that it was told, plus its grace. Both are enforced; nothing else bounds it.
func (s *Pass) attemptLeftBy(a *tables.Attempt) (model.Time, bool) {
	spec := s.Jobs[a.Job].Spec
	switch {
	case a.State == model.AttemptUnknown:
		return 0, false
	case a.Cause != 0:
		return a.StopSentAt.Add(spec.Grace), true
	case spec.TimeLimit == 0:
		return 0, false
	}
	begin := max(a.Placed, a.Started)
	if a.Share != 0 {
		return s.Reaches(a, spec.TimeLimit).Add(spec.Grace), true
	}
	if a.State == model.AttemptReserving {
		begin = begin.Add(s.longestGrace(tables.RareOf(a.Rare).Victims))
		switch late := s.Now - begin; { // its victims are late
		case late > model.Time(maxUntold): // in whole minutes, so that the instant changes rarely
			begin += (late + model.Time(maxUntold) - 1) / model.Time(maxUntold) * model.Time(maxUntold)
		case late > 0:
			begin = s.Now
		}
	}
	end := begin.Add(model.Duration(model.Time(spec.TimeLimit).Add(spec.Grace)))
	if a.Started == 0 && end <= s.Now { // it is slow to start, and cannot leave before
		step := max(end-begin, model.Time(maxUntold)) // else the instant changes often with a short limit
		end += (1 + (s.Now-end)/step) * step
	}
	return end, true
}

// LeftBy is attemptLeftBy for all members of an attempt's allocation.
func (s *Pass) LeftBy(a *tables.Attempt) (model.Time, bool) {
	last, known := s.attemptLeftBy(a)
	for at := s.First(a); known && s.Shared(a) && at != tables.None; at = s.Attempts[at].NextMember {
		var end model.Time
		end, known = s.attemptLeftBy(&s.Attempts[at])
		last = max(last, end)
	}
	return last, known
}

// longestGrace is the longest grace of some attempts.
func (s *Pass) longestGrace(ids []model.AttemptID) model.Duration {
	var most model.Duration
	for _, id := range ids {
		if j := s.Find(id.Job); j != nil {
			most = max(most, j.Spec.Grace)
		}
	}
	return most
}

// outOfWay reports whether a holder is out of a gang's way at a time: it is preemptible or gone.
func (o *bookings) outOfWay(a candidate, id cell.AllocID, t model.Time) bool {
	return o.preemptible(a, id) || o.gone(id, t)
}

// preemptible reports whether a holder would be preempted for a gang.
func (o *bookings) preemptible(a candidate, id cell.AllocID) bool {
	al := o.s.Cluster.Alloc(id)
	if o.s.HasUnknown(id) {
		return false
	}
	return al.Opportunistic() || al.Space == o.space && al.Priority < a.prio
}

// unlimited returns the jobs without a time limit that a gang must wait for on some leaves.
func (o *bookings) unlimited(a candidate, leaves []cell.LeafID) []model.JobID {
	var out []model.JobID
	for _, l := range leaves {
		hold, _ := o.s.Cluster.Holder(l)
		if hold == cell.None || o.preemptible(a, hold) || o.gone(hold, forever-1) {
			continue
		}
		for _, m := range o.s.MembersOf(hold) {
			if _, known := o.s.attemptLeftBy(m); !known && !slices.Contains(out, m.ID.Job) {
				out = append(out, m.ID.Job)
			}
		}
	}
	slices.Sort(out)
	return out
}

// search books a gang from a time on: for the first instant at which it fits, or behind jobs
// without a limit. behind says, on failure, that only other bookings are in the way.
func (o *bookings) search(a candidate, from model.Time) (b booking, behind, ok bool) {
	defer o.s.BlameJob(a.ref.Job)
	if t, res, ok := o.earliest(a, o.instants(a, from)); ok {
		return o.timedBook(a, t, res), false, true
	}
	res, ok := o.placeSoonest(a, o.kept(a, 0, forever))
	if !ok {
		o.release() // without the bookings: booked gangs must not block this one and wait for it
		_, behind = o.placeSoonest(a, nil)
		o.holdAll()
		return booking{}, behind, false
	}
	b = o.newBook(a, 0, state.LeavesOf(&res.Placement), res.Placement.Binds)
	b.after = o.unlimited(a, b.leaves)
	return b, true, len(b.after) > 0
}

// instants returns when cells become free for a gang, in order: the ends of guaranteed work and
// of other bookings, and from if that is now.
func (o *bookings) instants(a candidate, from model.Time) []model.Time {
	o.read()
	var out []model.Time
	if from == o.s.Now {
		out = append(out, from)
	}
	for _, e := range o.ends {
		if e.prio >= a.prio && e.at > from && e.at < forever {
			out = append(out, e.at)
		}
	}
	for i, m := 0, o.mask(a, from, forever); i < len(o.books); i++ {
		if b := &o.books[i]; m>>i&1 != 0 && b.end < forever && b.end > from {
			out = append(out, b.end)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// read collects what searches share, unless it is still valid.
func (o *bookings) read() {
	if !o.moved {
		return
	}
	o.moved = false
	o.idle = o.s.Cluster.IdleLeaves()
	o.ends, o.stopping, o.leftBy = o.ends[:0], o.stopping[:0], o.leftBy[:0]
	for i := range o.s.Attempts {
		a := &o.s.Attempts[i]
		o.leftBy = append(o.leftBy, forever)
		if a.Job == tables.None {
			continue
		}
		if end, known := o.s.LeftBy(a); known {
			o.leftBy[i] = end
		}
		al := o.s.Cluster.Alloc(a.Alloc)
		if al.Space != o.space || al.Opportunistic() || a.NotFirst {
			continue
		}
		e := ending{o.leftBy[i], al.Priority, o.s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves}
		switch {
		case al.Promised:
			e.leaves = 0 // its leaves are free, or counted with its victims
		case a.Orphaned:
			e.leaves = int32(len(state.LeavesOf(&al.Placement)))
		}
		o.ends = append(o.ends, e)
		if o.s.FirstStaying(a) == nil {
			o.stopping = append(o.stopping, int32(i))
		}
	}
}

// gone reports whether a holder has left by a time.
func (o *bookings) gone(id cell.AllocID, t model.Time) bool {
	o.read()
	return o.leftBy[o.s.ByAlloc[id]] <= t
}

// hasEnoughLeaves reports whether the VC has as many leaves as a gang needs at a time, of whatever
// shape and without those in keep. It is a cheap test that rules out most searches.
func (o *bookings) hasEnoughLeaves(a candidate, t model.Time, keep cell.LeafSet) bool {
	o.read()
	room := o.size
	for _, e := range o.ends {
		if e.at > t && e.prio >= a.prio {
			room -= e.leaves
		}
	}
	for l := range keep.All() {
		hold, promised := o.s.Cluster.Holder(l)
		if (hold == cell.None || o.outOfWay(a, hold, t)) && (promised == cell.None || o.outOfWay(a, promised, t)) {
			room--
		}
	}
	return room >= a.j.Gangs[a.g].Leaves
}

// earliest returns the first instant at which a gang fits. Without other bookings ever more
// comes free, so it bisects. With them it tries the first maxInstants in turn, and the last.
func (o *bookings) earliest(a candidate, times []model.Time) (model.Time, cell.Result, bool) {
	if o.mask(a, 0, forever) != 0 {
		if n := len(times); n > maxInstants {
			times = append(times[:maxInstants:maxInstants], times[n-1])
		}
		for _, t := range times {
			if res, ok := o.fits(a, t, nil); ok {
				return t, res, true
			}
		}
		return 0, cell.Result{}, false
	}
	lo, hi := 0, len(times)
	if was := tables.RareOf(a.j.Gangs[a.g].Rare).Booked; was != nil && was.Start != 0 {
		if i, found := slices.BinarySearch(times, was.Start); found {
			if _, ok := o.fits(a, times[i], nil); !ok {
				lo = i + 1
			} else if hi = i; i > 0 {
				if _, ok := o.fits(a, times[i-1], nil); !ok {
					lo = i
				}
			}
		}
	}
	i := lo + sort.Search(hi-lo, func(k int) bool { _, ok := o.fits(a, times[lo+k], nil); return ok })
	if i == len(times) {
		return 0, cell.Result{}, false
	}
	res, ok := o.fits(a, times[i], nil)
	return times[i], res, ok
}

// fits searches a placement at a time: attempts that have left by then are gone, and leaves
// that are booked for others then, or are in extra, are excluded.
func (o *bookings) fits(a candidate, t model.Time, extra cell.LeafSet) (cell.Result, bool) {
	keep := o.kept(a, t, a.until(t))
	if !o.hasEnoughLeaves(a, t, keep) {
		return cell.Result{}, false
	}
	r := o.s.Preempting(o.s.Request(place.Want{J: a.j, G: a.g, Prefer: o.prefer}), a.prio)
	r.Excluded, r.Blocked = keep.With(o.leaving(t)).With(extra), a.blocked
	r.Gone = func(id cell.AllocID) bool { return o.gone(id, t) }
	return o.placeLater(a, &r)
}

// leaving returns the leaves of attempts that were told to stop and may still be there at a
// time.
func (o *bookings) leaving(t model.Time) cell.LeafSet {
	o.read()
	var set cell.LeafSet
	for _, slot := range o.stopping {
		h := &o.s.Attempts[slot]
		if o.gone(h.Alloc, t) {
			continue
		}
		for _, l := range state.LeavesOf(&o.s.Cluster.Alloc(h.Alloc).Placement) {
			set = set.Add(l)
		}
	}
	return set
}

// placeLater places a request as if reservations did not exist whose gangs are gone by then, or
// that would be revoked for their lower priority.
func (o *bookings) placeLater(a candidate, r *cell.Request) (cell.Result, bool) {
	if len(o.s.Promises) == 0 {
		return o.s.Cluster.Place(r)
	}
	var past []cell.AllocID
	for _, slot := range o.s.Reservations(o.space, cell.MaxGuaranteed+1) {
		if id := o.s.Attempts[slot].Alloc; r.Gone(id) || o.preemptible(a, id) {
			past = append(past, id)
		}
	}
	return o.s.Cluster.PlaceLater(r, past)
}

// timedBook books the placement found for a time. Among equal leaves it takes those in use
// until then, so that idle ones serve other gangs meanwhile.
func (o *bookings) timedBook(a candidate, t model.Time, res cell.Result) booking {
	if t > o.s.Now {
		if busy, ok := o.fits(a, t, o.idle); ok {
			res = busy
		}
		keep := o.kept(a, t, a.until(t))
		cell.SwapLeaves(o.s.Cluster.Forest(), &res.Placement,
			func(l cell.LeafID) bool { return !keep.Has(l) && o.freeAt(a, t, l) },
			func(l cell.LeafID) model.Time { return o.busyUntil(a, l) })
	}
	b := o.newBook(a, t, state.LeavesOf(&res.Placement), res.Placement.Binds)
	if a.turn != 0 { // gangs that passed it may be there
		o.delay(a, &b)
		b.free = max(b.free, t)
		b.end = a.until(b.free)
	}
	return b
}

// freeAt reports whether a leaf is free for a gang at a time.
func (o *bookings) freeAt(a candidate, t model.Time, l cell.LeafID) bool {
	hold, promised := o.s.Cluster.Holder(l)
	if promised != cell.None && !o.outOfWay(a, promised, t) || o.s.LeafBad(l) {
		return false
	}
	return hold == cell.None || o.outOfWay(a, hold, t)
}

// busyUntil is until when a leaf is of no use to other gangs; 0 if it could be used now.
func (o *bookings) busyUntil(a candidate, l cell.LeafID) model.Time {
	hold, _ := o.s.Cluster.Holder(l)
	if hold == cell.None || o.preemptible(a, hold) {
		return 0
	}
	end, _ := o.s.LeftBy(o.s.Holder(hold))
	return end
}

// placeSoonest finds the placement that is free soonest as far as one can tell: behind the fewest
// holders without a limit, then the least remaining work of those.
func (o *bookings) placeSoonest(a candidate, keep cell.LeafSet) (cell.Result, bool) {
	r := o.s.Preempting(o.s.Request(place.Want{J: a.j, G: a.g, Prefer: o.prefer}), a.prio)
	r.Excluded, r.Blocked = keep, a.blocked
	r.Gone = func(id cell.AllocID) bool { return o.preemptible(a, id) || o.gone(id, forever-1) }
	r.Preempt.Also = func(id cell.AllocID) bool {
		return o.s.Cluster.Alloc(id).Space == o.space && !o.s.HasUnknown(id)
	}
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := o.s.Holder(id)
		c := o.s.OrderCost(a, o.s.workAhead(a))
		c.Earliest, c.EarlySum = 0, -c.EarlySum // of equals the earliest submitted ends first
		return c
	}
	return o.placeLater(a, &r)
}

// workAhead estimates the remaining work of an attempt without a limit, in leaves times
// microseconds: up to its hinted duration, else as long again as it has run.
func (s *Pass) workAhead(a *tables.Attempt) int64 {
	j := &s.Jobs[a.Job]
	left := s.Now - max(a.Placed, a.Started)
	if d := model.Time(j.Spec.Hints.Duration); d > left {
		left = d - left
	}
	leaves := int64(j.Gangs[a.ID.Gang].Leaves)
	if int64(left) > (1<<62)/max(leaves, 1) {
		return 1 << 62
	}
	return int64(left) * leaves
}

// want returns what a gang asks for beside the bookings; it leaves keep alone.
func (o *bookings) want(a candidate, keep cell.LeafSet) place.Want {
	return place.Want{J: a.j, G: a.g, Prefer: o.prefer, Blocked: a.blocked, Keep: keep, Size: a.size}
}

// preferring sets the nodes that the policy of the tried gang prefers, and returns what unsets
// them. Bookings that are examined meanwhile prefer them, too.
func preferring(o *bookings, nodes cell.NodeSet) (over func()) {
	if o == nil {
		return func() {}
	}
	o.prefer = nodes
	return func() { o.prefer = nil }
}

// planWish finds cells for a gang as its policy wishes, unless the failure of an earlier gang
// says that there are none. picky gangs, members above a minimum and limits on distance have
// answers of their own.
func (w *walker) planWish(q place.Want, wish model.Wish, picky bool) (place.Plan, bool) {
	s, j, sh := w.s, q.J, q.Gang().Shape
	if wish.FreeOnly {
		r := s.Request(q)
		res, ok := s.Cluster.Place(&r)
		return place.Plan{Placement: res.Placement}, ok
	}
	// PlanClearing gives up above MaxCleared holders. A lower priority has fewer below it, so
	// that the failure may say nothing of it.
	of := place.Miss{SKUs: sh.Skus, Load: sh.Load, Rank: int32(j.Spec.Priority),
		Level: len(s.Holders[w.space]) > place.MaxUnbound}
	early, like := s.Cluster.Work().Early(), !picky && sh.Load != nil && !j.Spec.Gangs[q.G].Extra &&
		wish.Within == model.Anywhere && !slices.Contains(q.Blocked, true)
	if !like || !w.misses.Answered(&of, s.Dirty.CellChanges) {
		if p, ok := s.Plan(q); ok || s.IsPostponed() {
			return p, ok
		}
		if like && !j.Spec.Restricted() && s.Cluster.Work().Early() == early && !s.Cluster.Work().Over() &&
			s.Cluster.NumCharges() == 0 {
			w.misses.Add(of) // the search was complete
		}
	}
	return s.planOverPeers(q, wish)
}

// Starting a gang beside the bookings of others.

func (o *bookings) candidateOf(j *tables.Job, g int32) candidate {
	a := candidate{j: j, g: g, ref: model.GangRef{Job: j.ID, Gang: g}, prio: j.Spec.Priority}
	if j.Spec.TimeLimit > 0 {
		a.length = model.Duration(model.Time(j.Spec.TimeLimit).Add(j.Spec.Grace))
	}
	if was := tables.RareOf(j.Gangs[g].Rare).Booked; was != nil && !slices.Contains(o.displaced, a.ref) {
		a.turn = was.Turn
	}
	return a
}

// until is when a gang's cells are free again if it starts at a time. Only an enforced limit
// tells.
func (a candidate) until(start model.Time) model.Time {
	if a.length == 0 {
		return forever
	}
	return start.Add(a.length)
}

// passing looks for cells to start on now, without delaying a booking that the gang must not
// pass.
func (o *bookings) passing(a candidate) (place.Plan, bool) {
	if i := o.find(a.ref); i >= 0 && o.aside>>i&1 == 0 && o.books[i].free <= o.s.Now {
		a.atBooking, a.late = true, o.books[i].late()
	}
	end := a.until(o.s.Now)
	p, ok := o.planBeside(a, o.mask(a, o.s.Now, end))
	if !ok || len(p.Victims) == 0 {
		return p, ok
	}
	// It starts when its victims have left, and ends so much later.
	later := end.Add(graceOf(&o.s.Index, p.Victims))
	if o.mask(a, o.s.Now, later) == o.mask(a, o.s.Now, end) {
		return p, true
	}
	return o.planBeside(a, o.mask(a, o.s.Now, forever))
}

func (o *bookings) planBeside(a candidate, mask uint64) (place.Plan, bool) {
	gg := &a.j.Gangs[a.g]
	key := passKey{shape: gg.Shape.Text, mask: mask, by: a.by, limit: a.length > 0, aside: o.aside}
	for _, other := range a.others {
		key.shape += map[bool]string{true: "x", false: "o"}[other]
	}
	if i := o.find(a.ref); i >= 0 {
		key.by = o.books[i].free
	}
	if !gg.Avoids() && o.failed[key] {
		return place.Plan{}, false
	}
	keep := o.union(mask)
	if key.by != 0 {
		keep = keep.With(o.leaving(key.by)) // it must not wait for attempts that leave later
	}
	p, ok := o.planOutside(a, keep)
	if ok {
		o.useKept(a, mask, keep, &p)
	}
	if !ok && !gg.Avoids() {
		o.failed[key] = true
	}
	return p, ok
}

func (o *bookings) planOutside(a candidate, keep cell.LeafSet) (place.Plan, bool) {
	return o.s.Plan(o.want(a, keep))
}

// useKept moves a gang that is gone in time onto leaves that are booked for later, so that
// other leaves serve gangs which stay longer.
func (o *bookings) useKept(a candidate, mask uint64, keep cell.LeafSet, p *place.Plan) {
	later := o.union(o.mask(a, 0, forever) &^ mask)
	if later == nil || p.Disturbs() {
		return
	}
	o.read()
	if in, ok := o.planOutside(a, keep.With(o.idle.Without(later))); ok && !in.Disturbs() {
		*p = in
	}
	cell.SwapLeaves(o.s.Cluster.Forest(), &p.Placement, func(l cell.LeafID) bool {
		return !keep.Has(l) &&
			o.idle.Has(l) && o.unused(l)
	},
		func(l cell.LeafID) model.Time {
			if later.Has(l) {
				return 1
			}
			return 0
		})
}

// unused reports whether a leaf is healthy, free and not reserved.
func (o *bookings) unused(l cell.LeafID) bool {
	hold, promised := o.s.Cluster.Holder(l)
	return hold == cell.None && promised == cell.None && !o.s.LeafBad(l)
}

// graceOf is the longest grace of some holders.
func graceOf(s *index.Index, victims []cell.AllocID) model.Duration {
	var most model.Duration
	for _, v := range victims {
		most = max(most, s.Jobs[s.Holder(v).Job].Spec.Grace)
	}
	return most
}

// mask returns the bit set of bookings that a gang must leave alone between two times: those of
// other gangs, of its priority or higher, that begin before it ends.
func (o *bookings) mask(a candidate, from, to model.Time) uint64 {
	var m uint64
	for i := range o.books {
		b := &o.books[i]
		if !b.ended && o.aside>>i&1 == 0 && b.ref != a.ref && b.prio >= a.prio && o.begins(a, b) < to &&
			b.end > from && !o.mayPass(a, i) {
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
func (o *bookings) begins(a candidate, b *booking) model.Time {
	switch {
	case b.start == 0:
		return 0
	case a.turn != 0 && b.prio == a.prio && b.turn > a.turn:
		return b.free
	case a.atBooking:
		return min(max(b.freeUnpassed, b.start), b.free).Add(min(a.late, maxUntold))
	}
	return min(b.freeUnpassed, b.start)
}

func (o *bookings) union(mask uint64) cell.LeafSet {
	var set cell.LeafSet
	for i := range o.books {
		if mask>>i&1 != 0 {
			set = set.With(o.books[i].set)
		}
	}
	return set
}

// kept returns the leaves of the bookings that a gang must leave alone between two times.
func (o *bookings) kept(a candidate, from, to model.Time) cell.LeafSet {
	return o.union(o.mask(a, from, to))
}
