package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/cell"
)

// ending is when guaranteed work of a priority has left at the latest.
type ending struct {
	at     Time // forever when nothing says when
	prio   cell.Priority
	leaves int32
}

// overBy returns when an attempt has left its cells at the latest: its limit,
// which is enforced, or the stop that it was told, and the grace after it.
// Nothing else bounds it.
func (s *State) overBy(a *attempt) (Time, bool) {
	spec := s.jobs[a.job].spec
	switch {
	case a.state == AttemptUnknown:
		return 0, false
	case a.cause != 0:
		return a.told.Add(spec.Grace), true
	case spec.TimeLimit == 0:
		return 0, false
	}
	begin := max(a.placed, a.started)
	if a.share != 0 {
		return s.reaches(a, spec.TimeLimit).Add(spec.Grace), true
	}
	if a.state == AttemptReserving {
		begin = max(begin.Add(s.longestGrace(rare(a.odd).victims)), s.now)
	}
	end := begin.Add(Duration(Time(spec.TimeLimit).Add(spec.Grace)))
	if a.started == 0 && end <= s.now { // it takes its time to start: nobody leaves before he came
		step := max(end-begin, Time(maxUntold)) // or a short limit would be another instant all the time
		end += (1 + (s.now-end)/step) * step
	}
	return end, true
}

// leftBy is the same of an attempt with all that share its leaves.
func (s *State) leftBy(a *attempt) (Time, bool) {
	last, known := s.overBy(a)
	for at := s.first(a); known && s.shared(a) && at != none; at = s.attempts[at].mate {
		var end Time
		end, known = s.overBy(&s.attempts[at])
		last = max(last, end)
	}
	return last, known
}

// longestGrace is how long it takes attempts to leave that were told to.
func (s *State) longestGrace(ids []AttemptID) Duration {
	var most Duration
	for _, id := range ids {
		if j := s.find(id.Job); j != nil {
			most = max(most, j.spec.Grace)
		}
	}
	return most
}

// enter takes over the bookings of a priority when the walk reaches it, in the order in which
// they were made. One whose cells are no longer to be had is made anew beside those before it,
// and those after it give way: only one without a time, which was told none, comes last.
func (o *outlook) enter(p cell.Priority) {
	if p == o.prio {
		return
	}
	o.prio = p
	o.passed = o.passed[:0]
	clear(o.failed)
	clear(o.crowded)
	clear(o.endless)
	var lost []asking
	for _, a := range o.inTurn(p) {
		if !o.entitled(a) {
			continue
		}
		if b, ok := o.restore(a); ok && o.add(b) {
			continue
		}
		o.rehold() // without what it held to see whether it stands
		if a.told() == 0 {
			lost = append(lost, a)
			continue
		}
		o.anew(a)
	}
	for _, a := range lost {
		o.anew(a)
	}
	o.retime()
	o.forward()
}

// inTurn returns the gangs of a priority with a booking, in the order in which these were made.
func (o *outlook) inTurn(p cell.Priority) []asking {
	var out []asking
	for _, ref := range o.s.booked {
		j := o.s.find(ref.Job)
		if o.s.space(j.spec.VC) == o.space && j.spec.Priority == p && o.s.eligible(j, ref.Gang) && j.gangs[ref.Gang].attempt == none {
			out = append(out, o.asking(j, ref.Gang))
		}
	}
	slices.SortStableFunc(out, func(a, b asking) int { return cmp.Compare(a.turn, b.turn) })
	return out
}

// told is when a gang's booking begins, as was said; 0 when it has none, or one without a time.
func (a asking) told() Time {
	if was := rare(a.j.gangs[a.g].odd).booked; was != nil {
		return was.Start
	}
	return 0
}

// anew books a gang once more: under easy each time, else since it lost its cells.
func (o *outlook) anew(a asking) {
	b, _, ok := o.search(a, o.s.now)
	if !ok {
		return
	}
	was := a.told()
	switch {
	case b.start == 0 || was == 0:
	case !o.easy:
		b.first, b.clear = b.start, b.start
	case was < b.start && b.start <= was.Add(maxUntold):
		b.start = was // it is as good as what was told
	}
	b.due = b.free == o.s.now && was == o.s.now
	o.add(b)
}

