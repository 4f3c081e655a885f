package place

import (
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// Holders of a VC may be in the way by the cells that are bound for them, and not by their leaves:
// whoever is to have these cells elsewhere makes them give up their guarantee.

const (
	// MaxCleared is how many holders a VC may have at most that planClearing looks at.
	MaxCleared = 1024
	// maxChosen is up to how many choices of them are tried, the smallest first.
	maxChosen = 12
	// maxChoices is how many choices are tried at most: each places the gang anew, in the loop
	// that decides for everybody.
	maxChoices = 48
)

// AnyBelow are the holders of a VC below a priority, whether their jobs allow lazy preemption or
// not.
func (s *Finder) AnyBelow(space int32, prio cell.Priority) []cell.AllocID {
	return s.holdersBelow(space, prio, func(*tables.Attempt) bool { return true })
}

// manyBelow reports whether they are too many to try every choice: it costs little to know.
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

// PlanClearing makes holders of the VC give up their guarantee, whether their jobs allow that or
// not, and stops those that do not: their cells may be bound where the gang can use them. By
// their leaves alone it would have found room before: it may run on other nodes only, or needs
// larger cells than theirs are. Of few holders it finds those with whom fewest are stopped.
func (s *Finder) PlanClearing(r cell.Request, holders []cell.AllocID) (Plan, bool) {
	if len(holders) > MaxCleared {
		return Plan{}, false
	}
	q := s.Lifting(r, cell.MinGuaranteed)
	done, res, ok := s.Cluster.ClearedFits(&q, holders, s.Tied)
	if !ok {
		return Plan{}, false
	}
	best := s.clearing(s.withAbove(done), res)
	if len(holders) > maxChosen {
		return best, true
	}
	return s.fewerStopped(&q, holders, best), true
}

// fewerStopped looks for a choice of holders with which fewer are stopped than in a plan, or at
// less cost: small choices first, and maxChoices at most.
func (s *Finder) fewerStopped(q *cell.Request, holders []cell.AllocID, best Plan) Plan {
	n, cost := s.price(q, &best)
	with := s.alongWith(holders)
	left := maxChoices
	for size := range len(holders) + 1 {
		if n <= 1 && size > 0 {
			break // a choice that stops none was found before
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

// alongWith is, for each holder, the set of those with which it gives up its guarantee.
func (s *Finder) alongWith(holders []cell.AllocID) []uint {
	with := make([]uint, len(holders))
	for i, id := range holders {
		if to := slices.Index(holders, s.Tied(id)); to >= 0 {
			with[to] |= 1 << i
		}
	}
	return with
}

// planChoice places a gang after one choice of holders gave up their guarantee.
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
		if slices.Contains(ids, id) && !s.Willing(s.Holder(id)) {
			return cell.Cost{} // it stops anyway
		}
		return q.Cost(id)
	}
	back := s.Cluster.Demoted(ids)
	res, ok := s.Cluster.Place(&try)
	back()
	if !ok {
		return Plan{}, false
	}
	return s.clearing(ids, res), true
}

// Tied is the allocation of a minimum with which that of a member above it gives up its guarantee.
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

// withAbove puts before each minimum the members above it that run and are not there, since they
// give up their guarantee with it.
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

// closed reports whether a choice of holders has those with whom each gives up its guarantee.
func closed(set uint, with []uint) bool {
	for i, also := range with {
		if set>>i&1 != 0 && also&^set != 0 {
			return false
		}
	}
	return true
}

// unwilling counts those of a choice of holders who are stopped when they give up their guarantee.
func (s *Finder) unwilling(holders []cell.AllocID, set uint) int {
	n := 0
	for i, id := range holders {
		if set>>i&1 != 0 && !s.Willing(s.Holder(id)) {
			n++
		}
	}
	return n
}

// clearing is the plan in which some holders gave up their guarantee.
func (s *Finder) clearing(done []cell.AllocID, res cell.Result) Plan {
	p := Plan{Placement: res.Placement, Victims: res.Victims}
	for _, id := range done {
		if s.Willing(s.Holder(id)) && !slices.Contains(res.Victims, id) {
			p.Lazies = append(p.Lazies, id)
		} else {
			p.Cleared = append(p.Cleared, id)
		}
	}
	return p
}

// price is how many a plan stops who would have stayed, and what that costs.
func (s *Finder) price(q *cell.Request, p *Plan) (n int, cost cell.Cost) {
	stopped := slices.Concat(p.Victims, p.Cleared)
	slices.Sort(stopped)
	for _, id := range slices.Compact(stopped) {
		if s.Steady(s.Holder(id)) {
			n, cost = n+1, cost.Plus(q.Cost(id))
		}
	}
	return n, cost
}

// orClearing is a plan that stops full gangs below a limit, or one in which fewer are: the victims
// need not lie where the gang then goes, and who may become opportunistic need not stop.
func (s *Finder) orClearing(r cell.Request, limit cell.Priority, p Plan) Plan {
	may := func(a *tables.Attempt) bool { return s.Jobs[a.Job].Spec.Priority < limit || s.Willing(a) }
	if len(p.Victims) < 2 || s.manyBelow(r.Space, r.Priority, may) {
		return p
	}
	q := s.Lifting(r, cell.MinGuaranteed)
	holders := s.holdersBelow(r.Space, r.Priority, may)
	n, cost := s.price(&q, &p)
	if n < 2 {
		return p
	}
	if other, ok := s.PlanClearing(r, holders); ok {
		if m, c := s.price(&q, &other); m < n || m == n && c.Compare(cost) < 0 {
			return other
		}
	}
	return p
}
