package decide

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// noteExhausted notes whether a walk left nothing to gangs that arrive later.
func (s *Pass) noteExhausted(w *walker) {
	_, straight := s.Policies[w.space].(model.StrictFIFO)
	s.Dirty.Exhausted[w.space] = index.Exhausted{Holds: straight && w.bookings == nil && w.allBlocked(0),
		FullChanges: s.Dirty.FullChanges, Prio: w.view.prio}
}

// walk tries to place the guaranteed gangs that wait: each VC's by priority and then in the
// order of its policy, the VCs by name.
//
// It terminates. A gang is placed or promised cells, and an attempt stopped, at most once. A
// reservation is revoked only for a higher priority or for free cells (termination.go). If what it
// leaves may serve a gang that was passed over, Decided asks for another look at once, so that
// one decision never places and preempts the same attempt.
func (s *Pass) walk() {
	s.Charges.MoveBefore = place.BeforeAll
	clear(s.Charges.TurnIn)
	var late []place.Postponed
	for space := int32(1); space < int32(len(s.Queues)); space++ {
		if s.MustWalk(space) {
			first := len(s.Out)
			if at, stopped := s.walkVC(space); stopped {
				late = append(late, place.Postponed{At: at, Space: space})
				delete(s.Charges.TurnIn, at.GangRef)
			}
			askForStopped(s, first, space)
		}
	}
	s.walkPostponed(late)
	s.fulfilAll()
}

// fulfilAll starts the gangs whose reserved cells are free by now and that the walk did not
// reach, because an earlier gang blocks: a reservation is kept.
func (s *Pass) fulfilAll() {
	if len(s.Promises) == 0 {
		return
	}
	for space := int32(1); space < s.Cluster.NumSpaces(); space++ {
		slots := s.Reservations(space, cell.MaxGuaranteed+1)
		for _, slot := range slices.Backward(slots) {
			s.keepPromise(&s.Attempts[slot])
		}
	}
}

// keepPromise starts a gang if its reserved cells are free by now.
func (s *Pass) keepPromise(a *tables.Attempt) {
	defer s.BlameJob(a.ID.Job)
	if s.startReserved(a) && s.Jobs[a.Job].Spec.Partial() {
		s.LookAgain.By(s.Jobs[a.Job].Space) // its members above the minimum wait from now on
	}
}

// walkVC walks one VC. It may stop at a gang that needs charges moved (place/move_charges.go),
// which it returns. The VC is then walked again from the start.
func (s *Pass) walkVC(space int32) (at place.QueuePos, stopped bool) {
	s.Charges.StoppedAt, s.Charges.Walks, s.Charges.Tries = place.NoGang, s.Charges.Walks+1, 0
	if len(s.Queues[space])+len(s.Lazy[space]) == 0 && !s.Dirty.Tuned[space] {
		return at, false
	}
	w := &s.Mem.walker
	clear(w.blocked)
	clear(w.failed)
	w.misses.Clear()
	*w = walker{s: s, space: space, failed: w.failed, misses: w.misses, yield: w.yield,
		blocked: slices.Grow(w.blocked[:0], len(s.Cluster.Forest().Chains))[:len(s.Cluster.Forest().Chains)]}
	if s.Dirty.Backfills[space] {
		w.bookings = s.newBookings(space, w)
	}
	s.PartlyPlaced, s.Mem.yielding = s.PartlyPlaced[:0], peerLeaves{}
	w.walk()
	s.PartlyPlaced = s.PartlyPlaced[:0]
	if s.IsPostponed() {
		w.bookings.leave()
		return s.Charges.StoppedAt, true
	}
	if s.Dirty.Tuned[space] {
		w.tune()
	}
	w.defragment()
	w.bookings.close()
	s.noteExhausted(w)
	if w.sawIdle && w.bookings != nil && s.LookAgain.Space == 0 && len(s.Queues[space]) > 0 {
		s.LookAgain.Space, s.LookAgain.Ordered = space, len(s.Out)
	}
	if w.mustLookAgain() {
		s.LookAgain.By(space)
	}
	return at, false
}

