package metrics

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// leafStates is the state of the cluster's leaves. A leaf is in use while an attempt holds it,
// whatever its health. Else it is bad while it is broken or its node takes no new work, and
// else idle. The three add up to all leaves.
type leafStates struct {
	forest       *cell.Forest
	skus         []cell.TypeName
	nodeLeaves   []nodeLeaves
	nodeLeavesOf []int32  // of each leaf
	held         []uint16 // of each leaf: how many attempts hold it
	bad          []bool   // of each leaf: its own fault
	nodes        []nodeGangs
	stamp        uint32 // the number of the present walk, with which it marks the nodes that it has met
	idleBy       []int32
	totalBy      []int32
	pools        []*pool // of opportunistic gangs
	// cur counts leaves by state. fragmentedIdle counts idle leaves of nodes that are not wholly
	// idle. area are the integrals in leaf-microseconds.
	cur    [numStates]int64
	area   [numStates]uint64
	closed [numStates]uint64 // area when the last open job ended
	last   model.Time
	// Marks of nodes and leaves outlive a configuration.
	nodeNotes map[cell.NodeName]cell.NodeFaults
	leafNotes map[leafName]bool
}

const (
	inUse = iota
	idle
	bad
	fragmentedIdle
	numStates
)

// nodeLeaves is a node-level cell of one chain: the leaves of one SKU on one machine.
type nodeLeaves struct {
	node        int32
	sku         uint8
	total, idle int32
	first       cell.LeafID
}

// fragmented counts the idle leaves, unless all leaves are idle.
func (s *nodeLeaves) fragmented() int64 {
	if s.idle == s.total {
		return 0
	}
	return int64(s.idle)
}

// nodeGangs are the attempts on one node. sum adds up their slots, so with one attempt it is
// that attempt's slot.
type nodeGangs struct {
	blame cell.NodeFaults
	count int32
	sum   int64
	stamp uint32
}

// leafName names a leaf across configurations.
type leafName struct {
	node   cell.NodeName
	sku    cell.TypeName
	device int32
	part   int32
}

func (r *leafStates) init() {
	r.nodeNotes, r.leafNotes = map[cell.NodeName]cell.NodeFaults{}, map[leafName]bool{}
}

// build lays out a cluster whose leaves are not held.
func (r *leafStates) build(f *cell.Forest) {
	r.forest, r.nodeLeaves, r.pools = f, nil, nil
	r.skus = r.skus[:0]
	n := len(f.Leaves)
	r.nodeLeavesOf, r.held, r.bad = make([]int32, n), make([]uint16, n), make([]bool, n)
	r.nodes = make([]nodeGangs, len(f.Nodes))
	for i := range f.Nodes {
		r.nodes[i].blame = r.nodeNotes[f.Nodes[i].Name]
	}
	for i := range f.Chains {
		if !slices.Contains(r.skus, f.Chains[i].SKU) {
			r.skus = append(r.skus, f.Chains[i].SKU)
		}
	}
	r.idleBy, r.totalBy = make([]int32, len(r.skus)), make([]int32, len(r.skus))
	// Each mark sets one leaf: their order does not matter.
	for name := range r.leafNotes {
		if l := f.FindPart(name.node, name.sku, name.device, name.part); l != cell.None {
			r.bad[l] = true
		}
	}
	r.cur = [numStates]int64{}
	for i := range f.Chains {
		r.buildChain(&f.Chains[i])
	}
}

func (r *leafStates) buildChain(ch *cell.Chain) {
	sku := r.skuIndex(ch.SKU)
	for _, id := range ch.NodeCells {
		c := &r.forest.Cells[id]
		s := nodeLeaves{node: c.Node, sku: sku, total: r.forest.NumLeaves(id), first: c.FirstLeaf}
		for l := s.first; l < s.first+cell.LeafID(s.total); l++ {
			r.nodeLeavesOf[l] = int32(len(r.nodeLeaves))
			if r.healthy(l, s.node) {
				s.idle++
			}
		}
		r.nodeLeaves = append(r.nodeLeaves, s)
		r.cur[idle] += int64(s.idle)
		r.cur[bad] += int64(s.total - s.idle)
		r.cur[fragmentedIdle] += s.fragmented()
		r.idleBy[sku] += s.idle
		r.totalBy[sku] += s.total
	}
}

