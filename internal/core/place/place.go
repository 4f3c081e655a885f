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

// Want is a request for cells: a gang, with the limits that its policy's wish, other gangs'
// bookings and the run order add to its job's specification. It is passed by value and not
// changed.
type Want struct {
	J       *tables.Job
	G       int32
	Prefer  cell.NodeSet // the policy's preferred nodes; the job's own come first
	Only    cell.NodeSet // the only nodes allowed by the policy; nil is any
	Within  model.Within // how far apart its leaves may be
	Blocked []bool       // by chain: reserved for gangs before it; nil is none
	Keep    cell.LeafSet // leaves that are kept for bookings
	Size    int32        // members its job is to have; 0 is the usual number
	Due     bool         // it may preempt within the policy's quantum
}

// Gang returns the wanted gang.
func (w *Want) Gang() *tables.Gang { return &w.J.Gangs[w.G] }

// Of returns the same want for another gang of the job.
func (w Want) Of(g int32) Want {
	w.G = g
	return w
}

// Request builds the search for one gang's cells, among free leaves only.
func (s *Finder) Request(w Want) cell.Request {
	j := w.J
	r := cell.Request{Space: j.Space, Priority: j.Spec.Priority, Members: w.Gang().Shape.Members, Excluded: w.Keep}
	f := s.Cluster.Forest()
	if j.Spec.Restricted() {
		r.Allowed = s.AllowedNodes(j.Spec)
	}
	if w.Only != nil && r.Allowed != nil {
		r.Allowed = r.Allowed.Both(w.Only)
	} else if w.Only != nil {
		r.Allowed = w.Only
	}
	if w.Within != model.Anywhere {
		r.Reach = s.ReachLevels(w, r)
	}
	for _, n := range j.Spec.PreferredNodes {
		if i := f.NodeIndex(n); i != cell.None {
			r.Preferred = r.Preferred.Add(i)
		}
	}
	if len(j.Spec.PreferredNodes) == 0 {
		r.Preferred = w.Prefer
	}
	r.Protected = s.spared(j, int(w.G))
	r.Avoided = s.ClosedNodes(j)
	for _, a := range tables.RareOf(w.Gang().Rare).Avoid {
		if i := f.NodeIndex(a.Node); i != cell.None && a.Until > s.Now {
			r.Avoided = r.Avoided.Add(i)
		}
	}
	r.Excluded = s.keptLeaves(&r)
	r.Blocked = w.Blocked
	return r
}

// reachKey is the key under which ReachLevels remembers its result.
type reachKey struct {
	tables.FitKey
	near model.Within
}

// ReachLevels returns, by chain, the level of the cell within which all leaves of a gang must lie:
// the one that w.Within asks for or, if the gang does not fit an empty cluster so close together,
// the next wider one. nil is any distance. A search that runs out of steps counts as no fit, as
// it would later.
func (s *Finder) ReachLevels(w Want, r cell.Request) []cell.Level {
	j := w.J
	key := reachKey{tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: w.Gang().Shape.Text}, w.Within}
	if levels, ok := s.remembered().close[key]; ok {
		return levels
	}
	if r.Allowed = nil; j.Spec.Restricted() {
		r.Allowed = s.AllowedNodes(j.Spec)
	}
	r.Excluded, r.IgnoreHealth = nil, true
	for near := w.Within; near > model.Anywhere; near-- {
		r.Reach = s.nearness(r.Members, near)
		if _, ok := s.Vacant().Place(&r); ok {
			break
		}
		r.Reach = nil
	}
	Remember(&s.remembered().close, key, r.Reach)
	return r.Reach
}

// nearness returns, by chain, the level of the smallest cell that a limit on distance allows
// and that is large enough for the members. 0 is any distance.
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

// AllowedNodes returns the nodes that a job may ever use. Its own avoided nodes are left out
// here and not put in Request.Avoided: that is for obstacles which can go away.
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

