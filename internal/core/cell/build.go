package cell

import "fmt"

// builder makes the cells and spaces of a cluster.
type builder struct{ *Cluster }

// addPhysical makes the space of the physical cluster, which all others are part of. Its roots
// are whole cells.
func (c builder) addPhysical() {
	f := c.f
	s := Space{Parent: None, unbound: make([][]RootID, f.slots)}
	c.spaces = []Space{s}
	c.contain(0)
	for ci := range f.Chains {
		for _, top := range f.Chains[ci].Tops {
			c.addWhole(top)
		}
	}
}

// addWhole adds the largest whole cells at or below a cell.
func (c builder) addWhole(id CellID) {
	if cl := &c.f.Cells[id]; c.f.Whole(id) {
		c.spaces[0].Roots = append(c.spaces[0].Roots, Root{Chain: cl.Chain, Level: cl.Level, Cell: id})
		c.setFree(0, id, true)
		return
	}
	first, step, n := c.f.Children(id)
	for i := range CellID(n) {
		c.addWhole(first + i*step)
	}
}

// contain makes a space a container, which others divide.
func (c builder) contain(space int32) {
	s := &c.spaces[space]
	s.free, s.owed, s.badFree = make([]cellList, c.f.slots), make([]int32, c.f.slots), make([]int32, c.f.slots)
}

// addVCs makes a space for every VC and one more, a container, for each that has
// child VCs; then it hands out what they own.
func (c builder) addVCs(s *Spec) error {
	inner := map[VCName]int32{} // containers; looked up only
	for i := range s.VCs {
		v := &s.VCs[i]
		if i > 0 && s.VCs[i-1].Name >= v.Name {
			return fmt.Errorf("virtual cluster %q stands after %q: they must be sorted by name, each once", v.Name, s.VCs[i-1].Name)
		}
		c.spaces = append(c.spaces, Space{Name: v.Name, unbound: make([][]RootID, c.f.slots), index: make([]binIndex, len(c.f.Chains)), widest: make([]int32, len(c.f.Chains))})
	}
	for i := range s.VCs {
		if p := s.VCs[i].Parent; p != "" && inner[p] == 0 {
			if c.SpaceOf(p) == None {
				return fmt.Errorf("virtual cluster %q: its parent %q does not exist", s.VCs[i].Name, p)
			}
			inner[p] = int32(len(c.spaces))
			c.spaces = append(c.spaces, Space{Name: p, unbound: make([][]RootID, c.f.slots), widest: make([]int32, len(c.f.Chains))})
			c.contain(inner[p])
		}
	}
	for i := range s.VCs {
		v := &s.VCs[i]
		outer := inner[v.Parent] // 0 for none: the physical cluster
		own := int32(i) + 1
		if in := inner[v.Name]; in != 0 {
			c.spaces[in].Parent, c.spaces[own].Parent = outer, in
			own = in
		}
		c.spaces[own].Parent = outer
		if err := c.addQuota(own, v); err != nil {
			return err
		}
	}
	for i := range s.VCs {
		if in := inner[s.VCs[i].Name]; in != 0 {
			if err := c.addRest(int32(i)+1, in); err != nil {
				return err
			}
		}
	}
	if err := c.addPinned(s); err != nil {
		return err
	}
	for ci := range c.f.Chains {
		if !c.safe(0, int16(ci)) {
			return fmt.Errorf("chain %q has too few cells for the guarantees of its virtual clusters", c.f.Chains[ci].Name)
		}
	}
	return c.acyclic()
}

// addQuota gives a space the cells that a VC is guaranteed.
func (c builder) addQuota(space int32, v *VCSpec) error {
	for _, q := range v.Quota {
		ci := c.f.chainIndex(q.Chain)
		if ci == None || q.Level < 1 || q.Level > c.f.Chains[ci].Top || q.Number < 0 {
			return fmt.Errorf("virtual cluster %q: chain %q level %d number %d does not exist", v.Name, q.Chain, q.Level, q.Number)
		}
		c.addRoots(space, Root{Chain: int16(ci), Level: q.Level, Cell: None}, q.Number)
	}
	return nil
}

