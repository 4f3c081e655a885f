package cell

import (
	"fmt"
	"slices"
)

// Cluster is the physical cells with all spaces and allocations on them. The
// state of a leaf is one of
//
//	Free       nobody holds it and it is promised to nobody
//	Used       an allocation holds it
//	Reserving  an allocation holds it and another was promised it
//	Reserved   it is promised and nobody holds it any more
//
// A leaf is held by at most one allocation and promised to at most one.
type Cluster struct {
	f      *Forest
	skus   []SKU
	spaces []Space
	owner  []rootRef // of each cell: the root that is bound to exactly this cell
	hold   []AllocID // of each leaf
	resv   []AllocID // of each leaf
	bad    []bool    // of each leaf: its own fault
	nodes  []Blame   // of each node
	idle   []int32   // of each cell: leaves below that are free and healthy
	allocs []Alloc
	spare  []AllocID // released ids, last released first
}

// Alloc is a set of leaves with a holder that the caller knows. A promised
// allocation holds nothing yet.
type Alloc struct {
	Space     int32 // the VC, also of an opportunistic allocation
	Priority  Priority
	Lazy      bool // was guaranteed and became opportunistic
	Promised  bool
	Placement Placement
	mood      Mood
	live      bool
}

// Mood says what a holder is about to do; the caller knows and tells.
type Mood uint8

// The moods of a holder.
const (
	Staying Mood = iota
	Leaving      // it was told to go: waiting for its leaves costs nothing
	Stuck        // nothing is known of it: its leaves cannot be counted on
)

// SetMood says what a holder is about to do.
func (c *Cluster) SetMood(id AllocID, m Mood) { c.allocs[id].mood = m }

// Opportunistic reports whether the allocation uses no guarantee.
func (a *Alloc) Opportunistic() bool { return a.Lazy || a.Priority < MinGuaranteed }

// Blame says why a node must get no new work; the zero value is healthy.
type Blame uint8

// The faults of a node.
const (
	Down Blame = 1 << iota
	Cordoned
	Suspect
)

// New builds a cluster from a validated spec: nothing is used, every node is
// up, pinned cells are bound. Errors name the contradiction.
func New(s *Spec) (*Cluster, error) {
	f, err := newForest(s)
	if err != nil {
		return nil, err
	}
	c := &Cluster{f: f, skus: s.SKUs, owner: make([]rootRef, len(f.Cells)), idle: make([]int32, len(f.Cells)),
		hold: make([]AllocID, len(f.Leaves)), resv: make([]AllocID, len(f.Leaves)),
		bad: make([]bool, len(f.Leaves)), nodes: make([]Blame, len(f.Nodes))}
	for i := range c.owner {
		c.owner[i] = rootRef{None, None}
		c.idle[i] = f.NumLeaves(CellID(i))
	}
	for i := range c.hold {
		c.hold[i], c.resv[i] = None, None
	}
	c.spaces = []Space{{Parent: None, free: make([]cellList, len(f.Chains)*maxLevels), owed: make([]int32, len(f.Chains)*maxLevels)}}
	for ci := range f.Chains {
		ch := &f.Chains[ci]
		for _, top := range ch.Tops {
			c.spaces[0].Roots = append(c.spaces[0].Roots, Root{Chain: int16(ci), Level: ch.Top, Cell: top})
			c.spaces[0].free[slot(int16(ci), ch.Top)].insert(top)
		}
	}
	pinned := c.pinned()
	for i := range s.VCs {
		if err := c.addVC(&s.VCs[i], pinned); err != nil {
			return nil, err
		}
	}
	for ci := range f.Chains {
		if !c.safe(int16(ci)) {
			return nil, fmt.Errorf("chain %q has too few cells for the guarantees of its virtual clusters", f.Chains[ci].Name)
		}
	}
	return c, nil
}

func (c *Cluster) addVC(v *VCSpec, pinned map[PinnedID]CellID) error {
	si := int32(len(c.spaces))
	sp := Space{Name: v.Name, Parent: 0}
	for _, q := range v.Quota {
		ci := c.f.chainIndex(q.Chain)
		if ci == None || q.Level < 1 || q.Level > c.f.Chains[ci].Top || q.Number < 0 {
			return fmt.Errorf("virtual cluster %q: chain %q level %d number %d does not exist", v.Name, q.Chain, q.Level, q.Number)
		}
		for range q.Number {
			sp.Roots = append(sp.Roots, Root{Chain: int16(ci), Level: q.Level, Cell: None})
		}
		c.spaces[0].owed[slot(int16(ci), q.Level)] += q.Number
	}
	for _, p := range v.Pinned {
		id, ok := pinned[p]
		if !ok {
			return fmt.Errorf("virtual cluster %q: there is no pinned cell %q", v.Name, p)
		}
		if !c.carve(id) {
			return fmt.Errorf("virtual cluster %q: pinned cell %q belongs to another already", v.Name, p)
		}
		cl := &c.f.Cells[id]
		c.owner[id] = rootRef{si, RootID(len(sp.Roots))}
		sp.Roots = append(sp.Roots, Root{Chain: cl.Chain, Level: cl.Level, Pinned: p, Cell: id})
	}
	c.spaces = append(c.spaces, sp)
	return nil
}