// restore reads a booking that keeps its cells, when they can still be had.
func (o *outlook) restore(a asking) (book, bool) {
	defer o.s.blaming(a.ref.Job) // which is not the job at whose turn this is done
	was := rare(a.j.gangs[a.g].odd).booked
	if len(was.Leaves) == 0 {
		return book{}, false
	}
	leaves, binds, ok := o.standing(was)
	if !ok {
		return book{}, false
	}
	b := o.newBook(a, was.Start, leaves, binds)
	if !o.slide(a, &b) || !o.obtainable(a, &b) {
		return book{}, false
	}
	b.due = b.free == o.s.now
	if was.Start == 0 {
		b.after = o.unlimited(a, b.leaves)
	}
	return b, true
}

// retime gives bookings of this priority without a time one where it can be said by now, beside
// all others.
func (o *outlook) retime() {
	for i := range len(o.books) {
		b := &o.books[i]
		if b.over || b.prio != o.prio || b.start != 0 || len(o.books) == maxNoted {
			continue
		}
		a := o.asking(o.s.find(b.ref.Job), b.ref.Gang)
		t, res, ok := o.earliest(a, o.instants(a, o.s.now+1))
		switch {
		case ok:
			o.replace(a, o.timedBook(a, t, res))
		case len(b.after) == 0: // nobody is in the way any more but others who are booked
			o.forget(a.ref)
			o.rehold()
			o.anew(a)
		}
	}
}

// replace puts a booking in the place of what a gang has.
func (o *outlook) replace(a asking, b book) {
	o.forget(a.ref)
	o.rehold()
	o.add(b)
}

// standing returns the cells of a booking as they stand now: a booking is one of
// virtual cells, and follows them to other physical ones.
func (o *outlook) standing(was *Booked) ([]cell.LeafID, []cell.Bind, bool) {
	binds, held, ok := o.s.cl.HoldAnew(o.space, was.Binds)
	if !ok {
		return nil, nil, false
	}
	o.held = append(o.held, held...)
	f := o.s.cl.Forest()
	leaves := slices.Clone(was.Leaves)
	for i, l := range was.Leaves {
		k := slices.IndexFunc(was.Binds, func(b cell.Bind) bool { return b.Space == 0 && f.Contains(b.Cell, f.Leaves[l]) })
		if k < 0 {
			return nil, nil, false
		}
		leaves[i] = f.Cells[binds[k].Cell].FirstLeaf + l - f.Cells[was.Binds[k].Cell].FirstLeaf
	}
	slices.Sort(leaves)
	return leaves, binds, true
}

// newBook is a booking of leaves in preassigned cells of the VC; what lies around
// these in the VCs that it is part of comes with them.
func (o *outlook) newBook(a asking, start Time, leaves []cell.LeafID, binds []cell.Bind) book {
	binds = slices.DeleteFunc(slices.Clone(binds), func(b cell.Bind) bool { return b.Space != 0 })
	b := book{ref: a.ref, prio: a.prio, start: start, first: start, free: start, end: forever, leaves: leaves, binds: binds, since: o.s.now}
	if start > 0 {
		b.end = a.until(start)
	}
	if was := rare(a.j.gangs[a.g].odd).booked; a.turn != 0 {
		b.turn, b.since = was.Turn, was.Since
		if first := cmp.Or(was.First, was.Start); first != 0 && start != 0 {
			b.first = min(first, start)
		}
	}
	if b.clear = b.first; b.turn == 0 {
		o.turns++
		b.turn = o.turns
	}
	b.chains, b.pins = o.s.wants(a.j, a.g)
	for _, l := range leaves {
		b.set = b.set.Add(l)
	}
	return b
}

