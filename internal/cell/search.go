package cell

import (
	"cmp"
	"slices"
)

// NodeSet is a set of node indices; nil is the empty set.
type NodeSet []uint64

// Add returns the set with a node in it.
func (s NodeSet) Add(n int32) NodeSet {
	for int(n/64) >= len(s) {
		s = append(s, 0)
	}
	s[n/64] |= 1 << (n % 64)
	return s
}

// Has reports whether a node is in the set.
func (s NodeSet) Has(n int32) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 != 0 }

// LeafSet is a set of leaves; nil is the empty set.
type LeafSet []uint64

// Add returns the set with a leaf in it.
func (s LeafSet) Add(l LeafID) LeafSet {
	for int(l/64) >= len(s) {
		s = append(s, 0)
	}
	s[l/64] |= 1 << (l % 64)
	return s
}

// Has reports whether a leaf is in the set.
func (s LeafSet) Has(l LeafID) bool { return int(l/64) < len(s) && s[l/64]>>(l%64)&1 != 0 }

// Member is a number of identical tasks of a gang.
type Member struct {
	Tasks  int32
	Leaves int32      // per task, on one node
	SKUs   []TypeName // sorted; none is any
	Pinned PinnedID   // only inside that pinned cell; "" is outside of all
}

// Request is one question to Place.
type Request struct {
	Space    int32 // the VC
	Priority Priority
	Members  []Member
	// Allowed restricts nodes when not nil; Avoided excludes nodes; among equally
	// good places those on Preferred nodes come first.
	Allowed   NodeSet
	Avoided   NodeSet
	Preferred NodeSet
	// Keep are leaves that this gang must not take.
	Keep LeafSet
	// Blocked excludes chains by index, except for pinned members; nil is none.
	Blocked []bool
	// Lift says which holders may be made to leave; nil is none. Leaves that
	// were promised to somebody are never taken.
	Lift *Lift
	// Cost orders holders that may be lifted: the least is lifted first. nil is zero.
	Cost func(AllocID) Cost
	// Gone says which holders to leave out of the picture, as if they had ended.
	Gone func(AllocID) bool
	// The next two are for explanations: what would fit if nothing were bad, if
	// nothing were in use. Their placements cannot be taken.
	IgnoreHealth bool
	IgnoreUse    bool
}

// Lift says which holders may be made to leave. One that is stuck is never
// counted on, one that leaves anyway costs nothing and is listed as a victim.
type Lift struct {
	Opportunistic bool     // those that use no guarantee, of any VC
	Below         Priority // guaranteed ones of the same VC with a lower priority
	// Also names further holders, whatever their mood.
	Also func(AllocID) bool
}

// allows reports whether an allocation may be lifted for a VC.
func (r *Request) allows(id AllocID, a *Alloc) bool {
	switch {
	case r.Lift.Also != nil && r.Lift.Also(id):
		return true
	case a.mood == Stuck:
		return false
	case a.Opportunistic():
		return r.Lift.Opportunistic
	}
	return a.Space == r.Space && a.Priority < r.Lift.Below
}

// Cost is what lifting a holder costs: who was preempted more often is spared,
// then who loses more work.
type Cost struct {
	Preempted int32
	Lost      int64 // GPU-microseconds since the last checkpoint
}

func (a Cost) compare(b Cost) int {
	return cmp.Or(cmp.Compare(a.Preempted, b.Preempted), cmp.Compare(a.Lost, b.Lost))
}

func (a Cost) plus(b Cost) Cost {
	sum := Cost{a.Preempted + b.Preempted, a.Lost + b.Lost}
	if sum.Lost < a.Lost {
		sum.Lost = 1<<63 - 1
	}
	return sum
}

// Result is a placement and whom it needs to leave first, in the order of the leaves.
type Result struct {
	Placement Placement
	Victims   []AllocID
	// Bounded is set when nothing was found, but not everything was tried.
	Bounded bool
}

// Place finds leaves for a whole gang, or nothing. Without Lift it uses free
// leaves only: fewest nodes, then the lowest common ancestor, then the tightest
// fit. With Lift it asks for the fewest victims first. The cluster is unchanged
// afterwards.
//
// A guaranteed gang uses its VC's preassigned cells: those bound already, and as
// many unbound ones as it needs, bound to the physical cells that disturb least.
func (c *Cluster) Place(r *Request) (Result, bool) {
	s := search{c: c, r: r, taken: map[LeafID]bool{}, victims: map[AllocID]bool{}}
	parts := partition(r.Members)
	ok := s.parts(parts)
	var res Result
	if ok {
		res = s.result()
	}
	res.Bounded = !ok && s.bounded
	s.undoBinds(0)
	return res, ok
}

// part is the members of a gang with one SKU and pin; they go to one chain. Those
// of any SKU come first.
type part struct {
	skus   []TypeName
	pinned PinnedID
	tasks  []task // largest first
	total  int32
}

type task struct {
	index  int32 // in the gang's order
	leaves int32
}

