package place

import (
	"cmp"
	"slices"
	"sort"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Want is what cells are asked for: a gang, and what the wish of its policy, the bookings of others
// and its turn add to what its job says. It is a value: what finds cells is given it, and asks for
// another gang with another one.
type Want struct {
	J       *tables.Job
	G       int32
	Prefer  cell.NodeSet // where its policy wants it, if its job does not say
	Only    cell.NodeSet // where it may be alone; nil is anywhere
	Near    model.Within // and how far apart it may be
	Blocked []bool       // chains that it leaves to others; nil is none
	Keep    cell.LeafSet // what it leaves to bookings
	Size    int32        // how many members its job is to have; 0 is as many as usual
	Due     bool         // its policy's quantum protects nothing from it
}

// Gang is the gang that is wanted.
func (w *Want) Gang() *tables.Gang { return &w.J.Gangs[w.G] }

// Of asks the same for another gang of the job.
func (w Want) Of(g int32) Want {
	w.G = g
	return w
}

// Request asks for cells for one gang, with free leaves only.
func (s *Finder) Request(w Want) cell.Request {
	j := w.J
	r := cell.Request{Space: j.Space, Priority: j.Spec.Priority, Members: w.Gang().Shape.Members, Keep: w.Keep}
	f := s.Cluster.Forest()
	if j.Spec.Restricted() {
		r.Allowed = s.AllowedNodes(j.Spec)
	}
	if w.Only != nil && r.Allowed != nil {
		r.Allowed = r.Allowed.Both(w.Only)
	} else if w.Only != nil {
		r.Allowed = w.Only
	}
	if w.Near != model.Anywhere {
		r.Reach = s.Meeting(w, r)
	}
	for _, n := range j.Spec.PreferredNodes {
		if i := f.NodeIndex(n); i != cell.None {
			r.Preferred = r.Preferred.Add(i)
		}
	}
	if len(j.Spec.PreferredNodes) == 0 {
		r.Preferred = w.Prefer
	}
	r.Spared = s.spared(j, int(w.G))
	r.Avoided = s.Closed(j)
	for _, a := range tables.RareOf(w.Gang().Rare).Avoid {
		if i := f.NodeIndex(a.Node); i != cell.None && a.Until > s.Now {
			r.Avoided = r.Avoided.Add(i)
		}
	}
	r.Keep = s.keptLeaves(&r)
	r.Blocked = w.Blocked
	return r
}

// closeness is what it depends on how far apart a gang must be let.
type closeness struct {
	tables.FitKey
	near model.Within
}

// Meeting says, by chain, at which level the leaves of a gang must meet: as near as
// the wish says or, where it would not fit even the empty cells like that, as near as
// it would; nil is anywhere. Where the search ends before that is known it would end so later, too.
func (s *Finder) Meeting(w Want, r cell.Request) []cell.Level {
	j := w.J
	key := closeness{tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: w.Gang().Shape.Text}, w.Near}
	if levels, ok := s.remembered().close[key]; ok {
		return levels
	}
	if r.Allowed = nil; j.Spec.Restricted() {
		r.Allowed = s.AllowedNodes(j.Spec)
	}
	r.Keep, r.IgnoreHealth = nil, true
	for near := w.Near; near > model.Anywhere; near-- {
		r.Reach = s.nearness(r.Members, near)
		if _, ok := s.Vacant().Place(&r); ok {
			break
		}
		r.Reach = nil
	}
	Remember(&s.remembered().close, key, r.Reach)
	return r.Reach
}

// nearness says, by chain, at which level leaves that are so near meet, and no lower than so many
// can.
func (s *Finder) nearness(members []cell.Member, near model.Within) []cell.Level {
	f := s.Cluster.Forest()
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
		case model.OneSwitch:
			level = max(level-1, 1)
		case model.OneRack:
			level++
		}
		if level = max(level, ch.Fit(leaves)); level <= ch.Top {
			out[i] = level
		}
	}
	return out
}

