package cell

import (
	"cmp"
	"slices"
)

type leafState int8

const (
	leafNo leafState = iota
	leafPreemptible
	leafFree
)

// leaf says what this gang may do with a leaf.
func (s *search) leaf(l LeafID) leafState {
	c, r := s.c, s.r
	at := &c.leaves[l]
	h := at.holder
	switch {
	case s.t.taken[l] == s.t.epoch || r.Excluded != nil && r.Excluded.Has(l) || s.restricted && !s.nodeOK(c.f.Cells[at.node].Node):
		return leafNo
	case !r.IgnoreHealth && at.use == useBad:
		return leafNo
	case r.IgnoreUse:
		return leafFree
	case at.promised != None:
		return leafNo
	case h == None || s.t.victim[h] == s.t.epoch || r.Gone != nil && r.Gone(h):
		return leafFree
	case r.Preempt == nil:
		return leafNo
	case c.allocs[h].intent == Leaving && (r.Protected == nil || !r.Protected(h)):
		return leafFree
	case r.allows(h, &c.allocs[h]):
		return leafPreemptible
	}
	return leafNo
}

func (s *search) nodeOK(node int32) bool {
	return (s.r.Allowed == nil || s.r.Allowed.Has(node)) && !s.r.Avoided.Has(node)
}

// single places a whole part in one bin of an index: the one with the lowest common ancestor,
// then the tightest, then the first. Opportunistic gangs go beside other opportunistic work, away
// from guaranteed work (HiveD's order for them). With want, the ancestor must be at most that
// high.
func (s *search) single(x *binIndex, ci int16, p *part, want Level) bool {
	ch := &s.c.f.Chains[ci]
	each := ch.LeavesAt(ch.NodeLevel)
	if p.total > each || s.insideNode(ci) { // the classes do not tell all levels apart
		return false
	}
	best, bestBin, bestLevel := binKey{}, int32(None), Level(0)
	ideal := ch.Fit(p.total)
	kinds := &s.c.kinds[ci]
	for _, kind := range x.ordered(kinds, kinds.from(binKey{idle: p.total})) {
		if !x.some(kind) {
			continue
		}
		if bestBin != None && bestLevel == ideal && !s.opportunistic() {
			break // those that follow have more room
		}
		key := kinds.keys[kind]
		level := key.lowest(ch, p.total)
		if bestBin != None && !s.better(key, level, best, bestLevel) {
			continue
		}
		if b := s.firstOf(x, kind, ch); b != None {
			best, bestBin, bestLevel = key, b, level
		}
	}
	chosen := bin{}
	if bestBin != None {
		chosen.cell = ch.NodeCells[bestBin]
	}
	for i := range x.parts {
		b := s.newBin(ch.NodeCells[x.parts[i].bin], x.parts[i].cells)
		if b.avail < p.total {
			continue
		}
		level := s.lowest(&b, p.total)
		if bestBin == None || level < bestLevel || level == bestLevel && b.avail < best.idle {
			bestBin, bestLevel, best, chosen = x.parts[i].bin, level, binKey{idle: b.avail}, b
		}
	}
	if bestBin == None || want > 0 && bestLevel > want {
		return false
	}
	for _, t := range p.tasks {
		s.take(t.index, s.pick(&chosen, t.leaves))
	}
	return true
}

func (s *search) better(a binKey, la Level, b binKey, lb Level) bool {
	if s.opportunistic() {
		return cmp.Or(cmp.Compare(b.preemptible, a.preemptible), cmp.Compare(b.idle, a.idle)) < 0
	}
	return cmp.Or(cmp.Compare(la, lb), cmp.Compare(a.idle, b.idle)) < 0
}

// firstOf returns the first bin of a kind on a node that the gang may use.
func (s *search) firstOf(x *binIndex, kind int32, ch *Chain) int32 {
	places := &x.classes[kind]
	for o := places.Next(0); o != None; o = places.Next(o + 1) {
		if b := x.bin(o); s.nodeOK(s.c.f.Cells[ch.NodeCells[b]].Node) {
			return b
		}
	}
	return None
}

