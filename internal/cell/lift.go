package cell

import (
	"cmp"
	"slices"
)

// packLifting places all tasks of a part with holders that may be made to leave:
// each task goes where it needs the fewest new victims, then the least loss.
func (s *search) packLifting(bins []bin, p *part) bool {
	start := s.mark()
	for _, t := range p.tasks {
		best, found := -1, option{}
		for i := range bins {
			o, ok := s.option(bins[i].cell, t.leaves)
			if ok && (best < 0 || o.compare(found) < 0) {
				best, found = i, o
			}
			if best >= 0 && len(found.victims) == 0 {
				break
			}
		}
		if best < 0 {
			s.rewind(start)
			return false
		}
		for _, v := range found.victims {
			s.victims[v] = true
		}
		s.take(t.index, s.pick(bins[best].cell, t.leaves))
	}
	return true
}

// liftWhole packs a part as if all that may leave had left, and then asks each
// bin for the fewest victims: the last resort when going from task to task, each
// to its cheapest bin, left no room for the rest.
func (s *search) liftWhole(bins []bin, p *part) bool {
	assign, ok := s.choose(bins, p)
	if !ok {
		return false
	}
	need := make([]int32, len(bins))
	for i, t := range p.tasks {
		need[assign[i]] += t.leaves
	}
	start := s.mark()
	for i, n := range need {
		o, ok := s.option(bins[i].cell, n)
		if !ok {
			s.rewind(start)
			return false
		}
		for _, v := range o.victims {
			s.victims[v] = true
		}
	}
	for i, t := range p.tasks {
		s.take(t.index, s.pick(bins[assign[i]].cell, t.leaves))
	}
	return true
}

// option is what placing one task in one bin would cost.
type option struct {
	victims []AllocID
	cost    Cost
}

func (a option) compare(b option) int {
	return cmp.Or(cmp.Compare(len(a.victims), len(b.victims)), a.cost.compare(b.cost))
}

// option finds the victims that make n leaves free in a cell: those with most
// leaves there first (fewest victims), then the least loss; then whom that made
// superfluous stays, the greatest loss first.
func (s *search) option(id CellID, n int32) (option, bool) {
	free, holders := s.holders(id)
	if free >= n {
		return option{}, true
	}
	slices.SortStableFunc(holders, func(a, b holder) int {
		return cmp.Or(cmp.Compare(min(b.leaves, n-free), min(a.leaves, n-free)), a.cost.compare(b.cost))
	})
	var chosen []holder
	for _, h := range holders {
		if free >= n {
			break
		}
		chosen = append(chosen, h)
		free += h.leaves
	}
	if free < n {
		return option{}, false
	}
	slices.SortStableFunc(chosen, func(a, b holder) int { return b.cost.compare(a.cost) })
	var o option
	for _, h := range chosen {
		if free-h.leaves >= n {
			free -= h.leaves
			continue
		}
		o.victims = append(o.victims, h.alloc)
		o.cost = o.cost.plus(h.cost)
	}
	return o, true
}

// holder is an allocation that may be lifted, with its leaves in one bin.
type holder struct {
	alloc  AllocID
	leaves int32
	cost   Cost
}

func (s *search) holders(id CellID) (free int32, hs []holder) {
	first := s.c.f.Cells[id].FirstLeaf
	for l := first; l < first+LeafID(s.c.f.NumLeaves(id)); l++ {
		switch s.leaf(l) {
		case leafFree:
			free++
		case leafLiftable:
			a := s.c.hold[l]
			i := slices.IndexFunc(hs, func(h holder) bool { return h.alloc == a })
			if i < 0 {
				i = len(hs)
				hs = append(hs, holder{alloc: a})
				hs[i].cost = s.r.cost(a)
			}
			hs[i].leaves++
		}
	}
	return free, hs
}

// Trim makes a result irredundant: it drops victims, the dearest first, as long
// as the gang still fits without lifting them. Beyond `most` victims only the
// first `most` are tried.
func (c *Cluster) Trim(r *Request, res Result, most int) Result {
	order := slices.Clone(res.Victims)
	slices.SortStableFunc(order, func(a, b AllocID) int { return r.cost(b).compare(r.cost(a)) })
	for i, v := range order {
		if i >= most {
			break
		}
		if !slices.Contains(res.Victims, v) || c.allocs[v].mood == Leaving {
			continue
		}
		keep := res.Victims
		q := *r
		q.Lift = &Lift{Also: func(a AllocID) bool { return a != v && slices.Contains(keep, a) }}
		if less, ok := c.Place(&q); ok {
			res = less
		}
	}
	return res
}

func (r *Request) cost(a AllocID) Cost {
	if r.Cost == nil {
		return Cost{}
	}
	return r.Cost(a)
}