// mustLookAgain reports whether another look is due: for gangs that were blocked until another was
// placed, or for passed-over gangs that may preempt what started after them.
func (w *walker) mustLookAgain() bool {
	o := w.bookings
	return w.missedAt > 0 && w.s.Seq > w.missedAt || o != nil && o.heldUp >= 0 && w.s.placedSince(o.heldUp)
}

func (w *walker) walk() {
	s, space := w.s, w.space
	for prio := cell.MaxGuaranteed + 1; ; {
		next, ok := s.NextPriority(space, prio)
		if !ok || next < cell.MinGuaranteed {
			return
		}
		w.forget(prio)
		prio = next
		goOn := w.walkPriority(prio)
		ranked := len(s.Out)
		if goOn {
			w.bookings.endRestrained(space)
		}
		w.bookings.revisit()
		if w.mustLookAgain() {
			return // that look comes first: its gang might preempt what starts now
		}
		if goOn {
			w.extras(prio)
		}
		if s.IsPostponed() {
			return
		}
		if _, limits := s.Policies[space].(model.HoldsBack); limits && s.placedSince(ranked) {
			s.LookAgain.By(space) // a gang held at a limit may start now
		}
		if !goOn {
			return
		}
	}
}

// forget clears the shapes that found nothing with a priority, unless lower priorities find the
// same: no cells came free, and there was no lower priority to preempt.
func (w *walker) forget(prio cell.Priority) {
	s := w.s
	_, patient := s.Policies[w.space].(model.IgnoresMisses)
	ranks := s.Tallies[w.space].Ranks
	if !patient || s.Tallies[w.space].Partials > 0 || s.Dirty.CellChanges != w.freed || len(ranks) > 0 &&
		ranks[0].Prio < prio {
		clear(w.failed)
	}
	w.freed = s.Dirty.CellChanges
}

// walkPriority grants the wishes of one priority. It reports false if nothing is left to lower
// ones.
func (w *walker) walkPriority(prio cell.Priority) bool {
	w.view, w.done = view{s: w.s, space: w.space, prio: prio, now: w.s.Now, w: w}, false
	if w.yield == nil {
		w.yield = w.grantWish
	}
	w.s.Calls.Reading = true
	was := w.s.EnterPolicy(w.space)
	w.s.Policies[w.space].Rank(&w.view)(w.yield)
	w.s.EnterPolicy(was)
	w.s.RegroupDeferred()
	return !w.done
}

// grantWish grants one wish; false ends the priority. It is the body of the loop over the policy's
// wishes, as a method so that no walk allocates it. A panic in it is not blamed on the policy.
func (w *walker) grantWish(wish model.Wish) bool {
	was := w.s.EnterPolicy(0)
	if wish.Note != nil {
		w.remember(wish.Note)
	}
	switch {
	case wish.Gang.Job == 0:
	case wish.Turns != nil || wish.Move || wish.MoveOthers != nil || wish.Size != 0 &&
		w.s.resizes(wish.Gang, wish.Size):
		q := wish // a copy escapes, so that other wishes need not
		w.adjust(&q)
	case w.reaches(wish.Gang):
		w.holdPlaces()
		w.reserveReturning(w.view.prio, &wish.Gang, wish.Strict)
		w.bookings.reach(wish.Gang, w.view.prio) // after reserveReturning: its booking stood behind those gangs
		if !w.s.IsPostponed() {
			w.grant(wish)
		}
		w.done = w.done || w.s.IsPostponed()
	}
	w.done = w.done || wish.Last
	w.s.EnterPolicy(was)
	return !w.done
}

// reaches reports whether anything may be left to a gang, and notes when nothing is left to the
// gangs behind it either.
func (w *walker) reaches(ref model.GangRef) bool {
	if w.bookings.deepEnough() {
		w.done = true
		return false
	}
	if !w.allBlocked(ref.Job) {
		return true
	}
	w.bookings.reach(ref, w.view.prio)
	w.done = !w.bookings.any()
	return !w.done && w.bookings.Has(ref) // only booked cells can be left to a gang
}

