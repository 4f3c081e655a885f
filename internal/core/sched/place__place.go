package sched

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// want is what cells are asked for: a gang, and what the wish of its policy, the bookings of others
// and its turn add to what its job says. It is a value: what finds cells is given it, and asks for
// another gang with another one.
type want struct {
	j       *job
	g       int32
	prefer  cell.NodeSet // where its policy wants it, if its job does not say
	only    cell.NodeSet // where it may be alone; nil is anywhere
	near    Within       // and how far apart it may be
	blocked []bool       // chains that it leaves to others; nil is none
	keep    cell.LeafSet // what it leaves to bookings
	size    int32        // how many members its job is to have; 0 is as many as usual
	due     bool         // its policy's quantum protects nothing from it
}

// gang is the gang that is wanted.
func (w *want) gang() *gang { return &w.j.gangs[w.g] }

// of asks the same for another gang of the job.
func (w want) of(g int32) want {
	w.g = g
	return w
}

// request asks for cells for one gang, with free leaves only.
func (s *finder) request(w want) cell.Request {
	j := w.j
	r := cell.Request{Space: j.space, Priority: j.spec.Priority, Members: w.gang().shape.members, Keep: w.keep}
	f := s.cl.Forest()
	if j.spec.Restricted() {
		r.Allowed = s.allowedNodes(j.spec)
	}
	if w.only != nil && r.Allowed != nil {
		r.Allowed = r.Allowed.Both(w.only)
	} else if w.only != nil {
		r.Allowed = w.only
	}
	if w.near != Anywhere {
		r.Reach = s.meeting(w, r)
	}
	for _, n := range j.spec.PreferredNodes {
		if i := f.NodeIndex(n); i != cell.None {
			r.Preferred = r.Preferred.Add(i)
		}
	}
	if len(j.spec.PreferredNodes) == 0 {
		r.Preferred = w.prefer
	}
	r.Spared = s.spared(j, int(w.g))
	r.Avoided = s.closed(j)
	for _, a := range rare(w.gang().odd).avoid {
		if i := f.NodeIndex(a.Node); i != cell.None && a.Until > s.now {
			r.Avoided = r.Avoided.Add(i)
		}
	}
	r.Keep = s.keptLeaves(&r)
	r.Blocked = w.blocked
	return r
}

// closeness is what it depends on how far apart a gang must be let.
type closeness struct {
	whatFits
	near Within
}

// meeting says, by chain, at which level the leaves of a gang must meet: as near as
// the wish says or, where it would not fit even the empty cells like that, as near as
// it would; nil is anywhere. Where the search ends before that is known it would end so later, too.
func (s *finder) meeting(w want, r cell.Request) []cell.Level {
	j := w.j
	key := closeness{whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: w.gang().shape.text}, w.near}
	if levels, ok := s.remembered().close[key]; ok {
		return levels
	}
	if r.Allowed = nil; j.spec.Restricted() {
		r.Allowed = s.allowedNodes(j.spec)
	}
	r.Keep, r.IgnoreHealth = nil, true
	for near := w.near; near > Anywhere; near-- {
		r.Reach = s.nearness(r.Members, near)
		if _, ok := s.vacant().Place(&r); ok {
			break
		}
		r.Reach = nil
	}
	remember(&s.remembered().close, key, r.Reach)
	return r.Reach
}

// nearness says, by chain, at which level leaves that are so near meet, and no lower than so many
// can.
func (s *finder) nearness(members []cell.Member, near Within) []cell.Level {
	f := s.cl.Forest()
	out := make([]cell.Level, len(f.Chains))
	for i := range f.Chains {
		ch := &f.Chains[i]
		leaves := int32(0)
		for _, m := range members {
			if len(m.SKUs) == 0 || slices.Contains(m.SKUs, ch.SKU) {
				leaves += m.Tasks * m.Leaves
			}
		}
		level := ch.NodeLevel
		switch near {
		case OneSwitch:
			level = max(level-1, 1)
		case OneRack:
			level++
		}
		if level = max(level, ch.Fit(leaves)); level <= ch.Top {
			out[i] = level
		}
	}
	return out
}

