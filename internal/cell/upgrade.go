package cell

import "slices"

// aroundSteps bounds how many ways to put preassigned cells around an allocation
// are tried.
const aroundSteps = 256

// Upgradable says whether an allocation that became opportunistic could be
// guaranteed again on the leaves that it holds, and in which preassigned cells:
// those of its VC that are bound around its leaves, and unbound ones that may
// safely be bound there, small ones first. The cluster is unchanged.
func (c *Cluster) Upgradable(id AllocID) ([]Bind, bool) {
	a := &c.allocs[id]
	if !a.Lazy || a.Space == 0 {
		return nil, false
	}
	s := surround{c: c, space: a.Space, sound: make([]bool, len(c.f.Chains)), used: make([]bool, len(c.f.Chains))}
	for ci := range c.f.Chains {
		s.sound[ci] = c.allSound(int16(ci))
	}
	for _, t := range a.Placement.Tasks {
		s.leaves = append(s.leaves, t.Leaves...)
	}
	if len(s.leaves) == 0 || !s.from(0) {
		return nil, false
	}
	return s.found, true
}

// surround is a search for preassigned cells around leaves.
type surround struct {
	c      *Cluster
	space  int32
	leaves []LeafID
	sound  []bool // by chain: before the search
	used   []bool // by chain: something was bound in it
	binds  []Bind // so far
	found  []Bind
	steps  int
}

// from covers the leaves from the i-th on; what it bound is unbound again. The
// bindings are judged together, since on the way to a safe state there may be
// others.
func (s *surround) from(i int) bool {
	if i == len(s.leaves) {
		return s.judge()
	}
	leaf := s.c.f.Leaves[s.leaves[i]]
	if slices.ContainsFunc(s.binds, func(b Bind) bool { return s.c.f.Contains(b.Cell, leaf) }) {
		return s.from(i + 1)
	}
	if ref := s.c.rootOver(leaf); ref.space != None {
		if ref.space != s.space {
			return false
		}
		return s.with(i, Bind{Root: ref.root, Cell: s.c.spaces[ref.space].Roots[ref.root].Cell})
	}
	for id := leaf; id != None; id = s.c.f.parent[id] {
		list := s.c.spaces[s.space].unbound[s.c.slotOf(id)]
		if s.steps++; len(list) == 0 || s.steps > aroundSteps {
			continue
		}
		root := list[len(list)-1]
		if !s.c.rebind(s.space, root, id) {
			continue
		}
		s.used[s.c.f.Cells[id].Chain] = true
		ok := s.with(i, Bind{Root: root, Cell: id})
		s.c.unbind(s.space, root)
		if ok {
			return true
		}
	}
	return false
}

func (s *surround) with(i int, b Bind) bool {
	s.binds = append(s.binds, b)
	ok := s.from(i + 1)
	s.binds = s.binds[:len(s.binds)-1]
	return ok
}

func (s *surround) judge() bool {
	for ci := range s.used {
		if s.used[ci] && (!s.c.allSafe(int16(ci)) || s.sound[ci] && !s.c.allSound(int16(ci))) {
			return false
		}
	}
	s.found = slices.Clone(s.binds)
	slices.SortFunc(s.found, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
	s.found = s.c.withOuter(s.space, s.found)
	return true
}

func (c *Cluster) allSafe(chain int16) bool {
	for si := range c.spaces {
		if c.spaces[si].free != nil && !c.safe(int32(si), chain) {
			return false
		}
	}
	return true
}

func (c *Cluster) allSound(chain int16) bool {
	for si := range c.spaces {
		if c.spaces[si].free != nil && c.sound(int32(si), chain) != 0 {
			return false
		}
	}
	return true
}