// AllowedNodes are the nodes that a job may ever use. What it avoids for good is
// no obstacle that could go away, so it is left out here, unlike Request.Avoided.
func (s *Finder) AllowedNodes(spec *model.Job) cell.NodeSet {
	f := s.Cluster.Forest()
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

// Lifting returns the request with which holders below a limit may be made to leave: opportunistic
// ones anywhere, guaranteed ones of the same VC whose priority is below limit. What leaves anyway
// costs nothing; what may be alive on a lost node is never counted on.
func (s *Finder) Lifting(r cell.Request, limit cell.Priority) cell.Request {
	r.Lift = &cell.Lift{Opportunistic: true, Below: limit}
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := s.Holder(id)
		c := s.cost(a)
		for at := a.Mate; at != tables.None; at = s.Attempts[at].Mate { // who shares its leaves stops, too
			c = c.Plus(s.cost(&s.Attempts[at]))
		}
		return c
	}
	return r
}

// cost is what stopping an attempt costs. Work that lost its guarantee is above what never had one,
// and counts by its priority; then come members above a minimum, and then full gangs by theirs.
func (s *Finder) cost(a *tables.Attempt) cell.Cost {
	const (
		lent   = 1
		extras = lent + int32(cell.MaxGuaranteed-cell.MinGuaranteed) + 1
		full   = extras + 1
	)
	j := &s.Jobs[a.Job]
	c := s.InOrder(a, min(s.lostWork(a), 1<<62))
	c.Of, c.Preempted = 1, min(j.Preempted, fullGang-1)
	extra, above := s.IsExtra(a), int32(j.Spec.Priority-cell.MinGuaranteed)
	switch {
	case above < 0:
	case a.Lazy: // it is to be guaranteed again, and may take the cells back
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

// InOrder is a cost by which the later submitted of two comes first, where nothing else tells them
// apart: so no choice hangs on where they happen to run.
func (s *Finder) InOrder(a *tables.Attempt, lost int64) cell.Cost {
	const gangs = 1 << 14 // more than a job may have
	at := int64(a.ID.Job)*gangs + int64(a.ID.Gang)
	early := int64(1<<50) - min(at, 1<<50)
	return cell.Cost{Lost: lost, Early: early, Earlier: early}
}

// fullGang is what stopping a full gang costs more than stopping a member above a
// minimum, in preemptions suffered: so those go first.
const fullGang = 1 << 10

// lostWork is what stopping an attempt throws away: leaves times microseconds
// since its last checkpoint, saturating. Before the first it counts from when the attempt got its
// leaves: those that got them together lose alike, whichever was up first.
func (s *Finder) lostWork(a *tables.Attempt) int64 {
	from := a.Checkpoint
	if from == a.Started {
		from = a.Placed
	}
	g := &s.Jobs[a.Job].Gangs[a.ID.Gang]
	since := int64(s.RanSince(a, from))
	if since > (1<<62)/int64(max(g.Leaves, 1)) {
		return 1 << 62
	}
	return since * int64(g.Leaves)
}

// Plan is how one gang could get its cells now.
type Plan struct {
	Placement cell.Placement
	Victims   []cell.AllocID // must die first; empty: the cells are free
	Lazies    []cell.AllocID // become opportunistic, before all else
	Cleared   []cell.AllocID // become opportunistic and stop: the cells that are bound for them are needed elsewhere
	Revoked   []int32        // reservations (attempt slots) that give way
	Over      bool           // some of its own priority give way, as the policy says
	Shift     cell.Shift     // charges of bad hardware go elsewhere, then
}

// Disturbs reports whether others stop, or have less than they had, or charges move.
func (p *Plan) Disturbs() bool {
	return len(p.Shift.Spared)+len(p.Victims)+len(p.Lazies)+len(p.Cleared)+len(p.Revoked) > 0
}

// Plan finds cells for a gang, from harmless to disruptive: free cells; cells of its VC whose
// holders may become opportunistic; cells of holders that are lifted, opportunistic ones first,
// then rising priorities; and last the same with reservations of lower priority revoked. Where
// charges of bad hardware keep it from free cells, from stopping opportunistic work alone, or from
// all, they move first. A member above a minimum gets free cells, or such as opportunistic work
// holds.
func (s *Finder) Plan(w Want) (Plan, bool) {
	j, g := w.J, int(w.G)
	extra := j.Spec.Gangs[g].Extra
	if p := j.Spec.Priority; !extra && p >= cell.MinGuaranteed && int64(j.Gangs[g].Leaves) > s.Unheld(j.Space, p) {
		return Plan{}, false
	}
	r := s.Request(w)
	if j.Gangs[g].Leaves <= s.Cluster.Rest() { // else free leaves do not suffice
		if res, ok := s.Cluster.Place(&r); ok {
			return Plan{Placement: res.Placement}, true
		}
	}
	if j.Spec.Priority < cell.MinGuaranteed || r.Space == 0 {
		return Plan{}, false
	}
	lift := func() (Plan, bool) { return s.PlanLifted(s.Lifting(r, cell.MinGuaranteed)) }
	m := s.moverOf(j, g, func() (ok bool) {
		if !extra {
			return s.couldLift(j, g, &r)
		}
		_, ok = lift()
		return ok
	})
	if p, over, ok := m.Plan(func() (Plan, bool) { return s.PlanLifted(r) }); over {
		return p, ok
	}
	if lazies := s.lazies(r.Space, j.Spec.Priority); !extra && len(lazies) > 0 {
		if done, res, ok := s.Cluster.DemotedFits(&r, lazies, s.Tied); ok {
			return Plan{Placement: res.Placement, Lazies: done}, true
		}
	}
	if m != nil || extra {
		if p, ok := lift(); ok {
			return p, ok
		}
		if p, over, ok := m.Plan(lift); over || extra {
			return p, ok
		}
	}
	if p, ok := s.planGuaranteed(&r); ok {
		return p, true
	}
	p, over, ok := m.Plan(func() (Plan, bool) { return s.planGuaranteed(&r) })
	if over || s.Cluster.Doomed() == 0 {
		return p, ok
	}
	return s.planUncharging(j, g, r)
}

// planGuaranteed makes room by stopping others, or else by taking back promises of lower priorities
// as well.
func (s *Finder) planGuaranteed(r *cell.Request) (Plan, bool) {
	if p, ok := s.planLifting(r, r.Priority); ok {
		return s.orRevoking(r, p), true
	}
	return s.PlanRevoking(s.Reservations(r.Space, r.Priority),
		func([]int32) (Plan, bool) { return s.PlanHigher(r, r.Priority) })
}

// orRevoking is a plan that stops full gangs, or one that takes back promises of lower priorities
// than theirs instead: what was only promised loses no work, and would be taken by whoever is
// stopped, next.
func (s *Finder) orRevoking(r *cell.Request, p Plan) Plan {
	if len(s.Promises) == 0 {
		return p
	}
	top := cell.Opportunistic
	for _, ids := range [2][]cell.AllocID{p.Victims, p.Cleared} {
		for _, id := range ids {
			if a := s.Holder(id); s.Steady(a) && !s.IsExtra(a) && !s.Cluster.Alloc(id).Opportunistic() {
				top = max(top, s.Jobs[a.Job].Spec.Priority)
			}
		}
	}
	if q, ok := s.PlanRevoking(s.Reservations(r.Space, top), func([]int32) (Plan,
		bool) {
		return s.PlanHigher(r, top)
	}); ok {
		return q
	}
	return p
}

const TrimMost = 64 // how often a victim may prove needed that was tried for being superfluous

// planLifting makes room by stopping others: opportunistic work alone, then beside it work that
// becomes opportunistic, then members above a minimum, then full gangs of rising priorities.
func (s *Finder) planLifting(r *cell.Request, prio cell.Priority) (Plan, bool) {
	limits := s.Limits(r.Space, prio)
	if r.Leaves() <= s.Cluster.Rest()+s.Cluster.Loose() { // else there is too little opportunistic work
		if p, ok := s.PlanLifted(s.Lifting(*r, limits[0])); ok {
			return p, true
		}
	}
	if len(limits) == 1 {
		return Plan{}, false // nobody of a lower priority runs with a guarantee
	}
	if p, ok := s.planLazyLifting(*r, s.lazies(r.Space, prio)); ok {
		return p, true
	}
	if s.PartialJobs > 0 {
		_, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
			q := s.Lifting(*r, cell.MinGuaranteed)
			q.Lift.Also = s.extrasBelow(r.Space, limit)
			return q
		})
		if ok {
			return p, true
		}
	}
	limit, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
		q := s.Lifting(*r, limit)
		q.Lift.Also = s.extrasBelow(r.Space, prio)
		return q
	})
	if ok {
		return s.orClearing(*r, limit, p), true
	}
	return s.PlanClearing(*r, s.AnyBelow(r.Space, prio))
}

