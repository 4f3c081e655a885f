package cell

import "slices"

// Upgradable says whether an allocation that became opportunistic could be
// guaranteed again on the leaves that it holds, and in which preassigned cells:
// those of its VC that are bound around its leaves, and unbound ones that may
// safely be bound there, small ones first. The cluster is unchanged.
func (c *Cluster) Upgradable(id AllocID) ([]Bind, bool) {
	a := &c.allocs[id]
	if !a.Lazy || a.Space == 0 {
		return nil, false
	}
	var binds []Bind
	var fresh []RootID
	ok := true
	for _, t := range a.Placement.Tasks {
		for _, l := range t.Leaves {
			if !ok || slices.ContainsFunc(binds, func(b Bind) bool { return c.f.Contains(b.Cell, c.f.Leaves[l]) }) {
				continue
			}
			ref, isFresh := c.rootAround(a.Space, l)
			if ref == None {
				ok = false
				continue
			}
			if isFresh {
				fresh = append(fresh, ref)
			}
			binds = append(binds, Bind{Root: ref, Cell: c.spaces[a.Space].Roots[ref].Cell})
		}
	}
	for i := len(fresh) - 1; i >= 0; i-- {
		c.unbind(a.Space, fresh[i])
	}
	if !ok || len(binds) == 0 {
		return nil, false
	}
	slices.SortFunc(binds, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
	return binds, true
}

// rootAround returns the root of a VC that is bound around a leaf, or binds the
// smallest unbound one that may be; None when there is none.
func (c *Cluster) rootAround(space int32, l LeafID) (root RootID, fresh bool) {
	leaf := c.f.Leaves[l]
	if ref := c.rootOver(leaf); ref.space != None {
		if ref.space == space {
			return ref.root, false
		}
		return None, false
	}
	for id := leaf; id != None; id = c.f.Cells[id].Parent {
		if root, ok := c.rootFor(space, id); ok {
			return root, true
		}
	}
	return None, false
}
