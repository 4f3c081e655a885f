package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Backfill, as docs/backfill.md describes it. Bookings stand in the order in which they were made
// (Booked.Turn), and a later one gives way. A limit counts from the start of the tasks, which takes
// a while, so times move: what passes a booking must be gone when its cells would be free if none
// had passed it (book.clear), however much later those that did have made it. So they delay it by
// one slow start at most, not by one after another. What a booking keeps is kept by excluding its
// leaves from the searches of others (Request.Keep) and by holding its preassigned cells bound
// meanwhile (Cluster.Hold).

// A booking is what Booked promises to a waiting gang: that its cells are free at
// a time, or when certain jobs have ended. It is part of the state, so a promise
// survives a restart and everybody can read it; the walk keeps it (backfill.go).

// The bounds of the walk; docs/backfill.md prints them.
const (
	maxBookings = 32           // bookings of one VC
	maxNoted    = 64           // bookings, with those that are over, of one walk
	maxPassing  = 512          // gangs that one walk tries behind the first that waits
	maxInstants = 64           // times tried for one gang beside other bookings
	maxEarlier  = 8            // times tried to move a conservative booking forward
	maxUntold   = model.Minute // how much later than told a booking may be until it is told anew
)

const (
	forever      = model.Time(1<<63 - 1)
	lostItsCells = "what it was booked for is no longer to be had"
)

// late is how much later than told its cells are free.
func (b *book) late() model.Duration {
	if b.start == 0 {
		return 0
	}
	return model.Duration(max(b.free-b.start, 0))
}

// timed reports whether it is known when the cells are free.
func (b *book) timed() bool { return len(b.after) == 0 }

// Books reports whether a VC books cells for gangs that wait.
func Books(c *model.VCConfig) bool {
	return c.Backfill == model.ModeEasy || c.Backfill == model.ModeConserve
}

// newOutlook returns nil for a VC that does not backfill.
func (s *Pass) newOutlook(space int32, w *walker) *bookings {
	c := model.OfVC(s.Config, s.Cluster.Space(space).Name)
	if !Books(c) || len(s.Queues[space]) == 0 {
		return nil
	}
	o := &bookings{s: s, w: w, space: space, easy: c.Backfill == model.ModeEasy, prio: cell.MaxGuaranteed + 1,
		failed: map[passKey]bool{}, crowded: map[string]model.Duration{}, moved: true,
		endless: make([]model.JobID, len(s.Cluster.Forest().Chains)), turns: s.Bookings, heldUp: tables.None}
	sp := s.Cluster.Space(space)
	for i := range sp.Roots {
		o.size += s.Cluster.Forest().Chains[sp.Roots[i].Chain].LeavesAt(sp.Roots[i].Level)
	}
	return o
}

// deepEnough ends the walk of a VC: far behind, nobody is tried.
func (o *bookings) deepEnough() bool { return o != nil && o.waiting >= maxPassing }

// backfill tries to start a gang beside the bookings of others, and books it when
// that fails and it is its turn to be booked.
func (w *walker) backfill(j *tables.Job, g int32, wish model.Wish) {
	o := w.outlook
	o.heard = heard{}
	o.enter(j.Spec.Priority)
	a := o.asking(j, g)
	a.over, a.behind, a.size = wish.Over != nil, wish.Passes, wish.Size
	o.keepToType(&a, wish.SKU)
	if j.Gangs[g].Attempt != tables.None {
		o.improve(a)
		return
	}
	if o.s.HasTurn(a.ref) && o.tries(a, wish) || o.s.IsPostponed() {
		return
	}
	w.passes(j)
	if wish.Takes() && w.passed == 0 {
		w.passed = w.s.Seq
	}
	o.waiting++
	o.passed = append(o.passed, passed{a, o.changes})
	o.turn(a)
}

