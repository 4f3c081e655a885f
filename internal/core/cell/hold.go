package cell

import (
	"slices"
)

// Hold binds unbound preassigned cells of a VC to the physical cells that a later plan counts on,
// so that no search uses either of them meanwhile. Cells that are bound there already stay so
// when their users give them back. It returns the roots that it holds. When one cannot be bound
// it changes nothing and reports false. Unhold is the inverse.
func (c *Cluster) Hold(space int32, binds []Bind) ([]RootID, bool) {
	var held []RootID
	for _, b := range binds {
		if b.Space != 0 {
			continue // it is bound with what lies in it
		}
		r := &c.spaces[space].Roots[b.Root]
		if r.Cell != b.Cell && (r.Cell != None || !c.bind(space, b.Root, b.Cell)) {
			c.Unhold(space, held)
			return nil, false
		}
		r.Used++
		held = append(held, b.Root)
	}
	return held, true
}

// HoldAnew is Hold for a plan that was made before. A preassigned cell that is bound elsewhere by
// now stays there, and one whose physical cell went to another VC is bound to a like one. now
// tells where they stand, by position: the plan moves with them.
func (c *Cluster) HoldAnew(space int32, binds []Bind) (now []Bind, held []RootID, ok bool) {
	for _, b := range binds {
		if b.Space != 0 { // it is bound with what lies in it
			now = append(now, b)
			continue
		}
		r := &c.spaces[space].Roots[b.Root]
		if r.Cell == None && !c.bind(space, b.Root, b.Cell) && !c.bindLike(space, b.Root) {
			c.Unhold(space, held)
			return nil, nil, false
		}
		r.Used++
		held = append(held, b.Root)
		now = append(now, Bind{Root: b.Root, Cell: r.Cell})
	}
	return now, held, true
}

// bindLike binds a root to the first healthy cell that is safe, split from the
// smallest free ones.
func (c *Cluster) bindLike(space int32, root RootID) bool {
	r := c.spaces[space].Roots[root]
	for up := c.spaces[space].Parent; up != None; up = c.spaces[up].Parent {
		for l := r.Level; l <= c.f.Chains[r.Chain].Top; l++ {
			for _, id := range slices.Clone(c.spaces[up].free[c.f.slot(r.Chain, l)]) {
				if c.bindBelow(space, root, id, r.Level) {
					return true
				}
			}
		}
	}
	return false
}

func (c *Cluster) bindBelow(space int32, root RootID, id CellID, l Level) bool {
	if c.f.Cells[id].Level == l {
		first := c.f.Cells[id].FirstLeaf
		for leaf := first; leaf < first+LeafID(c.f.NumLeaves(id)); leaf++ {
			if c.leaves[leaf].faults != 0 || c.leaves[leaf].promised != None {
				return false
			}
		}
		return c.bind(space, root, id)
	}
	first, step, n := c.f.Children(id)
	for i := int32(0); i < n; i++ {
		if c.bindBelow(space, root, first+CellID(i)*step, l) {
			return true
		}
	}
	return false
}

// Unhold gives back what Hold held, except what is in use by now.
func (c *Cluster) Unhold(space int32, held []RootID) {
	for _, root := range held {
		r := &c.spaces[space].Roots[root]
		if r.Used--; r.Used == 0 && r.Pinned == "" && !r.Doomed {
			c.unbind(space, root)
		}
	}
}

// PlaceLater is Place at a time when some promised allocations have had their leaves and left
// again: their promises no longer count.
func (c *Cluster) PlaceLater(r *Request, promised []AllocID) (Result, bool) {
	defer c.withoutPromises(promised)()
	return c.Place(r)
}

// PlaceInstead is Place as if one promised allocation had given its promise back, with its
// preassigned cells. The cluster is unchanged.
func (c *Cluster) PlaceInstead(id AllocID, r *Request) (Result, bool) {
	defer c.Withdrawn([]AllocID{id})()
	return c.Place(r)
}

// Withdrawn removes promises, with the preassigned cells that are bound for them alone. It
// returns what brings them back while nothing else has changed.
func (c *Cluster) Withdrawn(promised []AllocID) (back func()) {
	again := c.withoutPromises(promised)
	for _, id := range promised {
		c.useRoots(id, -1)
	}
	return func() {
		for _, id := range slices.Backward(promised) {
			c.bindAgain(&c.allocs[id])
			c.useRoots(id, 1)
		}
		again()
	}
}

// FitsLater reports whether PlaceLater finds anything. It does not look for the fewest victims,
// which may cost far more.
func (c *Cluster) FitsLater(r *Request, promised []AllocID) bool {
	defer c.withoutPromises(promised)()
	_, ok := c.Try(r)
	return ok
}

// withoutPromises removes promises, and returns what brings them back.
func (c *Cluster) withoutPromises(promised []AllocID) (back func()) {
	mark := func(to func(AllocID) AllocID) {
		for _, id := range promised {
			for _, t := range c.allocs[id].Placement.Tasks {
				for _, l := range t.Leaves {
					c.leaves[l].promised = to(id)
				}
				c.recount(t.Leaves)
			}
		}
	}
	mark(func(AllocID) AllocID { return None })
	return func() { mark(func(id AllocID) AllocID { return id }) }
}

// IdleLeaves returns the leaves that are free and healthy.
func (c *Cluster) IdleLeaves() LeafSet {
	var out LeafSet
	var below func(CellID)
	below = func(id CellID) {
		if c.idle[id] == 0 {
			return
		}
		first, step, n := c.f.Children(id)
		if n == 0 {
			out = out.Add(c.f.Cells[id].FirstLeaf)
		}
		for i := int32(0); i < n; i++ {
			below(first + CellID(i)*step)
		}
	}
	for ci := range c.f.Chains {
		for _, top := range c.f.Chains[ci].Tops {
			below(top)
		}
	}
	return out
}
