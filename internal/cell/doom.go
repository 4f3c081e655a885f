package cell

import (
	"cmp"
	"slices"
)

// Ailing returns the next charge of bad hardware that is due: when a container
// has fewer healthy cells than it owes, an unbound root of the VC with most of
// them (ties: the first by name) is to be bound to a bad free cell, the one with
// fewest unhealthy leaves, so that the guarantees of all others hold on what is
// healthy (HiveD's doomed bad cells; there the VC is random).
func (c *Cluster) Ailing() (space int32, root RootID, id CellID, ok bool) {
	for up := range c.spaces {
		s := &c.spaces[up]
		if s.free == nil || c.ill == 0 {
			continue
		}
		for ci := range c.f.Chains {
			ch := &c.f.Chains[ci]
			for l := c.sound(int32(up), int16(ci)); l != 0 && l <= ch.Top; l++ {
				if space, root, id, ok = c.due(int32(up), int16(ci), l); ok {
					return space, root, id, true
				}
			}
		}
	}
	return None, None, None, false
}

// due finds whom to charge for a bad cell of one level, and which.
func (c *Cluster) due(up int32, chain int16, l Level) (space int32, root RootID, id CellID, ok bool) {
	slot := c.f.slot(chain, l)
	space = None
	for i := range c.spaces {
		s := &c.spaces[i]
		if s.Parent == up && len(s.unbound[slot]) > 0 &&
			(space == None || len(s.unbound[slot]) > len(c.spaces[space].unbound[slot])) {
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
		id = c.illest(up, slot, l, tried)
		if id == None {
			return None, None, None, false
		}
		if c.canDoom(space, root, id) {
			return space, root, id, true
		}
		tried = id
	}
}

// illest returns the unhealthy cell of a level under the free cells of a
// container that comes after `after` in the order of unhealthy leaves, then id.
func (c *Cluster) illest(up int32, slot int, l Level, after CellID) CellID {
	best := CellID(None)
	later := func(a, b CellID) bool { return c.sick[a] > c.sick[b] || c.sick[a] == c.sick[b] && a > b }
	var look func(id CellID)
	look = func(id CellID) {
		if c.sick[id] == 0 {
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

func (c *Cluster) canDoom(space int32, root RootID, id CellID) bool {
	if !c.bind(space, root, id) {
		return false
	}
	c.unbind(space, root)
	return true
}

// Doom binds an unbound root to a bad free cell, as Ailing said.
func (c *Cluster) Doom(space int32, root RootID, id CellID) {
	if !c.rebind(space, root, id) {
		panic("cell: a doomed root cannot be bound")
	}
	c.charge(space, root, true)
}

// charge notes that a root stands for bad hardware, or that it does so no more.
func (c *Cluster) charge(space int32, root RootID, on bool) {
	c.spaces[space].Roots[root].Doomed = on
	ref := rootRef{space, root}
	i, found := slices.BinarySearchFunc(c.charges, ref, func(a, b rootRef) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.root, b.root))
	})
	switch {
	case on && !found:
		c.charges = slices.Insert(c.charges, i, ref)
	case !on && found:
		c.charges = slices.Delete(c.charges, i, i+1)
	}
}

// Recovered returns a doomed root that nobody uses and that need not be charged
// any more: there are enough healthy cells again.
func (c *Cluster) Recovered() (space int32, root RootID, ok bool) {
	if len(c.charges) == 0 {
		return None, None, false
	}
	more := make([][]int64, len(c.f.Chains))
	for i := range c.charges { // each is taken away and put back at its place
		si, ri := c.charges[i].space, c.charges[i].root
		r := &c.spaces[si].Roots[ri]
		if !c.unused(si, r) {
			continue
		}
		if c.spaces[si].Parent == 0 && c.sick[r.Cell] > 0 {
			if more[r.Chain] == nil {
				more[r.Chain] = c.margins(0, r.Chain)
			}
			if more[r.Chain][r.Level-1] < 1 {
				continue // without it there would be too few of its level again
			}
		}
		back := c.aside(Charge{si, ri, r.Cell})
		well := c.sound(c.spaces[si].Parent, r.Chain) == 0
		back()
		if well {
			return si, ri, true
		}
	}
	return None, None, false
}

// Charge is an unbound preassigned cell that stands for a bad one.
type Charge struct {
	Space int32
	Root  RootID
	Cell  CellID
}

// Doomed returns how many charges there are.
func (c *Cluster) Doomed() int { return len(c.charges) }

// Need is how much a VC needs cells of a chain.
type Need int8

// A VC does not need such cells, may do without some, or not.
const (
	NoNeed Need = iota
	MayDoWithout
	Needed
)

// Transfer finds a charge that can go to another VC: from one that suffers by it to
// one of the same container that does not need such cells, else may do without, and has as
// large a one unbound. helps is asked about both while the charge is moved; the cluster is
// unchanged afterwards. Which of a VC's charges of one level goes makes no difference where
// none of their leaves is well: it is asked once.
func (c *Cluster) Transfer(suffers func(space int32, chain int16) bool, needs func(space int32, chain int16) Need, helps func(was, is Charge) bool) (was, is Charge, ok bool) {
	type kind struct {
		space int32
		slot  int
	}
	var asked []kind
	for i := range c.charges { // each is taken away and put back at its place
		was = Charge{Space: c.charges[i].space, Root: c.charges[i].root}
		r := &c.spaces[was.Space].Roots[was.Root]
		was.Cell = r.Cell
		k := kind{was.Space, c.f.slot(r.Chain, r.Level)}
		dead := c.sick[r.Cell] == c.f.NumLeaves(r.Cell)
		if !c.unused(was.Space, r) || dead && slices.Contains(asked, k) || !suffers(was.Space, r.Chain) {
			continue
		}
		is, found := c.taker(was, needs)
		if !found {
			continue
		}
		if c.helped(was, is, helps) {
			return was, is, true
		}
		if dead {
			asked = append(asked, k)
		}
	}
	return Charge{}, Charge{}, false
}

// taker returns the first VC that could take over a charge, of those that need such cells
// least, with its cell.
func (c *Cluster) taker(was Charge, needs func(int32, int16) Need) (best Charge, ok bool) {
	r := &c.spaces[was.Space].Roots[was.Root]
	slot, most := c.f.slot(r.Chain, r.Level), Needed
	for i := range c.spaces {
		list := c.spaces[i].unbound[slot]
		if int32(i) == was.Space || c.spaces[i].Parent != c.spaces[was.Space].Parent || len(list) == 0 {
			continue
		}
		need := needs(int32(i), r.Chain)
		if need >= most {
			continue
		}
		is := Charge{int32(i), list[len(list)-1], was.Cell}
		back := c.aside(was)
		can := c.canDoom(is.Space, is.Root, is.Cell)
		back()
		if can {
			best, most, ok = is, need, true
		}
		if most == NoNeed {
			break
		}
	}
	return best, ok
}

// helped asks whether it helps that a charge goes from one VC to another.
func (c *Cluster) helped(was, is Charge, helps func(was, is Charge) bool) bool {
	back := c.aside(was)
	c.Doom(is.Space, is.Root, is.Cell)
	ok := helps(was, is)
	c.Spare(is.Space, is.Root)
	back()
	return ok
}

// aside takes a charge away, to look what comes of that. back puts it where it was, with the
// cells of containers around it that went with it: these could be bound elsewhere, or others
// in their place, and a restart, which asks nothing, would not know of that.
func (c *Cluster) aside(at Charge) (back func()) {
	binds := c.withOuter(at.Space, []Bind{{Root: at.Root, Cell: at.Cell}})
	c.Spare(at.Space, at.Root)
	return func() {
		for _, b := range binds[:len(binds)-1] {
			c.rebindOuter(b)
		}
		c.Doom(at.Space, at.Root, at.Cell)
	}
}

// uncharged takes away all charges of what nobody uses, those inside of others first, and
// returns what brings them back.
func (c *Cluster) uncharged() (back func()) {
	refs := slices.Clone(c.charges)
	slices.SortStableFunc(refs, func(a, b rootRef) int { return cmp.Compare(c.depth(b.space), c.depth(a.space)) })
	var backs []func()
	for _, at := range refs {
		if r := &c.spaces[at.space].Roots[at.root]; c.unused(at.space, r) {
			backs = append(backs, c.aside(Charge{at.space, at.root, r.Cell}))
		}
	}
	return func() {
		for _, back := range slices.Backward(backs) {
			back()
		}
	}
}

// Ill returns how many leaves of a cell get no new work.
func (c *Cluster) Ill(id CellID) int32 { return c.sick[id] }

// margins returns how many healthy cells of each level, from the lowest, a container
// has beyond what it owes at and above that level.
func (c *Cluster) margins(space int32, chain int16) []int64 {
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
func (c *Cluster) unused(space int32, r *Root) bool {
	if s := &c.spaces[space]; s.free != nil {
		return s.free[c.slotOf(r.Cell)].has(r.Cell)
	}
	return r.Used == 0
}

// Spare is the inverse of Doom; one that is in use stays bound, as any other.
func (c *Cluster) Spare(space int32, root RootID) {
	r := &c.spaces[space].Roots[root]
	if c.unused(space, r) {
		c.unbind(space, root)
		return
	}
	c.charge(space, root, false)
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
