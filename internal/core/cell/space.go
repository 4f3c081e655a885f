package cell

import (
	"cmp"
	"fmt"
	"slices"
)

// Space is the physical cluster or a VC. The roots of the physical cluster are its top-level
// cells, or the largest whole cells where these lack some. A VC's roots are its preassigned
// cells. While in use they are bound to cells of the space that the VC is part of. A VC with
// child VCs has two spaces: a container, which the children divide, and the VC proper, whose jobs
// use what no child has.
//
// In a container, free holds by slot (chain and level) the cells that no child has, maximally
// merged and sorted; they lie in its bound roots. owed counts the children's unbound roots. The
// safety invariant holds at every chain and level: the cells that are free, can be split off, or
// would come with an unbound root cover what is owed (HiveD, OSDI'20, section 4). It holds for
// healthy cells alone, too, once VCs are charged for those that are missing (see Doom).
type Space struct {
	Name    VCName // "" is the physical cluster
	Parent  int32  // the container that it is part of, None for the physical cluster
	Roots   []Root
	unbound [][]RootID // by slot: roots that are not bound, the last first
	free    []cellList // of containers, by slot
	owed    []int32    // of containers, by slot
	badFree []int32    // of containers, by slot: bad cells at or below free ones
	at      []rootAt   // of containers: where roots are bound, sorted by cell
	index   []binIndex // of VCs, by chain
	widest  []int32    // by chain: leaves of the largest task that one unpinned root could hold
	held    int32      // of VCs: leaves of the guarantee that its gangs hold, but for leaving ones
}

// Root is one preassigned cell.
type Root struct {
	Chain  int16
	Level  Level
	Pinned PinnedID // pinned roots are bound for ever
	Doomed bool     // bound to a bad cell, since there are too few healthy ones
	Cell   CellID   // the physical cell it is bound to, None while unbound
	Used   int32    // leaves in it of guaranteed allocations, held or promised; +1 for each Hold
	place  int32    // of its first node in the VC's index
}

// rootAt is a bound root of a container.
type rootAt struct {
	cell CellID
	root RootID
}

func (s *Space) clone() Space {
	d := *s
	d.Roots, d.owed, d.badFree, d.at = slices.Clone(s.Roots), slices.Clone(s.owed), slices.Clone(s.badFree), slices.Clone(s.at)
	d.unbound, d.free, d.index = slices.Clone(s.unbound), slices.Clone(s.free), slices.Clone(s.index)
	for i := range d.unbound {
		d.unbound[i] = slices.Clone(s.unbound[i])
	}
	for i := range d.free {
		d.free[i] = slices.Clone(s.free[i])
	}
	for i := range d.index {
		d.index[i] = s.index[i].clone()
	}
	return d
}

// cellList is a sorted set of cells.
type cellList []CellID

func (l *cellList) insert(c CellID) {
	if n := len(*l); n == 0 || (*l)[n-1] < c {
		*l = append(*l, c)
		return
	}
	i, found := slices.BinarySearch(*l, c)
	if found {
		panic(fmt.Sprintf("cell: cell %d is already free", c))
	}
	*l = slices.Insert(*l, i, c)
}

func (l *cellList) remove(c CellID) bool {
	i, found := slices.BinarySearch(*l, c)
	if found {
		*l = slices.Delete(*l, i, i+1)
	}
	return found
}

func (l cellList) has(c CellID) bool {
	_, found := slices.BinarySearch(l, c)
	return found
}

// slotOf returns the slot of a cell: its place in a space's lists.
func (c *Cluster) slotOf(id CellID) int {
	cl := &c.f.Cells[id]
	return c.f.slot(cl.Chain, cl.Level)
}

// setFree puts a cell into the free list of a container, or takes it out.
func (c *Cluster) setFree(space int32, id CellID, on bool) {
	list := &c.spaces[space].free[c.slotOf(id)]
	if on {
		list.insert(id)
		c.countBad(space, id, 1)
	} else {
		list.remove(id)
		c.countBad(space, id, -1)
	}
}

// countBad adds (sign 1) or removes (-1) the bad cells at and below a free cell in badFree.
func (c *Cluster) countBad(space int32, id CellID, sign int32) {
	if c.bad[id] == 0 {
		return
	}
	c.spaces[space].badFree[c.slotOf(id)] += sign
	first, step, n := c.f.Children(id)
	for i := int32(0); i < n; i++ {
		c.countBad(space, first+CellID(i)*step, sign)
	}
}

// freeAbove returns the free cell of a container that a cell is or lies in; None if there is
// none.
func (c *Cluster) freeAbove(space int32, id CellID) CellID {
	free := c.spaces[space].free
	cl := &c.f.Cells[id]
	for i := c.f.slot(cl.Chain, cl.Level); id != None; i++ {
		if free[i].has(id) {
			return id
		}
		id = c.f.parent[id]
	}
	return None
}

