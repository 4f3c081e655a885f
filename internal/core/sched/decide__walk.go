package sched

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// shutIn notes what a walk left to those who come later.
func (s *pass) shutIn(w *walker) {
	_, straight := s.pol[w.space].(Straight)
	s.looks.shut[w.space] = shut{holds: straight && w.outlook == nil && w.allBlocked(0), turns: s.looks.turns, prio: w.view.prio}
}

// Undisturbed implements View. Bookings let time say who may start.
func (v view) Undisturbed() bool {
	l := &v.s.looks
	return v.w != nil && !v.s.look && !l.spaces[v.space] && !l.always[v.space]
}

// Backfills implements View.
func (v view) Backfills() bool { return v.s.looks.always[v.space] }

// walk tries to place who waits with a guarantee: each VC's gangs in order of VC name, by priority
// and then by the VC's policy.
//
// It terminates: a gang is placed or promised cells, and an attempt stopped, at most once, and a
// promise is taken back only for a higher priority or for cells that are free (measure.go). What it
// leaves may serve a gang that was passed over: Decided then asks for another look at once, so that
// one decision never places and preempts the same.
func (s *pass) walk() {
	s.charges.movers = nobody
	clear(s.charges.had)
	var late []postponed
	for space := int32(1); space < int32(len(s.queues)); space++ {
		if s.mustWalk(space) {
			first := len(s.out)
			if at, stopped := s.walkVC(space); stopped {
				late = append(late, postponed{at: at, space: space})
				delete(s.charges.had, at.GangRef)
			}
			askForStopped(s, first, space)
		}
	}
	s.walkPostponed(late)
	s.fulfilAll()
}

// fulfilAll starts the gangs whose reserved cells have been left and that the
// walk did not come to, because somebody blocks the way: a promise is kept.
func (s *pass) fulfilAll() {
	if len(s.promises) == 0 {
		return
	}
	for space := int32(1); space < s.cl.NumSpaces(); space++ {
		slots := s.reservations(space, cell.MaxGuaranteed+1)
		for _, slot := range slices.Backward(slots) {
			s.keepPromise(&s.attempts[slot])
		}
	}
}

// keepPromise starts a gang if its reserved cells have been left.
func (s *pass) keepPromise(a *attempt) {
	defer s.blaming(a.id.Job)
	if s.fulfil(a) && s.jobs[a.job].spec.Partial() {
		s.grew.by(s.jobs[a.job].space) // members above its minimum may wait now whose turn is over
	}
}

// walker is one VC's walk.
type walker struct {
	s       *pass
	space   int32
	blocked []model.JobID   // by chain: who waits for it first, 0 if nobody
	pins    []pinWait       // pinned cells that someone earlier waits for
	failed  map[string]bool // shapes that found nothing since capacity last grew
	noes    Noes
	freed   uint64     // of looks, when those were forgotten last
	outlook *outlook   // what is booked; nil without backfill
	sawIdle bool       // the policy read what is idle on nodes
	moves   int        // gangs that were stopped to move
	missed  []missed   // who found no cells, though enough leaves are free
	passed  uint64     // when a gang that may stop others of its priority first missed; 0 is never
	view    view       // what the policy sees of the priority that is walked
	over    bool       // of it: nothing is left to those behind
	waitOut []Wish     // of gangs that were heard and wait for their next try
	back    []comeback // of one priority, as of an event
	backAt  uint64
	backFor cell.Priority
	yield   func(Wish) bool // hear, made once
}

