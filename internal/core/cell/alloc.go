package cell

import (
	"cmp"
	"fmt"
	"slices"
)

// Alloc is a set of leaves with a holder that the caller knows. A promised
// allocation holds nothing yet.
type Alloc struct {
	Space     int32 // the VC, also of an opportunistic allocation
	Priority  Priority
	Lazy      bool // was guaranteed and became opportunistic
	Promised  bool
	intent    Intent
	live      bool
	leaves    int32  // how many it holds, or was promised
	first     LeafID // its first leaf if its leaves are consecutive in the order of tasks, else None
	Placement Placement
	bind      [1]Bind // the placement's binding if it has exactly one
}

// binds returns the bindings of the placement. Most have one, which is read from the allocation
// itself: what a placement points to is far away in memory.
func (a *Alloc) binds() []Bind {
	if len(a.Placement.Binds) == 1 {
		return a.bind[:]
	}
	return a.Placement.Binds
}

// setBinds sets the preassigned cells that it uses.
func (a *Alloc) setBinds(binds []Bind) {
	if a.Placement.Binds = binds; len(binds) == 1 {
		a.bind[0] = binds[0]
	}
}

// setLeaves notes how many leaves the placement has, and the first if they are consecutive.
func (a *Alloc) setLeaves() {
	a.first = None
	row := true
	for i := range a.Placement.Tasks {
		for _, l := range a.Placement.Tasks[i].Leaves {
			if a.leaves == 0 {
				a.first = l
			}
			row = row && l == a.first+LeafID(a.leaves)
			a.leaves++
		}
	}
	if !row {
		a.first = None
	}
}

// leafRun returns the i-th run of an allocation's leaves; false after the last. The slice is good
// until the next call.
func (c *Cluster) leafRun(a *Alloc, i int) ([]LeafID, bool) {
	switch {
	case a.first != None && i == 0: // needs nothing that the placement points to
		c.row = c.row[:0]
		for l := a.first; l < a.first+LeafID(a.leaves); l++ {
			c.row = append(c.row, l)
		}
		return c.row, true
	case a.first != None || i >= len(a.Placement.Tasks):
		return nil, false
	}
	return a.Placement.Tasks[i].Leaves, true
}

// Intent says what a holder is about to do; the caller sets it.
type Intent uint8

// The moods of a holder.
const (
	Staying Intent = iota
	Leaving        // it was told to stop: waiting for its leaves costs nothing
	Unknown        // its state is unknown: its leaves cannot be counted on
)

// Intent returns what the holder is about to do.
func (a *Alloc) Intent() Intent { return a.intent }

// SetIntent sets what a holder is about to do.
func (c *Cluster) SetIntent(id AllocID, m Intent) {
	a := &c.allocs[id]
	if a.intent == m {
		return
	}
	c.countIntent(a, -1)
	a.intent = m
	c.countIntent(a, 1)
	c.recountAll(a)
}

// staysOn reports whether an allocation holds leaves of its VC's guarantee and was not told to
// stop.
func (a *Alloc) staysOn() bool {
	return a.live && !a.Promised && !a.Opportunistic() && a.intent != Leaving
}

// countHeld adds (sign 1) or removes (-1) an allocation in the count of guaranteed leaves that
// its VC's gangs hold. It is called around every change that this count depends on.
func (c *Cluster) countHeld(a *Alloc, sign int32) {
	if a.staysOn() {
		c.spaces[a.Space].held += sign * a.leaves
	}
}

// countIntent adds (d 1) or removes (-1) an allocation in all counts that depend on its intent.
func (c *Cluster) countIntent(a *Alloc, d int32) {
	c.countHeld(a, d)
	switch a.intent {
	case Unknown:
		c.unknownCount += d
	case Leaving:
		c.leavingCount += d
	}
}

// Opportunistic reports whether the allocation uses no guarantee.
func (a *Alloc) Opportunistic() bool { return a.Lazy || a.Priority < MinGuaranteed }

