package sched

import (
	"math/bits"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Holders of a VC may be in the way by the cells that are bound for them, and not by their leaves:
// whoever is to have these cells elsewhere makes them give up their guarantee.

const (
	// maxCleared is how many holders a VC may have at most that planClearing looks at.
	maxCleared = 1024
	// maxChosen is up to how many choices of them are tried, the smallest first.
	maxChosen = 12
	// maxChoices is how many choices are tried at most: each places the gang anew, in the loop
	// that decides for everybody.
	maxChoices = 48
)

// anyBelow are the holders of a VC below a priority, whether their jobs allow lazy preemption or
// not.
func (s *finder) anyBelow(space int32, prio cell.Priority) []cell.AllocID {
	return s.holdersBelow(space, prio, func(*attempt) bool { return true })
}

// manyBelow reports whether they are too many to try every choice: it costs little to know.
func (s *finder) manyBelow(space int32, prio cell.Priority, serves func(*attempt) bool) bool {
	n := 0
	for _, i := range s.holders[space] {
		if s.holds(&s.attempts[i], prio) && serves(&s.attempts[i]) {
			if n++; n > maxChosen {
				return true
			}
		}
	}
	return false
}

// planClearing makes holders of the VC give up their guarantee, whether their jobs allow that or
// not, and stops those that do not: their cells may be bound where the gang can use them. By
// their leaves alone it would have found room before: it may run on other nodes only, or needs
// larger cells than theirs are. Of few holders it finds those with whom fewest are stopped.
func (s *finder) planClearing(r cell.Request, holders []cell.AllocID) (plan, bool) {
	if len(holders) > maxCleared {
		return plan{}, false
	}
	q := s.lifting(r, cell.MinGuaranteed)
	done, res, ok := s.cl.ClearedFits(&q, holders, s.tied)
	if !ok {
		return plan{}, false
	}
	best := s.clearing(s.withAbove(done), res)
	if len(holders) > maxChosen {
		return best, true
	}
	return s.fewerStopped(&q, holders, best), true
}

// fewerStopped looks for a choice of holders with which fewer are stopped than in a plan, or at
// less cost: small choices first, and maxChoices at most.
func (s *finder) fewerStopped(q *cell.Request, holders []cell.AllocID, best plan) plan {
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
			if left == 0 || s.cl.Work().Over() {
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
func (s *finder) alongWith(holders []cell.AllocID) []uint {
	with := make([]uint, len(holders))
	for i, id := range holders {
		if to := slices.Index(holders, s.tied(id)); to >= 0 {
			with[to] |= 1 << i
		}
	}
	return with
}

// planChoice places a gang after one choice of holders gave up their guarantee.
func (s *finder) planChoice(q *cell.Request, holders []cell.AllocID, set uint) (plan, bool) {
	var ids []cell.AllocID
	for i, id := range holders {
		if set>>i&1 != 0 {
			ids = append(ids, id)
		}
	}
	ids = s.withAbove(ids)
	try := *q
	try.Cost = func(id cell.AllocID) cell.Cost {
		if slices.Contains(ids, id) && !s.willing(s.holder(id)) {
			return cell.Cost{} // it stops anyway
		}
		return q.Cost(id)
	}
	back := s.cl.Demoted(ids)
	res, ok := s.cl.Place(&try)
	back()
	if !ok {
		return plan{}, false
	}
	return s.clearing(ids, res), true
}

// tied is the allocation of a minimum with which that of a member above it gives up its guarantee.
func (s *finder) tied(id cell.AllocID) cell.AllocID {
	a := s.holder(id)
	if !s.isExtra(a) {
		return cell.None
	}
	if at := s.jobs[a.job].gangs[0].attempt; at != none {
		return s.attempts[at].alloc
	}
	return cell.None
}

// withAbove puts before each minimum the members above it that run and are not there, since they
// give up their guarantee with it.
func (s *finder) withAbove(ids []cell.AllocID) []cell.AllocID {
	if s.partials == 0 {
		return ids
	}
	var out []cell.AllocID
	for _, id := range ids {
		a := s.holder(id)
		j := &s.jobs[a.job]
		for g := 1; !s.isExtra(a) && j.spec.Partial() && g < len(j.gangs); g++ {
			if at := j.gangs[g].attempt; at != none && s.holds(&s.attempts[at], j.spec.Priority+1) && !slices.Contains(ids, s.attempts[at].alloc) {
				out = append(out, s.attempts[at].alloc)
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
func (s *finder) unwilling(holders []cell.AllocID, set uint) int {
	n := 0
	for i, id := range holders {
		if set>>i&1 != 0 && !s.willing(s.holder(id)) {
			n++
		}
	}
	return n
}

// clearing is the plan in which some holders gave up their guarantee.
func (s *finder) clearing(done []cell.AllocID, res cell.Result) plan {
	p := plan{placement: res.Placement, victims: res.Victims}
	for _, id := range done {
		if s.willing(s.holder(id)) && !slices.Contains(res.Victims, id) {
			p.lazies = append(p.lazies, id)
		} else {
			p.cleared = append(p.cleared, id)
		}
	}
	return p
}

// price is how many a plan stops who would have stayed, and what that costs.
func (s *finder) price(q *cell.Request, p *plan) (n int, cost cell.Cost) {
	stopped := slices.Concat(p.victims, p.cleared)
	slices.Sort(stopped)
	for _, id := range slices.Compact(stopped) {
		if s.steady(s.holder(id)) {
			n, cost = n+1, cost.Plus(q.Cost(id))
		}
	}
	return n, cost
}

// orClearing is a plan that stops full gangs below a limit, or one in which fewer are: the victims
// need not lie where the gang then goes, and who may become opportunistic need not stop.
func (s *finder) orClearing(r cell.Request, limit cell.Priority, p plan) plan {
	may := func(a *attempt) bool { return s.jobs[a.job].spec.Priority < limit || s.willing(a) }
	if len(p.victims) < 2 || s.manyBelow(r.Space, r.Priority, may) {
		return p
	}
	q := s.lifting(r, cell.MinGuaranteed)
	holders := s.holdersBelow(r.Space, r.Priority, may)
	n, cost := s.price(&q, &p)
	if n < 2 {
		return p
	}
	if other, ok := s.planClearing(r, holders); ok {
		if m, c := s.price(&q, &other); m < n || m == n && c.Compare(cost) < 0 {
			return other
		}
	}
	return p
}
