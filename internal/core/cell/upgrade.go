package cell

import (
	"slices"

	"github.com/combsched/comb/internal/base/budget"
)

// aroundSteps bounds the ways to put preassigned cells around an allocation that are tried.
const aroundSteps = 256

// Upgradable reports whether a demoted allocation could be guaranteed again on the leaves that it
// holds, and in which preassigned cells: those of its VC that are bound around its leaves, and
// unbound ones that may safely be bound there, small ones first. The cluster is unchanged.
func (c *Cluster) Upgradable(id AllocID) ([]Bind, bool) {
	a := &c.allocs[id]
	if !a.Lazy || a.Space == 0 {
		return nil, false
	}
	return c.around(a.Space, &a.Placement)
}

// Regain finds preassigned cells of a VC around the leaves of tasks that were started with a
// guarantee and lost it to an older configuration: in the pinned cells that they asked for, or
// outside of all. None are needed where no leaf is left.
func (c *Cluster) Regain(vc int32, p *Placement, started []Started) ([]Bind, bool) {
	if !slices.ContainsFunc(p.Tasks, func(t Task) bool { return len(t.Leaves) > 0 }) {
		return nil, true
	}
	binds, ok := c.around(vc, p)
	if !ok || !(carrier{c}).inAskedPins(vc, p, started, binds) {
		return nil, false
	}
	return binds, true
}

// around finds preassigned cells of a VC around all leaves of a placement. It tries every way to
// bind unbound ones, with cells of the containers around the VC, until aroundSteps are used up.
// The cluster is unchanged.
func (c *Cluster) around(vc int32, pl *Placement) ([]Bind, bool) {
	s := surround{c: c, used: make([]bool, len(c.f.Chains))}
	s.add(vc, pl)
	if len(s.leaves) == 0 || !s.coverFrom(0) {
		return nil, false
	}
	return s.found[0], true
}

// surround is a search for preassigned cells around leaves, each in a cell of its own VC.
type surround struct {
	c          *Cluster
	spaces     []int32 // the VCs
	containers []int32 // by leaf: its VC
	leaves     []LeafID
	of         []int32  // by leaf, the VC
	sound      []bool   // by container of the line and chain: sound before the search
	used       []bool   // by chain: something was bound in it
	binds      []Bind   // of the VCs, so far, each with its space
	found      [][]Bind // by VC
	steps      int
	failed     bool              // a binding was tried that led nowhere
	tried      budget.SeenStates // states that were reached since
}

// add says that cells of a VC must stand around a placement.
func (s *surround) add(vc int32, pl *Placement) {
	if !slices.Contains(s.spaces, vc) {
		s.spaces = append(s.spaces, vc)
		for _, up := range (carrier{s.c}).scopes(vc) {
			if slices.Contains(s.containers, up) {
				continue
			}
			s.containers = append(s.containers, up)
			for ci := range s.c.f.Chains {
				s.sound = append(s.sound, s.c.shortLevel(up, int16(ci)) == 0)
			}
		}
	}
	for _, t := range pl.Tasks {
		for _, l := range t.Leaves {
			s.leaves, s.of = append(s.leaves, l), append(s.of, vc)
		}
	}
}

// coverFrom covers the leaves from the i-th on. What it bound is unbound again.
func (s *surround) coverFrom(i int) bool {
	if i == len(s.leaves) {
		return s.judge()
	}
	c, leaf, vc := s.c, s.c.f.Leaves[s.leaves[i]], s.of[i]
	switch ref := c.rootOver(leaf); {
	case ref.space != None && ref.space != vc:
		return false
	case ref.space == vc && s.uses(ref.root, vc):
		return s.coverFrom(i + 1)
	case ref.space == vc:
		return s.with(i, Bind{Space: vc, Root: ref.root, Cell: c.spaces[vc].Roots[ref.root].Cell})
	}
	if s.failed && !s.tried.Add(s.state(i)) {
		return false
	}
	for id := leaf; id != None; id = c.f.parent[id] {
		list := c.spaces[vc].unbound[c.slotOf(id)]
		if len(list) == 0 {
			continue
		}
		for _, outer := range c.openings(c.spaces[vc].Parent, id) {
			if s.steps++; s.steps > aroundSteps {
				return false
			}
			if s.bound(i, append(slices.Clip(outer), Bind{Space: vc, Root: list[len(list)-1], Cell: id})) {
				return true
			}
			s.failed = true
		}
	}
	return false
}

// uses reports whether a root of a VC was chosen.
func (s *surround) uses(root RootID, vc int32) bool {
	return slices.ContainsFunc(s.binds, func(b Bind) bool { return b.Root == root && b.Space == vc })
}

// bound goes on with more bindings, the outermost first; the last is a VC's. A container that
// owes more than it has will do so however the search goes on: that is checked at once. Whether
// healthy cells suffice is judged at the end, since on the way there may be fewer.
func (s *surround) bound(i int, binds []Bind) bool {
	c, last := s.c, binds[len(binds)-1]
	ci := c.f.Cells[last.Cell].Chain
	n := 0
	for n < len(binds) && c.rebind(binds[n].Space, binds[n].Root, binds[n].Cell) {
		n++
	}
	ok := n == len(binds)
	for _, up := range s.containers {
		ok = ok && c.safe(up, ci)
	}
	if ok {
		s.used[ci] = true
		ok = s.with(i, last)
	}
	for n--; n >= 0; n-- {
		// Else it went with what lay in it.
		if b := binds[n]; c.spaces[b.Space].Roots[b.Root].Cell == b.Cell {
			c.unbind(b.Space, b.Root)
		}
	}
	return ok
}

func (s *surround) with(i int, b Bind) bool {
	s.binds = append(s.binds, b)
	ok := s.coverFrom(i + 1)
	s.binds = s.binds[:len(s.binds)-1]
	return ok
}

// state is all that the search reads from the i-th leaf on: what could be bound, what the
// containers have and owe, and in which free cells the leaves lie.
func (s *surround) state(i int) []int32 {
	c, out := s.c, []int32{int32(i)}
	for _, vc := range s.spaces {
		for _, list := range c.spaces[vc].unbound {
			out = append(out, int32(len(list)))
		}
	}
	for _, up := range s.containers {
		in := &c.spaces[up]
		for slot := range in.unbound {
			out = append(out, int32(len(in.unbound[slot])), int32(len(in.free[slot])), in.badFree[slot])
		}
	}
	for k := i; k < len(s.leaves); k++ {
		leaf := c.f.Leaves[s.leaves[k]]
		if c.rootOver(leaf).space == s.of[k] {
			out = append(out, covered)
			continue
		}
		for _, up := range s.containers {
			out = append(out, int32(c.freeAbove(up, leaf)))
		}
	}
	return out
}

// covered stands for a leaf that lies in a cell of its VC; no cell has that number.
const covered = None - 1

// judge accepts the bindings unless a container lacks healthy cells now that had enough before
// the search.
func (s *surround) judge() bool {
	for ci := range s.used {
		for i, up := range s.containers {
			if s.used[ci] && s.sound[i*len(s.used)+ci] && s.c.shortLevel(up, int16(ci)) != 0 {
				return false
			}
		}
	}
	for _, vc := range s.spaces {
		var own []Bind
		for _, b := range s.binds {
			if b.Space == vc {
				own = append(own, Bind{Root: b.Root, Cell: b.Cell})
			}
		}
		slices.SortFunc(own, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
		s.found = append(s.found, s.c.withOuter(vc, own))
	}
	return true
}
