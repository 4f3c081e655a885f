package place

import (
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// A gang of a VC may block another by the cells that are bound for it rather than by its
// leaves. To bind those cells elsewhere, its guarantee is taken.

const (
	// MaxUnbound is the largest number of holders for which PlanUnbinding searches at all.
	MaxUnbound = 1024
	// maxChosen is the largest number of holders whose subsets are tried, the smallest first.
	maxChosen = 12
	// maxChoices bounds the subsets tried: each places the gang anew, while all other decisions
	// wait.
	maxChoices = 48
)

// GuaranteedBelow returns the guaranteed allocations of a VC below a priority, whether their jobs
// allow lazy preemption or not.
func (s *Finder) GuaranteedBelow(space int32, prio cell.Priority) []cell.AllocID {
	return s.holdersBelow(space, prio, func(*tables.Attempt) bool { return true })
}

// manyBelow reports whether there are too many such holders to try all subsets.
func (s *Finder) manyBelow(space int32, prio cell.Priority, serves func(*tables.Attempt) bool) bool {
	n := 0
	for _, i := range s.Holders[space] {
		if s.holds(&s.Attempts[i], prio) && serves(&s.Attempts[i]) {
			if n++; n > maxChosen {
				return true
			}
		}
	}
	return false
}

// PlanUnbinding takes the guarantee of holders of the VC, so that their cells can be bound where
// the gang may use them. Holders whose jobs do not allow lazy preemption are stopped. It is for
// gangs to which the holders' leaves are of no use: they are on other nodes than the gang may
// use, or in cells that are too small. Of few holders it finds the subset with the fewest
// stops.
func (s *Finder) PlanUnbinding(r cell.Request, holders []cell.AllocID) (Plan, bool) {
	if len(holders) > MaxUnbound {
		return Plan{}, false
	}
	q := s.Preempting(r, cell.MinGuaranteed)
	done, res, ok := s.Cluster.FitsClearing(&q, holders, s.Tied)
	if !ok {
		return Plan{}, false
	}
	best := s.unbindingPlan(s.withAbove(done), res)
	if len(holders) > maxChosen {
		return best, true
	}
	return s.fewerStopped(&q, holders, best), true
}

// fewerStopped looks for a subset of the holders with which fewer gangs are stopped than by a
// plan, or as many at less cost. It tries small subsets first, at most maxChoices.
func (s *Finder) fewerStopped(q *cell.Request, holders []cell.AllocID, best Plan) Plan {
	n, cost := s.price(q, &best)
	with := s.alongWith(holders)
	left := maxChoices
	for size := range len(holders) + 1 {
		if n <= 1 && size > 0 {
			break // a subset that stops none was found before
		}
		for set := range uint(1) << len(holders) {
			if bits.OnesCount(set) != size || s.unwilling(holders, set) > n || !closed(set, with) {
				continue
			}
			if left == 0 || s.Cluster.Work().Over() {
				return best
			}
			left--
			p, ok := s.planChoice(q, holders, set)
			if !ok {
				continue
			}
			if m, c := s.price(q, &p); m < n || m == n && c.Compare(cost) < 0 {
				best, n, cost = p, m, c
			}
		}
	}
	return best
}

// alongWith returns, for each holder, the set of holders that lose their guarantee with it.
func (s *Finder) alongWith(holders []cell.AllocID) []uint {
	with := make([]uint, len(holders))
	for i, id := range holders {
		if to := slices.Index(holders, s.Tied(id)); to >= 0 {
			with[to] |= 1 << i
		}
	}
	return with
}

// planChoice places a gang as if one subset of the holders had lost their guarantee.
func (s *Finder) planChoice(q *cell.Request, holders []cell.AllocID, set uint) (Plan, bool) {
	var ids []cell.AllocID
	for i, id := range holders {
		if set>>i&1 != 0 {
			ids = append(ids, id)
		}
	}
	ids = s.withAbove(ids)
	try := *q
	try.Cost = func(id cell.AllocID) cell.Cost {
		if slices.Contains(ids, id) && !s.AllowsLazy(s.Holder(id)) {
			return cell.Cost{} // it stops anyway
		}
		return q.Cost(id)
	}
	back := s.Cluster.DemoteTemporarily(ids)
	res, ok := s.Cluster.Place(&try)
	back()
	if !ok {
		return Plan{}, false
	}
	return s.unbindingPlan(ids, res), true
}

// Tied returns the minimum's allocation for that of a member above it: they lose their
// guarantee together. It is None for any other.
func (s *Finder) Tied(id cell.AllocID) cell.AllocID {
	a := s.Holder(id)
	if !s.IsExtra(a) {
		return cell.None
	}
	if at := s.Jobs[a.Job].Gangs[0].Attempt; at != tables.None {
		return s.Attempts[at].Alloc
	}
	return cell.None
}

// withAbove inserts before each minimum those running members above it that are missing, since
// they lose their guarantee with it.
func (s *Finder) withAbove(ids []cell.AllocID) []cell.AllocID {
	if s.PartialJobs == 0 {
		return ids
	}
	var out []cell.AllocID
	for _, id := range ids {
		a := s.Holder(id)
		j := &s.Jobs[a.Job]
		for g := 1; !s.IsExtra(a) && j.Spec.Partial() && g < len(j.Gangs); g++ {
			if at := j.Gangs[g].Attempt; at != tables.None && s.holds(&s.Attempts[at], j.Spec.Priority+1) &&
				!slices.Contains(ids, s.Attempts[at].Alloc) {
				out = append(out, s.Attempts[at].Alloc)
			}
		}
		out = append(out, id)
	}
	return out
}

// closed reports whether a subset contains all holders that lose their guarantee with its
// members.
func closed(set uint, with []uint) bool {
	for i, also := range with {
		if set>>i&1 != 0 && also&^set != 0 {
			return false
		}
	}
	return true
}

// unwilling counts the holders of a subset that would be stopped with the loss of their
// guarantee.
func (s *Finder) unwilling(holders []cell.AllocID, set uint) int {
	n := 0
	for i, id := range holders {
		if set>>i&1 != 0 && !s.AllowsLazy(s.Holder(id)) {
			n++
		}
	}
	return n
}

// unbindingPlan returns the plan in which the given holders lost their guarantee.
func (s *Finder) unbindingPlan(done []cell.AllocID, res cell.Result) Plan {
	p := Plan{Placement: res.Placement, Victims: res.Victims}
	for _, id := range done {
		if s.AllowsLazy(s.Holder(id)) && !slices.Contains(res.Victims, id) {
			p.Demoted = append(p.Demoted, id)
		} else {
			p.Unbound = append(p.Unbound, id)
		}
	}
	return p
}

// price is how many attempts a plan stops that would otherwise stay, and at what cost.
func (s *Finder) price(q *cell.Request, p *Plan) (n int, cost cell.Cost) {
	stopped := slices.Concat(p.Victims, p.Unbound)
	slices.Sort(stopped)
	for _, id := range slices.Compact(stopped) {
		if s.Steady(s.Holder(id)) {
			n, cost = n+1, cost.Plus(q.Cost(id))
		}
	}
	return n, cost
}

// orUnbinding returns p, which stops full gangs below a limit, or a plan that stops fewer: its
// victims need not be where the gang goes, and gangs that allow lazy preemption keep running.
func (s *Finder) orUnbinding(r cell.Request, limit cell.Priority, p Plan) Plan {
	may := func(a *tables.Attempt) bool { return s.Jobs[a.Job].Spec.Priority < limit || s.AllowsLazy(a) }
	if len(p.Victims) < 2 || s.manyBelow(r.Space, r.Priority, may) {
		return p
	}
	q := s.Preempting(r, cell.MinGuaranteed)
	holders := s.holdersBelow(r.Space, r.Priority, may)
	n, cost := s.price(&q, &p)
	if n < 2 {
		return p
	}
	if other, ok := s.PlanUnbinding(r, holders); ok {
		if m, c := s.price(&q, &other); m < n || m == n && c.Compare(cost) < 0 {
			return other
		}
	}
	return p
}