// allowedNodes are the nodes that a job may ever use. What it avoids for good is
// no obstacle that could go away, so it is left out here, unlike Request.Avoided.
func (s *finder) allowedNodes(spec *model.Job) cell.NodeSet {
	f := s.cl.Forest()
	out := cell.NodeSet{0}
	for _, n := range spec.AllowedNodes {
		if i := f.NodeIndex(n); i != cell.None && !slices.Contains(spec.AvoidedNodes, n) {
			out = out.Add(i)
		}
	}
	if len(spec.AllowedNodes) > 0 {
		return out
	}
	for i := range f.Nodes {
		if !slices.Contains(spec.AvoidedNodes, f.Nodes[i].Name) {
			out = out.Add(int32(i))
		}
	}
	return out
}

// lifting returns the request with which holders below a limit may be made to leave: opportunistic
// ones anywhere, guaranteed ones of the same VC whose priority is below limit. What leaves anyway
// costs nothing; what may be alive on a lost node is never counted on.
func (s *finder) lifting(r cell.Request, limit cell.Priority) cell.Request {
	r.Lift = &cell.Lift{Opportunistic: true, Below: limit}
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := s.holder(id)
		c := s.cost(a)
		for at := a.mate; at != none; at = s.attempts[at].mate { // who shares its leaves stops, too
			c = c.Plus(s.cost(&s.attempts[at]))
		}
		return c
	}
	return r
}

// cost is what stopping an attempt costs. Work that lost its guarantee is above what never had one,
// and counts by its priority; then come members above a minimum, and then full gangs by theirs.
func (s *finder) cost(a *attempt) cell.Cost {
	const (
		lent   = 1
		extras = lent + int32(cell.MaxGuaranteed-cell.MinGuaranteed) + 1
		full   = extras + 1
	)
	j := &s.jobs[a.job]
	c := s.inOrder(a, min(s.lostWork(a), 1<<62))
	c.Of, c.Preempted = 1, min(j.preempted, fullGang-1)
	extra, above := s.isExtra(a), int32(j.spec.Priority-cell.MinGuaranteed)
	switch {
	case above < 0:
	case a.lazy: // it is to be guaranteed again, and may take the cells back
		c.Class = lent + above
	case extra:
		c.Class = extras
	default:
		c.Class = full + above
	}
	if !extra {
		c.Preempted += fullGang
	}
	return c
}

// inOrder is a cost by which the later submitted of two comes first, where nothing else tells them
// apart: so no choice hangs on where they happen to run.
func (s *finder) inOrder(a *attempt, lost int64) cell.Cost {
	const gangs = 1 << 14 // more than a job may have
	at := int64(a.id.Job)*gangs + int64(a.id.Gang)
	early := int64(1<<50) - min(at, 1<<50)
	return cell.Cost{Lost: lost, Early: early, Earlier: early}
}

// fullGang is what stopping a full gang costs more than stopping a member above a
// minimum, in preemptions suffered: so those go first.
const fullGang = 1 << 10

// lostWork is what stopping an attempt throws away: leaves times microseconds
// since its last checkpoint, saturating. Before the first it counts from when the attempt got its
// leaves: those that got them together lose alike, whichever was up first.
func (s *finder) lostWork(a *attempt) int64 {
	from := a.checkpoint
	if from == a.started {
		from = a.placed
	}
	g := &s.jobs[a.job].gangs[a.id.Gang]
	since := int64(s.ranSince(a, from))
	if since > (1<<62)/int64(max(g.leaves, 1)) {
		return 1 << 62
	}
	return since * int64(g.leaves)
}

// plan is how one gang could get its cells now.
type plan struct {
	placement cell.Placement
	victims   []cell.AllocID // must die first; empty: the cells are free
	lazies    []cell.AllocID // become opportunistic, before all else
	cleared   []cell.AllocID // become opportunistic and stop: the cells that are bound for them are needed elsewhere
	revoked   []int32        // reservations (attempt slots) that give way
	over      bool           // some of its own priority give way, as the policy says
	shift     cell.Shift     // charges of bad hardware go elsewhere, then
}