func partition(ms []Member) []part {
	var parts []part
	index := int32(0)
	for _, m := range ms {
		i := slices.IndexFunc(parts, func(p part) bool { return slices.Equal(p.skus, m.SKUs) && p.pinned == m.Pinned })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{skus: m.SKUs, pinned: m.Pinned})
		}
		for range m.Tasks {
			parts[i].tasks = append(parts[i].tasks, task{index, m.Leaves})
			parts[i].total += m.Leaves
			index++
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(min(len(a.skus), 1), min(len(b.skus), 1)) })
	for i := range parts {
		slices.SortStableFunc(parts[i].tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
	}
	return parts
}

// search is one Place. Everything it changes in the cluster is in bound.
type search struct {
	c       *Cluster
	r       *Request
	bound   []RootID         // tentatively bound, in order
	taken   map[LeafID]bool  // leaves of this gang so far
	victims map[AllocID]bool // lifted so far
	placed  []placedTask
	roomy   bool // how candidates for binding are ranked
	steps   int  // binds tried by exhaust
	bounded bool // a search was cut short
}

type placedTask struct {
	index  int32
	leaves []LeafID
}

func (s *search) opportunistic() bool { return s.r.Priority < MinGuaranteed }

// parts places one part after the other, going back to another chain of an
// earlier part when a later one fails.
func (s *search) parts(ps []part) bool {
	if len(ps) == 0 {
		return true
	}
	if s.together(ps) {
		return true
	}
	p := &ps[0]
	for ci := range s.c.f.Chains {
		if !s.usable(ci, p) {
			continue
		}
		mark := s.mark()
		if s.inChain(int16(ci), p) && s.parts(ps[1:]) {
			return true
		}
		s.rewind(mark)
	}
	return false
}

// together packs tasks of any SKU as one part with those of a SKU: apart, the
// first could take the only room that the others have.
func (s *search) together(ps []part) bool {
	p := &ps[0]
	if len(p.skus) > 0 {
		return false
	}
	for i := 1; i < len(ps); i++ {
		if ps[i].pinned != p.pinned {
			continue
		}
		rest := slices.Clone(ps[1:])
		both := &rest[i-1]
		both.tasks = slices.Concat(p.tasks, both.tasks)
		both.total += p.total
		slices.SortStableFunc(both.tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
		mark := s.mark()
		if s.parts(rest) {
			return true
		}
		s.rewind(mark)
	}
	return false
}

func (s *search) usable(ci int, p *part) bool {
	if s.r.Blocked != nil && s.r.Blocked[ci] && p.pinned == "" {
		return false
	}
	return p.pinned != "" || len(p.skus) == 0 || slices.Contains(p.skus, s.c.f.Chains[ci].SKU)
}

// mark remembers how far a search is, to come back to it.
type mark struct {
	bound, placed int
	victims       []AllocID
}

func (s *search) mark() mark {
	m := mark{bound: len(s.bound), placed: len(s.placed)}
	for v := range s.victims { // sorted below
		m.victims = append(m.victims, v)
	}
	slices.Sort(m.victims)
	return m
}

func (s *search) rewind(m mark) {
	for _, p := range s.placed[m.placed:] {
		for _, l := range p.leaves {
			delete(s.taken, l)
		}
	}
	s.placed = s.placed[:m.placed]
	clear(s.victims)
	for _, v := range m.victims {
		s.victims[v] = true
	}
	s.undoBinds(m.bound)
}

func (s *search) undoBinds(n int) {
	for len(s.bound) > n {
		last := len(s.bound) - 1
		s.c.unbind(s.r.Space, s.bound[last])
		s.bound = s.bound[:last]
	}
}

// inChain places one part in one chain.
func (s *search) inChain(ci int16, p *part) bool {
	if s.opportunistic() {
		return s.pack(s.opportunisticBins(ci), p)
	}
	for _, s.roomy = range []bool{false, true} {
		if s.inVC(ci, p) {
			return true
		}
		if s.r.Lift == nil {
			break // free leaves are all the room there is
		}
	}
	if p.pinned != "" {
		return false
	}
	s.roomy, s.steps = false, 0
	return s.couldFit(ci, p) && s.exhaust(ci, p)
}

// inVC places one part in the VC's cells of one chain, binding more and more of
// its unbound ones.
func (s *search) inVC(ci int16, p *part) bool {
	start := s.mark()
	want := p.total
	for {
		grown := p.pinned == "" && s.bindMore(ci, p, want)
		if s.pack(s.guaranteedBins(ci, p.pinned), p) {
			return true
		}
		if !grown {
			s.rewind(start)
			return false
		}
		want *= 2
	}
}

// bin is a node, or the part of a node that a preassigned cell below node level
// is: tasks never span bins.
type bin struct {
	cell  CellID
	avail int32 // leaves that this gang could take
	idle  int32 // of these, free already
	used  int32 // leaves used by guaranteed work (opportunistic gangs stay away from them)
	lent  int32 // leaves used by opportunistic work
	width Level // level of the preassigned cell it lies in: small ones are used first
}

func (s *search) newBin(id CellID, width Level) bin {
	b := bin{cell: id, width: width}
	first := s.c.f.Cells[id].FirstLeaf
	for l := first; l < first+LeafID(s.c.f.NumLeaves(id)); l++ {
		switch s.leaf(l) {
		case leafFree:
			b.avail++
			b.idle++
		case leafLiftable:
			b.avail++
		}
		if h := s.c.hold[l]; h != None && s.c.allocs[h].Opportunistic() {
			b.lent++
		} else if h != None || s.c.resv[l] != None {
			b.used++
		}
	}
	return b
}

type leafState int8

const (
	leafNo leafState = iota
	leafLiftable
	leafFree
)

// leaf says what this gang may do with a leaf.
func (s *search) leaf(l LeafID) leafState {
	c, r := s.c, s.r
	node := c.f.Cells[c.f.Leaves[l]].Node
	switch {
	case s.taken[l], r.Keep.Has(l), r.Allowed != nil && !r.Allowed.Has(node), r.Avoided.Has(node):
		return leafNo
	case !r.IgnoreHealth && !c.healthy(l):
		return leafNo
	case r.IgnoreUse:
		return leafFree
	case c.resv[l] != None:
		return leafNo
	case c.hold[l] == None || s.victims[c.hold[l]] || r.Gone != nil && r.Gone(c.hold[l]):
		return leafFree
	case r.Lift == nil:
		return leafNo
	case c.allocs[c.hold[l]].mood == Leaving:
		return leafFree
	case r.allows(c.hold[l], &c.allocs[c.hold[l]]):
		return leafLiftable
	}
	return leafNo
}

// opportunisticBins are all nodes of the chain. Order: pack beside other
// opportunistic work, away from guaranteed work (HiveD's order for them).
func (s *search) opportunisticBins(ci int16) []bin {
	ch := &s.c.f.Chains[ci]
	var bins []bin
	for _, top := range ch.Tops {
		bins = s.nodeBins(bins, top, ch.Top)
	}
	slices.SortStableFunc(bins, func(a, b bin) int {
		return cmp.Or(cmp.Compare(b.lent, a.lent), cmp.Compare(a.used, b.used), cmp.Compare(a.cell, b.cell))
	})
	return bins
}

// guaranteedBins are the nodes in the VC's bound cells of the chain. Order: the
// fullest first, small preassigned cells before large ones.
func (s *search) guaranteedBins(ci int16, pin PinnedID) []bin {
	var bins []bin
	sp := &s.c.spaces[s.r.Space]
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Chain == ci && r.Cell != None && r.Pinned == pin {
			bins = s.nodeBins(bins, r.Cell, r.Level)
		}
	}
	slices.SortStableFunc(bins, func(a, b bin) int {
		return cmp.Or(cmp.Compare(a.avail, b.avail), cmp.Compare(a.width, b.width), cmp.Compare(a.cell, b.cell))
	})
	return bins
}