// lowest finds the lowest of some rising limits with which a request finds cells: it asks the
// highest first, since where that finds nothing none does, and then by halves. One for which the
// steps end first counts as too low: then a lower one might do.
func lowest(s *Finder, limits []cell.Priority, request func(cell.Priority) cell.Request) (limit cell.Priority, p Plan,
	ok bool) {
	var q cell.Request
	var found cell.Result
	fits := func(i int) bool {
		try := request(limits[i])
		if len(s.Promises)+s.PartialJobs == 0 && int64(try.Leaves()) > s.Unheld(try.Space, limits[i]) {
			return false // by numbers alone
		}
		res, ok := s.Cluster.Try(&try)
		if ok {
			q, found, limit = try, res, limits[i]
		}
		return ok
	}
	if !fits(len(limits) - 1) {
		return 0, Plan{}, false
	}
	had := s.Cluster.Work().More(2)
	sort.Search(len(limits)-1, fits) // of those that fit it asks the lowest last
	s.Cluster.EndBudget(had)
	return limit, s.PlanOf(q, s.Cluster.Settle(&q, found), false), true
}

// planLazyLifting makes holders of the VC opportunistic, as many as it must, and
// stops opportunistic work of others where the gang then goes.
func (s *Finder) planLazyLifting(r cell.Request, lazies []cell.AllocID) (Plan, bool) {
	if len(lazies) == 0 {
		return Plan{}, false
	}
	q := s.Lifting(r, cell.MinGuaranteed)
	q.Lift = &cell.Lift{Also: func(id cell.AllocID) bool {
		return s.Cluster.Alloc(id).Opportunistic() && !s.Stuck(id) && !slices.Contains(lazies, id) &&
			(r.Spared == nil || !r.Spared(id))
	}}
	done, res, ok := s.Cluster.DemotedFits(&q, lazies, s.Tied)
	return Plan{Placement: res.Placement, Lazies: done, Victims: res.Victims}, ok
}