// disturbs reports whether others stop, or have less than they had, or charges move.
func (p *plan) disturbs() bool {
	return len(p.shift.Spared)+len(p.victims)+len(p.lazies)+len(p.cleared)+len(p.revoked) > 0
}

// plan finds cells for a gang, from harmless to disruptive: free cells; cells of its VC whose
// holders may become opportunistic; cells of holders that are lifted, opportunistic ones first,
// then rising priorities; and last the same with reservations of lower priority revoked. Where
// charges of bad hardware keep it from free cells, from stopping opportunistic work alone, or from
// all, they move first. A member above a minimum gets free cells, or such as opportunistic work
// holds.
func (s *finder) plan(w want) (plan, bool) {
	j, g := w.j, int(w.g)
	extra := j.spec.Gangs[g].Extra
	if p := j.spec.Priority; !extra && p >= cell.MinGuaranteed && int64(j.gangs[g].leaves) > s.unheld(j.space, p) {
		return plan{}, false
	}
	r := s.request(w)
	if j.gangs[g].leaves <= s.cl.Rest() { // else free leaves do not suffice
		if res, ok := s.cl.Place(&r); ok {
			return plan{placement: res.Placement}, true
		}
	}
	if j.spec.Priority < cell.MinGuaranteed || r.Space == 0 {
		return plan{}, false
	}
	lift := func() (plan, bool) { return s.planLifted(s.lifting(r, cell.MinGuaranteed)) }
	m := s.moverOf(j, g, func() (ok bool) {
		if !extra {
			return s.couldLift(j, g, &r)
		}
		_, ok = lift()
		return ok
	})
	if p, over, ok := m.plan(func() (plan, bool) { return s.planLifted(r) }); over {
		return p, ok
	}
	if lazies := s.lazies(r.Space, j.spec.Priority); !extra && len(lazies) > 0 {
		if done, res, ok := s.cl.DemotedFits(&r, lazies, s.tied); ok {
			return plan{placement: res.Placement, lazies: done}, true
		}
	}
	if m != nil || extra {
		if p, ok := lift(); ok {
			return p, ok
		}
		if p, over, ok := m.plan(lift); over || extra {
			return p, ok
		}
	}
	if p, ok := s.planGuaranteed(&r); ok {
		return p, true
	}
	p, over, ok := m.plan(func() (plan, bool) { return s.planGuaranteed(&r) })
	if over || s.cl.Doomed() == 0 {
		return p, ok
	}
	return s.planUncharging(j, g, r)
}

// planGuaranteed makes room by stopping others, or else by taking back promises of lower priorities
// as well.
func (s *finder) planGuaranteed(r *cell.Request) (plan, bool) {
	if p, ok := s.planLifting(r, r.Priority); ok {
		return s.orRevoking(r, p), true
	}
	return s.planRevoking(s.reservations(r.Space, r.Priority), func([]int32) (plan, bool) { return s.planHigher(r, r.Priority) })
}

// orRevoking is a plan that stops full gangs, or one that takes back promises of lower priorities
// than theirs instead: what was only promised loses no work, and would be taken by whoever is
// stopped, next.
func (s *finder) orRevoking(r *cell.Request, p plan) plan {
	if len(s.promises) == 0 {
		return p
	}
	top := cell.Opportunistic
	for _, ids := range [2][]cell.AllocID{p.victims, p.cleared} {
		for _, id := range ids {
			if a := s.holder(id); s.steady(a) && !s.isExtra(a) && !s.cl.Alloc(id).Opportunistic() {
				top = max(top, s.jobs[a.job].spec.Priority)
			}
		}
	}
	if q, ok := s.planRevoking(s.reservations(r.Space, top), func([]int32) (plan, bool) { return s.planHigher(r, top) }); ok {
		return q
	}
	return p
}

const trimMost = 64 // how often a victim may prove needed that was tried for being superfluous