// walkVC walks one VC. It may stop at a gang for which charges would move (doom.go), which it
// returns: then it is walked again, from the start.
func (s *pass) walkVC(space int32) (at inTurn, stopped bool) {
	s.charges.late, s.charges.walks, s.charges.tries = everybody, s.charges.walks+1, 0
	if len(s.queues[space])+len(s.lazy[space]) == 0 && !s.looks.tuned[space] {
		return at, false
	}
	w := &s.mem.walker
	clear(w.blocked)
	clear(w.failed)
	w.noes.Clear()
	*w = walker{s: s, space: space, failed: w.failed, noes: w.noes, yield: w.yield, blocked: slices.Grow(w.blocked[:0], len(s.cl.Forest().Chains))[:len(s.cl.Forest().Chains)]}
	if s.looks.always[space] {
		w.outlook = s.newOutlook(space, w)
	}
	s.hungry, s.mem.yielding = s.hungry[:0], yielding{}
	w.walk()
	s.hungry = s.hungry[:0]
	if s.isPostponed() {
		w.outlook.leave()
		return s.charges.late, true
	}
	if s.looks.tuned[space] {
		w.tune()
	}
	w.defragment()
	w.outlook.close()
	s.shutIn(w)
	if w.sawIdle && w.outlook != nil && s.grew.space == 0 && len(s.queues[space]) > 0 {
		s.grew.space, s.grew.ordered = space, len(s.out)
	}
	if w.again() {
		s.grew.by(space)
	}
	return at, false
}

// again reports whether another look is due: for who was held up by bookings before somebody was
// placed, or for who was passed over, who may stop what started after it.
func (w *walker) again() bool {
	o := w.outlook
	return w.passed > 0 && w.s.seq > w.passed || o != nil && o.heldUp >= 0 && w.s.placedSince(o.heldUp)
}

func (w *walker) walk() {
	s, space := w.s, w.space
	for prio := cell.MaxGuaranteed + 1; ; {
		next, ok := s.nextPriority(space, prio)
		if !ok || next < cell.MinGuaranteed {
			return
		}
		w.forget(prio)
		prio = next
		goOn := w.rank(prio)
		ranked := len(s.out)
		if goOn {
			w.outlook.heldBack()
		}
		w.outlook.revisit()
		if w.again() {
			return // who that is for comes first: it could stop whoever starts now
		}
		if goOn {
			w.extras(prio)
		}
		if s.isPostponed() {
			return
		}
		if _, limits := s.pol[space].(Restrainer); limits && s.placedSince(ranked) {
			s.grew.by(space) // a gang that was held at a limit may have what that changed
		}
		if !goOn {
			return
		}
	}
}

// forget forgets which shapes found nothing with a priority, unless those of lower ones
// find the same: nothing was left since, and there was nobody below to make room.
func (w *walker) forget(prio cell.Priority) {
	s := w.s
	_, patient := s.pol[w.space].(Patient)
	ranks := s.tallies[w.space].ranks
	if !patient || s.tallies[w.space].partials > 0 || s.looks.freed != w.freed || len(ranks) > 0 &&
		ranks[0].prio < prio {
		clear(w.failed)
	}
	w.freed = s.looks.freed
}

// rank grants the wishes of one priority; it reports false when nothing is left
// to those behind either.
func (w *walker) rank(prio cell.Priority) bool {
	w.view, w.over = view{s: w.s, space: w.space, prio: prio, now: w.s.now, w: w}, false
	if w.yield == nil {
		w.yield = w.hear
	}
	w.s.calls.reading = true
	was := w.s.ask(w.space)
	w.s.pol[w.space].Rank(&w.view)(w.yield)
	w.s.ask(was)
	w.s.relistMoved()
	return !w.over
}

// hear grants one wish; false ends the priority. It is called as a loop's body
// would be, which would have to be made anew for each walk. What is done about a wish
// is not the policy's code.
func (w *walker) hear(wish Wish) bool {
	was := w.s.ask(0)
	if wish.Note != nil {
		w.remember(wish.Note)
	}
	switch {
	case wish.Gang.Job == 0:
	case wish.Turns != nil || wish.Move || wish.Clear != nil || wish.Size != 0 && w.s.resizes(wish.Gang, wish.Size):
		q := wish // which escapes, as the wish of most need not
		w.adjust(&q)
	case w.reaches(wish.Gang):
		w.holdPlaces()
		w.comeFirst(w.view.prio, &wish.Gang, wish.Strict)
		w.outlook.reach(wish.Gang, w.view.prio) // what is booked for it stood behind those
		if !w.s.isPostponed() {
			w.grant(wish)
		}
		w.over = w.over || w.s.isPostponed()
	}
	w.over = w.over || wish.Last
	w.s.ask(was)
	return !w.over
}