// PlanLifted is one such try.
func (s *Finder) PlanLifted(q cell.Request) (Plan, bool) {
	res, ok := s.Cluster.Place(&q)
	if !ok {
		return Plan{}, false
	}
	return s.PlanOf(q, res, false), true
}

// PlanOf is the plan that stops those whom a search found.
func (s *Finder) PlanOf(q cell.Request, res cell.Result, due bool) Plan {
	res = s.withExtras(q, res, due)
	return Plan{Placement: res.Placement, Victims: res.Victims}
}

// Limits returns 0 (only opportunistic work is lifted), then, rising, one above
// each priority below prio that runs in the VC.
func (s *Finder) Limits(space int32, prio cell.Priority) []cell.Priority {
	limits := []cell.Priority{cell.MinGuaranteed}
	for _, r := range s.Tallies[space].Ranks {
		if r.Prio < prio {
			limits = append(limits, r.Prio+1)
		}
	}
	return limits
}

// lazies returns the allocations of a VC that may become opportunistic for a preemptor: members
// above a minimum first, then the lowest priority, then the last submitted.
func (s *Finder) lazies(space int32, prio cell.Priority) []cell.AllocID {
	if !s.WillingBelow(space, prio) {
		return nil
	}
	return s.holdersBelow(space, prio, s.Willing)
}

