package cell

import (
	"cmp"
	"slices"
)

// charging decides which roots are charged for bad hardware. A charge binds an unbound root of a
// VC to a bad cell, so that others keep the healthy ones (HiveD's doomed bad cells).
type charging struct{ *Cluster }

// DueCharge returns the next charge that is due. One is due when a container has fewer healthy
// cells than it owes. Then the VC with most unbound roots of that level is charged (ties: the first
// by name; HiveD draws one), on the bad free cell with fewest bad leaves.
func (c *Cluster) DueCharge() (space int32, root RootID, id CellID, ok bool) {
	for up := range c.spaces {
		s := &c.spaces[up]
		if s.free == nil || c.badCount == 0 {
			continue
		}
		for ci := range c.f.Chains {
			ch := &c.f.Chains[ci]
			for l := c.shortLevel(int32(up), int16(ci)); l != 0 && l <= ch.Top; l++ {
				if space, root, id, ok = (charging{c}).due(int32(up), int16(ci), l); ok {
					return space, root, id, true
				}
			}
		}
	}
	return None, None, None, false
}

// UpdateCharges makes charges, or takes them back, until nothing is due, and returns how many it
// made. The state's own loop emits an event for each instead.
func (c *Cluster) UpdateCharges() (n int) {
	for {
		if all := c.UnneededCharges(); all != nil {
			for _, ch := range all {
				c.Undoom(ch.Space, ch.Root)
			}
			continue
		}
		space, root, id, ok := c.DueCharge()
		if !ok {
			return n
		}
		c.Doom(space, root, id)
		n++
	}
}

// due finds the root to charge for a bad cell of one level, and the cell.
func (c charging) due(up int32, chain int16, l Level) (space int32, root RootID, id CellID, ok bool) {
	slot := c.f.slot(chain, l)
	space = None
	for i := range c.spaces {
		s := &c.spaces[i]
		if s.Parent == up && len(s.unbound[slot]) > 0 && (space == None || c.beforeOf(slot, int32(i), space) < 0) {
			space = int32(i)
		}
	}
	if space == None {
		return None, None, None, false
	}
	list := c.spaces[space].unbound[slot]
	root = list[len(list)-1]
	tried := CellID(None)
	for {
		id = c.nextBad(up, slot, l, tried)
		if id == None {
			return None, None, None, false
		}
		if c.canDoom(space, root, id) {
			return space, root, id, true
		}
		tried = id
	}
}

// beforeOf orders the parts of a container for a charge of a level: most unbound roots first,
// then by name, whether with children or not.
func (c charging) beforeOf(slot int, a, b int32) int {
	x, y := &c.spaces[a], &c.spaces[b]
	return cmp.Or(cmp.Compare(len(y.unbound[slot]), len(x.unbound[slot])), cmp.Compare(x.Name, y.Name))
}

// nextBad returns a bad cell of a level under the free cells of a container: the first after
// `after` in the order of bad leaves, fewest first, then of ids. None for `after` starts.
func (c charging) nextBad(up int32, slot int, l Level, after CellID) CellID {
	best := CellID(None)
	later := func(a, b CellID) bool { return c.bad[a] > c.bad[b] || c.bad[a] == c.bad[b] && a > b }
	var look func(id CellID)
	look = func(id CellID) {
		if c.bad[id] == 0 {
			return
		}
		if c.f.Cells[id].Level == l {
			if (after == None || later(id, after)) && (best == None || later(best, id)) {
				best = id
			}
			return
		}
		first, step, n := c.f.Children(id)
		for i := int32(0); i < n; i++ {
			look(first + CellID(i)*step)
		}
	}
	ch := &c.f.Chains[c.f.chainOfSlot(slot)]
	for from := l; from <= ch.Top; from++ {
		for _, id := range c.spaces[up].free[ch.slot0+int(from)-1] {
			look(id)
		}
	}
	return best
}

func (f *Forest) chainOfSlot(slot int) int {
	ci := 0
	for ci+1 < len(f.Chains) && f.Chains[ci+1].slot0 <= slot {
		ci++
	}
	return ci
}

func (c charging) canDoom(space int32, root RootID, id CellID) bool {
	if !c.bind(space, root, id) {
		return false
	}
	c.unbind(space, root)
	return true
}

// Doom binds an unbound root to a bad free cell, as DueCharge said.
func (c *Cluster) Doom(space int32, root RootID, id CellID) {
	if !c.rebind(space, root, id) {
		panic("cell: a doomed root cannot be bound")
	}
	c.setDoomed(space, root, true)
}

// UnneededCharges returns a charge that is not needed any more, with those inside its cell before
// it, the innermost first. There are enough healthy cells again, or, if it is in use, there would
// be when it is left. The charges inside may be due only because of it, and they keep it in use.
func (c *Cluster) UnneededCharges() []Charge {
	if len(c.charges) == 0 {
		return nil
	}
	more := make([][]int64, len(c.f.Chains))
	for i := range c.charges { // each is taken away and put back in its place
		ch := charging{c}.chargeAt(i)
		r := c.rootOf(ch)
		if c.spaces[ch.Space].free == nil && r.Used > 0 {
			if up := c.spaces[ch.Space].Parent; c.bad[r.Cell] == 0 ||
				(charging{c}).margins(up, r.Chain)[r.Level-1] >= 1 {
				return []Charge{ch} // it stays bound for its user, like any other
			}
			continue
		}
		if c.spaces[ch.Space].Parent == 0 && c.bad[r.Cell] > 0 {
			if more[r.Chain] == nil {
				more[r.Chain] = charging{c}.margins(0, r.Chain)
			}
			if more[r.Chain][r.Level-1] < 1 {
				continue // without it, too few of its level would be healthy again
			}
		}
		all, back := charging{c}.suspendAll(append(charging{c}.inside(ch), ch))
		well := len(all) > 0 && all[len(all)-1] == ch && c.shortLevel(c.spaces[ch.Space].Parent, r.Chain) == 0
		back()
		if well {
			return all
		}
	}
	return nil
}