// slide makes a booking as much later as who is on its cells, or is booked there before it,
// leaves later than was told: a limit counts from the start, which takes a while. All that
// follows on these cells slides behind it; nobody goes elsewhere, and nobody jumps the queue.
// It is false when somebody is there who has no limit, or should have left a while ago.
func (o *outlook) slide(a asking, b *book) bool {
	if b.start == 0 {
		return true
	}
	o.read()
	b.free = max(b.first, o.s.now)
	for _, l := range b.leaves {
		hold, promised := o.s.cl.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None || o.yields(a, id) {
				continue
			}
			end := o.over[o.s.byAlloc[id]]
			if end.Add(maxUntold) < o.s.now || end == forever {
				return false
			}
			if b.free = max(b.free, end); o.before(id, b) {
				b.clear = max(b.clear, end)
			}
		}
	}
	for again := true; again; {
		again = false
		b.end, a.turns, a.late = a.until(b.free), true, b.late()
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
				b.clear = max(b.clear, by.end)
			}
			break
		}
	}
	return true
}

// before reports whether a holder was there or had a booking before a booking was made, or came
// with a higher priority.
func (o *outlook) before(id cell.AllocID, b *book) bool {
	h := o.s.holder(id)
	if turn := rare(h.odd).turn; turn != 0 && turn < b.turn {
		return true
	}
	return h.placed < b.since || o.s.cl.Alloc(id).Priority > b.prio
}

// obtainable reports whether the leaves of a booking are still free at its start
// as far as limits tell, and kept for nobody else then.
func (o *outlook) obtainable(a asking, b *book) bool {
	a.turns, a.late = true, b.late()
	if b.set.Meets(o.kept(a, b.free, b.end)) {
		return false
	}
	r := o.s.request(a.j, int(a.g))
	f := o.s.cl.Forest()
	for _, l := range b.leaves {
		hold, promised := o.s.cl.Holder(l)
		switch {
		case promised != cell.None && !o.clears(a, promised, b.free), o.s.leafBad(l), r.Avoided.Has(f.Cells[f.Leaves[l]].Node):
			return false
		case hold == cell.None, o.clears(a, hold, b.free):
		case b.start != 0 || o.s.stuck(hold):
			return false
		}
	}
	return true
}

// clears reports whether a holder is out of a gang's way at a time.
func (o *outlook) clears(a asking, id cell.AllocID, t Time) bool {
	return o.yields(a, id) || o.gone(id, t)
}

// yields reports whether a holder would be lifted for a gang.
func (o *outlook) yields(a asking, id cell.AllocID) bool {
	al := o.s.cl.Alloc(id)
	if o.s.stuck(id) {
		return false
	}
	return al.Opportunistic() || al.Space == o.space && al.Priority < a.prio
}

// unlimited returns the jobs in the way on some leaves that declare no limit.
func (o *outlook) unlimited(a asking, leaves []cell.LeafID) []JobID {
	var out []JobID
	for _, l := range leaves {
		hold, _ := o.s.cl.Holder(l)
		if hold == cell.None || o.yields(a, hold) || o.gone(hold, forever-1) {
			continue
		}
		for _, m := range o.s.membersOf(hold) {
			if _, known := o.s.overBy(m); !known && !slices.Contains(out, m.id.Job) {
				out = append(out, m.id.Job)
			}
		}
	}
	slices.Sort(out)
	return out
}

// search books a gang from a time on: for the first instant at which it fits, or
// behind jobs without a limit. behind says that only other bookings are in the way.
func (o *outlook) search(a asking, from Time) (b book, behind, ok bool) {
	defer o.s.blaming(a.ref.Job)
	if t, res, ok := o.earliest(a, o.instants(a, from)); ok {
		return o.timedBook(a, t, res), false, true
	}
	res, ok := o.leastAhead(a, o.kept(a, 0, forever))
	if !ok {
		_, behind = o.leastAhead(a, nil)
		return book{}, behind, false
	}
	b = o.newBook(a, 0, leavesOf(&res.Placement), res.Placement.Binds)
	b.after = o.unlimited(a, b.leaves)
	return b, true, len(b.after) > 0
}