// skuIndex returns the index of a SKU. All from the 64th on share the last index.
func (r *leafStates) skuIndex(n cell.TypeName) uint8 {
	return uint8(min(max(slices.Index(r.skus, n), 0), 63))
}

func (r *leafStates) healthy(l cell.LeafID, node int32) bool {
	return !r.bad[l] && r.nodes[node].blame == 0
}

// integrate integrates up to now.
func (r *leafStates) integrate(now model.Time) {
	if dt := uint64(now - r.last); dt > 0 {
		for i := range r.cur {
			r.area[i] += uint64(r.cur[i]) * dt
		}
		r.last = now
	}
}

// shift moves leaves of a spot between the states. used and free are the changes of the used
// and of the idle leaves; the rest changes the bad ones.
func (f *Fold) shift(s *nodeLeaves, used, free int32) {
	r := &f.leaves
	if f.began {
		r.integrate(f.now)
	}
	r.cur[inUse] += int64(used)
	r.cur[bad] -= int64(used + free)
	r.cur[idle] += int64(free)
	r.cur[fragmentedIdle] -= s.fragmented()
	s.idle += free
	r.cur[fragmentedIdle] += s.fragmented()
	if free == 0 {
		return
	}
	r.idleBy[s.sku] += free
	for _, p := range r.pools {
		if p.mask>>s.sku&1 != 0 {
			p.change(f.now, free)
		}
	}
}

// hold makes one more attempt hold leaves of one spot.
func (f *Fold) hold(leaves []cell.LeafID) {
	r := &f.leaves
	s := &r.nodeLeaves[r.nodeLeavesOf[leaves[0]]]
	var used, free int32
	for _, l := range leaves {
		if r.held[l]++; r.held[l] > 1 {
			continue
		}
		used++
		if r.healthy(l, s.node) {
			free--
		}
	}
	f.shift(s, used, free)
}

// release is the inverse of hold.
func (f *Fold) release(leaves []cell.LeafID) {
	r := &f.leaves
	s := &r.nodeLeaves[r.nodeLeavesOf[leaves[0]]]
	var used, free int32
	for _, l := range leaves {
		if r.held[l]--; r.held[l] > 0 {
			continue
		}
		used--
		if r.healthy(l, s.node) {
			free++
		}
	}
	f.shift(s, used, free)
}

// markNode sets or clears one cause for which a node is bad.
func (f *Fold) markNode(name cell.NodeName, b cell.NodeFaults, on bool) {
	r := &f.leaves
	if on {
		r.nodeNotes[name] |= b
	} else if r.nodeNotes[name] &^= b; r.nodeNotes[name] == 0 {
		delete(r.nodeNotes, name)
	}
	if r.forest == nil {
		return
	}
	node := r.forest.NodeIndex(name)
	if node == cell.None {
		return
	}
	was := r.nodes[node].blame
	r.nodes[node].blame = r.nodeNotes[name]
	if (was == 0) == (r.nodes[node].blame == 0) {
		return
	}
	for _, id := range r.forest.Nodes[node].Cells {
		s := &r.nodeLeaves[r.nodeLeavesOf[r.forest.Cells[id].FirstLeaf]]
		f.shift(s, 0, f.idleIn(s)-s.idle)
	}
}

// idleIn counts a spot's idle leaves.
func (f *Fold) idleIn(s *nodeLeaves) (n int32) {
	for l := s.first; l < s.first+cell.LeafID(s.total); l++ {
		if f.leaves.held[l] == 0 && f.leaves.healthy(l, s.node) {
			n++
		}
	}
	return n
}

