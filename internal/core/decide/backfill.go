package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Backfill, see docs/backfill.md. Bookings stand in the order in which they were made
// (Booked.Turn); later ones give way. Time limits count from the start of the tasks, which takes a
// while, so the times of bookings slip. A gang that passes a booking must be gone when the booked
// cells would be free if no gang had passed (book.freeUnpassed), however late earlier ones made it.
// So all of them together delay it by at most one slow start. The leaves of a booking are excluded
// from the searches of other gangs (Request.Excluded), and its preassigned cells are held bound
// meanwhile (Cluster.Hold).

// A booking promises a waiting gang that its cells are free at a time, or when certain jobs
// have ended (the event Booked). It is part of the state: it survives a restart and all users
// can read it. The walk keeps it.

// The bounds of backfill, listed in docs/backfill.md.
const (
	maxBookings = 32           // bookings of one VC
	maxNoted    = 64           // bookings of one walk, with those that have ended
	maxPassing  = 512          // gangs that one walk tries behind the first that waits
	maxInstants = 64           // times tried for one gang beside other bookings
	maxEarlier  = 8            // times tried to move a conservative booking forward
	maxUntold   = model.Minute // how late a booking may be before users are told a new time
)

const (
	forever      = model.Time(1<<63 - 1)
	lostItsCells = "what it was booked for is no longer to be had"
)

// late is how much later than told the cells are free.
func (b *booking) late() model.Duration {
	if b.start == 0 {
		return 0
	}
	return model.Duration(max(b.free-b.start, 0))
}

// timed reports whether the booking has a start time.
func (b *booking) timed() bool { return len(b.after) == 0 }

// Books reports whether a VC books cells for waiting gangs.
func Books(c *model.VCConfig) bool {
	return c.Backfill == model.ModeEasy || c.Backfill == model.ModeConserve
}

// newBookings returns nil for a VC without backfill.
func (s *Pass) newBookings(space int32, w *walker) *bookings {
	c := model.ConfigOfVC(s.Config, s.Cluster.Space(space).Name)
	if !Books(c) || len(s.Queues[space]) == 0 {
		return nil
	}
	o := &bookings{s: s, w: w, space: space, easy: c.Backfill == model.ModeEasy, prio: cell.MaxGuaranteed + 1,
		failed: map[passKey]bool{}, unbookable: map[string]model.Duration{}, moved: true,
		endless: make([]model.JobID, len(s.Cluster.Forest().Chains)), lastTurn: s.Bookings, heldUp: tables.None}
	sp := s.Cluster.Space(space)
	for i := range sp.Roots {
		o.size += s.Cluster.Forest().Chains[sp.Roots[i].Chain].LeavesAt(sp.Roots[i].Level)
	}
	return o
}

// deepEnough reports whether enough gangs were tried behind the first that waits.
func (o *bookings) deepEnough() bool { return o != nil && o.waiting >= maxPassing }

// backfill tries to start a gang beside the bookings of others, and else books it if it may be
// booked.
func (w *walker) backfill(j *tables.Job, g int32, wish model.Wish) {
	o := w.bookings
	o.heard = heard{}
	o.enterPriority(j.Spec.Priority)
	a := o.candidateOf(j, g)
	a.overPeers, a.behind, a.size = wish.Preemptible != nil, wish.IsBehind, wish.Size
	o.keepToType(&a, wish.SKU)
	if j.Gangs[g].Attempt != tables.None {
		o.startSooner(a)
		return
	}
	if o.s.HasTurn(a.ref) && o.tries(a, wish) || o.s.IsPostponed() {
		return
	}
	w.notePartlyPlaced(j)
	if wish.MayPreempt() && w.missedAt == 0 {
		w.missedAt = w.s.Seq
	}
	o.waiting++
	o.waiters = append(o.waiters, waiter{a, o.changes})
	o.bookMissed(a)
}