func (c builder) addRoots(space int32, r Root, n int32) {
	s := &c.spaces[space]
	slot := c.f.slot(r.Chain, r.Level)
	first := RootID(len(s.Roots))
	nodes := int32(0) // of each
	ch := &c.f.Chains[r.Chain]
	if r.Level >= ch.NodeLevel && s.index != nil {
		nodes = ch.LeavesAt(r.Level) / ch.LeavesAt(ch.NodeLevel)
	}
	if n > 0 {
		s.widest[r.Chain] = max(s.widest[r.Chain], ch.LeavesAt(min(r.Level, ch.NodeLevel)))
	}
	for range n {
		if nodes > 0 {
			x := &s.index[r.Chain]
			r.place = int32(len(x.bins))
			x.bins = append(x.bins, make([]int32, nodes)...)
		}
		s.Roots = append(s.Roots, r)
	}
	list := make([]RootID, 0, int(n)+len(s.unbound[slot]))
	for i := RootID(n) - 1; i >= 0; i-- {
		list = append(list, first+i)
	}
	s.unbound[slot] = append(list, s.unbound[slot]...)
	c.spaces[s.Parent].owed[slot] += n
}

// addRest gives a VC with children the cells that no child has. It splits as few of the VC's
// cells as possible for the children.
func (c builder) addRest(own, in int32) error {
	s := &c.spaces[in]
	for ci := range c.f.Chains {
		ch := &c.f.Chains[ci]
		var split [maxLevels + 1]int64 // cells of a level that are split, by level-1
		var need int64
		for l := Level(1); l <= ch.Top; l++ {
			i := ch.slot0 + int(l) - 1
			if l > 1 {
				fan := int64(ch.fanout[l-1])
				split[l-1] = (max(0, need-int64(len(s.unbound[i-1]))) + fan - 1) / fan
			}
			need = int64(s.owed[i]) + split[l-1]
		}
		if top := ch.slot0 + int(ch.Top) - 1; need > int64(len(s.unbound[top])) {
			return fmt.Errorf("virtual cluster %q has too few cells of chain %q for its children", s.Name, ch.Name)
		}
		for l := ch.Top; l >= 1; l-- {
			i := ch.slot0 + int(l) - 1
			rest := int64(len(s.unbound[i])) - int64(s.owed[i]) - split[l-1]
			if l < ch.Top {
				rest += split[l] * int64(ch.fanout[l])
			}
			c.addRoots(own, Root{Chain: int16(ci), Level: l, Cell: None}, int32(rest))
		}
	}
	return nil
}

// addPinned binds the pinned cells, which are their VC's own at any depth.
func (c builder) addPinned(s *Spec) error {
	pinned := c.pinned()
	for i := range s.VCs {
		for _, p := range s.VCs[i].Pinned {
			id, ok := pinned[p]
			if !ok {
				return fmt.Errorf("virtual cluster %q: there is no pinned cell %q", s.VCs[i].Name, p)
			}
			if !c.carve(0, id) {
				return fmt.Errorf("virtual cluster %q: pinned cell %q belongs to another already", s.VCs[i].Name, p)
			}
			sp := &c.spaces[i+1]
			cl := &c.f.Cells[id]
			c.owner[id] = rootRef{int32(i) + 1, RootID(len(sp.Roots))}
			sp.Roots = append(sp.Roots, Root{Chain: cl.Chain, Level: cl.Level, Pinned: p, Cell: id})
		}
	}
	return nil
}

// pinned finds the pinned cells by their names in one pass over all cells.
func (c builder) pinned() map[PinnedID]CellID {
	cells := map[PinnedID]CellID{}
	for i := range c.f.Cells {
		if p := c.f.names[i].pinned; p != "" {
			cells[p] = CellID(i)
		}
	}
	return cells
}

// acyclic refuses VCs that are their own ancestors.
func (c builder) acyclic() error {
	for i := range c.spaces {
		steps := 0
		for up := int32(i); up != None; up = c.spaces[up].Parent {
			if steps++; steps > len(c.spaces) {
				return fmt.Errorf("virtual cluster %q is part of itself", c.spaces[i].Name)
			}
		}
	}
	return nil
}

const maxLevels = 32