// nodeBins appends the bins at or below a cell that can take anything.
func (s *search) nodeBins(bins []bin, id CellID, width Level) []bin {
	f := s.c.f
	if f.Cells[id].Level <= f.Chains[f.Cells[id].Chain].NodeLevel {
		if b := s.newBin(id, width); b.avail > 0 {
			bins = append(bins, b)
		}
		return bins
	}
	first, step, n := f.Children(id)
	for i := int32(0); i < n; i++ {
		bins = s.nodeBins(bins, first+CellID(i)*step, width)
	}
	return bins
}

// result reads the placement off the search.
func (s *search) result() Result {
	var res Result
	slices.SortFunc(s.placed, func(a, b placedTask) int { return cmp.Compare(a.index, b.index) })
	f := s.c.f
	binds := map[RootID]bool{}
	for _, p := range s.placed {
		top := &f.Cells[f.Leaves[p.leaves[0]]]
		t := Task{Node: f.Nodes[top.Node].Name, SKU: f.Chains[top.Chain].SKU, Leaves: p.leaves}
		for _, l := range p.leaves {
			t.Devices = append(t.Devices, f.Device(l))
		}
		res.Placement.Tasks = append(res.Placement.Tasks, t)
		if s.opportunistic() {
			continue
		}
		ref := s.c.rootOver(f.Leaves[p.leaves[0]])
		if !binds[ref.root] {
			binds[ref.root] = true
			cell := s.c.spaces[ref.space].Roots[ref.root].Cell
			res.Placement.Binds = append(res.Placement.Binds, Bind{Root: ref.root, Cell: cell})
		}
	}
	slices.SortFunc(res.Placement.Binds, func(a, b Bind) int { return cmp.Compare(a.Root, b.Root) })
	if !s.r.IgnoreUse {
		res.Victims = s.holdersOf(res.Placement)
	}
	return res
}

// holdersOf returns who holds a placement's leaves now, in the order of leaves:
// ids say nothing, since they differ after a restart.
func (s *search) holdersOf(pl Placement) []AllocID {
	var hs []AllocID
	for _, t := range pl.Tasks {
		for _, l := range t.Leaves {
			if h := s.c.hold[l]; h != None && !slices.Contains(hs, h) {
				hs = append(hs, h)
			}
		}
	}
	return hs
}
