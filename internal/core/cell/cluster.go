package cell

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/base/collections"
)

// Cluster is the physical cells with all spaces and allocations on them. The
// state of a leaf is one of
//
//	Free       no allocation holds it, and it is promised to none
//	Used       an allocation holds it
//	Reserving  an allocation holds it and another was promised it
//	Reserved   it is promised, and no allocation holds it any more
//
// A leaf is held by at most one allocation and promised to at most one.
type Cluster struct {
	f    *Forest
	skus []SKU
	// spaces are the physical cluster, the VCs sorted by name, and then those VCs
	// again that divide their cells among child VCs, as containers.
	spaces           []Space
	vcs              int32     // spaces that are VCs
	owner            []rootRef // of each cell: the VC's root that is bound to exactly this cell
	leaves           []leaf
	nodes            []NodeFaults // by node: why it gets no new work
	idle             []int32      // of each cell: leaves below that are idle: free and healthy
	preemptible      []int32      // of each cell: preemptible leaves below (see PreemptibleCount)
	bad              []int32      // of each cell: bad leaves below
	bins             [][]nodeBin
	kinds            []kinds                 // by chain
	all              []binIndex              // by chain: every node
	stale            []collections.SparseSet // by chain: bins whose class in all may be out of date
	allocs           []Alloc
	freed            []AllocID     // freed ids, the last freed first
	idleCount        int32         // idle leaves: free and healthy
	preemptibleCount int32         // preemptible leaves: healthy, of leaving or opportunistic holders
	badCount         int32         // bad leaves
	charges          []rootRef     // doomed roots, which are bound to bad cells, in order of space and root
	unknownCount     int32         // allocations of unknown state
	leavingCount     int32         // allocations that were told to stop
	tmp              *scratch      // memory of searches; a clone makes its own
	row              []LeafID      // memory of held; a clone makes its own
	work             *budget.Meter // what searches did; a clone counts its own
	ignoreHealth     bool          // set during a search that takes bad hardware for healthy
}

// leaf is what may change about a leaf. It is one struct because a decision reads and writes all
// of it.
type leaf struct {
	holder   AllocID // the allocation that holds it
	promised AllocID // the allocation that it is promised to
	node     CellID  // the node-level cell in which it lies
	at       uint16  // how far its own cell stands behind that in Forest.Cells; far if no less than far
	use      leafUse // the count in which it stands
	faults   fault
}

// far marks a leaf whose cell stands too far behind its node's cell for leaf.at.
const far = 1<<16 - 1

// fault says why a leaf is bad; zero is healthy.
type fault uint8

const (
	leafFault fault = 1 << iota // a fault of its own
	nodeFault                   // a fault of its node
)

// leafUse says in which count of its cells a leaf stands.
type leafUse uint8

const (
	useIdle        leafUse = iota
	usePreemptible         // held, but preemptible: its holder is leaving or opportunistic
	useBusy
	useBad
)

// IdleCount returns how many leaves are idle: healthy and free.
func (c *Cluster) IdleCount() int32 { return c.idleCount }

// PreemptibleCount returns how many leaves are preemptible: healthy, and held by opportunistic work
// or by work that leaves. A guaranteed gang can have them without displacing guaranteed work that
// stays.
func (c *Cluster) PreemptibleCount() int32 { return c.preemptibleCount }

// AnyBadOrUnknown reports whether any leaf is bad, or the state of any holder unknown.
func (c *Cluster) AnyBadOrUnknown() bool { return c.badCount > 0 || c.unknownCount > 0 }

// AnyUnknown reports whether the state of any holder is unknown.
func (c *Cluster) AnyUnknown() bool { return c.unknownCount > 0 }

// NodeFaults says why a node must get no new work; the zero value is healthy.
type NodeFaults uint8

// The faults of a node.
const (
	Down NodeFaults = 1 << iota
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
	c := &Cluster{f: f, work: &budget.Meter{}, skus: s.SKUs, vcs: int32(len(s.VCs)),
		owner: make([]rootRef, len(f.Cells)),
		idle:  make([]int32, len(f.Cells)), preemptible: make([]int32, len(f.Cells)), bad: make([]int32, len(f.Cells)),
		leaves: make([]leaf, len(f.Leaves)), nodes: make([]NodeFaults, len(f.Nodes)),
		bins: make([][]nodeBin, len(f.Chains)), kinds: make([]kinds, len(f.Chains)), all: make([]binIndex, len(f.Chains)), stale: make([]collections.SparseSet, len(f.Chains))}
	for i := range c.owner {
		c.owner[i] = rootRef{None, None}
		if f.Cells[i].Level > 0 {
			c.idle[i] = f.NumLeaves(CellID(i))
		}
	}
	for i, id := range f.Leaves {
		cl := &f.Cells[id]
		node := f.Chains[cl.Chain].NodeCells[cl.Bin]
		c.leaves[i] = leaf{holder: None, promised: None, node: node, at: uint16(min(id-node, far))}
	}
	c.idleCount = int32(len(f.Leaves))
	for ci := range f.Chains {
		c.indexChain(int16(ci))
	}
	builder{c}.addPhysical()
	if err := (builder{c}).addVCs(s); err != nil {
		return nil, err
	}
	return c, nil
}

