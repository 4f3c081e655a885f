package cell

import (
	"errors"
	"fmt"
	"slices"
)

// verifier compares what is counted with a recount.
type verifier struct{ *Cluster }

// Verify checks every invariant of the cluster and returns all breaches: one
// owner per leaf, allocations and leaves agree, counters equal what a recount
// gives, free and bound cells partition each chain, free lists are maximally
// merged, and every guarantee is safe.
func (c *Cluster) Verify() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf("cell: "+format, a...)) }
	verifier{c}.verifyAllocs(add)
	verifier{c}.verifyCounts(add)
	verifier{c}.verifyIndex(add)
	verifier{c}.verifyRoots(add)
	for si := range c.spaces {
		if c.spaces[si].free == nil {
			continue
		}
		verifier{c}.verifyPartition(int32(si), add)
		for ci := range c.f.Chains {
			if !c.safe(int32(si), int16(ci)) {
				add("chain %q of %q: free cells do not cover the unbound guarantees", c.f.Chains[ci].Name, c.spaces[si].Name)
			}
		}
	}
	return errors.Join(errs...)
}

func (c verifier) verifyAllocs(add func(string, ...any)) {
	hold := make([]AllocID, len(c.leaves))
	resv := make([]AllocID, len(c.leaves))
	for i := range hold {
		hold[i], resv[i] = None, None
	}
	held := make([]int32, len(c.spaces))
	for id := range c.allocs {
		a := &c.allocs[id]
		if !a.live {
			continue
		}
		n := a.leaves
		again := Alloc{Placement: a.Placement}
		if again.setLeaves(); again.leaves != n || again.first != a.first {
			add("allocation %d has %d leaves from %d on, counted %d from %d on", id, again.leaves, again.first, n, a.first)
		}
		if !slices.Equal(a.binds(), a.Placement.Binds) {
			add("allocation %d uses the cells %v, noted are %v", id, a.Placement.Binds, a.binds())
		}
		if a.staysOn() {
			held[a.Space] += n
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
				within := func(b Bind) bool { return b.Space == 0 && c.f.Contains(b.Cell, c.f.Leaves[l]) }
				if !a.Opportunistic() && !slices.ContainsFunc(a.Placement.Binds, within) {
					add("leaf %d of allocation %d lies in none of its cells %v", l, id, a.Placement.Binds)
				}
			}
		}
	}
	for si := range c.spaces {
		if c.spaces[si].held != held[si] {
			add("space %d: its gangs hold %d leaves, counted %d", si, held[si], c.spaces[si].held)
		}
	}
	for l := range hold {
		if hold[l] != c.leaves[l].holder || resv[l] != c.leaves[l].promised {
			add("leaf %d: held by %d, promised to %d, but its allocations say %d and %d", l, c.leaves[l].holder, c.leaves[l].promised, hold[l], resv[l])
		}
	}
}

func (c verifier) verifyCounts(add func(string, ...any)) {
	n := len(c.f.Cells)
	idle, soft, sick := make([]int32, n), make([]int32, n), make([]int32, n)
	counts := [...][]int32{useIdle: idle, usePreemptible: soft, useBad: sick}
	for l := range c.f.Leaves {
		use := c.use(LeafID(l))
		if use != c.leaves[l].use {
			add("leaf %d stands in count %d, but belongs to %d", l, c.leaves[l].use, use)
		}
		count := counts[use]
		for id := c.f.Leaves[l]; id != None && count != nil; id = c.f.parent[id] {
			count[id]++
		}
	}
	for l := range c.leaves {
		if node := c.f.Cells[c.f.Leaves[l]].Node; (c.leaves[l].faults&nodeFault != 0) != (c.nodes[node] != 0) {
			add("leaf %d ails from %b, its node from %b", l, c.leaves[l].faults, c.nodes[node])
		}
	}
	var rest, loose, ill int32
	for ci := range c.f.Chains {
		for _, top := range c.f.Chains[ci].Tops {
			rest, loose, ill = rest+idle[top], loose+soft[top], ill+sick[top]
		}
	}
	if rest != c.idleCount || loose != c.preemptibleCount || ill != c.badCount {
		add("the cluster has %d idle, %d soft, %d sick leaves, counted %d, %d, %d", rest, loose, ill, c.idleCount, c.preemptibleCount, c.badCount)
	}
	for id := range idle {
		if idle[id] != c.idle[id] || soft[id] != c.preemptible[id] || sick[id] != c.bad[id] {
			add("cell %d has %d idle, %d soft, %d sick leaves, counted %d, %d, %d", id,
				idle[id], soft[id], sick[id], c.idle[id], c.preemptible[id], c.bad[id])
		}
	}
}

// verifyIndex checks that every bin stands in the class of its key, everywhere it
// should, and nowhere else.
func (c verifier) verifyIndex(add func(string, ...any)) {
	for ci := range c.f.Chains {
		ch := &c.f.Chains[ci]
		for b, id := range ch.NodeCells {
			if k, noted := c.key(ch, id), c.kinds[ci].keys[c.bins[ci][b].kind]; k != noted {
				add("node cell %d has key %v, noted %v", id, k, noted)
			}
			whose := int32(None)
			if ref := c.rootOver(id); ref.space != None && c.spaces[ref.space].Roots[ref.root].Pinned == "" {
				whose = ref.space
			}
			if whose != c.bins[ci][b].vc {
				add("node cell %d belongs to space %d, noted %d", id, whose, c.bins[ci][b].vc)
			}
		}
		c.verifyClasses(c.everywhere(int16(ci)), ci, func(b int) (int, bool) { return b, true }, add)
		for si := int32(1); si <= c.vcs; si++ {
			c.verifyClasses(&c.spaces[si].index[ci], ci, func(b int) (int, bool) { return int(c.bins[ci][b].seat), c.bins[ci][b].vc == si }, add)
		}
	}
}