// bins returns the bins of an index in which a task of n leaves would fit: the fullest first; for
// opportunistic gangs those with most opportunistic work first, then with least guaranteed work.
func (s *search) bins(x *binIndex, ci int16, n int32) []bin {
	ch := &s.c.f.Chains[ci]
	counted := s.counted(ci)
	out := s.t.bins[:0]
	s.t.bins = nil // nested calls make their own
	for i := range x.parts {
		if p := &x.parts[i]; s.atMost(p.cells...) >= n || s.hidden(ch.NodeCells[p.bin]) {
			if b := s.newBin(ch.NodeCells[p.bin], p.cells); b.avail >= n {
				out = append(out, b)
			}
		}
	}
	kinds := &s.c.kinds[ci]
	// With byNode, classes without room are skipped and marked nodes are added one by one.
	byNode := x.bins != nil && s.r.byCounts() && s.preemptsUncounted()
	for _, kind := range x.ordered(kinds, 0) {
		if !x.some(kind) {
			continue
		}
		key, places := &kinds.keys[kind], &x.classes[kind]
		b := bin{avail: key.idle, idle: key.idle, preemptible: key.preemptible}
		if s.r.Preempt != nil {
			b.avail += b.preemptible
		}
		if b.avail < n && (counted || byNode || s.r.byCounts() && !s.preemptsUncounted()) {
			continue
		}
		b.used = ch.LeavesAt(ch.NodeLevel) - b.idle - b.preemptible
		s.c.work.Step(int(x.size[kind]) / 16)
		for o := places.Next(0); o != None; o = places.Next(o + 1) {
			b.cell, b.place = ch.NodeCells[x.bin(o)], o
			if !s.nodeOK(s.c.f.Cells[b.cell].Node) || b.avail < n && !s.hidden(b.cell) {
				continue
			}
			k := b
			if !counted {
				if k = s.newBin(b.cell, nil); k.avail < n {
					continue
				}
				k.place = o
			}
			out = append(out, k)
			if len(out) >= maxBins && s.opportunistic() {
				s.reached |= boundBins
				break
			}
		}
	}
	if byNode {
		out = s.uncountedBins(out, ci, n)
	}
	s.c.work.Step(len(out))
	s.order(out)
	s.t.bins = out
	return out
}

// uncountedBins appends the VC's bound nodes of a chain on which n leaves can be had only by
// preempting holders that do not count as preemptible.
func (s *search) uncountedBins(out []bin, ci int16, n int32) []bin {
	s.c.work.Step(len(s.t.uncountedNodes) / 16)
	for _, node := range s.t.uncountedNodes {
		if cl := &s.c.f.Cells[node]; cl.Chain != ci || s.atMost(node) >= n || !s.nodeOK(cl.Node) {
			continue
		} else if at := &s.c.bins[ci][cl.Bin]; at.vc == s.r.Space {
			if b := s.newBin(node, nil); b.avail >= n {
				b.place = at.seat
				out = append(out, b)
			}
		}
	}
	return out
}

// atMost bounds what the gang can take of some cells of a node: idle leaves and, with Preemptible,
// preemptible ones. Only of a hidden node may it take more. So most nodes of a full cluster need
// no look at their leaves.
func (s *search) atMost(cells ...CellID) (n int32) {
	for _, id := range cells {
		if n += s.c.idle[id]; s.r.Preempt != nil {
			n += s.c.preemptible[id]
		}
	}
	return n
}

// hidden reports whether the gang could take more of a node than its counts tell: bad leaves, or
// leaves of further holders that it may preempt.
func (s *search) hidden(node CellID) bool {
	return !s.r.byCounts() || s.preemptsUncounted() && s.t.uncountedOn[node] == s.t.epoch
}

// preemptsUncounted reports whether the request may preempt holders that do not count as
// preemptible. The first call marks the nodes that these are on.
func (s *search) preemptsUncounted() bool {
	r := s.r
	if s.looked || r.Preempt == nil || r.Preempt.Also == nil && r.Preempt.Below <= MinGuaranteed {
		return s.uncounted
	}
	s.looked = true
	s.c.work.Step(len(s.c.allocs) / 16) // a look is less than a step
	if len(s.t.uncountedOn) < len(s.c.f.Cells) {
		s.t.uncountedOn = make([]uint32, len(s.c.f.Cells))
	}
	s.t.uncountedNodes = s.t.uncountedNodes[:0]
	for i := range s.c.allocs {
		a := &s.c.allocs[i]
		if !a.live || a.Promised || a.preemptible() || !r.allows(AllocID(i), a) {
			continue
		}
		s.uncounted = true
		for k := range a.Placement.Tasks {
			if leaves := a.Placement.Tasks[k].Leaves; len(leaves) > 0 {
				node := s.c.leaves[leaves[0]].node
				if at := &s.t.uncountedOn[node]; *at != s.t.epoch {
					*at = s.t.epoch
					s.t.uncountedNodes = append(s.t.uncountedNodes, node)
				}
			}
		}
	}
	return s.uncounted
}