// NextPriority returns the highest priority below p at which a gang of a VC waits for cells or
// for an upgrade.
func (s *Pass) NextPriority(space int32, p cell.Priority) (cell.Priority, bool) {
	next, ok := cell.Opportunistic, false
	for _, q := range [][]index.Queued{s.Queues[space], s.Lazy[space]} {
		if i := index.Below(q, p); i < len(q) && (!ok || q[i].Prio > next) {
			next, ok = q[i].Prio, true
		}
	}
	return next, ok
}

// allBlocked reports whether all chains of the VC are blocked for a job. In a strict order they
// are for all jobs behind it, too.
func (w *walker) allBlocked(id model.JobID) bool {
	sp := w.s.Cluster.Space(w.space)
	for i := range sp.Roots {
		if by := w.blocked[sp.Roots[i].Chain]; by == 0 || by == id || sp.Roots[i].Pinned != "" {
			return false
		}
	}
	return true
}

// grant tries to give a gang its cells.
func (w *walker) grant(wish model.Wish) {
	defer w.s.BlameJob(wish.Gang.Job)
	defer w.s.Cluster.EndBudget(w.s.Cluster.Budget())
	s := w.s
	slot, ok := s.Slots.Get(wish.Gang.Job)
	if !ok {
		return
	}
	j, g := &s.Jobs[slot], wish.Gang.Gang
	if wish.Size != 0 && !j.CanHave(g, wish.Size) {
		return
	}
	prefer := wish.Prefer
	if prefer == nil && j.Gangs[g].Attempt == tables.None && s.VC(w.space).Placement == model.PlaceSpread {
		prefer = s.emptiest(w.space, &j.Gangs[g])
	}
	defer preferring(w.bookings, prefer)()
	if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].Lazy && !w.pinBlocked(j.ID, &j.Gangs[g]) {
		w.upgrade(&s.Attempts[at])
		return
	}
	if !w.mayGrant(j, wish) {
		return
	}
	if w.bookings != nil {
		w.backfill(j, g, wish)
		return
	}
	if j.Gangs[g].Attempt != tables.None {
		s.startSooner(w.want(j, wish, prefer))
		return
	}
	shape := wish.Shape(j.Gangs[g].Shape.Text)
	picky := j.Gangs[g].Avoids() || wish.OnlyNodes != nil || wish.FreeOnly || s.SparesSome(j)
	if !picky && w.failed[shape] {
		w.notePartlyPlaced(j)
		return // and what it blocks is blocked already
	}
	q, turn := w.want(j, wish, prefer), s.HasTurn(wish.Gang)
	if turn && g == 0 && (wish.SKU == "" || wish.Size != 0) && s.placeWhole(q) {
		return
	}
	var p place.Plan
	found := false
	if turn {
		p, found = w.planWish(q, wish, picky)
	}
	if found {
		s.carryOut(q, p)
	}
	if found || s.IsPostponed() {
		return
	}
	w.miss(j, wish, q.Blocked)
	w.notePartlyPlaced(j)
	if wish.MayPreempt() && w.missedAt == 0 {
		w.missedAt = s.Seq
	}
	if !picky {
		w.fails(shape)
	}
	if wish.Strict {
		w.block(q)
	}
}

// want returns what a wish asks for its gang. With bookings, the policy does not say where.
func (w *walker) want(j *tables.Job, wish model.Wish, prefer cell.NodeSet) place.Want {
	q := place.Want{J: j, G: wish.Gang.Gang, Prefer: prefer, Blocked: w.blockedWish(wish), Size: wish.Size}
	if w.bookings == nil {
		q.Only, q.Within = wish.OnlyNodes, wish.Within
	}
	return q
}

