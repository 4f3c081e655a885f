package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// walkOpportunistic gives free leaves to opportunistic gangs: one at a time to
// the VC that borrows least, ties by name. Nobody blocks anybody.
func (s *pass) walkOpportunistic() {
	s.lend(false)
	if s.partials > 0 {
		s.lend(true)
	}
}

// lend is the walk of the full gangs, or of the members above a minimum.
func (s *pass) lend(extras bool) {
	if extras && s.partials == 0 {
		return
	}
	waits := s.opportunistic(extras)
	if waits == nil {
		return
	}
	borrowed := s.borrowed()
	failed := s.failedShapes()
	for {
		space, e := 0, queued{}
		for i := 1; i < len(waits); i++ {
			if space > 0 && borrowed[i] >= borrowed[space] {
				continue
			}
			if f, ok := waits[i].first(failed[i]); ok {
				space, e = i, f
			}
		}
		rest := s.cl.Rest()
		if space == 0 || rest == 0 {
			return
		}
		if s.jobs[e.slot].gangs[e.gang].leaves > rest {
			waits[space].pass()
		} else if s.grantOpportunistic(e, failed[space]) {
			borrowed[space] = s.loan(int32(space))
		} else {
			waits[space].next()
		}
	}
}

// opportunistic returns, by space, who waits for free leaves: full gangs, or members above a
// minimum; nil when nobody does for whom there could be enough. What it returns stands in the
// memory of the next call.
func (s *pass) opportunistic(extras bool) []merge {
	for len(s.mem.waits) < len(s.queues) {
		s.mem.waits = append(s.mem.waits, merge{})
	}
	some, out := false, s.mem.waits[:len(s.queues)]
	rest := s.cl.Rest()
	for space := 1; space < len(s.queues); space++ {
		out[space].heads = out[space].heads[:0]
		if u := s.lineup(int32(space), cell.Opportunistic); u != nil {
			m := merge{s: &s.index, space: int32(space), prio: cell.Opportunistic, heads: out[space].heads}
			_, m.alone = s.pol[space].(Dedicator)
			for i := range u.lines {
				if l := &u.lines[i]; l.extra == extras && len(l.gangs) > 0 && (l.shape == "" || l.leaves <= rest) {
					m.add(i, l)
				}
			}
			if len(m.heads) == 0 {
				continue
			}
			m.order()
			out[space] = m
			some = true
		}
	}
	if !some {
		return nil
	}
	return out
}

// borrowed returns the loans of all VCs, by space.
func (s *pass) borrowed() []int64 {
	n := make([]int64, len(s.queues))
	for i := 1; i < len(n); i++ {
		n[i] = s.loan(int32(i))
	}
	return n
}

// loan is by what VCs are compared: the leaves that one uses opportunistically, for each unit of
// its weight, or with a half-life what it owes for that and earlier use.
func (s *pass) loan(space int32) int64 {
	if s.cfg.HalfLife > 0 {
		return s.owes(space)
	}
	return s.tallies[space].borrowed << meanBits / s.weight(space)
}

// grantOpportunistic places one gang on free leaves, if it can.
func (s *pass) grantOpportunistic(e queued, failed map[string]bool) bool {
	defer s.blaming(e.job)
	j := &s.jobs[e.slot]
	g := &j.gangs[e.gang]
	if !s.eligible(j, e.gang) || failed[g.shape.text] || s.alone(j) && failed[g.shape.text+aloneToo] {
		return false
	}
	if s.extra(e) && !s.extraEligible(j) {
		return false
	}
	if e.gang == 0 && s.placeWhole(want{j: j}) {
		return true
	}
	p, ok := s.plan(want{j: j, g: e.gang})
	if !ok {
		if key := g.shape.text; s.alone(j) {
			failed[key+aloneToo] = !g.avoids() // in other VCs the shape may share nodes
		} else {
			failed[key] = !g.avoids()
		}
		return false
	}
	s.carryOut(want{j: j, g: e.gang}, p)
	return true
}

// failedShapes are the shapes that found nothing, by space: one set for all VCs, unless one lends
// nothing. Then what fits hangs on the VC.
func (s *pass) failedShapes() []map[string]bool {
	if s.mem.failed == nil {
		s.mem.failed = map[string]bool{}
	}
	clear(s.mem.failed)
	out := slices.Repeat([]map[string]bool{s.mem.failed}, len(s.queues))
	for i := 1; i < len(out) && !s.allLend(); i++ {
		out[i] = map[string]bool{}
	}
	return out
}

// recallLent stops opportunistic work of other VCs on what a VC that lends nothing could claim.
func (s *pass) recallLent() {
	if s.allLend() || s.cl.Loose() == 0 {
		return
	}
	for _, c := range s.unlent() {
		for l := range c.leaves.All() {
			id, _ := s.cl.Holder(l)
			if id == cell.None || !s.cl.Alloc(id).Opportunistic() || s.cl.Alloc(id).Space == c.space {
				continue
			}
			if a := s.holder(id); a.since > s.through { // it has just become opportunistic
				s.grew.all = true
			} else if s.steady(a) {
				for _, m := range s.membersOf(id) {
					s.stopFor(m, model.EndPreempted, nil, s.cl.Space(c.space).Name)
				}
			}
		}
	}
}