// planLifting makes room by stopping others: opportunistic work alone, then beside it work that
// becomes opportunistic, then members above a minimum, then full gangs of rising priorities.
func (s *finder) planLifting(r *cell.Request, prio cell.Priority) (plan, bool) {
	limits := s.limits(r.Space, prio)
	if r.Leaves() <= s.cl.Rest()+s.cl.Loose() { // else there is too little opportunistic work
		if p, ok := s.planLifted(s.lifting(*r, limits[0])); ok {
			return p, true
		}
	}
	if len(limits) == 1 {
		return plan{}, false // nobody of a lower priority runs with a guarantee
	}
	if p, ok := s.planLazyLifting(*r, s.lazies(r.Space, prio)); ok {
		return p, true
	}
	if s.partials > 0 {
		_, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
			q := s.lifting(*r, cell.MinGuaranteed)
			q.Lift.Also = s.extrasBelow(r.Space, limit)
			return q
		})
		if ok {
			return p, true
		}
	}
	limit, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
		q := s.lifting(*r, limit)
		q.Lift.Also = s.extrasBelow(r.Space, prio)
		return q
	})
	if ok {
		return s.orClearing(*r, limit, p), true
	}
	return s.planClearing(*r, s.anyBelow(r.Space, prio))
}

// lowest finds the lowest of some rising limits with which a request finds cells: it asks the
// highest first, since where that finds nothing none does, and then by halves. One for which the
// steps end first counts as too low: then a lower one might do.
func lowest(s *finder, limits []cell.Priority, request func(cell.Priority) cell.Request) (limit cell.Priority, p plan, ok bool) {
	var q cell.Request
	var found cell.Result
	fits := func(i int) bool {
		try := request(limits[i])
		if len(s.promises)+s.partials == 0 && int64(try.Leaves()) > s.unheld(try.Space, limits[i]) {
			return false // by numbers alone
		}
		res, ok := s.cl.Try(&try)
		if ok {
			q, found, limit = try, res, limits[i]
		}
		return ok
	}
	if !fits(len(limits) - 1) {
		return 0, plan{}, false
	}
	had := s.cl.Work().More(2)
	sort.Search(len(limits)-1, fits) // of those that fit it asks the lowest last
	s.cl.EndBudget(had)
	return limit, s.planOf(q, s.cl.Settle(&q, found), false), true
}

// planLazyLifting makes holders of the VC opportunistic, as many as it must, and
// stops opportunistic work of others where the gang then goes.
func (s *finder) planLazyLifting(r cell.Request, lazies []cell.AllocID) (plan, bool) {
	if len(lazies) == 0 {
		return plan{}, false
	}
	q := s.lifting(r, cell.MinGuaranteed)
	q.Lift = &cell.Lift{Also: func(id cell.AllocID) bool {
		return s.cl.Alloc(id).Opportunistic() && !s.stuck(id) && !slices.Contains(lazies, id) && (r.Spared == nil || !r.Spared(id))
	}}
	done, res, ok := s.cl.DemotedFits(&q, lazies, s.tied)
	return plan{placement: res.Placement, lazies: done, victims: res.Victims}, ok
}

// planLifted is one such try.
func (s *finder) planLifted(q cell.Request) (plan, bool) {
	res, ok := s.cl.Place(&q)
	if !ok {
		return plan{}, false
	}
	return s.planOf(q, res, false), true
}

// planOf is the plan that stops those whom a search found.
func (s *finder) planOf(q cell.Request, res cell.Result, due bool) plan {
	res = s.withExtras(q, res, due)
	return plan{placement: res.Placement, victims: res.Victims}
}

// limits returns 0 (only opportunistic work is lifted), then, rising, one above
// each priority below prio that runs in the VC.
func (s *finder) limits(space int32, prio cell.Priority) []cell.Priority {
	limits := []cell.Priority{cell.MinGuaranteed}
	for _, r := range s.tallies[space].ranks {
		if r.prio < prio {
			limits = append(limits, r.prio+1)
		}
	}
	return limits
}