// Preempting returns the request with preemption allowed: of opportunistic work anywhere, and of
// guaranteed work of the same VC with a priority below limit. What is leaving anyway costs
// nothing. Cells of attempts of unknown state are never counted on.
func (s *Finder) Preempting(r cell.Request, limit cell.Priority) cell.Request {
	r.Preempt = &cell.Preemptible{Opportunistic: true, Below: limit}
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := s.Holder(id)
		c := s.cost(a)
		for at := a.NextMember; at != tables.None; at = s.Attempts[at].NextMember { // so do those on its leaves
			c = c.Plus(s.cost(&s.Attempts[at]))
		}
		return c
	}
	return r
}

// cost is the cost of stopping an attempt. Its classes, from the cheapest: opportunistic work;
// work that lost its guarantee, by priority; members above a minimum; full gangs, by priority.
func (s *Finder) cost(a *tables.Attempt) cell.Cost {
	const (
		lent   = 1
		extras = lent + int32(cell.MaxGuaranteed-cell.MinGuaranteed) + 1
		full   = extras + 1
	)
	j := &s.Jobs[a.Job]
	c := s.OrderCost(a, min(s.lostWork(a), 1<<62))
	c.Count, c.Preempted = 1, min(j.Preempted, fullGang-1)
	extra, above := s.IsExtra(a), int32(j.Spec.Priority-cell.MinGuaranteed)
	switch {
	case above < 0:
	case a.Lazy: // it may be upgraded, and take the cells back
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

// OrderCost is a cost that breaks ties by submission, the later submitted first, so that no
// choice depends on which devices are used.
func (s *Finder) OrderCost(a *tables.Attempt, lost int64) cell.Cost {
	const gangs = 1 << 14 // more than a job may have
	at := int64(a.ID.Job)*gangs + int64(a.ID.Gang)
	early := int64(1<<50) - min(at, 1<<50)
	return cell.Cost{Lost: lost, Earliest: early, EarlySum: early}
}

// fullGang is added to the preemptions of a full gang, so that members above a minimum are
// always preempted first.
const fullGang = 1 << 10

// lostWork is the work lost by stopping an attempt, in leaves times microseconds since its last
// checkpoint, saturating. Without a checkpoint it counts from when the attempt got its leaves,
// so attempts placed together lose alike, whichever started first.
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

// Plan is one way to give a gang cells now.
type Plan struct {
	Placement cell.Placement
	Victims   []cell.AllocID  // must be dead before it starts; empty if the cells are free
	Demoted   []cell.AllocID  // become opportunistic first, and keep running
	Unbound   []cell.AllocID  // lose their guarantee and stop: their VC's cells must be bound elsewhere
	Revoked   []int32         // reservations that are taken back, as attempt slots
	OverPeers bool            // the policy lets it take cells from its own priority
	Shift     cell.ChargeMove // charges of bad hardware that move
}

// Disturbs reports whether the plan takes anything from another gang, or moves charges.
func (p *Plan) Disturbs() bool {
	return len(p.Shift.Undoomed)+len(p.Victims)+len(p.Demoted)+len(p.Unbound)+len(p.Revoked) > 0
}

// Plan finds cells for a gang. It tries, in this order: free cells; making gangs of its VC
// opportunistic; preempting, opportunistic work first, then rising priorities; and the same
// with reservations of lower priorities revoked. Charges of bad hardware move where that yields
// free cells, saves guaranteed work from preemption, or is the only way. A member above a
// minimum gets only free cells or those of opportunistic work.
func (s *Finder) Plan(w Want) (Plan, bool) {
	j, g := w.J, int(w.G)
	extra := j.Spec.Gangs[g].Extra
	if p := j.Spec.Priority; !extra && p >= cell.MinGuaranteed && int64(j.Gangs[g].Leaves) > s.AvailableTo(j.Space, p) {
		return Plan{}, false
	}
	r := s.Request(w)
	if j.Gangs[g].Leaves <= s.Cluster.IdleCount() { // else there are too few free leaves
		if res, ok := s.Cluster.Place(&r); ok {
			return Plan{Placement: res.Placement}, true
		}
	}
	if j.Spec.Priority < cell.MinGuaranteed || r.Space == 0 {
		return Plan{}, false
	}
	lift := func() (Plan, bool) { return s.PlanRequest(s.Preempting(r, cell.MinGuaranteed)) }
	m := s.moverOf(j, g, func() (ok bool) {
		if !extra {
			return s.couldPreempt(j, g, &r)
		}
		_, ok = lift()
		return ok
	})
	if p, over, ok := m.Plan(func() (Plan, bool) { return s.PlanRequest(r) }); over {
		return p, ok
	}
	if lazies := s.demotable(r.Space, j.Spec.Priority); !extra && len(lazies) > 0 {
		if done, res, ok := s.Cluster.FitsDemoting(&r, lazies, s.Tied); ok {
			return Plan{Placement: res.Placement, Demoted: done}, true
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
	if over || s.Cluster.NumCharges() == 0 {
		return p, ok
	}
	return s.planFreeingCharged(j, g, r)
}

// planGuaranteed preempts, or, where that does not suffice, also revokes reservations of lower
// priorities.
func (s *Finder) planGuaranteed(r *cell.Request) (Plan, bool) {
	if p, ok := s.planPreempting(r, r.Priority); ok {
		return s.orRevoking(r, p), true
	}
	return s.PlanRevoking(s.Reservations(r.Space, r.Priority),
		func([]int32) (Plan, bool) { return s.PlanHigher(r, r.Priority) })
}

// orRevoking returns p, or a plan that revokes reservations of lower priorities instead of
// stopping full gangs of higher ones. A reservation has no work to lose, and the stopped gang
// would take it next.
func (s *Finder) orRevoking(r *cell.Request, p Plan) Plan {
	if len(s.Promises) == 0 {
		return p
	}
	top := cell.Opportunistic
	for _, ids := range [2][]cell.AllocID{p.Victims, p.Unbound} {
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

// TrimMost bounds how many victims may prove necessary while superfluous ones are looked for.
const TrimMost = 64

// planPreempting preempts. It tries opportunistic work alone, then making gangs of the VC
// opportunistic as well, then members above a minimum, then full gangs of rising priorities.
func (s *Finder) planPreempting(r *cell.Request, prio cell.Priority) (Plan, bool) {
	limits := s.Limits(r.Space, prio)
	if r.Leaves() <= s.Cluster.IdleCount()+s.Cluster.PreemptibleCount() { // else too little is lent
		if p, ok := s.PlanRequest(s.Preempting(*r, limits[0])); ok {
			return p, true
		}
	}
	if len(limits) == 1 {
		return Plan{}, false // no guaranteed gang has a lower priority
	}
	if p, ok := s.planDemoting(*r, s.demotable(r.Space, prio)); ok {
		return p, true
	}
	if s.PartialJobs > 0 {
		_, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
			q := s.Preempting(*r, cell.MinGuaranteed)
			q.Preempt.Also = s.extrasBelow(r.Space, limit)
			return q
		})
		if ok {
			return p, true
		}
	}
	limit, p, ok := lowest(s, limits[1:], func(limit cell.Priority) cell.Request {
		q := s.Preempting(*r, limit)
		q.Preempt.Also = s.extrasBelow(r.Space, prio)
		return q
	})
	if ok {
		return s.orUnbinding(*r, limit, p), true
	}
	return s.PlanUnbinding(*r, s.GuaranteedBelow(r.Space, prio))
}

// lowest finds the lowest of some rising limits with which a request finds cells. It asks the
// highest first, since no other fits if that does not, and then bisects. A search that runs out
// of steps counts as no fit, so a lower limit might do.
func lowest(s *Finder, limits []cell.Priority, request func(cell.Priority) cell.Request) (limit cell.Priority, p Plan,
	ok bool) {
	var q cell.Request
	var found cell.Result
	fits := func(i int) bool {
		try := request(limits[i])
		if len(s.Promises)+s.PartialJobs == 0 && int64(try.Leaves()) > s.AvailableTo(try.Space, limits[i]) {
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
	had := s.Cluster.Work().WithinReserve(2)
	sort.Search(len(limits)-1, fits) // the last success is for the lowest limit that fits
	s.Cluster.EndBudget(had)
	return limit, s.PlanOf(q, s.Cluster.MinimizeVictims(&q, found), false), true
}

// planDemoting makes as few gangs of the VC opportunistic as it can, and preempts other
// opportunistic work on the leaves that the gang gets.
func (s *Finder) planDemoting(r cell.Request, lazies []cell.AllocID) (Plan, bool) {
	if len(lazies) == 0 {
		return Plan{}, false
	}
	q := s.Preempting(r, cell.MinGuaranteed)
	q.Preempt = &cell.Preemptible{Also: func(id cell.AllocID) bool {
		return s.Cluster.Alloc(id).Opportunistic() && !s.HasUnknown(id) && !slices.Contains(lazies, id) &&
			(r.Protected == nil || !r.Protected(id))
	}}
	done, res, ok := s.Cluster.FitsDemoting(&q, lazies, s.Tied)
	return Plan{Placement: res.Placement, Demoted: done, Victims: res.Victims}, ok
}

// PlanRequest returns the plan for one request, which names what may be preempted.
func (s *Finder) PlanRequest(q cell.Request) (Plan, bool) {
	res, ok := s.Cluster.Place(&q)
	if !ok {
		return Plan{}, false
	}
	return s.PlanOf(q, res, false), true
}

// PlanOf returns the plan that stops the victims of a search.
func (s *Finder) PlanOf(q cell.Request, res cell.Result, due bool) Plan {
	res = s.withExtras(q, res, due)
	return Plan{Placement: res.Placement, Victims: res.Victims}
}

// Limits returns the limits below which guaranteed work is preempted, rising: first one that
// spares all of it, then one above each priority below prio that runs in the VC.
func (s *Finder) Limits(space int32, prio cell.Priority) []cell.Priority {
	limits := []cell.Priority{cell.MinGuaranteed}
	for _, r := range s.Tallies[space].Ranks {
		if r.Prio < prio {
			limits = append(limits, r.Prio+1)
		}
	}
	return limits
}

// demotable returns the allocations of a VC below a priority that may become opportunistic:
// members above a minimum first, then the lowest priority, then the last submitted.
func (s *Finder) demotable(space int32, prio cell.Priority) []cell.AllocID {
	if !s.AllowsLazyBelow(space, prio) {
		return nil
	}
	return s.holdersBelow(space, prio, s.AllowsLazy)
}

// holds reports whether an attempt runs with a guarantee below a priority and is the first
// member of its allocation.
func (s *Finder) holds(a *tables.Attempt, prio cell.Priority) bool {
	p := s.Jobs[a.Job].Spec.Priority
	return p >= cell.MinGuaranteed && p < prio && !a.Lazy && !a.NotFirst && s.Steady(a)
}

// holdersBelow returns the guaranteed allocations of a VC that run below a priority and satisfy
// serves, in the order of lazies.
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

// PlanRevoking tries again with the given reservations withdrawn, as few of the first as
// suffice. It keeps those that need not be revoked, unless that would cost more victims.
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

// planWithout revokes the fewest of the first reservations with which the gang fits. If the
// first alone does not suffice it tries all at once: mostly that fails as well, and ends the
// search.
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

// PlanHigher finds free cells, or preempts lower priorities.
func (s *Finder) PlanHigher(r *cell.Request, prio cell.Priority) (Plan, bool) {
	if res, ok := s.Cluster.Place(r); ok {
		return Plan{Placement: res.Placement}, true
	}
	return s.planPreempting(r, prio)
}

// Reservations returns the slots of the VC's reservations below a priority: the lowest priority
// first, of equals the latest submitted.
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

// EitherOf returns the union of two sets of chains; nil is empty.
func EitherOf(a, b []bool) []bool {
	if a == nil || b == nil {
		return append(a, b...)
	}
	for i := range a {
		a[i] = a[i] || b[i]
	}
	return a
}

// BlockedFor returns the chains that are blocked for a job: waits is, by chain, the first job that
// waits for it and blocks. Gangs of one job do not block each other.
func BlockedFor(waits []model.JobID, id model.JobID) []bool {
	var out []bool // for most jobs there are none
	for i, by := range waits {
		if by == 0 || by == id {
			continue
		}
		if out == nil {
			out = make([]bool, len(waits))
		}
		out[i] = true
	}
	return out
}
