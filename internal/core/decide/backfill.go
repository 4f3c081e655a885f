package decide

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
)

// maxPassing is how many gangs one walk tries behind the first that waits; docs/backfill.md lists
// it.
const maxPassing = 512

// newBookings returns nil for a VC without backfill.
func (s *Pass) newBookings(space int32, w *walker) *bookings {
	tl := timeline.New(&s.Finder, space, w.blocked)
	if tl == nil {
		return nil
	}
	return &bookings{Timeline: tl, s: s, w: w, heldUp: tables.None}
}

// enter takes over the bookings of a priority when the walk reaches it.
func (o *bookings) enter(p cell.Priority) {
	if o.Enter(p) {
		o.waiters = o.waiters[:0]
	}
}

// deepEnough reports whether enough gangs were tried behind the first that waits.
func (o *bookings) deepEnough() bool { return o != nil && o.waiting >= maxPassing }

// backfill tries to start a gang beside the bookings of others, and else books it if it may be
// booked.
func (w *walker) backfill(j *tables.Job, g int32, wish model.Wish) {
	o := w.bookings
	o.AskAnew()
	o.enter(j.Spec.Priority)
	a := o.CandidateOf(j, g)
	a.OverPeers, a.Behind, a.Size = wish.Preemptible != nil, wish.IsBehind, wish.Size
	o.keepToType(&a, wish.SKU)
	if j.Gangs[g].Attempt != tables.None {
		o.startSooner(a)
		return
	}
	if o.s.HasTurn(a.Ref) && o.tries(a, wish) || o.s.IsPostponed() {
		return
	}
	w.notePartlyPlaced(j)
	if wish.MayPreempt() && w.missedAt == 0 {
		w.missedAt = w.s.Seq
	}
	o.waiting++
	o.waiters = append(o.waiters, waiter{a, o.Changes})
	o.book(a)
}

// tries tries to start a gang, in the end by preempting its own priority.
func (o *bookings) tries(a timeline.Candidate, wish model.Wish) bool {
	if o.startWhole(a) || o.start(a) {
		return true
	}
	over := func(a timeline.Candidate) (place.Plan, bool) { return o.planOverPeers(a, wish) }
	if o.s.IsPostponed() {
		return false
	}
	p, ok := over(a)
	if !ok && wish.MayPreempt() && !o.s.IsPostponed() {
		p, ok = o.WithoutHeldCells(a, over)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

// start starts a gang, or reserves cells for it, if it delays no booking that it must not pass.
func (o *bookings) start(a timeline.Candidate) bool {
	defer o.s.BlameJob(a.Ref.Job)
	p, ok := o.Passing(a)
	if !ok && !o.s.IsPostponed() && int64(a.J.Gangs[a.G].Leaves) <= o.s.AvailableTo(a.J.Space, a.J.Spec.Priority) {
		p, ok = o.WithoutHeldCells(a, o.Passing)
	}
	if ok {
		o.carryOut(a, p)
	}
	return ok
}

// revisit retries the gangs that found nothing before a booking changed. Each round but the
// last starts a gang and none makes a booking, so it ends.
func (o *bookings) revisit() {
	for again := o != nil; again; {
		again = false
		for i := range o.waiters {
			p := &o.waiters[i]
			if g := &p.J.Gangs[p.G]; !o.s.IsPostponed() && p.changes != o.Changes && g.Waiting &&
				g.Attempt == tables.None {
				p.changes = o.Changes
				o.AskAnew()
				again = o.start(p.Candidate) || again
			}
		}
	}
}

func (o *bookings) carryOut(a timeline.Candidate, p place.Plan) {
	o.Release()
	o.s.carryOut(place.Want{J: a.J, G: a.G, Size: a.Size}, p)
	o.GaveBack(p)
	o.Started(a)
}

// keepToType sets the chains that a gang must leave alone, if it is to have one type or is a member
// above a minimum, which follows the type of its minimum.
func (o *bookings) keepToType(a *timeline.Candidate, sku cell.TypeName) {
	others := o.s.typesBut(sku)
	if a.J.Spec.Gangs[a.G].Extra {
		others = o.s.OtherTypes(a.J, a.G)
	}
	o.KeepToType(a, others)
}

// book books a gang that found nothing, if it may be booked. If nothing can be booked for the first
// gang, it blocks those behind it as without backfill.
func (o *bookings) book(a timeline.Candidate) {
	heldUp, blocks := o.Book(a, len(o.waiters) == 1)
	if blocks {
		o.w.block(place.Want{J: a.J, G: a.G, Prefer: o.Prefer})
	}
	if heldUp && o.heldUp < 0 { // another gang may be first once others were placed
		o.heldUp = len(o.s.Out)
	}
}

// startSooner is Pass.startSooner beside the bookings of others.
func (o *bookings) startSooner(a timeline.Candidate) {
	s := o.s
	at := &s.Attempts[a.J.Gangs[a.G].Attempt]
	r := s.Request(o.Want(a, nil))
	r.Excluded = o.Beside(a)
	o.Release()
	defer o.HoldAll()
	if s.startReserved(at) || s.Cluster.IdleCount() == 0 || s.Missing(at) > s.Cluster.IdleCount() {
		return
	}
	o.HoldAll()
	res, ok := s.Cluster.PlaceInstead(at.Alloc, &r)
	o.Release()
	if ok {
		id := at.ID
		s.emit(model.Unreserved{Attempt: id, Reason: "free cells appeared"})
		s.emit(model.Placed{Attempt: id, Placement: res.Placement})
	}
}

// any reports whether a booking is in force.
func (o *bookings) any() bool { return o != nil && o.Any() }

// reach notes that the walk came to a gang.
func (o *bookings) reach(ref model.GangRef, p cell.Priority) {
	if o != nil {
		o.enter(p)
		o.Reached(ref)
	}
}

// leave gives the held cells back when the walk will be made again.
func (o *bookings) leave() {
	if o != nil {
		o.Release()
	}
}

// close journals what changed and gives the held cells back.
func (o *bookings) close() {
	if o == nil {
		return
	}
	for _, e := range o.News() {
		o.journal(e)
	}
	o.Release()
}

func (o *bookings) journal(e model.Booked) {
	defer o.s.BlameJob(e.Job)
	o.s.emit(e)
}

// endRestrained ends the bookings of gangs that their policy holds back without a known end.
// Otherwise a gang that is to start first could wait for such a booking, and the booked gang
// for that one.
func (o *bookings) endRestrained(space int32) {
	if o == nil {
		return
	}
	p, ok := o.s.Policies[space].(model.HoldsBack)
	if !ok {
		return
	}
	o.EndUnranked(func(ref model.GangRef, prio cell.Priority) bool {
		was := o.s.EnterPolicy(space)
		why, until := p.WhyHeldBack(o.s.View(space, prio), ref)
		o.s.EnterPolicy(was)
		return why != "" && until == 0
	})
}

// preferring sets the nodes that the policy of the tried gang prefers, and returns what unsets
// them. Bookings that are examined meanwhile prefer them, too.
func preferring(o *bookings, nodes cell.NodeSet) (over func()) {
	if o == nil {
		return func() {}
	}
	o.Prefer = nodes
	return func() { o.Prefer = nil }
}