// tries tries to start a gang, at last at the expense of its own priority.
func (o *bookings) tries(a asking, wish model.Wish) bool {
	if o.startWhole(a) || o.start(a) {
		return true
	}
	over := func(a asking) (place.Plan, bool) { return o.planOver(a, wish) }
	if o.s.IsPostponed() {
		return false
	}
	p, ok := over(a)
	if !ok && wish.Takes() && !o.s.IsPostponed() {
		p, ok = o.elsewhere(a, over)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

// start starts a gang, or reserves cells for it, where it passes the bookings of
// others.
func (o *bookings) start(a asking) bool {
	defer o.s.Blaming(a.ref.Job)
	p, ok := o.passing(a)
	if !ok && !o.s.IsPostponed() && int64(a.j.Gangs[a.g].Leaves) <= o.s.Unheld(a.j.Space, a.prio) {
		p, ok = o.elsewhere(a, o.passing)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

func (o *bookings) carryOut(a asking, p place.Plan) {
	o.release()
	o.s.carryOut(place.Want{J: a.j, G: a.g, Size: a.size}, p)
	if len(p.Revoked)+len(p.Lazies)+len(p.Cleared) > 0 {
		clear(o.failed) // more was given back than it takes, perhaps
	}
	if p.Disturbs() {
		clear(o.crowded) // or will be
	}
	o.started(a)
}

// started ends the booking of a gang that got cells, and those that it passed.
func (o *bookings) started(a asking) {
	left := o.find(a.ref)
	o.forget(a.ref)
	var passed []int
	for i := range o.books {
		if o.passes(a, i) {
			passed = append(passed, i)
		}
	}
	o.again()
	for _, i := range passed {
		if o.books[i].over { // its cells are bound elsewhere now
			o.displaced = append(o.displaced, o.books[i].ref)
		}
	}
	o.displace(a)
	if left >= 0 && (o.books[left].free > o.s.Now || slices.ContainsFunc(o.books[left].leaves, o.unused)) {
		o.forward() // it has its cells sooner, or others, than was foreseen: the next may have theirs sooner
	}
}

// displace ends the bookings behind a gang that may stop others of its priority,
// where it took their cells: they are booked anew at their turn, as if they came then.
func (o *bookings) displace(a asking) {
	for i := range o.books {
		if b := &o.books[i]; o.passes(a, i) && !o.obtainable(o.asking(o.s.Find(b.ref.Job), b.ref.Gang), b) {
			o.end(b)
			o.displaced = append(o.displaced, b.ref)
		}
	}
	o.rehold()
}

// passes reports whether a booking is no obstacle to a gang of its priority that
// may stop those behind it: a rank is one for gangs that run and gangs that are
// booked, or it would stop at the next look whom it lets start at this.
func (o *bookings) passes(a asking, i int) bool {
	b := &o.books[i]
	if !a.over || b.over || b.ranked || b.prio != a.prio || b.ref == a.ref {
		return false
	}
	if a.behind == nil {
		return true
	}
	if o.heard.of != a.ref {
		o.heard = heard{of: a.ref}
	}
	was := o.s.Ask(o.space)
	if bit := uint64(1) << i; o.heard.asked&bit == 0 && a.behind(b.ref) {
		o.heard.behind |= bit
	}
	o.heard.asked |= 1 << i
	o.s.Ask(was)
	return o.heard.behind>>i&1 != 0
}

// revisit tries those again that found nothing before a booking moved. Each round
// but the last places somebody, and none makes a booking, so it ends.
func (o *bookings) revisit() {
	for again := o != nil; again; {
		again = false
		for i := range o.passed {
			p := &o.passed[i]
			if g := &p.j.Gangs[p.g]; !o.s.IsPostponed() && p.changes != o.changes && g.Waiting &&
				g.Attempt == tables.None {
				p.changes, o.heard = o.changes, heard{}
				again = o.start(p.asking) || again
			}
		}
	}
}

// any reports whether a booking is in force.
func (o *bookings) any() bool { return o != nil && o.live() > 0 }

// blockedFor returns the chains that a gang must leave to one before it. Who is booked has what he
// was promised, and leaves the other chains to those who waited before that.
func (o *bookings) blockedFor(a asking) []bool {
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
func (o *bookings) lies(b *book, chain int16) bool {
	f := o.s.Cluster.Forest()
	return slices.ContainsFunc(b.leaves, func(l cell.LeafID) bool { return f.Cells[f.Leaves[l]].Chain == chain })
}

// precededBy reports whether a job waited before a booking was made.
func (o *bookings) precededBy(b *book, id model.JobID) bool {
	j := o.s.Find(id)
	return j != nil && j.Submitted <= b.since
}

// keepToType says which chains a gang must leave alone: those of others, and where it is to
// have one type those of all others. What was booked for it before may be of these.
func (o *bookings) keepToType(a *asking, sku cell.TypeName) {
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

// turn is a gang's that found nothing: it keeps its booking, gets one, or waits
// without, as one does that is to have one type only: a booking is made before its policy
// says which. When nothing can be booked although it is first, those behind it wait
// as they do without backfill.
func (o *bookings) turn(a asking) {
	if a.j.Spec.Gangs[a.g].Extra || a.others != nil {
		return
	}
	i := o.find(a.ref)
	if i >= 0 && (o.books[i].free != o.s.Now || o.books[i].due) {
		return
	}
	entitled := o.entitled(a)
	if i < 0 && (o.isCrowded(a) || !entitled && !o.leads(a)) {
		return
	}
	if o.s.Outside(place.Want{J: a.j, G: a.g, Prefer: o.prefer}) {
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
	case ok, !behind: // or it has to be bound in another order than bookings are
		o.w.block(place.Want{J: a.j, G: a.g, Prefer: o.prefer})
	default:
		o.crowd(a)
	}
	if o.heldUp < 0 { // once others were placed another gang may be first, so that is looked at again
		o.heldUp = len(o.s.Out)
	}
}

// ranked is a booking of a gang to which the walk has come.
func (o *bookings) ranked(b book, a asking) book {
	b.ranked, b.kept = true, slices.Contains(a.blocked, true)
	return b
}

// leads reports whether a gang stands before all others of its priority that wait, though under
// easy one that came behind it is booked: nothing could be booked for the first.
func (o *bookings) leads(a asking) bool {
	return o.easy && len(o.passed) == 1 && slices.ContainsFunc(o.books, func(b book) bool {
		return !b.over && !b.ranked && b.prio == a.prio && o.precededBy(&b, a.j.ID)
	})
}

// crowd notes that nothing can be booked for a gang beside the bookings of others, which have no
// end: those without a limit behind it would only be more of these. Who has one is gone before
// they begin, or starts where it does not matter to them.
func (o *bookings) crowd(a asking) {
	if !a.alone() {
		o.crowded[a.j.Gangs[a.g].Shape.Text] = a.length // the bookings that come only make it more so
	}
	chains, _ := o.s.Wants(a.j, a.g)
	for ci, could := range chains {
		if could && o.endless[ci] == 0 {
			o.endless[ci] = a.j.ID
		}
	}
}

// isCrowded reports whether a gang fares as one did that is gone as soon, or sooner.
func (o *bookings) isCrowded(a asking) bool {
	least, found := o.crowded[a.j.Gangs[a.g].Shape.Text]
	return found && !a.alone() && (a.length == 0 || least != 0 && least <= a.length)
}

// alone reports whether no other gang of its shape need fare as it does.
func (a asking) alone() bool { return a.over || a.j.Gangs[a.g].Avoids() }

// entitled reports whether a gang may have a booking: under easy the first for
// some chain or pinned cell that it could use, under conservative everybody.
func (o *bookings) entitled(a asking) bool {
	if o.live() >= maxBookings || len(o.books) >= maxNoted {
		return false
	}
	chains, pins := o.s.Wants(a.j, a.g)
	for ci, by := range o.w.blocked {
		chains[ci] = chains[ci] && (by == 0 || by == a.j.ID) &&
			(a.length > 0 || o.endless[ci] == 0 || o.endless[ci] == a.j.ID)
	}
	for i := range o.books {
		b := &o.books[i]
		if !o.easy || b.over || b.prio < a.prio {
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
	return slices.IndexFunc(o.books, func(b book) bool { return b.ref == ref && !b.over })
}

func (o *bookings) live() int {
	n := 0
	for i := range o.books {
		if !o.books[i].over {
			n++
		}
	}
	return n
}

// add puts a booking in force; it reports false when its cells cannot be held.
func (o *bookings) add(b book) bool {
	if len(o.books) == maxNoted {
		return false // mask has no bit for more
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

func (o *bookings) end(b *book) {
	b.over = true
	o.changes++
	clear(o.failed)
	clear(o.crowded)
}

// reach notes that the walk came to a gang.
func (o *bookings) reach(ref model.GangRef, p cell.Priority) {
	if o == nil {
		return
	}
	o.enter(p)
	if i := o.find(ref); i >= 0 {
		o.books[i].ranked = true
	}
}

// improve starts a gang that waits for victims, as State.improve does.
func (o *bookings) improve(a asking) {
	s := o.s
	at := &s.Attempts[a.j.Gangs[a.g].Attempt]
	r := s.Request(o.want(a, nil))
	r.Keep = o.kept(a, s.Now, a.until(s.Now))
	o.release()
	defer o.again()
	if s.fulfil(at) || s.Cluster.Rest() == 0 || s.Missing(at) > s.Cluster.Rest() {
		return
	}
	o.again()
	res, ok := s.Cluster.PlaceInstead(at.Alloc, &r)
	o.release()
	if ok {
		id := at.ID
		s.emit(model.Unreserved{Attempt: id, Reason: "free cells appeared"})
		s.emit(model.Placed{Attempt: id, Placement: res.Placement})
	}
}

// release gives back what is held. Events are only emitted without it: applied
// again, they find the cells as they were.
func (o *bookings) release() {
	o.s.Cluster.Unhold(o.space, o.held)
	o.held = nil
}

// again holds the cells of all bookings, after cells changed hands.
func (o *bookings) again() {
	o.moved = true
	for i := range o.books {
		b := &o.books[i]
		if b.over || o.aside>>i&1 != 0 {
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

// rehold holds what the bookings in force need, and nothing else.
func (o *bookings) rehold() {
	moved := o.moved
	o.release()
	o.again()
	o.moved = moved
}

// leave gives the held cells back, of a walk that is made again.
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
		if b := &o.books[i]; !b.over {
			o.journal(b)
		}
	}
	o.release()
}

// journal emits a booking that is not what was said before.
func (o *bookings) journal(b *book) {
	defer o.s.Blaming(b.ref.Job)
	j := o.s.Find(b.ref.Job)
	g := &j.Gangs[b.ref.Gang]
	if g.Attempt != tables.None || b.free == o.s.Now {
		return // it has its cells, or its turn did not come
	}
	e := model.Booked{Job: b.ref.Job, Gang: b.ref.Gang, Start: b.start, After: b.after, Turn: b.turn, Since: b.since}
	if b.first != b.start {
		e.First = b.first
	}
	if !o.easy || !b.timed() || b.kept {
		e.Leaves, e.Binds = b.leaves, b.binds
	}
	was := tables.RareOf(g.Rare).Booked
	if was != nil && was.Start == e.Start && was.First == e.First && was.Turn == e.Turn && slices.Equal(was.After, e.After) && slices.Equal(was.Leaves, e.Leaves) && slices.Equal(was.Binds, e.Binds) {
		return
	}
	o.s.emit(e)
}

// heldBack ends the bookings of gangs of a priority that their policy does not ask for, and
// cannot say when it will: else whoever is to start before them waits for them, and they
// for that.
func (o *bookings) heldBack() {
	if o == nil {
		return
	}
	p, ok := o.s.Policies[o.space].(model.Restrainer)
	if !ok {
		return
	}
	for i := range o.books {
		b := &o.books[i]
		if b.over || b.ranked || b.prio != o.prio || b.prio < cell.MinGuaranteed {
			continue
		}
		was := o.s.Ask(o.space)
		why, until := p.Restrains(o.s.View(o.space, b.prio), b.ref)
		o.s.Ask(was)
		if why != "" && until == 0 {
			o.end(b)
		}
	}
}

// elsewhere is a search for a gang without the cells that its own booking binds, and those that
// bookings do that it passes: where its VC has cells smaller than a node, or is part of another,
// they may keep it from others that are free by now.
func (o *bookings) elsewhere(a asking, find func(asking) (place.Plan, bool)) (p place.Plan, ok bool) {
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
		return place.Plan{}, false
	}
	o.rehold()
	p, ok = find(a)
	if o.aside = 0; !ok {
		o.rehold()
	}
	return p, ok // whoever starts it ends its booking, and those that it passes, and says so
}