// freeAround returns the container and its free cell around a cell, None and
// None when the cell belongs to a VC.
func (c *Cluster) freeAround(id CellID) (space int32, free CellID) {
	for si := range c.spaces {
		if c.spaces[si].free == nil {
			continue
		}
		if free := c.freeAbove(int32(si), id); free != None {
			return int32(si), free
		}
	}
	return None, None
}

// carve takes a cell out of the free lists of a container, splitting its free
// ancestor. It reports false, and changes nothing, when no ancestor is free.
func (c *Cluster) carve(space int32, id CellID) bool {
	anc := c.freeAbove(space, id)
	if anc == None {
		return false
	}
	c.split(space, anc, id)
	return true
}

// split takes a cell out of a free one that it is or lies in.
func (c *Cluster) split(space int32, anc, id CellID) {
	c.setFree(space, anc, false)
	for anc != id {
		first, step, n := c.f.Children(anc)
		keep := first + (id-first)/step*step
		for i := int32(0); i < n; i++ {
			if ch := first + CellID(i)*step; ch != keep {
				c.setFree(space, ch, true)
			}
		}
		anc = keep
	}
}

// restore is the inverse of carve: the cell is free again and merges with its
// free siblings upwards as far as it can. A container's root that is all free
// again is given back to the container's own parent.
func (c *Cluster) restore(space int32, id CellID) {
	s := &c.spaces[space]
	for {
		if space != 0 {
			if root := s.rootAtCell(id); root != None {
				if s.Roots[root].Doomed {
					break
				}
				c.unbind(space, root)
				return
			}
		}
		parent := c.f.parent[id]
		if parent == None || !c.f.Whole(parent) {
			break
		}
		first, step, n := c.f.Children(parent)
		list := s.free[c.slotOf(id)]
		for i := int32(0); i < n; i++ {
			if sib := first + CellID(i)*step; sib != id && !list.has(sib) {
				c.setFree(space, id, true)
				return
			}
		}
		for i := int32(0); i < n; i++ {
			if sib := first + CellID(i)*step; sib != id {
				c.setFree(space, sib, false)
			}
		}
		id = parent
	}
	c.setFree(space, id, true)
}

// rootAtCell returns the root of a container that is bound to exactly a cell.
func (s *Space) rootAtCell(id CellID) RootID {
	i, found := slices.BinarySearchFunc(s.at, id, func(r rootAt, id CellID) int { return cmp.Compare(r.cell, id) })
	if !found {
		return None
	}
	return s.at[i].root
}

// safe reports whether the cells that a container has of a chain still cover what it owes at
// every level, when they are split from the top down.
func (c *Cluster) safe(space int32, chain int16) bool {
	s, ch := &c.spaces[space], &c.f.Chains[chain]
	var left int64
	for l := ch.Top; l >= 1; l-- {
		i := ch.slot0 + int(l) - 1
		left += int64(s.has(i)) - int64(s.owed[i])
		if left < 0 {
			return false
		}
		if l > 1 {
			left *= int64(ch.fanout[l-1])
		}
	}
	return true
}

// has counts the free cells of a slot, those of unbound roots included.
func (s *Space) has(slot int) int {
	n := len(s.free[slot])
	if s.Parent != None {
		n += len(s.unbound[slot])
	}
	return n
}

// shortLevel is safe for healthy cells only. It returns the highest level at which fewer are
// healthy than are owed; 0 is none.
func (c *Cluster) shortLevel(space int32, chain int16) Level {
	s, ch := &c.spaces[space], &c.f.Chains[chain]
	var all, need int64
	for l := ch.Top; l >= 1; l-- {
		i := ch.slot0 + int(l) - 1
		all += int64(s.has(i))
		need += int64(s.owed[i])
		if s.owed[i] > 0 && all-int64(s.badFree[i]) < need {
			return l
		}
		if l > 1 {
			all *= int64(ch.fanout[l-1])
			need *= int64(ch.fanout[l-1])
		}
	}
	return 0
}

// container returns the space that a root takes its cell from.
func (c *Cluster) container(space int32, r *Root) int32 {
	if r.Pinned != "" {
		return 0
	}
	return c.spaces[space].Parent
}

// bind ties an unbound root to a physical cell. It reports false, and changes nothing, when the
// cell cannot be had or another guarantee would break. A guarantee that healthy cells can meet
// must not break, since this root could be bound elsewhere.
func (c *Cluster) bind(space int32, root RootID, id CellID) bool {
	c.work.Step(1)
	r := &c.spaces[space].Roots[root]
	up := c.container(space, r)
	// Without bad leaves, safe implies sound.
	sound := !c.ignoreHealth && c.badCount > 0 && c.shortLevel(up, r.Chain) == 0
	free := c.open(up, id, false)
	if free == None {
		return false
	}
	c.split(up, free, id)
	owed := &c.spaces[up].owed[c.f.slot(r.Chain, r.Level)]
	if r.Pinned == "" {
		*owed--
	}
	if !c.safe(up, r.Chain) || sound && c.shortLevel(up, r.Chain) != 0 {
		if r.Pinned == "" {
			*owed++
		}
		c.restore(up, id)
		return false
	}
	c.tie(space, root, id)
	return true
}