func (s *search) order(bins []bin) {
	if s.opportunistic() {
		slices.SortFunc(bins, func(a, b bin) int {
			return cmp.Or(cmp.Compare(b.preemptible, a.preemptible), cmp.Compare(a.used, b.used), cmp.Compare(a.cell, b.cell))
		})
		return
	}
	sorted := func(a, b bin) int {
		return cmp.Or(cmp.Compare(a.avail, b.avail), -cmp.Compare(min(len(a.parts), 1), min(len(b.parts), 1)), cmp.Compare(a.place, b.place), cmp.Compare(a.cell, b.cell))
	}
	if s.prefers {
		sorted = func(a, b bin) int {
			return cmp.Or(cmp.Compare(a.avail, b.avail), s.preference(b.cell)-s.preference(a.cell), cmp.Compare(a.place, b.place), cmp.Compare(a.cell, b.cell))
		}
	}
	if !slices.IsSortedFunc(bins, sorted) {
		slices.SortFunc(bins, sorted)
	}
}

// pinnedBins are the nodes of a pinned cell.
func (s *search) pinnedBins(ci int16, pin PinnedID) []bin {
	var bins []bin
	sp := &s.c.spaces[s.r.Space]
	for i := range sp.Roots {
		if r := &sp.Roots[i]; r.Chain == ci && r.Pinned == pin {
			bins = s.nodeBins(bins, r.Cell)
		}
	}
	s.order(bins)
	return bins
}

// nodeBins appends the bins at or below a cell in which the gang could take any leaf.
func (s *search) nodeBins(bins []bin, id CellID) []bin {
	f := s.c.f
	cl := &f.Cells[id]
	ch := &f.Chains[cl.Chain]
	if cl.Level < ch.NodeLevel {
		if b := s.newBin(ch.NodeCells[cl.Bin], []CellID{id}); b.avail > 0 {
			bins = append(bins, b)
		}
		return bins
	}
	if cl.Level == ch.NodeLevel {
		if b := s.newBin(id, nil); b.avail > 0 {
			bins = append(bins, b)
		}
		return bins
	}
	first, step, n := f.Children(id)
	for i := int32(0); i < n; i++ {
		bins = s.nodeBins(bins, first+CellID(i)*step)
	}
	return bins
}

// newBin counts what the gang could take of a node, or of parts of it.
func (s *search) newBin(id CellID, parts []CellID) bin {
	s.c.work.Step(1)
	b := bin{cell: id, parts: parts}
	if parts == nil {
		s.countLeaves(&b, id)
		return b
	}
	if s.counted(s.c.f.Cells[id].Chain) {
		s.sumCounts(&b)
		return b
	}
	for _, p := range parts {
		s.countLeaves(&b, p)
	}
	return b
}

// sumCounts sums the counts of a bin's parts.
func (s *search) sumCounts(b *bin) {
	c := s.c
	node := &c.f.Cells[b.cell]
	if !s.nodeOK(node.Node) {
		return
	}
	ch, n := &c.f.Chains[node.Chain], int32(0)
	for _, p := range b.parts {
		b.idle += c.idle[p]
		b.preemptible += c.preemptible[p]
		n += ch.LeavesAt(c.f.Cells[p].Level)
	}
	b.used = n - b.idle - b.preemptible
	if b.avail = b.idle; s.r.Preempt != nil {
		b.avail += b.preemptible
	}
}

func (s *search) countLeaves(b *bin, id CellID) {
	c := s.c
	cl := &c.f.Cells[id]
	n := c.f.NumLeaves(id)
	if s.counted(cl.Chain) {
		if s.nodeOK(cl.Node) {
			b.idle += c.idle[id]
			b.preemptible += c.preemptible[id]
			b.avail += c.idle[id]
			if s.r.Preempt != nil {
				b.avail += c.preemptible[id]
			}
			b.used += n - c.idle[id] - c.preemptible[id]
		}
		return
	}
	for l, end := cl.FirstLeaf, cl.FirstLeaf+LeafID(n); l < end; l++ {
		switch s.leaf(l) {
		case leafFree:
			b.avail++
			b.idle++
		case leafPreemptible:
			b.avail++
		}
		switch c.leaves[l].use {
		case usePreemptible:
			b.preemptible++
		case useBusy:
			b.used++
		}
	}
}

// scan counts, for every cell of a bin, the leaves that the gang may take. s.avail holds the
// counts, by a cell's distance from the node's cell.
func (s *search) scan(b *bin) []int32 {
	n := len(s.c.f.Chains[s.c.f.Cells[b.cell].Chain].inside)
	if s.countsApply(b) {
		s.avail = s.c.idle[b.cell : int(b.cell)+n]
		return s.avail
	}
	avail := s.t.avail[:n]
	s.avail = avail
	if b.parts == nil {
		s.scanCell(avail, b.cell, b.cell)
		return avail
	}
	clear(avail)
	counts := s.r.Preempt == nil && s.counted(s.c.f.Cells[b.cell].Chain) && s.nodeOK(s.c.f.Cells[b.cell].Node)
	for _, p := range b.parts {
		if counts && s.c.idle[p] == 0 {
			continue
		}
		got := s.scanCell(avail, b.cell, p)
		for id := s.c.f.parent[p]; id >= b.cell; id = s.c.f.parent[id] {
			avail[id-b.cell] += got
		}
	}
	return avail
}

