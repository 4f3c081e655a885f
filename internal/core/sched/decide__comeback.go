package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What the platform stops keeps its place. From the instant at which its stop is decided the gang
// stands at its old place in the order of its priority, though its tasks still run: before the
// first gang behind it is tried, cells are promised to it as to one that waits, on what it leaves
// itself, too. Where there are none it blocks those behind it in a strict order, as one that waits
// does. The promise is the next attempt (gang.next), as that of a gang that moves. The same holds
// while a gang waits for its next try after the platform ended its attempt: it starts then, on
// cells that are promised to it now.

// comeback is a gang that is being stopped and waits again then.
type comeback struct {
	job   model.JobID
	gang  int32
	key   Key
	tried bool // in this walk
}

func (c *comeback) compare(o *comeback) int {
	return cmp.Or(c.key.Compare(o.key), cmp.Compare(c.job, o.job), cmp.Compare(c.gang, o.gang))
}

// backBefore names the jobs of a job's priority that were submitted before it and of which a gang
// is being stopped and waits again then.
func backBefore(s *fold, j *job) []model.JobID {
	var out []model.JobID
	if j.spec.Priority < cell.MinGuaranteed || j.space <= 0 || s.tallies[j.space].leaving == 0 {
		return nil
	}
	for a := range s.holding(j.space) {
		if a.id.Job < j.id && s.jobs[a.job].spec.Priority == j.spec.Priority && comesBack(s, a) {
			out = append(out, a.id.Job)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// askForStopped asks for another look at VCs below a number, which were walked already, where one
// that was walked after them stopped a gang that comes back: from the record (first) on. It stands
// before those of its priority that wait.
func askForStopped(s *pass, first int, walked int32) {
	for i := first; i < len(s.out); i++ {
		stop, is := s.out[i].Event.(StopSent)
		if !is || stop.By == nil {
			continue
		}
		a := s.live(stop.Attempt)
		j := &s.jobs[a.job]
		if j.space >= walked || j.space == s.find(stop.By.Job).space || !comesBack(&s.fold, a) {
			continue
		}
		waits := func(e queued) bool { return e.prio == j.spec.Priority }
		if slices.ContainsFunc(s.queues[j.space], waits) || slices.ContainsFunc(s.lazy[j.space], waits) {
			s.grew.by(j.space)
		}
	}
}

// choosesPlaces reports whether a VC's policy says more of a gang than its place in the order:
// where it goes, or how large it is.
func choosesPlaces(s *index, space int32) bool {
	return s.looks.placing[space] || s.looks.tuned[space]
}

// comebacks lists those of one priority, in order.
func (w *walker) comebacks(prio cell.Priority) []comeback {
	s := w.s
	if w.backAt == s.seq && w.backFor == prio {
		return w.back
	}
	was := w.back
	w.back, w.backAt, w.backFor = nil, s.seq, prio
	for a := range s.holding(w.space) {
		if s.jobs[a.job].spec.Priority != prio || !comesBack(&s.fold, a) || s.jobs[a.job].space != w.space {
			continue
		}
		c := comeback{job: a.id.Job, gang: a.id.Gang, key: keyBack(&s.index, w.space, a)}
		same := func(o comeback) bool { return o.job == c.job && o.gang == c.gang }
		c.tried = slices.ContainsFunc(was, func(o comeback) bool { return same(o) && o.tried })
		w.back = append(w.back, c)
	}
	slices.SortFunc(w.back, func(a, b comeback) int { return a.compare(&b) })
	return w.back
}

// keyBack is the key by which a gang that is being stopped will wait; zero where its policy has
// none.
func keyBack(s *index, space int32, a *attempt) Key {
	k, ok := s.pol[space].(Keyed)
	if !ok {
		return Key{}
	}
	g := s.gangView(s.entry(a))
	g.Started, g.Since = 0, s.now
	was := s.ask(space)
	key := k.Key(&g)
	s.ask(was)
	return key
}

// comeFirst promises cells to those that are being stopped and stand before a gang, or before all
// members above a minimum (nil). Those behind a gang for which there are none wait where the
// policy is strict.
func (w *walker) comeFirst(prio cell.Priority, before *GangRef, strict bool) {
	s := w.s
	if s.tallies[w.space].leaving == 0 {
		return
	}
	var limit comeback
	if before != nil {
		limit = comeback{job: before.Job, gang: before.Gang}
		if slot, ok := s.slots.Get(before.Job); ok {
			limit.key = s.policyKey(w.space, queued{prio: prio, job: before.Job, gang: before.Gang, slot: slot})
		}
	}
	for !s.isPostponed() {
		// the list is another one after each promise
		i := slices.IndexFunc(w.comebacks(prio), func(c comeback) bool { return !c.tried })
		if i < 0 || before != nil && w.back[i].compare(&limit) >= 0 {
			return
		}
		w.back[i].tried = true
		w.comeBack(s.find(w.back[i].job), w.back[i].gang, strict)
	}
}

// comeBack promises cells to a gang that is being stopped, or holds up those behind it.
func (w *walker) comeBack(j *job, g int32, strict bool) {
	defer w.s.blaming(j.id)
	defer w.s.cl.EndBudget(w.s.cl.Budget())
	s, ref := w.s, GangRef{Job: j.id, Gang: g}
	may := s.attempts[j.gangs[g].attempt].cause != model.EndRefused && !choosesPlaces(&s.index, w.space) &&
		!w.pinBlocked(j.id, &j.gangs[g]) && s.hasTurn(ref)
	if o := w.outlook; o != nil {
		o.heard = heard{}
		o.enter(j.spec.Priority)
		a := o.asking(j, g)
		a.over = true // what is booked for those behind it is no obstacle
		o.keepToType(&a, "")
		if may && o.start(a) {
			return
		}
	} else if may {
		q := want{j: j, g: g, blocked: w.blockedFor(j.id)}
		p, ok := planStay(&s.finder, q)
		if !ok {
			p, ok = s.plan(q)
		}
		if ok {
			s.carryOut(q, p)
			return
		}
	}
	if !s.isPostponed() && (strict || w.outlook != nil) {
		w.block(want{j: j, g: g})
	}
}

// planStay finds the leaves that a gang is leaving itself: those that are idle serve others
// meanwhile.
func planStay(s *finder, w want) (plan, bool) {
	var own, rest cell.LeafSet
	for _, l := range leavesOf(&s.cl.Alloc(s.attempts[w.gang().attempt].alloc).Placement) {
		own = own.Add(l)
	}
	for l := range s.cl.Forest().Leaves {
		rest = rest.Add(cell.LeafID(l))
	}
	w.keep = rest.Without(own)
	r := s.lifting(s.request(w), cell.MinGuaranteed)
	r.Lift = &cell.Lift{}
	return s.planLifted(r)
}

// mayGrant reports whether a gang that is wished for may be tried now. One that waits for its next
// try is remembered: it has its turn before the next wish, or at once where its policy may ask for
// another gang only when this one has cells.
func (w *walker) mayGrant(j *job, wish Wish) bool {
	s, g := w.s, wish.Gang.Gang
	extra := j.spec.Gangs[g].Extra
	if !j.gangs[g].waiting || w.pinBlocked(j.id, &j.gangs[g]) || extra && !s.extraEligible(j) {
		return false
	}
	if waitsOutDelay(&s.tables, j, g) {
		wish.Over, wish.Passes = nil, nil // they are read at once, or never
		w.waitOut = append(w.waitOut, wish)
		if !ordersAhead(&s.tables, w.space) {
			w.holdPlaces()
			return false
		}
	}
	return s.eligible(j, g)
}

// holdPlaces promises cells to the gangs that were heard and wait for their next try, or holds up
// those behind them.
func (w *walker) holdPlaces() {
	for len(w.waitOut) > 0 && !w.s.isPostponed() {
		wish := w.waitOut[0]
		w.waitOut = w.waitOut[1:]
		w.holdPlace(wish)
	}
}

func (w *walker) holdPlace(wish Wish) {
	defer w.s.blaming(wish.Gang.Job)
	defer w.s.cl.EndBudget(w.s.cl.Budget())
	s := w.s
	j, g := s.find(wish.Gang.Job), wish.Gang.Gang
	if j == nil || !j.gangs[g].waiting || j.gangs[g].attempt != none || !waitsOutDelay(&s.tables, j, g) {
		return
	}
	if s.overLimit(j, g) || w.pinBlocked(j.id, &j.gangs[g]) {
		return
	}
	q := w.want(j, wish, wish.Prefer)
	defer preferring(w.outlook, wish.Prefer)()
	turn := s.hasTurn(wish.Gang)
	if o := w.outlook; o != nil {
		o.heard = heard{}
		o.enter(j.spec.Priority)
		a := o.asking(j, g)
		a.over = true // as above: it stands before those that are booked
		o.keepToType(&a, wish.SKU)
		if turn && o.start(a) {
			return
		}
	} else if turn {
		q.size = 0
		if p, ok := w.planWish(q, wish, true); ok {
			s.carryOut(q, p)
			return
		}
	}
	if !s.isPostponed() && (wish.Strict || w.outlook != nil) {
		w.block(q)
	}
}

// startsLater reports whether a gang that gets cells cannot start on them yet: it is still being
// stopped, or waits for its next try.
func startsLater(s *tables, j *job, g int32) bool {
	gg := &j.gangs[g]
	return gg.attempt != none && s.attempts[gg.attempt].state != model.AttemptReserving || gg.after > s.now
}