// rebind is bind for a binding that was decided before. It does not check safety: states on the
// way to a safe one may be unsafe.
func (c *Cluster) rebind(space int32, root RootID, id CellID) bool {
	r := &c.spaces[space].Roots[root]
	up := c.container(space, r)
	free := c.open(up, id, true)
	if free == None {
		return false
	}
	c.split(up, free, id)
	if r.Pinned == "" {
		c.spaces[up].owed[c.f.slot(r.Chain, r.Level)]--
	}
	c.tie(space, root, id)
	return true
}

// tie records a binding.
func (c *Cluster) tie(space int32, root RootID, id CellID) {
	s := &c.spaces[space]
	r := &s.Roots[root]
	r.Cell = id
	if r.Pinned == "" {
		s.unbound[c.f.slot(r.Chain, r.Level)] = removeRoot(s.unbound[c.f.slot(r.Chain, r.Level)], root)
	}
	if s.free != nil {
		i, _ := slices.BinarySearchFunc(s.at, id, func(r rootAt, id CellID) int { return cmp.Compare(r.cell, id) })
		s.at = slices.Insert(s.at, i, rootAt{id, root})
		c.setFree(space, id, true)
		return
	}
	c.owner[id] = rootRef{space, root}
	if r.Pinned == "" {
		c.enlist(space, root, id, true)
	}
}

// insertRoot adds a root to a list of unbound ones, in descending order: the last is bound first.
func insertRoot(list []RootID, root RootID) []RootID {
	if n := len(list); n == 0 || list[n-1] > root {
		return append(list, root)
	}
	i, _ := slices.BinarySearchFunc(list, root, func(a, b RootID) int { return cmp.Compare(b, a) })
	return slices.Insert(list, i, root)
}

// removeRoot takes a root out of such a list.
func removeRoot(list []RootID, root RootID) []RootID {
	if n := len(list); list[n-1] == root {
		return list[:n-1]
	}
	i, _ := slices.BinarySearchFunc(list, root, func(a, b RootID) int { return cmp.Compare(b, a) })
	return slices.Delete(list, i, i+1)
}

// open makes a cell lie under a free cell of a container and returns that free cell; None when it
// cannot. If it must, it binds a root of the container around the cell: by rebind if decided,
// else by bind. restore undoes that by itself.
func (c *Cluster) open(space int32, id CellID, decided bool) CellID {
	if free := c.freeAbove(space, id); free != None {
		return free
	}
	s := &c.spaces[space]
	if s.Parent == None {
		return None
	}
	for anc := id; anc != None; anc = c.f.parent[anc] {
		list := s.unbound[c.slotOf(anc)]
		if len(list) == 0 {
			continue
		}
		root := list[len(list)-1]
		if decided && c.rebind(space, root, anc) || !decided && c.bind(space, root, anc) {
			return c.freeAbove(space, id)
		}
	}
	return None
}

// openings lists every way to bind roots of a container, and of the containers around it, so that
// a cell lies under a free cell of it. The outermost binding comes first. If the cell lies so
// already, the only way has nothing to bind.
func (c *Cluster) openings(space int32, id CellID) [][]Bind {
	s := &c.spaces[space]
	if c.freeAbove(space, id) != None {
		return [][]Bind{nil}
	}
	var out [][]Bind
	for anc := id; anc != None && s.Parent != None; anc = c.f.parent[anc] {
		list := s.unbound[c.slotOf(anc)]
		if len(list) == 0 {
			continue
		}
		for _, outer := range c.openings(s.Parent, anc) {
			out = append(out, append(slices.Clip(outer), Bind{Space: space, Root: list[len(list)-1], Cell: anc}))
		}
	}
	return out
}

// unbind is the inverse of bind.
func (c *Cluster) unbind(space int32, root RootID) {
	s := &c.spaces[space]
	r := &s.Roots[root]
	id := r.Cell
	up := c.container(space, r)
	if s.free != nil {
		if s.free[c.slotOf(id)].has(id) {
			c.setFree(space, id, false)
		}
		i, _ := slices.BinarySearchFunc(s.at, id, func(r rootAt, id CellID) int { return cmp.Compare(r.cell, id) })
		s.at = slices.Delete(s.at, i, i+1)
	} else {
		c.enlist(space, root, id, false)
		c.owner[id] = rootRef{None, None}
	}
	if r.Doomed {
		c.setDoomed(space, root, false)
	}
	r.Cell = None
	slot := c.f.slot(r.Chain, r.Level)
	s.unbound[slot] = insertRoot(s.unbound[slot], root)
	c.spaces[up].owed[slot]++
	c.restore(up, id)
}