// pinned finds the pinned cells by their names in one pass over all cells.
func (c *Cluster) pinned() map[PinnedID]CellID {
	cells := map[PinnedID]CellID{}
	for i := range c.f.Cells {
		if p := c.f.Cells[i].Pinned; p != "" {
			cells[p] = CellID(i)
		}
	}
	return cells
}

// Clone returns an independent copy; the shape and the placements are shared.
func (c *Cluster) Clone() *Cluster {
	d := *c
	d.spaces = slices.Clone(c.spaces)
	for i := range d.spaces {
		sp := &d.spaces[i]
		sp.Roots = slices.Clone(sp.Roots)
		sp.owed = slices.Clone(sp.owed)
		sp.free = slices.Clone(sp.free)
		for j := range sp.free {
			sp.free[j] = slices.Clone(sp.free[j])
		}
	}
	d.owner, d.hold, d.resv = slices.Clone(c.owner), slices.Clone(c.hold), slices.Clone(c.resv)
	d.bad, d.nodes, d.idle = slices.Clone(c.bad), slices.Clone(c.nodes), slices.Clone(c.idle)
	d.allocs, d.spare = slices.Clone(c.allocs), slices.Clone(c.spare)
	return &d
}

// Forest returns the shape, which never changes.
func (c *Cluster) Forest() *Forest { return c.f }

// SpaceOf returns the index of a VC, or None.
func (c *Cluster) SpaceOf(v VCName) int32 {
	for i := 1; i < len(c.spaces); i++ {
		if c.spaces[i].Name == v {
			return int32(i)
		}
	}
	return None
}

// Space returns a space to read; 0 is the physical cluster.
func (c *Cluster) Space(i int32) *Space { return &c.spaces[i] }

// NumSpaces returns the number of spaces, the physical one included.
func (c *Cluster) NumSpaces() int32 { return int32(len(c.spaces)) }

// SKU returns a leaf type by name; the zero SKU when it is unknown.
func (c *Cluster) SKU(n TypeName) SKU {
	for _, s := range c.skus {
		if s.Name == n {
			return s
		}
	}
	return SKU{Name: n}
}

// Alloc returns a live allocation to read.
func (c *Cluster) Alloc(a AllocID) *Alloc { return &c.allocs[a] }

// Holder returns who holds a leaf and to whom it is promised, None for nobody.
func (c *Cluster) Holder(l LeafID) (hold, promised AllocID) { return c.hold[l], c.resv[l] }

// Take gives the leaves of a placement to a new allocation, which holds them
// (promise false) or is promised them while others may still hold them. The
// placement must have come from Place on an equal state; anything else panics.
func (c *Cluster) Take(vc int32, p Priority, pl Placement, promise bool) AllocID {
	id := AllocID(len(c.allocs))
	if n := len(c.spare); n > 0 {
		id, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		c.allocs = append(c.allocs, Alloc{})
	}
	c.allocs[id] = Alloc{Space: vc, Priority: p, Promised: promise, Placement: pl, live: true}
	for _, b := range pl.Binds {
		r := &c.spaces[vc].Roots[b.Root]
		if r.Cell == None && !c.bind(vc, b.Root, b.Cell) || r.Cell != b.Cell {
			panic(fmt.Sprintf("cell: root %d of %q cannot be bound to cell %d (is %d)", b.Root, c.spaces[vc].Name, b.Cell, r.Cell))
		}
	}
	list := c.hold
	if promise {
		list = c.resv
	}
	for _, t := range pl.Tasks {
		for _, l := range t.Leaves {
			if list[l] != None {
				panic(fmt.Sprintf("cell: leaf %d already belongs to allocation %d", l, list[l]))
			}
			c.setLeaf(list, l, id)
		}
	}
	c.useRoots(id, 1)
	return id
}

// Promote lets a promised allocation hold its leaves; nobody else may hold one.
func (c *Cluster) Promote(id AllocID) {
	a := &c.allocs[id]
	a.Promised = false
	for _, t := range a.Placement.Tasks {
		for _, l := range t.Leaves {
			if c.hold[l] != None {
				panic(fmt.Sprintf("cell: leaf %d is still held by allocation %d", l, c.hold[l]))
			}
			c.setLeaf(c.hold, l, id)
			c.setLeaf(c.resv, l, None)
		}
	}
}