// countsApply reports whether the counts of idle leaves replace a look at each leaf of a node:
// nothing is preempted or excluded, the bin is a whole node, and no task of the gang was placed
// there yet.
func (s *search) countsApply(b *bin) bool {
	if !s.countsExact || s.r.Preempt != nil || b.parts != nil || s.restricted && !s.nodeOK(s.c.f.Cells[b.cell].Node) {
		return false
	}
	first := s.c.f.Cells[b.cell].FirstLeaf
	end := first + LeafID(s.c.f.NumLeaves(b.cell))
	for i := range s.placed {
		if l := s.placed[i].leaves[0]; l >= first && l < end {
			return false
		}
	}
	return true
}

func (s *search) scanCell(avail []int32, base, id CellID) int32 {
	first, step, n := s.c.f.Children(id)
	var sum int32
	if n == 0 && s.leaf(s.c.f.Cells[id].FirstLeaf) == leafFree {
		sum = 1
	}
	for i := int32(0); i < n; i++ {
		sum += s.scanCell(avail, base, first+CellID(i)*step)
	}
	avail[id-base] = sum
	return sum
}

// lowest returns the level of the lowest cell of a bin with n leaves that the gang may take; one
// above node level if none has.
func (s *search) lowest(b *bin, n int32) Level {
	ch := &s.c.f.Chains[s.c.f.Cells[b.cell].Chain]
	best := ch.NodeLevel + 1
	for i, a := range s.scan(b) {
		if a >= n {
			best = min(best, ch.inside[i])
		}
	}
	return best
}

// pick returns n leaves of a bin with the lowest common ancestor; among such
// cells it takes the tightest, so that large holes stay whole. There must be n
// free leaves.
func (s *search) pick(b *bin, n int32) []LeafID {
	avail := s.scan(b)
	out := takeSlab(&s.t.newLeaves, int(n))
	if avail[0] == n { // all of them
		first := s.c.f.Cells[b.cell].FirstLeaf
		for l := first; len(out) < int(n); l++ {
			if avail[s.c.f.Leaves[l]-b.cell] > 0 {
				out = append(out, l)
			}
		}
		return out
	}
	best := 0
	for i, a := range avail {
		if a >= n && s.tighterCell(b.cell, CellID(i), CellID(best)) {
			best = i
		}
	}
	leaves := s.gather(out, b.cell, CellID(best), n)
	if !slices.IsSorted(leaves) {
		slices.Sort(leaves)
	}
	return leaves
}

// tighterCell reports whether a cell of a node is a better one to take leaves from
// than another: lower, then tighter, then in a tighter parent, and so on; the
// first of equal ones.
func (s *search) tighterCell(node, a, b CellID) bool {
	f := s.c.f
	if la, lb := f.Cells[node+a].Level, f.Cells[node+b].Level; la != lb {
		return la < lb
	}
	for a != b {
		if s.avail[a] != s.avail[b] {
			return s.avail[a] < s.avail[b]
		}
		a, b = f.parent[node+a]-node, f.parent[node+b]-node
	}
	return false
}

// gather appends n free leaves below a cell of a node of which no child has n:
// whole children first, the largest first, then the rest from the tightest child.
func (s *search) gather(out []LeafID, node, at CellID, n int32) []LeafID {
	if n == 0 {
		return out
	}
	first, step, k := s.c.f.Children(node + at)
	if k == 0 {
		return append(out, s.c.f.Cells[node+at].FirstLeaf)
	}
	avail := s.avail
	first -= node
	if avail[at] == n { // all of it
		for i := int32(0); i < k; i++ {
			if c := first + CellID(i)*step; avail[c] > 0 {
				out = s.gather(out, node, c, avail[c])
			}
		}
		return out
	}
	var room [8]CellID
	kids := room[:0]
	for i := int32(0); i < k; i++ {
		if c := first + CellID(i)*step; avail[c] > 0 {
			kids = append(kids, c)
		}
	}
	slices.SortStableFunc(kids, func(a, b CellID) int { return cmp.Compare(avail[b], avail[a]) })
	for len(kids) > 0 && n > 0 {
		// The tightest child that holds the rest; else the largest whole.
		tight := -1
		for j := range kids {
			if avail[kids[j]] >= n && (tight < 0 || avail[kids[j]] < avail[kids[tight]]) {
				tight = j
			}
		}
		if tight >= 0 {
			return s.gather(out, node, kids[tight], n)
		}
		out = s.gather(out, node, kids[0], avail[kids[0]])
		n -= avail[kids[0]]
		kids = kids[1:]
	}
	return out
}
