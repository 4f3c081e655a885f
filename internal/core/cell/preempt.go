package cell

import (
	"cmp"
	"slices"
)

// packPreempting places all tasks of a part with victims: each task goes where it needs the fewest
// new ones, then the least cost.
func (s *search) packPreempting(bins []bin, p *part) bool {
	if len(bins) == 1 {
		return s.packPreemptingIn(&bins[0], p)
	}
	start := s.mark()
	slices.SortStableFunc(bins, func(a, b bin) int { return cmp.Compare(b.idle, a.idle) })
	var options []option
	size := int32(0)
	for i, t := range p.tasks {
		if t.leaves != size {
			size = t.leaves
			options = s.options(bins, t.leaves, len(p.tasks))
		}
		if len(options) == 0 {
			s.rewind(start)
			return false
		}
		o := options[0]
		apart := false
		victims, _ := s.victimsIn(&bins[o.bin], size)
		for _, v := range victims {
			apart = apart || s.reaches(v.alloc, bins[o.bin].cell)
			s.addVictim(v.alloc)
		}
		s.take(t.index, s.pick(&bins[o.bin], t.leaves))
		if apart && !s.spent() { // a victim's leaves elsewhere became free; else the order is as it was
			options = s.options(bins, size, len(p.tasks))
			continue
		}
		if i == len(p.tasks)-1 {
			break
		}
		options = options[1:]
		if again, ok := s.option(&bins[o.bin], size); ok {
			again.bin = o.bin
			i, _ := slices.BinarySearchFunc(options, again, option.order)
			options = slices.Insert(options, i, again)
		}
	}
	return true
}

// packPreemptingIn is packPreempting where there is one bin, and so no choice.
func (s *search) packPreemptingIn(b *bin, p *part) bool {
	start := s.mark()
	for _, t := range p.tasks {
		victims, ok := s.victimsIn(b, t.leaves)
		if !ok {
			s.rewind(start)
			return false
		}
		for _, v := range victims {
			s.addVictim(v.alloc)
		}
		s.take(t.index, s.pick(b, t.leaves))
	}
	return true
}

// options returns what n leaves would cost in each bin, the cheapest first.
func (s *search) options(bins []bin, n int32, tasks int) []option {
	var out []option
	for i := range bins {
		o, ok := s.option(&bins[i], n)
		if !ok {
			continue
		}
		o.bin = i
		if out = append(out, o); len(out) >= maxOptions+2*tasks {
			s.reached |= boundVictimBins
			break
		}
	}
	slices.SortFunc(out, option.order)
	return out
}

// reaches reports whether an allocation has leaves outside of a node.
func (s *search) reaches(id AllocID, node CellID) bool {
	for _, t := range s.c.allocs[id].Placement.Tasks {
		if len(t.Leaves) > 0 && !s.c.f.Contains(node, s.c.f.Leaves[t.Leaves[0]]) {
			return true
		}
	}
	return false
}

// preemptPerBin packs a part as if all that may be preempted had left, and then looks for the
// fewest victims in each bin. It is the last resort: it serves if placing task by task, each in its
// cheapest bin, left no room for the rest.
func (s *search) preemptPerBin(bins []bin, p *part) bool {
	assign, _, _, ok := s.chooseAny(bins, p)
	if !ok {
		return false
	}
	need := make([]int32, len(bins))
	for i, t := range p.tasks {
		need[assign[i]] += t.leaves
	}
	start := s.mark()
	for i, n := range need {
		if n == 0 {
			continue
		}
		victims, ok := s.victimsIn(&bins[i], n)
		if !ok {
			s.rewind(start)
			return false
		}
		for _, v := range victims {
			s.addVictim(v.alloc)
		}
	}
	s.assign(bins, assign, p)
	return true
}

// chooseAny is choose without looking for a common ancestor inside a node, which depends on the
// victims.
func (s *search) chooseAny(bins []bin, p *part) ([]int, int, Level, bool) {
	for i := range bins {
		if bins[i].avail >= p.total {
			return slices.Repeat([]int{i}, len(p.tasks)), 1, 0, true
		}
	}
	return s.choose(bins, p)
}

// option is what placing one task in one bin would cost.
type option struct {
	n    int // victims
	cost Cost
	bin  int
}

func (a option) compare(b option) int {
	if a.n != b.n {
		return cmp.Compare(a.n, b.n)
	}
	return a.cost.Compare(b.cost)
}

func (a option) order(b option) int { return cmp.Or(a.compare(b), cmp.Compare(a.bin, b.bin)) }

// option finds what making n leaves of a bin free costs.
func (s *search) option(b *bin, n int32) (option, bool) {
	s.c.work.Step(1)
	chosen, ok := s.victimsIn(b, n)
	o := option{n: len(chosen)}
	for i := range chosen {
		o.cost = o.cost.Plus(chosen[i].cost)
	}
	return o, ok
}

// victimsIn finds the victims that make n leaves of a bin free: those with most leaves there
// first (fewest victims), then those of the least cost. Then those that became superfluous stay,
// the dearest first. What it returns is scratch memory, good until the next call.
func (s *search) victimsIn(b *bin, n int32) ([]holder, bool) {
	free, holders := s.holders(b)
	if free >= n {
		return nil, true
	}
	slices.SortStableFunc(holders, func(a, b holder) int {
		return cmp.Or(cmp.Compare(min(b.leaves, n-free), min(a.leaves, n-free)), a.cost.Compare(b.cost))
	})
	k := 0
	for ; k < len(holders) && free < n; k++ {
		free += holders[k].leaves
	}
	if free < n {
		return nil, false
	}
	chosen := holders[:k]
	slices.SortStableFunc(chosen, func(a, b holder) int { return b.cost.Compare(a.cost) })
	kept := chosen[:0]
	for _, h := range chosen {
		if free-h.leaves >= n {
			free -= h.leaves
			continue
		}
		kept = append(kept, h)
	}
	return kept, true
}

func (s *search) holders(b *bin) (free int32, hs []holder) {
	hs = s.t.holders[:0]
	if b.parts == nil {
		free, hs = s.holdersIn(hs, b.cell)
	}
	for _, p := range b.parts {
		more, with := s.holdersIn(hs, p)
		free, hs = free+more, with
	}
	s.t.holders = hs
	return free, hs
}

func (s *search) holdersIn(hs []holder, id CellID) (free int32, out []holder) {
	first := s.c.f.Cells[id].FirstLeaf
	end := first + LeafID(s.c.f.NumLeaves(id))
	for l := first; l < end; l++ {
		switch s.leaf(l) {
		case leafFree:
			free++
		case leafPreemptible:
			a := s.c.leaves[l].holder
			i := slices.IndexFunc(hs, func(h holder) bool { return h.alloc == a })
			if i < 0 {
				i = len(hs)
				hs = append(hs, holder{alloc: a, cost: s.r.cost(a)})
			}
			hs[i].leaves++
		}
	}
	return free, hs
}

func (r *Request) cost(a AllocID) Cost {
	if r.Cost == nil {
		return Cost{}
	}
	return r.Cost(a)
}