// reaches reports whether something may be left to a gang, and notes when nothing is to
// those behind it either.
func (w *walker) reaches(ref GangRef) bool {
	if w.outlook.deepEnough() {
		w.over = true
		return false
	}
	if !w.allBlocked(ref.Job) {
		return true
	}
	w.outlook.reach(ref, w.view.prio)
	w.over = !w.outlook.any()
	return !w.over && w.outlook.find(ref) >= 0 // only what is booked for it can be left to a gang
}

// nextPriority returns the highest priority below p among those that wait for
// cells or for an upgrade.
func (s *pass) nextPriority(space int32, p cell.Priority) (cell.Priority, bool) {
	next, ok := cell.Opportunistic, false
	for _, q := range [][]queued{s.queues[space], s.lazy[space]} {
		if i := below(q, p); i < len(q) && (!ok || q[i].prio > next) {
			next, ok = q[i].prio, true
		}
	}
	return next, ok
}

// allBlocked reports whether nothing is left to a job; then, in a strict order,
// nothing is left to those behind it either.
func (w *walker) allBlocked(id model.JobID) bool {
	sp := w.s.cl.Space(w.space)
	for i := range sp.Roots {
		if by := w.blocked[sp.Roots[i].Chain]; by == 0 || by == id || sp.Roots[i].Pinned != "" {
			return false
		}
	}
	return true
}

// grant tries to give a gang its cells.
func (w *walker) grant(wish Wish) {
	defer w.s.blaming(wish.Gang.Job)
	defer w.s.cl.EndBudget(w.s.cl.Budget())
	s := w.s
	slot, ok := s.slots.Get(wish.Gang.Job)
	if !ok {
		return
	}
	j, g := &s.jobs[slot], wish.Gang.Gang
	if wish.Size != 0 && !j.canHave(g, wish.Size) {
		return
	}
	prefer := wish.Prefer
	if prefer == nil && j.gangs[g].attempt == none && s.vc(w.space).Placement == model.PlaceSpread {
		prefer = s.emptiest(w.space, &j.gangs[g])
	}
	defer preferring(w.outlook, prefer)()
	if at := j.gangs[g].attempt; at != none && s.attempts[at].lazy && !w.pinBlocked(j.id, &j.gangs[g]) {
		w.upgrade(&s.attempts[at])
		return
	}
	if !w.mayGrant(j, wish) {
		return
	}
	if w.outlook != nil {
		w.backfill(j, g, wish)
		return
	}
	if j.gangs[g].attempt != none {
		s.improve(w.want(j, wish, prefer))
		return
	}
	shape := wish.shape(j.gangs[g].shape.text)
	picky := j.gangs[g].avoids() || wish.Only != nil || wish.Free || s.sparesSome(j)
	if !picky && w.failed[shape] {
		w.passes(j)
		return // and what it blocks is blocked already
	}
	q, turn := w.want(j, wish, prefer), s.hasTurn(wish.Gang)
	if turn && g == 0 && (wish.SKU == "" || wish.Size != 0) && s.placeWhole(q) {
		return
	}
	var p plan
	found := false
	if turn {
		p, found = w.planWish(q, wish, picky)
	}
	if found {
		s.carryOut(q, p)
	}
	if found || s.isPostponed() {
		return
	}
	w.miss(j, wish, q.blocked)
	w.passes(j)
	if wish.takes() && w.passed == 0 {
		w.passed = s.seq
	}
	if !picky {
		w.fails(shape)
	}
	if wish.Strict {
		w.block(q)
	}
}

// want is what a wish asks for its gang. Beside bookings its policy does not say where.
func (w *walker) want(j *job, wish Wish, prefer cell.NodeSet) want {
	q := want{j: j, g: wish.Gang.Gang, prefer: prefer, blocked: w.blockedWish(wish), size: wish.Size}
	if w.outlook == nil {
		q.only, q.near = wish.Only, wish.Within
	}
	return q
}