// inside lists the charges that lie in the cell of a charged container, of VCs that are part of
// it, the innermost first.
func (c charging) inside(ch Charge) (out []Charge) {
	if c.spaces[ch.Space].free == nil {
		return nil
	}
	first := c.f.Cells[ch.Cell].FirstLeaf
	for i := range c.charges {
		in := c.chargeAt(i)
		at := c.f.Cells[in.Cell].FirstLeaf
		if in.Space != ch.Space && c.inSpace(in.Space, ch.Space) && at >= first && at < first+LeafID(c.f.NumLeaves(ch.Cell)) {
			out = append(out, in)
		}
	}
	slices.SortStableFunc(out, func(a, b Charge) int { return cmp.Compare(c.depth(b.Space), c.depth(a.Space)) })
	return out
}

// suspendAll takes away charges one after the other, except those in use. It returns which they
// were, and what puts them back.
func (c charging) suspendAll(all []Charge) (was []Charge, back func()) {
	var backs []func()
	for _, ch := range all {
		if c.unused(ch.Space, c.rootOf(ch)) {
			was = append(was, ch)
			backs = append(backs, c.suspend(ch))
		}
	}
	return was, func() { undoAll(backs) }
}

// ChargesInUse returns the charged cells in use of all VCs that share an outermost VC with a VC.
func (c *Cluster) ChargesInUse(space int32) (out []CellID) {
	for i := range c.charges {
		if ch := (charging{c}).chargeAt(i); c.SameOutermost(space, ch.Space) && !(charging{c}).unused(ch.Space, c.rootOf(ch)) {
			out = append(out, ch.Cell)
		}
	}
	return out
}

func (c charging) chargeAt(i int) Charge {
	ref := c.charges[i]
	return Charge{ref.space, ref.root, c.spaces[ref.space].Roots[ref.root].Cell}
}

// Charge is a VC's preassigned cell (Root) that stands for a bad physical cell (Cell).
type Charge struct {
	Space int32
	Root  RootID
	Cell  CellID
}

// NumCharges returns how many charges there are.
func (c *Cluster) NumCharges() int { return len(c.charges) }

// suspend takes a charge away, to see what follows. back restores it together with the bindings of
// containers around it that went with it. Else these could be bound elsewhere, or other roots in
// their place, and a restart, which repeats no trial, would not know.
func (c charging) suspend(at Charge) (back func()) {
	binds := c.withOuter(at.Space, []Bind{{Root: at.Root, Cell: at.Cell}})
	c.Undoom(at.Space, at.Root)
	return func() {
		for _, b := range binds[:len(binds)-1] {
			c.rebindOuter(b)
		}
		c.Doom(at.Space, at.Root, at.Cell)
	}
}

// suspendUnused takes away all charges that are not in use, inner ones first, and returns what
// brings them back.
func (c charging) suspendUnused() (back func()) {
	all := c.Charges()
	slices.SortStableFunc(all, func(a, b Charge) int { return cmp.Compare(c.depth(b.Space), c.depth(a.Space)) })
	_, back = c.suspendAll(all)
	return back
}

// BadLeaves returns how many leaves of a cell are bad: they get no new work.
func (c *Cluster) BadLeaves(id CellID) int32 { return c.bad[id] }

// margins returns by level, from the lowest, how many healthy cells a container has beyond what
// it owes at and above that level.
func (c charging) margins(space int32, chain int16) []int64 {
	s, ch := &c.spaces[space], &c.f.Chains[chain]
	out := make([]int64, ch.Top)
	var left int64
	for l := ch.Top; l >= 1; l-- {
		i := ch.slot0 + int(l) - 1
		left += int64(s.has(i)) - int64(s.owed[i])
		out[l-1] = left - int64(s.badFree[i])
		if l > 1 {
			left *= int64(ch.fanout[l-1])
		}
	}
	return out
}

// unused reports whether nothing of a bound root is in use.
func (c charging) unused(space int32, r *Root) bool {
	if s := &c.spaces[space]; s.free != nil {
		return s.free[c.slotOf(r.Cell)].has(r.Cell)
	}
	return r.Used == 0
}

// Undoom is the inverse of Doom. A root in use stays bound, like any other.
func (c *Cluster) Undoom(space int32, root RootID) {
	r := &c.spaces[space].Roots[root]
	if (charging{c}).unused(space, r) {
		c.unbind(space, root)
		return
	}
	c.setDoomed(space, root, false)
}

// SpaceName returns the name of the VC that a space is, and whether it is the
// container that the VC's children divide.
func (c *Cluster) SpaceName(space int32) (name VCName, container bool) {
	return c.spaces[space].Name, space > c.vcs
}

// ContainerOf returns the container that a VC's children divide, None if it has
// no children.
func (c *Cluster) ContainerOf(v VCName) int32 {
	for i := int(c.vcs) + 1; i < len(c.spaces); i++ {
		if c.spaces[i].Name == v {
			return int32(i)
		}
	}
	return None
}