// tries tries to start a gang, in the end by preempting its own priority.
func (o *bookings) tries(a candidate, wish model.Wish) bool {
	if o.startWhole(a) || o.start(a) {
		return true
	}
	over := func(a candidate) (place.Plan, bool) { return o.planOverPeers(a, wish) }
	if o.s.IsPostponed() {
		return false
	}
	p, ok := over(a)
	if !ok && wish.MayPreempt() && !o.s.IsPostponed() {
		p, ok = o.withoutHeldCells(a, over)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

// start starts a gang, or reserves cells for it, if it delays no booking that it must not pass.
func (o *bookings) start(a candidate) bool {
	defer o.s.BlameJob(a.ref.Job)
	p, ok := o.passing(a)
	if !ok && !o.s.IsPostponed() && int64(a.j.Gangs[a.g].Leaves) <= o.s.AvailableTo(a.j.Space, a.prio) {
		p, ok = o.withoutHeldCells(a, o.passing)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

func (o *bookings) carryOut(a candidate, p place.Plan) {
	o.release()
	o.s.carryOut(place.Want{J: a.j, G: a.g, Size: a.size}, p)
	if len(p.Revoked)+len(p.Demoted)+len(p.Unbound) > 0 {
		clear(o.failed) // perhaps more came free than it takes
	}
	if p.Disturbs() {
		clear(o.unbookable) // or more will come free
	}
	o.started(a)
}

// started ends the booking of a gang that got cells, and the bookings whose cells it took.
func (o *bookings) started(a candidate) {
	left := o.find(a.ref)
	o.forget(a.ref)
	var passed []int
	for i := range o.books {
		if o.mayPass(a, i) {
			passed = append(passed, i)
		}
	}
	o.holdAll()
	for _, i := range passed {
		if o.books[i].ended { // its cells can no longer be held
			o.displaced = append(o.displaced, o.books[i].ref)
		}
	}
	o.displace(a)
	if left >= 0 && (o.books[left].free > o.s.Now || slices.ContainsFunc(o.books[left].leaves, o.unused)) {
		o.forward() // it did not use its booked cells as foreseen: later bookings may move forward
	}
}

// displace ends the bookings that a gang passed and whose cells it took. They are booked anew
// at their turn, as if they came then.
func (o *bookings) displace(a candidate) {
	for i := range o.books {
		if b := &o.books[i]; o.mayPass(a, i) && !o.obtainable(o.candidateOf(o.s.Find(b.ref.Job), b.ref.Gang), b) {
			o.end(b)
			o.displaced = append(o.displaced, b.ref)
		}
	}
	o.rehold()
}

// mayPass reports whether a booking is no obstacle to a gang that may preempt its own priority:
// the booked gang is behind it. Booked and running gangs share one order: otherwise a gang
// started now could be preempted at the next look.
func (o *bookings) mayPass(a candidate, i int) bool {
	b := &o.books[i]
	if !a.overPeers || b.ended || b.ranked || b.prio != a.prio || b.ref == a.ref {
		return false
	}
	if a.behind == nil {
		return true
	}
	if o.heard.of != a.ref {
		o.heard = heard{of: a.ref}
	}
	was := o.s.EnterPolicy(o.space)
	if bit := uint64(1) << i; o.heard.asked&bit == 0 && a.behind(b.ref) {
		o.heard.behind |= bit
	}
	o.heard.asked |= 1 << i
	o.s.EnterPolicy(was)
	return o.heard.behind>>i&1 != 0
}

// revisit retries the gangs that found nothing before a booking changed. Each round but the
// last starts a gang and none makes a booking, so it ends.
func (o *bookings) revisit() {
	for again := o != nil; again; {
		again = false
		for i := range o.waiters {
			p := &o.waiters[i]
			if g := &p.j.Gangs[p.g]; !o.s.IsPostponed() && p.changes != o.changes && g.Waiting &&
				g.Attempt == tables.None {
				p.changes, o.heard = o.changes, heard{}
				again = o.start(p.candidate) || again
			}
		}
	}
}

// any reports whether a booking is in force.
func (o *bookings) any() bool { return o != nil && o.live() > 0 }

// blockedFor returns the chains that a gang must leave to gangs before it. A booked gang keeps
// the chains of its booked cells, and leaves others only to jobs submitted before its booking
// was made.
func (o *bookings) blockedFor(a candidate) []bool {
	blocked := o.w.blockedFor(a.j.ID)
	if i := o.find(a.ref); i >= 0 {
		for ci := range blocked {
			blocked[ci] = blocked[ci] && o.precededBy(&o.books[i], o.w.blocked[ci]) && !o.lies(&o.books[i], int16(ci))
		}
		return blocked
	}
	if a.length == 0 {
		waits := make([]bool, len(o.endless))
		for ci, by := range o.endless {
			waits[ci] = by != 0 && by != a.j.ID
		}
		blocked = eitherOf(blocked, waits)
	}
	return blocked
}

// lies reports whether a booking has leaves of a chain.
func (o *bookings) lies(b *booking, chain int16) bool {
	f := o.s.Cluster.Forest()
	return slices.ContainsFunc(b.leaves, func(l cell.LeafID) bool { return f.Cells[f.Leaves[l]].Chain == chain })
}

// precededBy reports whether a job was submitted before a booking was made.
func (o *bookings) precededBy(b *booking, id model.JobID) bool {
	j := o.s.Find(id)
	return j != nil && j.Submitted <= b.since
}

// keepToType sets the chains that a gang must leave alone: those of gangs before it and, if it
// is to have one type, those of all others. Then its booking, if any, ends: it may be of
// another type.
func (o *bookings) keepToType(a *candidate, sku cell.TypeName) {
	a.others = o.s.typesBut(sku)
	if a.j.Spec.Gangs[a.g].Extra {
		a.others = o.s.OtherTypes(a.j, a.g)
	}
	if a.others != nil && o.find(a.ref) >= 0 {
		o.forget(a.ref)
		o.rehold()
	}
	a.blocked = eitherOf(o.blockedFor(*a), a.others)
}

// bookMissed handles a gang that found nothing: it keeps its booking, gets one, or waits without. A
// gang that must have one type is not booked, since its policy names the type only at its turn.
// If nothing can be booked for the first gang, it blocks those behind it as without backfill.
func (o *bookings) bookMissed(a candidate) {
	if a.j.Spec.Gangs[a.g].Extra || a.others != nil {
		return
	}
	i := o.find(a.ref)
	if i >= 0 && (o.books[i].free != o.s.Now || o.books[i].due) {
		return
	}
	entitled := o.mayBook(a)
	if i < 0 && (o.isUnbookable(a) || !entitled && !o.leads(a)) {
		return
	}
	if o.s.BlockedOutside(place.Want{J: a.j, G: a.g, Prefer: o.prefer}) {
		o.forget(a.ref)
		return
	}
	o.forget(a.ref)
	o.rehold()
	b, behind, ok := o.search(a, o.s.Now+1)
	switch {
	case ok && !entitled:
		return
	case ok && o.add(o.ranked(b, a)):
		o.displace(a)
		return
	case ok, !behind: // or its cells cannot be held beside the bookings
		o.w.block(place.Want{J: a.j, G: a.g, Prefer: o.prefer})
	default:
		o.noteUnbookable(a)
	}
	if o.heldUp < 0 { // another gang may be first once others were placed
		o.heldUp = len(o.s.Out)
	}
}

// ranked marks a booking made at its gang's turn. If chains were blocked then, it keeps its
// cells even under easy.
func (o *bookings) ranked(b booking, a candidate) booking {
	b.ranked, b.keepsCells = true, slices.Contains(a.blocked, true)
	return b
}

// leads reports whether a gang is the first of its priority to find nothing, but under easy a
// later gang is booked, since nothing could be booked for this one before.
func (o *bookings) leads(a candidate) bool {
	return o.easy && len(o.waiters) == 1 && slices.ContainsFunc(o.books, func(b booking) bool {
		return !b.ended && !b.ranked && b.prio == a.prio && o.precededBy(&b, a.j.ID)
	})
}

// noteUnbookable notes that nothing can be booked for a gang beside the bookings of others, which
// have no end. Gangs without a limit must then not pass it: each would be one more such booking. A
// gang with a limit may, since it is gone before those bookings begin or uses none of their cells.
func (o *bookings) noteUnbookable(a candidate) {
	if !a.alone() {
		o.unbookable[a.j.Gangs[a.g].Shape.Text] = a.length // later bookings only make it harder
	}
	chains, _ := o.s.ChainsAndPins(a.j, a.g)
	for ci, could := range chains {
		if could && o.endless[ci] == 0 {
			o.endless[ci] = a.j.ID
		}
	}
}

// isUnbookable reports whether nothing can be booked for a gang since that was so for one of its
// shape that is gone as soon, or sooner.
func (o *bookings) isUnbookable(a candidate) bool {
	least, found := o.unbookable[a.j.Gangs[a.g].Shape.Text]
	return found && !a.alone() && (a.length == 0 || least != 0 && least <= a.length)
}

// alone reports whether its failure says nothing of other gangs of its shape.
func (a candidate) alone() bool { return a.overPeers || a.j.Gangs[a.g].Avoids() }

// mayBook reports whether a gang may have a booking. Under conservative every gang may; under
// easy only the first for some chain or pinned cell that it could use.
func (o *bookings) mayBook(a candidate) bool {
	if o.live() >= maxBookings || len(o.books) >= maxNoted {
		return false
	}
	chains, pins := o.s.ChainsAndPins(a.j, a.g)
	for ci, by := range o.w.blocked {
		chains[ci] = chains[ci] && (by == 0 || by == a.j.ID) &&
			(a.length > 0 || o.endless[ci] == 0 || o.endless[ci] == a.j.ID)
	}
	for i := range o.books {
		b := &o.books[i]
		if !o.easy || b.ended || b.prio < a.prio {
			continue
		}
		for ci := range chains {
			chains[ci] = chains[ci] && !b.chains[ci]
		}
		pins = slices.DeleteFunc(pins, func(p cell.PinnedID) bool { return slices.Contains(b.pins, p) })
	}
	return len(pins) > 0 || slices.Contains(chains, true)
}

func (o *bookings) find(ref model.GangRef) int {
	return slices.IndexFunc(o.books, func(b booking) bool { return b.ref == ref && !b.ended })
}

func (o *bookings) live() int {
	n := 0
	for i := range o.books {
		if !o.books[i].ended {
			n++
		}
	}
	return n
}

// add puts a booking in force. It reports false if its cells cannot be held.
func (o *bookings) add(b booking) bool {
	if len(o.books) == maxNoted {
		return false // a mask has no bit for more
	}
	held, ok := o.s.Cluster.Hold(o.space, b.binds)
	if ok {
		o.held = append(o.held, held...)
		o.books = append(o.books, b)
	}
	return ok
}

// forget ends a gang's booking, if it has one.
func (o *bookings) forget(ref model.GangRef) {
	if i := o.find(ref); i >= 0 {
		o.end(&o.books[i])
	}
}

func (o *bookings) end(b *booking) {
	b.ended = true
	o.changes++
	clear(o.failed)
	clear(o.unbookable)
}

// reach notes that the walk came to a gang.
func (o *bookings) reach(ref model.GangRef, p cell.Priority) {
	if o == nil {
		return
	}
	o.enterPriority(p)
	if i := o.find(ref); i >= 0 {
		o.books[i].ranked = true
	}
}

// startSooner is Pass.startSooner beside the bookings of others.
func (o *bookings) startSooner(a candidate) {
	s := o.s
	at := &s.Attempts[a.j.Gangs[a.g].Attempt]
	r := s.Request(o.want(a, nil))
	r.Excluded = o.kept(a, s.Now, a.until(s.Now))
	o.release()
	defer o.holdAll()
	if s.startReserved(at) || s.Cluster.IdleCount() == 0 || s.Missing(at) > s.Cluster.IdleCount() {
		return
	}
	o.holdAll()
	res, ok := s.Cluster.PlaceInstead(at.Alloc, &r)
	o.release()
	if ok {
		id := at.ID
		s.emit(model.Unreserved{Attempt: id, Reason: "free cells appeared"})
		s.emit(model.Placed{Attempt: id, Placement: res.Placement})
	}
}

// release gives the held cells back. Events are emitted only then: a replay applies them to
// cells that are not held.
func (o *bookings) release() {
	o.s.Cluster.Unhold(o.space, o.held)
	o.held = nil
}

// holdAll holds the cells of all bookings, and ends those whose cells cannot be held any more.
func (o *bookings) holdAll() {
	o.moved = true
	for i := range o.books {
		b := &o.books[i]
		if b.ended || o.aside>>i&1 != 0 {
			continue
		}
		held, ok := o.s.Cluster.Hold(o.space, b.binds)
		if !ok {
			o.end(b)
			continue
		}
		o.held = append(o.held, held...)
	}
}

// rehold holds exactly the cells of the bookings in force.
func (o *bookings) rehold() {
	moved := o.moved
	o.release()
	o.holdAll()
	o.moved = moved
}

// leave gives the held cells back when the walk will be made again.
func (o *bookings) leave() {
	if o != nil {
		o.release()
	}
}

// close journals what changed and gives the held cells back.
func (o *bookings) close() {
	if o == nil {
		return
	}
	for _, ref := range slices.Clone(o.s.Booked) {
		j := o.s.Find(ref.Job)
		if o.s.Space(j.Spec.VC) == o.space && j.Spec.Priority >= o.prio && o.find(ref) < 0 &&
			j.Gangs[ref.Gang].Attempt == tables.None {
			o.s.emit(model.Booked{Job: ref.Job, Gang: ref.Gang, Over: lostItsCells})
		}
	}
	for i := range o.books {
		if b := &o.books[i]; !b.ended {
			o.journal(b)
		}
	}
	o.release()
}

// journal emits a booking that differs from what was journaled before.
func (o *bookings) journal(b *booking) {
	defer o.s.BlameJob(b.ref.Job)
	j := o.s.Find(b.ref.Job)
	g := &j.Gangs[b.ref.Gang]
	if g.Attempt != tables.None || b.free == o.s.Now {
		return // it has its cells, or the walk did not reach it
	}
	e := model.Booked{Job: b.ref.Job, Gang: b.ref.Gang, Start: b.start, After: b.after, Turn: b.turn, Since: b.since}
	if b.first != b.start {
		e.First = b.first
	}
	if !o.easy || !b.timed() || b.keepsCells {
		e.Leaves, e.Binds = b.leaves, b.binds
	}
	was := tables.RareOf(g.Rare).Booked
	if was != nil && was.Start == e.Start && was.First == e.First && was.Turn == e.Turn && slices.Equal(was.After, e.After) && slices.Equal(was.Leaves, e.Leaves) && slices.Equal(was.Binds, e.Binds) {
		return
	}
	o.s.emit(e)
}

// endRestrained ends the bookings of gangs that their policy holds back without a known end.
// Otherwise a gang that is to start first could wait for such a booking, and the booked gang
// for that one.
func (o *bookings) endRestrained() {
	if o == nil {
		return
	}
	p, ok := o.s.Policies[o.space].(model.HoldsBack)
	if !ok {
		return
	}
	for i := range o.books {
		b := &o.books[i]
		if b.ended || b.ranked || b.prio != o.prio || b.prio < cell.MinGuaranteed {
			continue
		}
		was := o.s.EnterPolicy(o.space)
		why, until := p.WhyHeldBack(o.s.View(o.space, b.prio), b.ref)
		o.s.EnterPolicy(was)
		if why != "" && until == 0 {
			o.end(b)
		}
	}
}

// withoutHeldCells searches for a gang without holding the cells of its own booking and of those
// that it passes. Where the VC has parts of nodes, or is part of another, those held cells may be
// what keeps free ones from it.
func (o *bookings) withoutHeldCells(a candidate, find func(candidate) (place.Plan, bool)) (p place.Plan, ok bool) {
	for i := range o.books {
		b := &o.books[i]
		own := b.ref == a.ref && !b.ended
		if len(b.binds) == 0 || !own && !o.mayPass(a, i) {
			continue
		}
		if own {
			a.by = b.free // it must not wait for attempts that leave later
		}
		o.aside |= 1 << i
	}
	if o.aside == 0 {
		return place.Plan{}, false
	}
	o.rehold()
	p, ok = find(a)
	if o.aside = 0; !ok {
		o.rehold()
	}
	return p, ok // carryOut ends these bookings, and holds the others
}