// Clone returns an independent copy; the shape and the placements are shared.
func (c *Cluster) Clone() *Cluster {
	d := *c
	d.spaces = slices.Clone(c.spaces)
	for i := range d.spaces {
		d.spaces[i] = c.spaces[i].clone()
	}
	d.owner, d.leaves, d.nodes = slices.Clone(c.owner), slices.Clone(c.leaves), slices.Clone(c.nodes)
	d.idle, d.preemptible, d.bad = slices.Clone(c.idle), slices.Clone(c.preemptible), slices.Clone(c.bad)
	d.bins, d.kinds, d.all, d.stale = slices.Clone(c.bins), slices.Clone(c.kinds), slices.Clone(c.all), slices.Clone(c.stale)
	for i := range d.bins {
		d.bins[i], d.kinds[i], d.all[i], d.stale[i] = slices.Clone(c.bins[i]), c.kinds[i].clone(), c.all[i].clone(), c.stale[i].Clone()
	}
	d.allocs, d.freed, d.charges = slices.Clone(c.allocs), slices.Clone(c.freed), slices.Clone(c.charges)
	d.tmp, d.row, d.work = nil, nil, &budget.Meter{}
	return &d
}

// Budget bounds the steps of what follows, for one gang: by a budget of its own, or by what is
// left of a wider one. It returns the bound before, for EndBudget.
func (c *Cluster) Budget() (had int64) {
	return c.work.Within(gangSteps + int64(nodeSteps*len(c.f.Nodes)))
}

// EndBudget restores the bound that Budget returned.
func (c *Cluster) EndBudget(had int64) { c.work.Restore(had) }

// Work counts the steps of the searches in a cluster. A copy begins at 0.
func (c *Cluster) Work() *budget.Meter { return c.work }

// CountWith makes the steps of a copy count as those of the cluster that it is a copy of, in the
// same budget. One goroutine must use both.
func (c *Cluster) CountWith(of *Cluster) { c.work = of.work }

// Forest returns the shape, which never changes.
func (c *Cluster) Forest() *Forest { return c.f }

// SpaceOf returns the index of a VC, or None.
func (c *Cluster) SpaceOf(v VCName) int32 {
	i, found := slices.BinarySearchFunc(c.spaces[1:1+c.vcs], v, func(s Space, v VCName) int { return cmp.Compare(s.Name, v) })
	if !found {
		return None
	}
	return int32(i) + 1
}

// Space returns a space to read; 0 is the physical cluster.
func (c *Cluster) Space(i int32) *Space { return &c.spaces[i] }

// NumSpaces returns the number of VCs and one more for the physical cluster.
func (c *Cluster) NumSpaces() int32 { return c.vcs + 1 }

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

// Holder returns the allocation that holds a leaf and the one that it is promised to; None is
// none.
func (c *Cluster) Holder(l LeafID) (hold, promised AllocID) {
	return c.leaves[l].holder, c.leaves[l].promised
}

// bindAgain binds the preassigned cells of an allocation where they were.
func (c *Cluster) bindAgain(a *Alloc) {
	for _, b := range a.binds() {
		if b.Space != 0 {
			c.rebindOuter(b)
			continue
		}
		if c.spaces[a.Space].Roots[b.Root].Cell == None && !c.rebind(a.Space, b.Root, b.Cell) {
			panic(fmt.Sprintf("cell: root %d cannot be bound again to cell %d", b.Root, b.Cell))
		}
	}
}

// bindAround finds which of some bindings, sorted by cell, lies around a leaf, and the range of
// leaves in that binding's cell. Without one, the cell is None and the range is the leaf alone.
func (c *Cluster) bindAround(binds []Bind, l LeafID) (b Bind, first, end LeafID) {
	i, _ := slices.BinarySearchFunc(binds, l, func(b Bind, l LeafID) int { return cmp.Compare(c.f.Cells[b.Cell].FirstLeaf, l+1) })
	if i > 0 {
		b, first = binds[i-1], c.f.Cells[binds[i-1].Cell].FirstLeaf
		if end = first + LeafID(c.f.NumLeaves(b.Cell)); l < end {
			return b, first, end
		}
	}
	return Bind{Cell: None}, l, l + 1
}

// use returns the count in which a leaf belongs.
func (c *Cluster) use(l LeafID) leafUse {
	at := &c.leaves[l]
	switch {
	case at.faults != 0:
		return useBad
	case at.promised != None:
		return useBusy
	case at.holder == None:
		return useIdle
	}
	if c.allocs[at.holder].preemptible() {
		return usePreemptible
	}
	return useBusy
}