// Release ends an allocation: its leaves are free of it and preassigned cells
// that nobody uses any more are unbound.
func (c *Cluster) Release(id AllocID) {
	a := &c.allocs[id]
	list := c.hold
	if a.Promised {
		list = c.resv
	}
	for _, t := range a.Placement.Tasks {
		for _, l := range t.Leaves {
			c.setLeaf(list, l, None)
		}
	}
	if !a.Lazy {
		c.useRoots(id, -1)
	}
	c.allocs[id] = Alloc{}
	c.spare = append(c.spare, id)
}

// Demote makes a guaranteed allocation opportunistic: it keeps its leaves and
// gives its preassigned cells back (lazy preemption).
func (c *Cluster) Demote(id AllocID) {
	c.useRoots(id, -1)
	c.allocs[id].Lazy = true
}

// undemote is the inverse of Demote while nothing else changed.
func (c *Cluster) undemote(id AllocID) {
	a := &c.allocs[id]
	a.Lazy = false
	for _, b := range a.Placement.Binds {
		if c.spaces[a.Space].Roots[b.Root].Cell == None && !c.bind(a.Space, b.Root, b.Cell) {
			panic(fmt.Sprintf("cell: root %d cannot be bound again to cell %d", b.Root, b.Cell))
		}
	}
	c.useRoots(id, 1)
}

// useRoots counts an allocation's leaves in (sign 1) or out (-1) of the
// preassigned cells it uses, and unbinds those that are left unused.
func (c *Cluster) useRoots(id AllocID, sign int32) {
	a := &c.allocs[id]
	for _, b := range a.Placement.Binds {
		r := &c.spaces[a.Space].Roots[b.Root]
		first := c.f.Cells[b.Cell].FirstLeaf
		end := first + LeafID(c.f.NumLeaves(b.Cell))
		for _, t := range a.Placement.Tasks {
			for _, l := range t.Leaves {
				if l >= first && l < end {
					r.Used += sign
				}
			}
		}
		if r.Used == 0 && r.Pinned == "" {
			c.unbind(a.Space, b.Root)
		}
	}
}

// setLeaf writes one entry of hold or resv and keeps the idle counters.
func (c *Cluster) setLeaf(list []AllocID, l LeafID, to AllocID) {
	was := c.leafIdle(l)
	list[l] = to
	c.recount(l, was)
}

func (c *Cluster) leafIdle(l LeafID) bool {
	return c.hold[l] == None && c.resv[l] == None && c.healthy(l)
}

func (c *Cluster) healthy(l LeafID) bool {
	return !c.bad[l] && c.nodes[c.f.Cells[c.f.Leaves[l]].Node] == 0
}

func (c *Cluster) recount(l LeafID, was bool) {
	is := c.leafIdle(l)
	if is == was {
		return
	}
	d := int32(1)
	if was {
		d = -1
	}
	for id := c.f.Leaves[l]; id != None; id = c.f.Cells[id].Parent {
		c.idle[id] += d
	}
}

// SetLeafBad says whether one leaf is at fault by itself.
func (c *Cluster) SetLeafBad(l LeafID, bad bool) {
	was := c.leafIdle(l)
	c.bad[l] = bad
	c.recount(l, was)
}

// SetBlame adds (on) or removes faults of a node.
func (c *Cluster) SetBlame(node int32, b Blame, on bool) {
	for _, id := range c.f.Nodes[node].Cells {
		first := c.f.Cells[id].FirstLeaf
		end := first + LeafID(c.f.NumLeaves(id))
		was := make([]bool, end-first)
		for l := first; l < end; l++ {
			was[l-first] = c.leafIdle(l)
		}
		old := c.nodes[node]
		c.nodes[node] = old&^b | b*onBit(on)
		for l := first; l < end; l++ {
			c.recount(l, was[l-first])
		}
		c.nodes[node] = old
	}
	c.nodes[node] = c.nodes[node]&^b | b*onBit(on)
}

func onBit(on bool) Blame {
	if on {
		return 1
	}
	return 0
}

// Blame returns the faults of a node.
func (c *Cluster) Blame(node int32) Blame { return c.nodes[node] }

// LeafBad reports whether a leaf is at fault by itself.
func (c *Cluster) LeafBad(l LeafID) bool { return c.bad[l] }

// Idle returns how many leaves at or below a cell are free and healthy.
func (c *Cluster) Idle(id CellID) int32 { return c.idle[id] }

// Live returns the number of live allocations.
func (c *Cluster) Live() int {
	n := 0
	for i := range c.allocs {
		if c.allocs[i].live {
			n++
		}
	}
	return n
}

// Upgrade is the inverse of Demote: the allocation is guaranteed again, in the
// preassigned cells that binds names. They must come from Upgradable.
func (c *Cluster) Upgrade(id AllocID, binds []Bind) {
	c.allocs[id].Placement.Binds = binds
	c.undemote(id)
}
