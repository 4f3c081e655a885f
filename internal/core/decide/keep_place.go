package decide

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// What the platform stops keeps its place in the run order. As soon as its stop is decided, the
// gang stands at its old place, though its tasks still run. Before the first gang behind it is
// tried, cells are reserved for it as for a waiting gang; they may be the ones that it leaves.
// If there are none, it blocks the gangs behind it in a strict order. The reservation is its
// next attempt (Gang.Next), as for a gang that moves. The same holds in the back-off after the
// platform ended an attempt: cells are reserved at once, and the gang starts on them later.

// compare orders by the policy's key, then by submission.
func (c *returning) compare(o *returning) int {
	return cmp.Or(c.key.Compare(o.key), cmp.Compare(c.job, o.job), cmp.Compare(c.gang, o.gang))
}

// BackBefore returns the jobs of a job's priority that were submitted before it and have a gang
// that is being stopped and will wait again.
func BackBefore(s *state.State, j *tables.Job) []model.JobID {
	var out []model.JobID
	if j.Spec.Priority < cell.MinGuaranteed || j.Space <= 0 || s.Tallies[j.Space].Leaving == 0 {
		return nil
	}
	for a := range s.AttemptsIn(j.Space) {
		if a.ID.Job < j.ID && s.Jobs[a.Job].Spec.Priority == j.Spec.Priority && state.ComesBack(s, a) {
			out = append(out, a.ID.Job)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// askForStopped looks at the records from first on for gangs of already walked VCs (below
// walked) that another VC stopped and that will wait again. If gangs of such a gang's priority
// wait in its VC, it asks for another look there, since the stopped gang stands before them.
func askForStopped(s *Pass, first int, walked int32) {
	for i := first; i < len(s.Out); i++ {
		stop, is := s.Out[i].Event.(model.StopSent)
		if !is || stop.By == nil {
			continue
		}
		a := s.Live(stop.Attempt)
		j := &s.Jobs[a.Job]
		if j.Space >= walked || j.Space == s.Find(stop.By.Job).Space || !state.ComesBack(&s.State, a) {
			continue
		}
		waits := func(e index.Queued) bool { return e.Prio == j.Spec.Priority }
		if slices.ContainsFunc(s.Queues[j.Space], waits) || slices.ContainsFunc(s.Lazy[j.Space], waits) {
			s.LookAgain.By(j.Space)
		}
	}
}

// choosesPlaces reports whether a VC's policy says more of a gang than its place in the order:
// its nodes or its size.
func choosesPlaces(s *index.Index, space int32) bool {
	return s.Dirty.Placing[space] || s.Dirty.Tuned[space]
}

// returningGangs returns the gangs of one priority that are being stopped and will wait again, in
// order.
func (w *walker) returningGangs(prio cell.Priority) []returning {
	s := w.s
	if w.backAt == s.Seq && w.backFor == prio {
		return w.back
	}
	was := w.back
	w.back, w.backAt, w.backFor = nil, s.Seq, prio
	for a := range s.AttemptsIn(w.space) {
		if s.Jobs[a.Job].Spec.Priority != prio || !state.ComesBack(&s.State, a) || s.Jobs[a.Job].Space != w.space {
			continue
		}
		c := returning{job: a.ID.Job, gang: a.ID.Gang, key: keyBack(&s.Index, w.space, a)}
		same := func(o returning) bool { return o.job == c.job && o.gang == c.gang }
		c.tried = slices.ContainsFunc(was, func(o returning) bool { return same(o) && o.tried })
		w.back = append(w.back, c)
	}
	slices.SortFunc(w.back, func(a, b returning) int { return a.compare(&b) })
	return w.back
}

// keyBack is the policy's key of such a gang once it waits; zero for policies without keys.
func keyBack(s *index.Index, space int32, a *tables.Attempt) model.Key {
	k, ok := s.Policies[space].(model.Keyed)
	if !ok {
		return model.Key{}
	}
	g := s.GangView(s.Entry(a))
	g.Started, g.Since = 0, s.Now
	was := s.EnterPolicy(space)
	key := k.Key(&g)
	s.EnterPolicy(was)
	return key
}

// reserveReturning reserves cells for the gangs being stopped that stand before the given gang; nil
// stands for all members above a minimum. With strict, a gang that finds none blocks those
// behind it.
func (w *walker) reserveReturning(prio cell.Priority, before *model.GangRef, strict bool) {
	s := w.s
	if s.Tallies[w.space].Leaving == 0 {
		return
	}
	var limit returning
	if before != nil {
		limit = returning{job: before.Job, gang: before.Gang}
		if slot, ok := s.Slots.Get(before.Job); ok {
			limit.key = s.PolicyKey(w.space, index.Queued{Prio: prio, Job: before.Job, Gang: before.Gang, Slot: slot})
		}
	}
	for !s.IsPostponed() {
		// the list is made anew after each reservation
		i := slices.IndexFunc(w.returningGangs(prio), func(c returning) bool { return !c.tried })
		if i < 0 || before != nil && w.back[i].compare(&limit) >= 0 {
			return
		}
		w.back[i].tried = true
		w.reserveOneReturning(s.Find(w.back[i].job), w.back[i].gang, strict)
	}
}

// reserveOneReturning reserves cells for a gang that is being stopped, or blocks those behind it.
func (w *walker) reserveOneReturning(j *tables.Job, g int32, strict bool) {
	defer w.s.BlameJob(j.ID)
	defer w.s.Cluster.EndBudget(w.s.Cluster.Budget())
	s, ref := w.s, model.GangRef{Job: j.ID, Gang: g}
	may := s.Attempts[j.Gangs[g].Attempt].Cause != model.EndRefused && !choosesPlaces(&s.Index, w.space) &&
		!w.pinBlocked(j.ID, &j.Gangs[g]) && s.HasTurn(ref)
	if o := w.bookings; o != nil {
		o.AskAnew()
		o.enter(j.Spec.Priority)
		a := o.CandidateOf(j, g)
		a.OverPeers = true // bookings of gangs behind it are no obstacle
		o.keepToType(&a, "")
		if may && o.start(a) {
			return
		}
	} else if may {
		q := place.Want{J: j, G: g, Blocked: w.blockedFor(j.ID)}
		p, ok := planStay(&s.Finder, q)
		if !ok {
			p, ok = s.Plan(q)
		}
		if ok {
			s.carryOut(q, p)
			return
		}
	}
	if !s.IsPostponed() && (strict || w.bookings != nil) {
		w.block(place.Want{J: j, G: g})
	}
}

// planStay plans to reserve the leaves that the gang itself is leaving, so that idle ones serve
// other gangs meanwhile.
func planStay(s *place.Finder, w place.Want) (place.Plan, bool) {
	var own, rest cell.LeafSet
	for _, l := range state.LeavesOf(&s.Cluster.Alloc(s.Attempts[w.Gang().Attempt].Alloc).Placement) {
		own = own.Add(l)
	}
	for l := range s.Cluster.Forest().Leaves {
		rest = rest.Add(cell.LeafID(l))
	}
	w.Keep = rest.Without(own)
	r := s.Preempting(s.Request(w), cell.MinGuaranteed)
	r.Preempt = &cell.Preemptible{}
	return s.PlanRequest(r)
}

// mayGrant reports whether a wished-for gang may be tried now. One in back-off is put aside:
// cells are reserved for it before the next wish or, if its policy does not order gangs ahead,
// at once.
func (w *walker) mayGrant(j *tables.Job, wish model.Wish) bool {
	s, g := w.s, wish.Gang.Gang
	extra := j.Spec.Gangs[g].Extra
	if !j.Gangs[g].Waiting || w.pinBlocked(j.ID, &j.Gangs[g]) || extra && !s.ExtraEligible(j) {
		return false
	}
	if place.InBackOff(&s.Tables, j, g) {
		wish.Preemptible, wish.IsBehind = nil, nil // they are valid only during this wish
		w.backingOff = append(w.backingOff, wish)
		if !state.OrdersAhead(&s.Tables, w.space) {
			w.holdPlaces()
			return false
		}
	}
	return s.Eligible(j, g)
}

// holdPlaces reserves cells for the gangs in back-off that were put aside, or blocks those
// behind them.
func (w *walker) holdPlaces() {
	for len(w.backingOff) > 0 && !w.s.IsPostponed() {
		wish := w.backingOff[0]
		w.backingOff = w.backingOff[1:]
		w.holdPlace(wish)
	}
}

func (w *walker) holdPlace(wish model.Wish) {
	defer w.s.BlameJob(wish.Gang.Job)
	defer w.s.Cluster.EndBudget(w.s.Cluster.Budget())
	s := w.s
	j, g := s.Find(wish.Gang.Job), wish.Gang.Gang
	if j == nil || !j.Gangs[g].Waiting || j.Gangs[g].Attempt != tables.None || !place.InBackOff(&s.Tables, j, g) {
		return
	}
	if s.OverLimit(j, g) || w.pinBlocked(j.ID, &j.Gangs[g]) {
		return
	}
	q := w.want(j, wish, wish.Prefer)
	defer preferring(w.bookings, wish.Prefer)()
	turn := s.HasTurn(wish.Gang)
	if o := w.bookings; o != nil {
		o.AskAnew()
		o.enter(j.Spec.Priority)
		a := o.CandidateOf(j, g)
		a.OverPeers = true // bookings of gangs behind it are no obstacle
		o.keepToType(&a, wish.SKU)
		if turn && o.start(a) {
			return
		}
	} else if turn {
		q.Size = 0
		if p, ok := w.planWish(q, wish, true); ok {
			s.carryOut(q, p)
			return
		}
	}
	if !s.IsPostponed() && (wish.Strict || w.bookings != nil) {
		w.block(q)
	}
}

// startsLater reports whether a gang that gets cells cannot start yet: it is still being
// stopped, or is in back-off.
func startsLater(s *tables.Tables, j *tables.Job, g int32) bool {
	gg := &j.Gangs[g]
	return gg.Attempt != tables.None && s.Attempts[gg.Attempt].State != model.AttemptReserving || gg.After > s.Now
}
