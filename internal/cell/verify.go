package cell

import (
	"errors"
	"fmt"
)

// Verify checks every invariant of the cluster and returns all breaches: one
// owner per leaf, allocations and leaves agree, counters equal what a recount
// gives, free and bound cells partition each chain, free lists are maximally
// merged, and every guarantee is safe.
func (c *Cluster) Verify() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf("cell: "+format, a...)) }
	c.verifyAllocs(add)
	c.verifyIdle(add)
	c.verifyRoots(add)
	c.verifyPartition(add)
	for ci := range c.f.Chains {
		if !c.safe(int16(ci)) {
			add("chain %q: free cells do not cover the unbound guarantees", c.f.Chains[ci].Name)
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) verifyAllocs(add func(string, ...any)) {
	hold := make([]AllocID, len(c.hold))
	resv := make([]AllocID, len(c.resv))
	for i := range hold {
		hold[i], resv[i] = None, None
	}
	for id := range c.allocs {
		a := &c.allocs[id]
		if !a.live {
			continue
		}
		list := hold
		if a.Promised {
			list = resv
		}
		for _, t := range a.Placement.Tasks {
			for _, l := range t.Leaves {
				if list[l] != None {
					add("leaf %d belongs to allocations %d and %d", l, list[l], id)
				}
				list[l] = AllocID(id)
			}
		}
	}
	for l := range hold {
		if hold[l] != c.hold[l] || resv[l] != c.resv[l] {
			add("leaf %d: held by %d, promised to %d, but its allocations say %d and %d", l, c.hold[l], c.resv[l], hold[l], resv[l])
		}
	}
}

func (c *Cluster) verifyIdle(add func(string, ...any)) {
	idle := make([]int32, len(c.f.Cells))
	for l := range c.f.Leaves {
		if !c.leafIdle(LeafID(l)) {
			continue
		}
		for id := c.f.Leaves[l]; id != None; id = c.f.Cells[id].Parent {
			idle[id]++
		}
	}
	for id := range idle {
		if idle[id] != c.idle[id] {
			add("cell %d has %d idle leaves, counted %d", id, idle[id], c.idle[id])
		}
	}
}

func (c *Cluster) verifyRoots(add func(string, ...any)) {
	owed := make([]int32, len(c.spaces[0].owed))
	for si := 1; si < len(c.spaces); si++ {
		for ri := range c.spaces[si].Roots {
			r := &c.spaces[si].Roots[ri]
			if r.Cell == None {
				owed[slot(r.Chain, r.Level)]++
			} else if c.owner[r.Cell] != (rootRef{int32(si), RootID(ri)}) {
				add("root %d of %q is bound to cell %d, which belongs to %v", ri, c.spaces[si].Name, r.Cell, c.owner[r.Cell])
			}
			if used := c.countUsed(int32(si), r); used != r.Used || r.Pinned == "" && (used > 0) != (r.Cell != None) {
				add("root %d of %q: %d leaves used, counted %d, bound to cell %d", ri, c.spaces[si].Name, used, r.Used, r.Cell)
			}
		}
	}
	for i := range owed {
		if owed[i] != c.spaces[0].owed[i] {
			add("chain %d level %d: %d cells owed, counted %d", i/maxLevels, i%maxLevels+1, owed[i], c.spaces[0].owed[i])
		}
	}
}

func (c *Cluster) countUsed(space int32, r *Root) int32 {
	if r.Cell == None {
		return 0
	}
	var n int32
	for id := range c.allocs {
		a := &c.allocs[id]
		if !a.live || a.Space != space || a.Opportunistic() {
			continue
		}
		for _, t := range a.Placement.Tasks {
			for _, l := range t.Leaves {
				if c.f.Contains(r.Cell, c.f.Leaves[l]) {
					n++
				}
			}
		}
	}
	return n
}

// verifyPartition checks that every leaf lies in exactly one free or bound cell.
func (c *Cluster) verifyPartition(add func(string, ...any)) {
	cover := make([]int8, len(c.f.Leaves))
	count := func(id CellID) {
		first := c.f.Cells[id].FirstLeaf
		for l := first; l < first+LeafID(c.f.NumLeaves(id)); l++ {
			cover[l]++
		}
	}
	for _, list := range c.spaces[0].free {
		for i, id := range list {
			if i > 0 && list[i-1] >= id {
				add("free list is not sorted at cell %d", id)
			}
			count(id)
		}
	}
	for id := range c.owner {
		if c.owner[id].space != None {
			count(CellID(id))
		}
	}
	for l, n := range cover {
		if n != 1 {
			add("leaf %d lies in %d free or bound cells, want 1", l, n)
		}
	}
	for id := range c.f.Cells {
		if c.allChildrenFree(CellID(id)) {
			add("cell %d is split although all its children are free", id)
		}
	}
}

func (c *Cluster) allChildrenFree(id CellID) bool {
	first, step, n := c.f.Children(id)
	for i := int32(0); i < n; i++ {
		child := first + CellID(i)*step
		if !c.spaces[0].free[slot(c.f.Cells[child].Chain, c.f.Cells[child].Level)].has(child) {
			return false
		}
	}
	return n > 0
}