// verifyClasses checks one index. place says where each bin should stand in it, and whether it
// should.
func (c verifier) verifyClasses(x *binIndex, ci int, place func(int) (int, bool), add func(string, ...any)) {
	want, have := 0, 0
	for _, n := range x.size {
		have += int(n)
	}
	for b := range c.f.Chains[ci].NodeCells {
		at, in := place(b)
		if !in {
			continue
		}
		want++
		if x.bin(int32(at)) != int32(b) {
			add("place %d is of bin %d, want %d", at, x.bin(int32(at)), b)
		}
		n := 0
		for kind := range x.classes {
			if s := &x.classes[kind]; s.Next(int32(at)) == int32(at) {
				n++
				if int32(kind) != c.bins[ci][b].kind {
					add("bin %d stands in the wrong class", b)
				}
			}
		}
		if n != 1 {
			add("bin %d stands in %d classes, want 1", b, n)
		}
	}
	if have != want {
		add("an index has %d bins, want %d", have, want)
	}
}

func (c verifier) verifyRoots(add func(string, ...any)) {
	owed := make([][]int32, len(c.spaces))
	for si := range c.spaces {
		owed[si] = make([]int32, c.f.slots)
	}
	for si := 1; si < len(c.spaces); si++ {
		for ri := range c.spaces[si].Roots {
			c.verifyRoot(int32(si), RootID(ri), owed, add)
		}
	}
	for si := range c.spaces {
		for i, n := range c.spaces[si].owed {
			if n != owed[si][i] {
				add("space %d slot %d: %d cells owed, counted %d", si, i, owed[si][i], n)
			}
		}
	}
}

func (c verifier) verifyRoot(si int32, ri RootID, owed [][]int32, add func(string, ...any)) {
	s := &c.spaces[si]
	r := &s.Roots[ri]
	slot := c.f.slot(r.Chain, r.Level)
	if listed := slices.Contains(s.unbound[slot], ri); listed != (r.Cell == None) {
		add("root %d of %q is bound to cell %d, among the unbound: %v", ri, s.Name, r.Cell, listed)
	}
	if r.Cell == None {
		owed[s.Parent][slot]++
		return
	}
	if s.free != nil {
		if s.rootAtCell(r.Cell) != ri {
			add("root %d of container %q is not noted at cell %d", ri, s.Name, r.Cell)
		}
		if s.free[slot].has(r.Cell) && !r.Doomed {
			add("root %d of container %q is bound to cell %d and unused", ri, s.Name, r.Cell)
		}
		return
	}
	if c.owner[r.Cell] != (rootRef{si, ri}) {
		add("root %d of %q is bound to cell %d, which belongs to %v", ri, s.Name, r.Cell, c.owner[r.Cell])
	}
	if used := c.countUsed(si, r); used != r.Used || r.Pinned == "" && !r.Doomed && used == 0 {
		add("root %d of %q: %d leaves used, counted %d, bound to cell %d", ri, s.Name, used, r.Used, r.Cell)
	}
}

func (c verifier) countUsed(space int32, r *Root) int32 {
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

// verifyPartition checks that the cells of a container are divided: every leaf
// lies in exactly one free cell or one cell bound to a child, and nothing free is
// split without need.
func (c verifier) verifyPartition(space int32, add func(string, ...any)) {
	s := &c.spaces[space]
	cover := make([]int8, len(c.f.Leaves))
	count := func(id CellID, d int8) {
		first := c.f.Cells[id].FirstLeaf
		for l := first; l < first+LeafID(c.f.NumLeaves(id)); l++ {
			cover[l] += d
		}
	}
	bad := make([]int32, c.f.slots)
	for _, list := range s.free {
		for i, id := range list {
			if i > 0 && list[i-1] >= id {
				add("free list is not sorted at cell %d", id)
			}
			count(id, 1)
			c.addBad(bad, id)
		}
	}
	if !slices.Equal(bad, s.badFree) {
		add("space %d: unhealthy free cells by slot are %v, counted %v", space, bad, s.badFree)
	}
	for si := 1; si < len(c.spaces); si++ {
		for ri := range c.spaces[si].Roots {
			if r := &c.spaces[si].Roots[ri]; r.Cell != None && c.container(int32(si), r) == space {
				count(r.Cell, 1)
			}
		}
	}
	for i := range s.Roots {
		if s.Roots[i].Cell != None {
			count(s.Roots[i].Cell, -1)
		}
	}
	for l, n := range cover {
		if n != 0 {
			add("space %d: leaf %d is covered %d times too often", space, l, n)
		}
	}
	for id := range c.f.Cells {
		if c.f.Cells[id].Level == 0 || !c.f.Whole(CellID(id)) {
			continue
		}
		// Two roots of a container stay two, also side by side.
		if first, _, _ := c.f.Children(CellID(id)); c.allChildrenFree(s, CellID(id)) && s.rootAtCell(first) == None {
			add("cell %d is split although all its children are free", id)
		}
	}
}

func (c verifier) addBad(bad []int32, id CellID) {
	if c.bad[id] > 0 {
		bad[c.slotOf(id)]++
	}
	first, step, n := c.f.Children(id)
	for i := int32(0); i < n; i++ {
		c.addBad(bad, first+CellID(i)*step)
	}
}

func (c verifier) allChildrenFree(s *Space, id CellID) bool {
	first, step, n := c.f.Children(id)
	for i := int32(0); i < n; i++ {
		child := first + CellID(i)*step
		if !s.free[c.slotOf(child)].has(child) {
			return false
		}
	}
	return n > 0
}
