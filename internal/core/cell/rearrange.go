package cell

import "slices"

// When several allocations are carried over, each takes the cells that are best for it alone.
// These may be the only ones that serve a later one: of its VC, of one inside the same container,
// or of any VC, since all are bound within the physical cluster.

// Scopes returns the spaces within which allocations may be given other cells for the sake of a
// VC: its own, then the containers that it is part of, the innermost first. The last is the
// physical cluster.
func (c *Cluster) Scopes(vc int32) []int32 {
	return append([]int32{vc}, carrier{c}.scopes(vc)...)
}

// scopes returns the containers that a VC is part of, the innermost first.
func (c carrier) scopes(vc int32) []int32 {
	var out []int32
	for up := c.spaces[vc].Parent; up != None; up = c.spaces[up].Parent {
		out = append(out, up)
	}
	return out
}

// Rivals returns those of some guaranteed allocations that may be given other cells within a
// scope, for the sake of a placement. Their VCs are part of the scope and have a choice, and they
// hold leaves of the placement's chains. There is no choice if a VC, and each container that it
// is part of, have cells of one level only: then only one cell can stand around a leaf.
func (c *Cluster) Rivals(scope int32, kept []AllocID, p *Placement) []AllocID {
	chains := carrier{c}.chainsOf(p)
	may := map[int32]bool{} // by VC; looked up only
	var out []AllocID
	for _, id := range kept {
		a := &c.allocs[id]
		if _, known := may[a.Space]; !known {
			may[a.Space] = slices.Contains(c.Scopes(a.Space), scope) && carrier{c}.choice(a.Space, chains)
		}
		if may[a.Space] && slices.ContainsFunc((carrier{c}).chainsOf(&a.Placement), func(ci int16) bool { return slices.Contains(chains, ci) }) {
			out = append(out, id)
		}
	}
	return out
}

// chainsOf returns the chains that a placement has leaves in.
func (c carrier) chainsOf(p *Placement) []int16 {
	var out []int16
	for _, t := range p.Tasks {
		for _, l := range t.Leaves {
			if ci := c.f.Cells[c.f.Leaves[l]].Chain; !slices.Contains(out, ci) {
				out = append(out, ci)
			}
		}
	}
	return out
}

// choice reports whether a VC, or a container that it is part of, has cells of several levels in
// one of some chains.
func (c carrier) choice(vc int32, chains []int16) bool {
	for _, space := range c.Scopes(vc) {
		if space == 0 {
			break // its cells are where they are
		}
		levels := map[int16]Level{}
		for _, r := range c.spaces[space].Roots {
			if r.Pinned != "" || !slices.Contains(chains, r.Chain) {
				continue
			}
			if l, seen := levels[r.Chain]; seen && l != r.Level {
				return true
			}
			levels[r.Chain] = r.Level
		}
	}
	return false
}

// Rearrange finds preassigned cells of a VC around a placement for which Carry found none. It
// gives some allocations other cells around what they hold, since one of them may have got the
// cell that the placement needs. It tries as many ways as an upgrade does. On success the
// allocations stand in their new cells. started says which pinned cells the placement may stand
// in.
func (c *Cluster) Rearrange(vc int32, kept []AllocID, p *Placement, started []Started) ([]Bind, bool) {
	s := surround{c: c, used: make([]bool, len(c.f.Chains))}
	for _, id := range kept {
		s.add(c.allocs[id].Space, &c.allocs[id].Placement)
	}
	s.add(vc, p) // while the others stand as they would without it
	for _, id := range kept {
		c.Demote(id)
	}
	ok := s.coverFrom(0)
	if ok = ok && (carrier{c}).inAskedPins(vc, p, started, s.foundFor(vc, p)); !ok {
		for _, id := range slices.Backward(kept) {
			c.undemote(id)
		}
		return nil, false
	}
	for _, id := range kept {
		c.Upgrade(id, s.foundFor(c.allocs[id].Space, &c.allocs[id].Placement))
	}
	return s.foundFor(vc, p), true
}

// foundFor returns the cells of a VC, and of its containers, that were found around leaves of a
// placement.
func (s *surround) foundFor(vc int32, p *Placement) []Bind {
	c := s.c
	var out []Bind
	for _, b := range s.found[slices.Index(s.spaces, vc)] {
		if slices.ContainsFunc(p.Tasks, func(t Task) bool {
			return slices.ContainsFunc(t.Leaves, func(l LeafID) bool { return c.f.Contains(b.Cell, c.f.Leaves[l]) })
		}) {
			out = append(out, b)
		}
	}
	return out
}