// notePartlyPlaced notes a job of which one gang found nothing and another runs.
func (w *walker) notePartlyPlaced(j *tables.Job) {
	runs := func(g tables.Gang) bool { return g.Attempt != tables.None }
	if len(j.Gangs) > 1 && slices.ContainsFunc(j.Gangs, runs) && !slices.Contains(w.s.PartlyPlaced, j.ID) {
		w.s.PartlyPlaced = append(w.s.PartlyPlaced, j.ID)
	}
}

// block makes the gangs behind one wait for the chains that it could use, unless it waits for
// something that no gang holds.
func (w *walker) block(q place.Want) {
	if w.s.BlockedOutside(q) {
		return
	}
	j := q.J
	chains, pins := w.s.ChainsAndPins(j, q.G)
	for _, pin := range pins {
		if !slices.ContainsFunc(w.pins, func(p pinWait) bool { return p.pin == pin }) {
			w.pins = append(w.pins, pinWait{pin, j.ID})
		}
	}
	for ci, could := range chains {
		if could && w.blocked[ci] == 0 {
			w.blocked[ci] = j.ID
		}
	}
}

// blockedFor returns the chains that are blocked for a job.
func (w *walker) blockedFor(id model.JobID) []bool { return place.BlockedFor(w.blocked, id) }

// blockedWish returns the chains that a wish must not use: those blocked for its job, and all
// of other types than the one it names.
func (w *walker) blockedWish(wish model.Wish) []bool {
	return place.EitherOf(w.blockedFor(wish.Gang.Job), w.s.typesBut(wish.SKU))
}

// typesBut returns the chains of all types but one; nil for "".
func (s *Pass) typesBut(sku cell.TypeName) []bool {
	if sku == "" {
		return nil
	}
	f := s.Cluster.Forest()
	out := make([]bool, len(f.Chains))
	for i := range f.Chains {
		out[i] = f.Chains[i].SKU != sku
	}
	return out
}

// fails notes a shape that found nothing.
func (w *walker) fails(shape string) {
	if w.failed == nil {
		w.failed = map[string]bool{}
	}
	w.failed[shape] = true
}

// pinBlocked reports whether a gang wants a pinned cell that an earlier job waits for.
func (w *walker) pinBlocked(id model.JobID, g *tables.Gang) bool {
	for _, m := range g.Shape.Members {
		if m.Pinned != "" && slices.ContainsFunc(w.pins, func(p pinWait) bool {
			return p.pin == m.Pinned &&
				p.by != id
		}) {
			return true
		}
	}
	return false
}

// carryOut turns a plan into events.
func (s *Pass) carryOut(w place.Want, p place.Plan) {
	j, g := w.J, w.G
	id := model.AttemptID{Job: j.ID, Gang: g, N: j.Gangs[g].N + 1}
	later := startsLater(&s.Tables, j, g)
	for _, slot := range p.Revoked {
		s.assertBehind(id, &s.Attempts[slot], p.OverPeers)
		why := "a job of higher priority needs the cells"
		if s.Jobs[s.Attempts[slot].Job].Spec.Priority == s.Find(id.Job).Spec.Priority {
			why = "a job before it needs the cells"
		}
		s.emit(model.Unreserved{Attempt: s.Attempts[slot].ID, Reason: why})
	}
	// The preassigned cells that are given up may serve gangs with reservations, and VCs that
	// were walked before: these may preempt the demoted gangs now.
	s.LookAgain.All = s.LookAgain.All || len(p.Demoted)+len(p.Unbound) > 0 ||
		bindsBad(s.Cluster, j.Space, p.Placement.Binds)
	var cleared []model.AttemptID
	for _, alloc := range p.Unbound {
		for _, m := range s.MembersOf(alloc) {
			cleared = append(cleared, m.ID)
		}
	}
	lazies := slices.Concat(p.Demoted, p.Unbound)
	for _, alloc := range lazies {
		if !slices.Contains(lazies, s.Tied(alloc)) { // else it is demoted with its minimum
			s.makeLazy(s.Holder(alloc), id, p.OverPeers)
		}
	}
	if s.shiftCharges(p.Shift); len(p.Shift.Undoomed) > 0 {
		s.LookAgain.All = true // the charges may be better placed for other gangs, too
	}
	if g == 0 && !later {
		w.J = s.Find(id.Job)
		s.setSize(w)
	}
	if len(p.Victims) == 0 && !later {
		s.emit(model.Placed{Attempt: id, Placement: p.Placement})
		s.stopAll(cleared, id)
		return
	}
	victims := make([]model.AttemptID, 0, len(p.Victims))
	for _, v := range p.Victims {
		for at := s.ByAlloc[v]; at != tables.None; at = s.Attempts[at].NextMember {
			a := &s.Attempts[at]
			victims = append(victims, a.ID)
			if a.Cause == 0 {
				s.assertBehind(id, a, p.OverPeers)
			}
		}
	}
	if p.OverPeers || s.Tallies[j.Space].Partials > 0 {
		s.LookAgain.By(j.Space) // leftover cells may serve a gang that could not preempt the victims
	}
	slices.SortFunc(victims, model.CompareAttempts)
	s.emit(model.Reserved{Attempt: id, Placement: p.Placement, Victims: victims})
	s.stopAll(victims, id)
	s.stopAll(cleared, id) // those that are victims as well are stopped already
}