// Take gives the leaves of a placement to a new allocation. With promise it does not hold them
// yet: others may. The placement must have come from Place on an equal state; anything else
// panics.
func (c *Cluster) Take(vc int32, p Priority, pl Placement, promise bool) AllocID {
	id := AllocID(len(c.allocs))
	if n := len(c.freed); n > 0 {
		id, c.freed = c.freed[n-1], c.freed[:n-1]
	} else {
		c.allocs = append(c.allocs, Alloc{})
	}
	c.allocs[id] = Alloc{Space: vc, Priority: p, Promised: promise, Placement: pl, live: true}
	c.allocs[id].setBinds(pl.Binds)
	c.allocs[id].setLeaves()
	for _, b := range pl.Binds {
		if b.Space != 0 {
			c.rebindOuter(b)
			continue
		}
		r := &c.spaces[vc].Roots[b.Root]
		if r.Cell == None && !c.rebind(vc, b.Root, b.Cell) || r.Cell != b.Cell {
			panic(fmt.Sprintf("cell: root %d of %q cannot be bound to cell %d (is %d)", b.Root, c.spaces[vc].Name, b.Cell, r.Cell))
		}
	}
	for i := range pl.Tasks {
		for _, l := range pl.Tasks[i].Leaves {
			at := c.leaves[l].owner(promise)
			if *at != None {
				panic(fmt.Sprintf("cell: leaf %d already belongs to allocation %d", l, *at))
			}
			*at = id
		}
	}
	a := &c.allocs[id]
	c.countHeld(a, 1)
	c.recountAll(a)
	c.useRoots(id, 1)
	return id
}

// Promote makes a promised allocation hold its leaves, which must be held by no other.
func (c *Cluster) Promote(id AllocID) {
	a := &c.allocs[id]
	a.Promised = false
	c.countHeld(a, 1)
	for i := range a.Placement.Tasks {
		for _, l := range a.Placement.Tasks[i].Leaves {
			at := &c.leaves[l]
			if at.holder != None {
				panic(fmt.Sprintf("cell: leaf %d is still held by allocation %d", l, at.holder))
			}
			at.holder, at.promised = id, None
		}
	}
	c.recountAll(a)
}

// Release ends an allocation. Its leaves are free of it, and preassigned cells that are no longer
// used are unbound. It reports whether all of them stayed bound.
func (c *Cluster) Release(id AllocID) (kept bool) {
	a := &c.allocs[id]
	for i := 0; ; i++ {
		leaves, more := c.leafRun(a, i)
		if !more {
			break
		}
		for _, l := range leaves {
			*c.leaves[l].owner(a.Promised) = None
		}
	}
	c.recountAll(a)
	if !a.Lazy {
		c.useRoots(id, -1)
	}
	c.countIntent(a, -1)
	kept = true
	for _, b := range a.binds() {
		kept = kept && (b.Space != 0 || c.spaces[a.Space].Roots[b.Root].Cell != None)
	}
	c.allocs[id] = Alloc{}
	c.freed = append(c.freed, id)
	return kept
}

// Demote makes a guaranteed allocation opportunistic: it keeps its leaves and
// gives its preassigned cells back (lazy preemption).
func (c *Cluster) Demote(id AllocID) {
	c.useRoots(id, -1)
	c.countHeld(&c.allocs[id], -1)
	c.allocs[id].Lazy = true
	c.recountAll(&c.allocs[id])
}

// undemote is the inverse of Demote while nothing else changed.
func (c *Cluster) undemote(id AllocID) {
	a := &c.allocs[id]
	a.Lazy = false
	c.countHeld(a, 1)
	c.bindAgain(a)
	c.useRoots(id, 1)
	c.recountAll(a)
}

// useRoots adds (sign 1) or removes (-1) an allocation's leaves in the counts of its preassigned
// cells, and unbinds those that are left unused.
func (c *Cluster) useRoots(id AllocID, sign int32) {
	a := &c.allocs[id]
	var room [8]Bind // enough for most
	binds := append(room[:0], a.binds()...)
	if len(binds) > 1 {
		slices.SortFunc(binds, func(x, y Bind) int { return cmp.Or(cmp.Compare(x.Space, y.Space), cmp.Compare(x.Cell, y.Cell)) })
	}
	for i := len(binds); i > 0 && binds[i-1].Space != 0; i-- {
		binds = binds[:i-1] // of a container
	}
	if len(binds) == 0 {
		return
	}
	var at Bind
	var first, end LeafID
	for i := 0; ; i++ {
		leaves, more := c.leafRun(a, i)
		if !more {
			break
		}
		for _, l := range leaves {
			if l < first || l >= end {
				at, first, end = c.bindAround(binds, l)
			}
			if at.Cell != None {
				c.spaces[a.Space].Roots[at.Root].Used += sign
			}
		}
	}
	for _, b := range a.binds() {
		if b.Space != 0 {
			continue
		}
		if r := &c.spaces[a.Space].Roots[b.Root]; r.Used == 0 && r.Pinned == "" && !r.Doomed {
			c.unbind(a.Space, b.Root)
		}
	}
}

// Upgrade is the inverse of Demote: the allocation is guaranteed again, in the
// preassigned cells that binds names. They must come from Upgradable.
func (c *Cluster) Upgrade(id AllocID, binds []Bind) {
	c.allocs[id].setBinds(binds)
	c.undemote(id)
}