// passes notes that a gang found nothing of a job of which others run.
func (w *walker) passes(j *job) {
	runs := func(g gang) bool { return g.attempt != none }
	if len(j.gangs) > 1 && slices.ContainsFunc(j.gangs, runs) && !slices.Contains(w.s.hungry, j.id) {
		w.s.hungry = append(w.s.hungry, j.id)
	}
}

// block makes those behind a gang wait for the chains it could use, unless what
// it waits for is not in the hands of those before or behind it.
func (w *walker) block(q want) {
	if w.s.outside(q) {
		return
	}
	j := q.j
	chains, pins := w.s.wants(j, q.g)
	for _, pin := range pins {
		if !slices.ContainsFunc(w.pins, func(p pinWait) bool { return p.pin == pin }) {
			w.pins = append(w.pins, pinWait{pin, j.id})
		}
	}
	for ci, could := range chains {
		if could && w.blocked[ci] == 0 {
			w.blocked[ci] = j.id
		}
	}
}

// blockedFor returns the chains that a job must leave to others: the gangs of one
// job do not hold each other up.
func (w *walker) blockedFor(id model.JobID) []bool {
	var out []bool // none is what most have
	for i, by := range w.blocked {
		if by == 0 || by == id {
			continue
		}
		if out == nil {
			out = make([]bool, len(w.blocked))
		}
		out[i] = true
	}
	return out
}

// blockedWish returns the chains that a wish must leave alone: those that its job
// must leave to others, and all but those of the type that it names.
func (w *walker) blockedWish(wish Wish) []bool {
	return eitherOf(w.blockedFor(wish.Gang.Job), w.s.typesBut(wish.SKU))
}

// typesBut names the chains of all types but one; nil for "".
func (s *pass) typesBut(sku cell.TypeName) []bool {
	if sku == "" {
		return nil
	}
	f := s.cl.Forest()
	out := make([]bool, len(f.Chains))
	for i := range f.Chains {
		out[i] = f.Chains[i].SKU != sku
	}
	return out
}

// eitherOf names the chains that one of two sets names; nil names none.
func eitherOf(a, b []bool) []bool {
	if a == nil || b == nil {
		return append(a, b...)
	}
	for i := range a {
		a[i] = a[i] || b[i]
	}
	return a
}

// fails remembers a shape that found nothing.
func (w *walker) fails(shape string) {
	if w.failed == nil {
		w.failed = map[string]bool{}
	}
	w.failed[shape] = true
}

// pinWait is a pinned cell with the job that waits for it; the gangs of one job do not hold each
// other up.
type pinWait struct {
	pin cell.PinnedID
	by  model.JobID
}

// pinBlocked reports whether a gang wants a pinned cell that someone earlier
// waits for.
func (w *walker) pinBlocked(id model.JobID, g *gang) bool {
	for _, m := range g.shape.members {
		if m.Pinned != "" && slices.ContainsFunc(w.pins, func(p pinWait) bool { return p.pin == m.Pinned && p.by != id }) {
			return true
		}
	}
	return false
}