// markLeaf marks one leaf as bad or good.
func (f *Fold) markLeaf(e model.LeafHealth) {
	r := &f.leaves
	name := leafName{e.Node, e.SKU, e.Device, e.Part}
	if e.Good {
		delete(r.leafNotes, name)
	} else {
		r.leafNotes[name] = true
	}
	if r.forest == nil {
		return
	}
	if l := r.forest.FindPart(e.Node, e.SKU, e.Device, e.Part); l != cell.None {
		r.bad[l] = !e.Good
		s := &r.nodeLeaves[r.nodeLeavesOf[l]]
		f.shift(s, 0, f.idleIn(s)-s.idle)
	}
}

// configured lays out another cluster. Gangs that wait or run are carried over.
func (f *Fold) configured(e *model.Configured) {
	cl, err := cell.New(&e.Config.Cluster)
	if err != nil {
		f.fail("a configuration cannot be built: %v", err)
		return
	}
	f.eachGang(func(g *gang) {
		f.pauseWait(g)
		f.vacate(g)
	})
	if f.began {
		f.leaves.integrate(f.now)
	}
	f.renameNodes(e.RenamedNodes)
	f.leaves.build(cl.Forest())
	f.reopenAccounts(cl, e.Renamed)
	for i := range e.Moves {
		if g := f.liveGang(e.Moves[i].Attempt); g != nil {
			g.lazy = g.lazy && !e.Moves[i].Regained || e.Moves[i].Lazy
			f.occupy(g, &e.Moves[i].Placement)
		}
	}
	f.eachGang(f.resumeWait)
}

// renameNodes moves the marks of machines to their new names. Marks that a new name had
// before belonged to another machine.
func (f *Fold) renameNodes(renamed []model.NodeRename) {
	if len(renamed) == 0 {
		return
	}
	now, taken := map[cell.NodeName]cell.NodeName{}, map[cell.NodeName]bool{}
	for _, r := range renamed {
		now[r.From], taken[r.To] = r.To, true
	}
	nodes, leaves := f.leaves.nodeNotes, f.leaves.leafNotes
	f.leaves.init()
	// Both fill maps: the order does not matter.
	for name, b := range nodes {
		if to, ok := now[name]; ok {
			f.leaves.nodeNotes[to] = b
		} else if !taken[name] {
			f.leaves.nodeNotes[name] = b
		}
	}
	for leaf := range leaves {
		if to, ok := now[leaf.node]; ok {
			leaf.node = to
		} else if taken[leaf.node] {
			continue
		}
		f.leaves.leafNotes[leaf] = true
	}
}

// reopenAccounts gives the VCs their new names and guarantees.
func (f *Fold) reopenAccounts(cl *cell.Cluster, renamed []model.Rename) {
	was := make([]*account, len(renamed))
	for i, r := range renamed {
		was[i] = f.vcOf[r.From]
		delete(f.vcOf, r.From)
	}
	for i, r := range renamed {
		if was[i] == nil {
			continue
		}
		if old := f.vcOf[r.To]; old != nil { // a VC of that name that was removed before
			for f.vcOf[old.name] != nil {
				old.name += " (before)"
			}
			f.vcOf[old.name] = old
		}
		was[i].name, f.vcOf[r.To] = r.To, was[i]
	}
	for _, a := range f.vcs {
		f.change(a, quota, -a.cur[quota])
		a.gone, a.pools = true, nil
		a.quota, a.used = make([]int32, len(f.leaves.skus)), make([]int32, len(f.leaves.skus))
	}
	for i := int32(1); i < cl.NumSpaces(); i++ {
		sp := cl.Space(i)
		a := f.account(sp.Name)
		a.gone = false
		for k := range sp.Roots {
			ch := &cl.Forest().Chains[sp.Roots[k].Chain]
			n := ch.LeavesAt(sp.Roots[k].Level)
			a.quota[f.leaves.skuIndex(ch.SKU)] += n
			f.change(a, quota, int64(n))
		}
	}
}