// preemptible reports whether the leaves of a holder count as preemptible.
func (a *Alloc) preemptible() bool {
	return a.intent == Leaving || a.intent == Staying && a.Opportunistic()
}

// owner is where a leaf names its holder or, with promised, the allocation that it is promised
// to.
func (l *leaf) owner(promised bool) *AllocID {
	if promised {
		return &l.promised
	}
	return &l.holder
}

// recountAll brings the counts of an allocation's leaves and nodes up to date.
func (c *Cluster) recountAll(a *Alloc) {
	for i := 0; ; i++ {
		leaves, more := c.leafRun(a, i)
		if !more {
			return
		}
		c.recount(leaves)
	}
}

// recount brings the counts of leaves up to date. Runs of neighbours that change alike are
// handled at once.
func (c *Cluster) recount(leaves []LeafID) {
	changed := CellID(None) // the node-level cell whose counts changed
	for i, n := 0, 0; i < len(leaves); i += n {
		at := &c.leaves[leaves[i]]
		was, is, node := at.use, c.use(leaves[i]), at.node
		for n = 1; i+n < len(leaves); n++ {
			if o := &c.leaves[leaves[i+n]]; o.use != was || o.node != node || c.use(leaves[i+n]) != is {
				break
			}
		}
		if was == is {
			continue
		}
		if changed != node && changed != None {
			c.refresh(changed)
		}
		changed = node
		same := leaves[i : i+n]
		for _, l := range same {
			c.leaves[l].use = is
		}
		c.addToCounts(same, was, -1)
		c.addToCounts(same, is, 1)
	}
	if changed != None {
		c.refresh(changed)
	}
}

// addToCounts adds d for each of some leaves of one node-level cell to the count of a use: that of
// their own cells, of all cells above these and of the cluster.
func (c *Cluster) addToCounts(leaves []LeafID, use leafUse, d int32) {
	var count []int32
	n := int32(len(leaves))
	switch use {
	case useIdle:
		count = c.idle
		c.idleCount += d * n
	case usePreemptible:
		count = c.preemptible
		c.preemptibleCount += d * n
	case useBad:
		count = c.bad
		c.badCount += d * n
	default:
		return
	}
	node := c.leaves[leaves[0]].node
	cl := &c.f.Cells[node]
	ch := &c.f.Chains[cl.Chain]
	inside := count[node : int(node)+len(ch.inside)]
	if n == ch.LeavesAt(ch.NodeLevel) {
		for i, l := range ch.inside {
			inside[i] += d * ch.leaves[l-1]
		}
	} else {
		for _, l := range leaves {
			i := int32(c.leaves[l].at)
			if i == far {
				i = int32(c.f.Leaves[l] - node)
			}
			for ; i >= 0; i = ch.up[i] {
				inside[i] += d
			}
		}
	}
	for id := cl.Parent; id != None; id = c.f.parent[id] {
		count[id] += d * n
	}
}

// SetLeafBad says whether a leaf is bad by itself, apart from its node.
func (c *Cluster) SetLeafBad(l LeafID, bad bool) {
	c.setBad(c.f.Leaves[l], leafFault, bad)
}

// SetNodeFaults adds (on) or removes faults of a node.
func (c *Cluster) SetNodeFaults(node int32, b NodeFaults, on bool) {
	old := c.nodes[node]
	blame := old &^ b
	if on {
		blame |= b
	}
	c.nodes[node] = blame
	if (old == 0) == (blame == 0) {
		return
	}
	for _, id := range c.f.Nodes[node].Cells {
		c.setBad(id, nodeFault, blame != 0)
	}
}

// setBad adds (on) or removes one cause for which the leaves at or below a cell are bad, and
// updates the counts that depend on it.
func (c *Cluster) setBad(id CellID, from fault, on bool) {
	space, free := c.freeAround(id)
	first, step, n := c.f.Children(id)
	if space == None && n > 0 && c.rootOver(id).space == None {
		for i := range CellID(n) { // free cells and cells of VCs may lie in it
			c.setBad(first+i*step, from, on)
		}
		return
	}
	if space != None {
		c.countBad(space, free, -1)
	}
	c.row = c.row[:0]
	for l := c.f.Cells[id].FirstLeaf; len(c.row) < int(c.f.NumLeaves(id)); l++ {
		at := &c.leaves[l]
		if at.faults &^= from; on {
			at.faults |= from
		}
		c.row = append(c.row, l)
	}
	c.recount(c.row)
	if space != None {
		c.countBad(space, free, 1)
	}
}

// NodeFaults returns the faults of a node.
func (c *Cluster) NodeFaults(node int32) NodeFaults { return c.nodes[node] }

// LeafBad reports whether a leaf is bad by itself, apart from its node.
func (c *Cluster) LeafBad(l LeafID) bool { return c.leaves[l].faults&leafFault != 0 }

// Idle returns how many leaves at or below a cell are idle: free and healthy.
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