func leavesOf(p *cell.Placement) []cell.LeafID {
	var out []cell.LeafID
	for _, t := range p.Tasks {
		out = append(out, t.Leaves...)
	}
	slices.Sort(out)
	return out
}

// instants returns when cells become free for a gang, in order: the ends of
// guaranteed work and of other bookings; also `from` when that is now.
func (o *outlook) instants(a asking, from Time) []Time {
	o.read()
	var out []Time
	if from == o.s.now {
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

// read collects what the searches share, once for as long as nothing moves.
func (o *outlook) read() {
	if !o.moved {
		return
	}
	o.moved = false
	o.idle = o.s.cl.IdleLeaves()
	o.ends, o.told, o.over = o.ends[:0], o.told[:0], o.over[:0]
	for i := range o.s.attempts {
		a := &o.s.attempts[i]
		o.over = append(o.over, forever)
		if a.job == none {
			continue
		}
		if end, known := o.s.leftBy(a); known {
			o.over[i] = end
		}
		al := o.s.cl.Alloc(a.alloc)
		if al.Space != o.space || al.Opportunistic() || a.joined {
			continue
		}
		e := ending{o.over[i], al.Priority, o.s.jobs[a.job].gangs[a.id.Gang].leaves}
		switch {
		case al.Promised:
			e.leaves = 0 // its victims hold them, or nobody
		case a.orphaned:
			e.leaves = int32(len(leavesOf(&al.Placement)))
		}
		o.ends = append(o.ends, e)
		if o.s.stays(a) == nil {
			o.told = append(o.told, int32(i))
		}
	}
}

// gone reports whether a holder has left by a time.
func (o *outlook) gone(id cell.AllocID, t Time) bool {
	o.read()
	return o.over[o.s.byAlloc[id]] <= t
}

// roomy reports whether the VC has as many leaves as a gang needs, of whatever
// shape, at a time when it must keep some for others: it costs little to know
// that it has not.
func (o *outlook) roomy(a asking, t Time, keep cell.LeafSet) bool {
	o.read()
	room := o.size
	for _, e := range o.ends {
		if e.at > t && e.prio >= a.prio {
			room -= e.leaves
		}
	}
	for l := range keep.All() {
		hold, promised := o.s.cl.Holder(l)
		if (hold == cell.None || o.clears(a, hold, t)) && (promised == cell.None || o.clears(a, promised, t)) {
			room--
		}
	}
	return room >= a.j.gangs[a.g].leaves
}

// earliest returns the first instant at which a gang fits. With nothing booked
// for others more is free the later it is, and it halves; else it tries one after
// the other, the first maxInstants and the last.
func (o *outlook) earliest(a asking, times []Time) (Time, cell.Result, bool) {
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
	if was := rare(a.j.gangs[a.g].odd).booked; was != nil && was.Start != 0 {
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

// fits asks the cells for a placement at a time: who has left by then is gone,
// and what is booked for others then, or is in extra, is not to be had.
func (o *outlook) fits(a asking, t Time, extra cell.LeafSet) (cell.Result, bool) {
	keep := o.kept(a, t, a.until(t))
	if !o.roomy(a, t, keep) {
		return cell.Result{}, false
	}
	r := o.s.lifting(o.s.request(a.j, int(a.g)), a.prio)
	r.Keep = keep.With(o.leaving(t)).With(extra)
	r.Gone = func(id cell.AllocID) bool { return o.gone(id, t) }
	return o.placeLater(a, &r)
}

// leaving returns the leaves of those who were told to stop and may still be
// there at a time.
func (o *outlook) leaving(t Time) cell.LeafSet {
	o.read()
	var set cell.LeafSet
	for _, slot := range o.told {
		h := &o.s.attempts[slot]
		if o.gone(h.alloc, t) {
			continue
		}
		for _, l := range leavesOf(&o.s.cl.Alloc(h.alloc).Placement) {
			set = set.Add(l)
		}
	}
	return set
}

// placeLater also leaves promises out of the picture whose holders are gone by
// then, or of a lower priority, so that they would be taken back.
func (o *outlook) placeLater(a asking, r *cell.Request) (cell.Result, bool) {
	if len(o.s.promises) == 0 {
		return o.s.cl.Place(r)
	}
	var past []cell.AllocID
	for _, slot := range o.s.reservations(o.space, cell.MaxGuaranteed+1) {
		if id := o.s.attempts[slot].alloc; r.Gone(id) || o.yields(a, id) {
			past = append(past, id)
		}
	}
	return o.s.cl.PlaceLater(r, past)
}

// timedBook books what was found at a time. Among what would do it takes leaves
// that are in use now: the idle ones can serve others in the meantime.
func (o *outlook) timedBook(a asking, t Time, res cell.Result) book {
	if t > o.s.now {
		if busy, ok := o.fits(a, t, o.idle); ok {
			res = busy
		}
		keep := o.kept(a, t, a.until(t))
		o.exchange(&res.Placement, func(l cell.LeafID) bool { return !keep.Has(l) && o.freeAt(a, t, l) },
			func(l cell.LeafID) Time { return o.busyUntil(a, l) })
	}
	b := o.newBook(a, t, leavesOf(&res.Placement), res.Placement.Binds)
	if a.turn != 0 { // who passed it may be there
		o.slide(a, &b)
		b.free = max(b.free, t)
		b.end = a.until(b.free)
	}
	return b
}

// freeAt reports whether a leaf is free for a gang at a time.
func (o *outlook) freeAt(a asking, t Time, l cell.LeafID) bool {
	hold, promised := o.s.cl.Holder(l)
	if promised != cell.None && !o.clears(a, promised, t) || o.s.leafBad(l) {
		return false
	}
	return hold == cell.None || o.clears(a, hold, t)
}

// busyUntil is how long a leaf serves nobody else; 0 when it could.
func (o *outlook) busyUntil(a asking, l cell.LeafID) Time {
	hold, _ := o.s.cl.Holder(l)
	if hold == cell.None || o.yields(a, hold) {
		return 0
	}
	end, _ := o.s.leftBy(o.s.holder(hold))
	return end
}

// leastAhead finds the shape with the least in the way: the fewest holders
// without a limit, then the least of their work.
func (o *outlook) leastAhead(a asking, keep cell.LeafSet) (cell.Result, bool) {
	r := o.s.lifting(o.s.request(a.j, int(a.g)), a.prio)
	r.Keep = keep
	r.Gone = func(id cell.AllocID) bool { return o.yields(a, id) || o.gone(id, forever-1) }
	r.Lift.Also = func(id cell.AllocID) bool {
		return o.s.cl.Alloc(id).Space == o.space && !o.s.stuck(id)
	}
	r.Cost = func(id cell.AllocID) cell.Cost { return cell.Cost{Lost: o.s.workAhead(o.s.holder(id))} }
	return o.placeLater(a, &r)
}

// workAhead estimates how much an attempt without a limit has before it: its
// hint of a duration where it gives one, else as long again as it has run.
func (s *State) workAhead(a *attempt) int64 {
	j := &s.jobs[a.job]
	left := s.now - max(a.placed, a.started)
	if d := Time(j.spec.Hints.Duration); d > left {
		left = d - left
	}
	leaves := int64(j.gangs[a.id.Gang].leaves)
	if int64(left) > (1<<62)/max(leaves, 1) {
		return 1 << 62
	}
	return int64(left) * leaves
}

// forward moves bookings of this priority that keep their cells to an earlier time: the first,
// when cells became free sooner than limits said, and who is much later than he was told. Who
// stays so late is told anew.
func (o *outlook) forward() {
	if o.easy {
		return
	}
	first := true
	for i := range len(o.books) {
		b := &o.books[i]
		if b.prio != o.prio || !b.timed() || b.free <= o.s.now || b.over || len(o.books) == maxNoted {
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

// sooner makes a booking anew for an earlier time, if it can.
func (o *outlook) sooner(b *book) bool {
	defer o.s.blaming(b.ref.Job)
	a := o.asking(o.s.find(b.ref.Job), b.ref.Gang)
	times := o.instants(a, o.s.now+1)
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