// rootRef names a root of a space.
type rootRef struct {
	space int32
	root  RootID
}

// rootOver returns the VC's root that is bound to a cell or to one around it.
func (c *Cluster) rootOver(id CellID) rootRef {
	for ; id != None; id = c.f.parent[id] {
		if c.owner[id].space != None {
			return c.owner[id]
		}
	}
	return rootRef{None, None}
}

// RootOver returns the space and the root whose bound cell a physical cell is or
// lies in; None and None when it is not bound.
func (c *Cluster) RootOver(id CellID) (space int32, root RootID) {
	ref := c.rootOver(id)
	return ref.space, ref.root
}

// BoundAround is RootOver where a VC has the cell. Else it returns the innermost container to
// which the cell is left, with the root that is bound around it; None and None if that is the
// physical cluster.
func (c *Cluster) BoundAround(id CellID) (space int32, root RootID) {
	if ref := c.rootOver(id); ref.space != None {
		return ref.space, ref.root
	}
	space, at := c.freeAround(id)
	if space <= 0 {
		return None, None
	}
	for root = None; root == None; at = c.f.parent[at] {
		root = c.spaces[space].rootAtCell(at)
	}
	return space, root
}

// rebindOuter binds a container's root as a decision said, unless it is bound so already.
func (c *Cluster) rebindOuter(b Bind) {
	if at := c.spaces[b.Space].Roots[b.Root].Cell; at == b.Cell {
		return
	} else if at != None || !c.rebind(b.Space, b.Root, b.Cell) {
		panic(fmt.Sprintf("cell: root %d of container %d cannot be bound to cell %d (is %d)", b.Root, b.Space, b.Cell, at))
	}
}

// withOuter puts the bindings of the containers around a VC's cells before the VC's own.
func (c *Cluster) withOuter(space int32, binds []Bind) []Bind {
	if up := c.spaces[space].Parent; up == None || up == 0 {
		return binds
	}
	var outer []Bind
	for _, b := range binds {
		if c.spaces[space].Roots[b.Root].Pinned != "" {
			continue
		}
		var here []Bind
		for up := c.spaces[space].Parent; up != 0; up = c.spaces[up].Parent {
			id := b.Cell
			for c.spaces[up].rootAtCell(id) == None {
				id = c.f.parent[id]
			}
			here = append(here, Bind{Space: up, Root: c.spaces[up].rootAtCell(id), Cell: id})
		}
		slices.Reverse(here)
		for _, h := range here {
			if !slices.Contains(outer, h) {
				outer = append(outer, h)
			}
		}
	}
	return append(outer, binds...)
}

// UnownedBind is a binding that no allocation accounts for: of a container's root, or
// of a doomed one.
type UnownedBind struct {
	Space  int32  `json:"space"`
	Root   RootID `json:"root"`
	Cell   CellID `json:"cell"`
	Doomed bool   `json:"doomed,omitempty"`
}

// UnownedBinds returns the bindings that no allocation accounts for, containers before
// what is part of them.
func (c *Cluster) UnownedBinds() []UnownedBind {
	var out []UnownedBind
	for si := 1; si < len(c.spaces); si++ {
		for ri := range c.spaces[si].Roots {
			r := &c.spaces[si].Roots[ri]
			if r.Cell != None && r.Pinned == "" && (r.Doomed || c.spaces[si].free != nil) {
				out = append(out, UnownedBind{int32(si), RootID(ri), r.Cell, r.Doomed})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b UnownedBind) int { return cmp.Compare(c.depth(a.Space), c.depth(b.Space)) })
	return out
}

// depth counts the spaces around one.
func (c *Cluster) depth(space int32) (n int) {
	for up := c.spaces[space].Parent; up != None; up = c.spaces[up].Parent {
		n++
	}
	return n
}

// Rebind makes bindings that UnownedBind returned, in a cluster in which nothing is in
// use yet.
func (c *Cluster) Rebind(bs []UnownedBind) {
	for _, b := range bs {
		if !c.rebind(b.Space, b.Root, b.Cell) {
			panic(fmt.Sprintf("cell: root %d of space %d cannot be bound to cell %d", b.Root, b.Space, b.Cell))
		}
		if b.Doomed {
			c.setDoomed(b.Space, b.Root, true)
		}
	}
}

// setDoomed sets (on) or clears that a root is doomed: bound to a bad cell in place of a healthy
// one.
func (c *Cluster) setDoomed(space int32, root RootID, on bool) {
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