// bindsBad reports whether a plan binds a cell with bad hardware anew. That leaves more healthy
// cells to other VCs, which may have been walked before.
func bindsBad(c *cell.Cluster, space int32, binds []cell.Bind) bool {
	return slices.ContainsFunc(binds, func(b cell.Bind) bool {
		return c.BadLeaves(b.Cell) > 0 && c.Space(cmp.Or(b.Space, space)).Roots[b.Root].Cell == cell.None
	})
}

// stopAll preempts attempts for another.
func (s *Pass) stopAll(all []model.AttemptID, by model.AttemptID) {
	for _, v := range all {
		s.stopAttempt(s.Live(v), model.EndPreempted, &by)
	}
}

// View is what the policy of a VC sees at one priority, outside of a walk.
func (s *Pass) View(space int32, prio cell.Priority) model.View {
	return view{s: s, space: space, prio: prio, now: s.Now}
}

// ViewAll is a view for the order alone.
func (s *Pass) ViewAll(space int32, prio cell.Priority) model.View {
	return view{s: s, space: space, prio: prio, now: s.Now, all: true}
}

// walkPostponed walks the VCs that stopped at a gang that needs charges moved, in the run order
// of those gangs. Gangs of a VC may move charges if they stand before the first such gang of
// the others.
func (s *Pass) walkPostponed(late []place.Postponed) {
	defer func() { s.Charges.MoveBefore = place.NoGang }()
	for n := 0; len(late) > 0; n++ {
		slices.SortFunc(late, func(a, b place.Postponed) int { return a.At.Compare(b.At) })
		s.Charges.MoveBefore = place.NoGang
		if len(late) > 1 && n < place.MaxPostponed {
			s.Charges.MoveBefore = late[1].At
		}
		first := len(s.Out)
		at, stopped := s.walkVC(late[0].Space)
		if askForStopped(s, first, s.Cluster.NumSpaces()); stopped {
			late[0].At = at
			delete(s.Charges.TurnIn, at.GangRef)
			continue
		}
		late = late[1:]
	}
}

// remember journals a policy's note unless it is unchanged. A note alone is no reason for
// another look.
func (w *walker) remember(n *model.Note) {
	s := w.s
	vc := s.Cluster.Space(w.space).Name
	if bytes.Equal(s.Note(vc, n.Job), n.Data) || n.Job != 0 && s.Find(n.Job) == nil {
		return
	}
	if w.missedAt > 0 {
		w.missedAt++
	}
	s.emit(model.Noted{VC: vc, Policy: s.PolicyOf(vc), Job: n.Job, Data: n.Data})
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
	// PlanUnbinding gives up above MaxUnbound holders. A lower priority has fewer below it, so
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