// lazies returns the allocations of a VC that may become opportunistic for a preemptor: members
// above a minimum first, then the lowest priority, then the last submitted.
func (s *finder) lazies(space int32, prio cell.Priority) []cell.AllocID {
	if !s.willingBelow(space, prio) {
		return nil
	}
	return s.holdersBelow(space, prio, s.willing)
}

// holds reports whether an attempt runs with a guarantee below a priority, as the first of its
// allocation.
func (s *finder) holds(a *attempt, prio cell.Priority) bool {
	p := s.jobs[a.job].spec.Priority
	return p >= cell.MinGuaranteed && p < prio && !a.lazy && !a.joined && s.steady(a)
}

// holdersBelow returns, in that order, the allocations of a VC below a priority that run with
// a guarantee and that serve.
func (s *finder) holdersBelow(space int32, prio cell.Priority, serves func(*attempt) bool) []cell.AllocID {
	var slots []int32
	for _, i := range s.holders[space] {
		if a := &s.attempts[i]; s.holds(a, prio) && serves(a) {
			slots = append(slots, i)
		}
	}
	slices.SortFunc(slots, func(x, y int32) int {
		a, b := &s.attempts[x], &s.attempts[y]
		return cmp.Or(s.extraFirst(a, b), cmp.Compare(s.jobs[a.job].spec.Priority, s.jobs[b.job].spec.Priority),
			compareAttempts(b.id, a.id))
	})
	out := make([]cell.AllocID, len(slots))
	for i, slot := range slots {
		out[i] = s.attempts[slot].alloc
	}
	return out
}

// planRevoking tries again as if reservations did not exist, the first named first, and keeps those
// that need not be revoked, unless that would cost more victims.
func (s *finder) planRevoking(slots []int32, try func(revoked []int32) (plan, bool)) (plan, bool) {
	if len(slots) == 0 {
		return plan{}, false
	}
	p, ok := s.planWithout(slots, try)
	for i := len(p.revoked) - 2; ok && i >= 0 && !s.cl.Work().Over(); i-- {
		fewer := slices.Delete(slices.Clone(p.revoked), i, i+1)
		if q, still := s.planWithout(fewer, try); still && len(q.revoked) == len(fewer) && len(q.victims) <= len(p.victims) {
			p = q
		}
	}
	return p, ok
}

// planWithout revokes the fewest of the first reservations without which the gang fits; where it
// does not without the first, all are tried before the next: mostly nothing is found then either.
func (s *finder) planWithout(slots []int32, try func(revoked []int32) (plan, bool)) (p plan, ok bool) {
	fits := func(n int) bool {
		ids := make([]cell.AllocID, n)
		for i, slot := range slots[:n] {
			ids[i] = s.attempts[slot].alloc
		}
		defer s.cl.Withdrawn(ids)()
		q, ok := try(slots[:n])
		if ok {
			p, p.revoked = q, slots[:n]
		}
		return ok
	}
	if n := len(slots); !fits(1) && n > 1 && fits(n) && n > 2 {
		budget.Least(2, n, func(k int) bool { return k == n || fits(k) })
	}
	return p, p.revoked != nil
}

// planHigher finds free cells, or such as lower priorities can be made to leave.
func (s *finder) planHigher(r *cell.Request, prio cell.Priority) (plan, bool) {
	if res, ok := s.cl.Place(r); ok {
		return plan{placement: res.Placement}, true
	}
	return s.planLifting(r, prio)
}

// reservations returns the slots of the VC's reservations below a priority, the lowest and latest
// first.
func (s *finder) reservations(space int32, prio cell.Priority) []int32 {
	var slots []int32
	for _, slot := range s.promises {
		a := &s.attempts[slot]
		if s.cl.Alloc(a.alloc).Space == space && s.jobs[a.job].spec.Priority < prio {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(x, y int32) int {
		a, b := &s.attempts[x], &s.attempts[y]
		return cmp.Or(cmp.Compare(s.jobs[a.job].spec.Priority, s.jobs[b.job].spec.Priority),
			compareAttempts(b.id, a.id))
	})
	return slots
}