// holds reports whether an attempt runs with a guarantee below a priority, as the first of its
// allocation.
func (s *Finder) holds(a *tables.Attempt, prio cell.Priority) bool {
	p := s.Jobs[a.Job].Spec.Priority
	return p >= cell.MinGuaranteed && p < prio && !a.Lazy && !a.Joined && s.Steady(a)
}

// holdersBelow returns, in that order, the allocations of a VC below a priority that run with
// a guarantee and that serve.
func (s *Finder) holdersBelow(space int32, prio cell.Priority, serves func(*tables.Attempt) bool) []cell.AllocID {
	var slots []int32
	for _, i := range s.Holders[space] {
		if a := &s.Attempts[i]; s.holds(a, prio) && serves(a) {
			slots = append(slots, i)
		}
	}
	slices.SortFunc(slots, func(x, y int32) int {
		a, b := &s.Attempts[x], &s.Attempts[y]
		return cmp.Or(s.ExtraFirst(a, b), cmp.Compare(s.Jobs[a.Job].Spec.Priority, s.Jobs[b.Job].Spec.Priority),
			model.CompareAttempts(b.ID, a.ID))
	})
	out := make([]cell.AllocID, len(slots))
	for i, slot := range slots {
		out[i] = s.Attempts[slot].Alloc
	}
	return out
}

// PlanRevoking tries again as if reservations did not exist, the first named first, and keeps those
// that need not be revoked, unless that would cost more victims.
func (s *Finder) PlanRevoking(slots []int32, try func(revoked []int32) (Plan, bool)) (Plan, bool) {
	if len(slots) == 0 {
		return Plan{}, false
	}
	p, ok := s.planWithout(slots, try)
	for i := len(p.Revoked) - 2; ok && i >= 0 && !s.Cluster.Work().Over(); i-- {
		fewer := slices.Delete(slices.Clone(p.Revoked), i, i+1)
		if q, still := s.planWithout(fewer, try); still && len(q.Revoked) == len(fewer) &&
			len(q.Victims) <= len(p.Victims) {
			p = q
		}
	}
	return p, ok
}

// planWithout revokes the fewest of the first reservations without which the gang fits; where it
// does not without the first, all are tried before the next: mostly nothing is found then either.
func (s *Finder) planWithout(slots []int32, try func(revoked []int32) (Plan, bool)) (p Plan, ok bool) {
	fits := func(n int) bool {
		ids := make([]cell.AllocID, n)
		for i, slot := range slots[:n] {
			ids[i] = s.Attempts[slot].Alloc
		}
		defer s.Cluster.Withdrawn(ids)()
		q, ok := try(slots[:n])
		if ok {
			p, p.Revoked = q, slots[:n]
		}
		return ok
	}
	if n := len(slots); !fits(1) && n > 1 && fits(n) && n > 2 {
		budget.Least(2, n, func(k int) bool { return k == n || fits(k) })
	}
	return p, p.Revoked != nil
}

// PlanHigher finds free cells, or such as lower priorities can be made to leave.
func (s *Finder) PlanHigher(r *cell.Request, prio cell.Priority) (Plan, bool) {
	if res, ok := s.Cluster.Place(r); ok {
		return Plan{Placement: res.Placement}, true
	}
	return s.planLifting(r, prio)
}

// Reservations returns the slots of the VC's reservations below a priority, the lowest and latest
// first.
func (s *Finder) Reservations(space int32, prio cell.Priority) []int32 {
	var slots []int32
	for _, slot := range s.Promises {
		a := &s.Attempts[slot]
		if s.Cluster.Alloc(a.Alloc).Space == space && s.Jobs[a.Job].Spec.Priority < prio {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(x, y int32) int {
		a, b := &s.Attempts[x], &s.Attempts[y]
		return cmp.Or(cmp.Compare(s.Jobs[a.Job].Spec.Priority, s.Jobs[b.Job].Spec.Priority),
			model.CompareAttempts(b.ID, a.ID))
	})
	return slots
}