// carryOut turns a plan into events.
func (s *pass) carryOut(w want, p plan) {
	j, g := w.j, w.g
	id := model.AttemptID{Job: j.id, Gang: g, N: j.gangs[g].n + 1}
	later := startsLater(&s.tables, j, g)
	for _, slot := range p.revoked {
		s.assertBehind(id, &s.attempts[slot], p.over)
		why := "a job of higher priority needs the cells"
		if s.jobs[s.attempts[slot].job].spec.Priority == s.find(id.Job).spec.Priority {
			why = "a job before it needs the cells"
		}
		s.emit(Unreserved{Attempt: s.attempts[slot].id, Reason: why})
	}
	// What the lazy give back may serve those who were promised cells, and other VCs,
	// which were walked before: these may stop the lazy now.
	s.grew.all = s.grew.all || len(p.lazies)+len(p.cleared) > 0 || s.bindsIll(j.space, p.placement.Binds)
	var cleared []model.AttemptID
	for _, alloc := range p.cleared {
		for _, m := range s.membersOf(alloc) {
			cleared = append(cleared, m.id)
		}
	}
	lazies := slices.Concat(p.lazies, p.cleared)
	for _, alloc := range lazies {
		if !slices.Contains(lazies, s.tied(alloc)) { // else with its minimum
			s.makeLazy(s.holder(alloc), id, p.over)
		}
	}
	if s.shiftCharges(p.shift); len(p.shift.Spared) > 0 {
		s.grew.all = true // for others, who found nothing, they may lie better as well
	}
	if g == 0 && !later {
		w.j = s.find(id.Job)
		s.setSize(w)
	}
	if len(p.victims) == 0 && !later {
		s.emit(Placed{Attempt: id, Placement: p.placement})
		s.stopAll(cleared, id)
		return
	}
	victims := make([]model.AttemptID, 0, len(p.victims))
	for _, v := range p.victims {
		for at := s.byAlloc[v]; at != none; at = s.attempts[at].mate {
			a := &s.attempts[at]
			victims = append(victims, a.id)
			if a.cause == 0 {
				s.assertBehind(id, a, p.over)
			}
		}
	}
	if p.over || s.tallies[j.space].partials > 0 {
		s.grew.by(j.space) // what the victims leave over may serve a gang that could not have stopped them
	}
	slices.SortFunc(victims, compareAttempts)
	s.emit(Reserved{Attempt: id, Placement: p.placement, Victims: victims})
	s.stopAll(victims, id)
	s.stopAll(cleared, id) // those that are victims, too, were stopped
}

// bindsIll reports whether bad hardware is bound anew: so much more of what is healthy is left
// for other VCs, which may have been walked before.
func (s *pass) bindsIll(space int32, binds []cell.Bind) bool {
	return slices.ContainsFunc(binds, func(b cell.Bind) bool {
		return s.cl.Ill(b.Cell) > 0 && s.cl.Space(cmp.Or(b.Space, space)).Roots[b.Root].Cell == cell.None
	})
}

// stopAll stops attempts for another.
func (s *pass) stopAll(all []model.AttemptID, by model.AttemptID) {
	for _, v := range all {
		s.stopAttempt(s.live(v), model.EndPreempted, &by)
	}
}

// view is what the policy of one VC sees at one priority.
type view struct {
	s     *pass
	space int32
	prio  cell.Priority
	now   model.Time
	all   bool    // for the order alone: nothing is passed over because it cannot start
	w     *walker // whose walk it is, if it is one
}

func (s *pass) view(space int32, prio cell.Priority) View {
	return view{s: s, space: space, prio: prio, now: s.now}
}

// viewAll is a view for the order alone.
func (s *pass) viewAll(space int32, prio cell.Priority) View {
	return view{s: s, space: space, prio: prio, now: s.now, all: true}
}

// Scratch implements View.
func (v view) Scratch() *any { return &v.s.mem.scratch }

// Now implements View.
func (v view) Now() model.Time { return v.now }

// Before implements View.
func (v view) Before() model.Time { return v.s.decided }

// VC implements View.
func (v view) VC() cell.VCName { return v.s.cl.Space(v.space).Name }

// Waiting implements View: the gangs that wait, and among them those that wait for
// an upgrade. The members above a minimum come later, without the policy.
func (v view) Waiting() iter.Seq[GangView] {
	return func(yield func(GangView) bool) {
		lazies := v.s.laziesAt(v.space, v.prio, false)
		c := v.cursor()
		for e, more := c.next(); more; e, more = c.next() {
			for ; len(lazies) > 0 && lazies[0].compare(e) < 0; lazies = lazies[1:] {
				if !yield(v.waiting(lazies[0], true)) {
					return
				}
			}
			if !v.s.extra(e) && !yield(v.waiting(e, false)) {
				return
			}
		}
		for _, e := range lazies {
			if !yield(v.waiting(e, true)) {
				return
			}
		}
	}
}

// Placed implements View.
func (v view) Placed(r GangRef) bool {
	j := v.s.find(r.Job)
	return j != nil && int(r.Gang) < len(j.gangs) && j.gangs[r.Gang].attempt != none
}
