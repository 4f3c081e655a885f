package cell

import (
	"fmt"
	"slices"
)

// Space is a part of the cluster that is divided further. The physical cluster
// is the root space: its roots are the top-level cells. A VC is a space whose
// roots, its preassigned cells, bind to cells of its parent while in use.
//
// free holds, by (chain, level), the cells of this space that no child space
// has, maximally merged and sorted; owed counts the children's roots that are
// not bound. The safety invariant, at every chain and level: what is free, or
// can be split off, covers what is owed (HiveD, OSDI'20, section 4).
type Space struct {
	Name   VCName // "" is the physical cluster
	Parent int32  // index of the parent space, None for the physical cluster
	Roots  []Root
	free   []cellList // by chain*32 + level-1
	owed   []int32    // same index
}

// Root is one preassigned cell.
type Root struct {
	Chain  int16
	Level  Level
	Pinned PinnedID // pinned roots are bound for ever
	Cell   CellID   // the physical cell it is bound to, None while unbound
	Used   int32    // leaves below it that guaranteed allocations of the VC hold or were promised
}

// cellList is a sorted set of cells.
type cellList []CellID

func (l *cellList) insert(c CellID) {
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

const maxLevels = 32

func slot(chain int16, l Level) int { return int(chain)*maxLevels + int(l) - 1 }

// carve takes a cell out of the free lists of the physical space, splitting its
// free ancestors. It reports false, and changes nothing, when no ancestor is free.
func (c *Cluster) carve(id CellID) bool {
	s, f := &c.spaces[0], c.f
	anc := id
	for !s.free[slot(f.Cells[anc].Chain, f.Cells[anc].Level)].has(anc) {
		anc = f.Cells[anc].Parent
		if anc == None {
			return false
		}
	}
	s.free[slot(f.Cells[anc].Chain, f.Cells[anc].Level)].remove(anc)
	for anc != id {
		first, step, n := f.Children(anc)
		keep := first + (id-first)/step*step
		list := &s.free[slot(f.Cells[first].Chain, f.Cells[first].Level)]
		for i := int32(0); i < n; i++ {
			if ch := first + CellID(i)*step; ch != keep {
				list.insert(ch)
			}
		}
		anc = keep
	}
	return true
}

// restore is the inverse of carve: the cell is free again and merges with its
// free siblings upwards as far as it can.
func (c *Cluster) restore(id CellID) {
	s, f := &c.spaces[0], c.f
	for {
		parent := f.Cells[id].Parent
		list := &s.free[slot(f.Cells[id].Chain, f.Cells[id].Level)]
		if parent == None {
			list.insert(id)
			return
		}
		first, step, n := f.Children(parent)
		for i := int32(0); i < n; i++ {
			if sib := first + CellID(i)*step; sib != id && !list.has(sib) {
				list.insert(id)
				return
			}
		}
		for i := int32(0); i < n; i++ {
			list.remove(first + CellID(i)*step)
		}
		id = parent
	}
}

// safe reports whether the free cells of a chain still cover what is owed at
// every level, by splitting from the top down.
func (c *Cluster) safe(chain int16) bool {
	s, ch := &c.spaces[0], &c.f.Chains[chain]
	var left int64
	for l := ch.Top; l >= 1; l-- {
		i := slot(chain, l)
		left += int64(len(s.free[i])) - int64(s.owed[i])
		if left < 0 {
			return false
		}
		if l > 1 {
			left *= int64(ch.fanout[l-1])
		}
	}
	return true
}

// bind ties an unbound root to a physical cell. It reports false, and changes
// nothing, when the cell is not free or another guarantee would break.
func (c *Cluster) bind(space int32, root RootID, id CellID) bool {
	r := &c.spaces[space].Roots[root]
	if !c.carve(id) {
		return false
	}
	owed := &c.spaces[0].owed[slot(r.Chain, r.Level)]
	if r.Pinned == "" {
		*owed--
	}
	if !c.safe(r.Chain) {
		if r.Pinned == "" {
			*owed++
		}
		c.restore(id)
		return false
	}
	r.Cell = id
	c.owner[id] = rootRef{space, root}
	return true
}

// unbind is the inverse of bind.
func (c *Cluster) unbind(space int32, root RootID) {
	r := &c.spaces[space].Roots[root]
	c.owner[r.Cell] = rootRef{None, None}
	c.restore(r.Cell)
	c.spaces[0].owed[slot(r.Chain, r.Level)]++
	r.Cell = None
}

// rootRef names a root of a space.
type rootRef struct {
	space int32
	root  RootID
}

// rootOver returns the preassigned cell that a physical cell is or lies in.
func (c *Cluster) rootOver(id CellID) rootRef {
	for ; id != None; id = c.f.Cells[id].Parent {
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
