package cell

// A gang whose tasks take whole nodes is packed without looking at leaves: it matters only which
// nodes are all idle. The result is that of choose.

// wholeKind is the number of the key of a node that is all idle: in an empty cluster it is the
// only one.
const wholeKind = 0

// wholes reports whether every task of a part takes a whole node of a chain, and an index alone
// tells where these are.
func (s *search) wholes(x *binIndex, ci int16, p *part) bool {
	ch := &s.c.f.Chains[ci]
	each := ch.LeavesAt(ch.NodeLevel)
	return p.smallest() == each && p.tasks[0].leaves == each && len(p.tasks) > 1 && len(x.parts) == 0 &&
		s.r.Preempt == nil && !s.prefers && !s.restricted && s.counted(ci)
}

// packWholes places a part whose tasks take whole nodes: under the lowest common ancestor, where
// the least room is left, on the first nodes. With want, the ancestor must be at most that high.
func (s *search) packWholes(x *binIndex, ci int16, p *part, want Level) bool {
	ch := &s.c.f.Chains[ci]
	if !x.some(wholeKind) || int(x.size[wholeKind]) < len(p.tasks) {
		return false
	}
	reach := s.reach(ci)
	anc, level := CellID(None), ch.NodeLevel+1
	for ; level <= min(ch.Top, reach); level++ {
		if anc = s.tightest(x, ch, level, int32(len(p.tasks))); anc != None {
			break
		}
	}
	if anc == None && reach <= ch.Top || want > 0 && level > want {
		return false
	}
	s.takeWholes(x, ch, anc, p)
	return true
}

// tightest returns the cell of a level with the fewest idle nodes that are enough, the first of
// equal ones; None if there is none.
func (s *search) tightest(x *binIndex, ch *Chain, l Level, enough int32) CellID {
	t, f := s.t, s.c.f
	t.beginRound(len(f.Cells))
	list, last, at := t.groups[:0], CellID(None), int32(0)
	places := &x.classes[wholeKind]
	s.c.work.Step(int(x.size[wholeKind]) / 8)
	for o := places.Next(0); o != None; o = places.Next(o + 1) {
		anc := f.parent[ch.NodeCells[x.bin(o)]]
		for up := ch.NodeLevel + 1; up < l; up++ {
			anc = f.parent[anc]
		}
		if anc != last {
			if last = anc; t.inGroup[anc] != t.round {
				t.inGroup[anc], t.group[anc] = t.round, int32(len(list))
				list = append(list, group{anc: anc})
			}
			at = t.group[anc]
		}
		list[at].fits++
	}
	t.groups = list
	best := group{anc: None}
	for _, g := range list {
		if g.fits >= enough && (best.anc == None || g.fits < best.fits || g.fits == best.fits && g.anc < best.anc) {
			best = g
		}
	}
	return best.anc
}

// takeWholes gives each task the next idle node at or below a cell, None for
// anywhere.
func (s *search) takeWholes(x *binIndex, ch *Chain, anc CellID, p *part) {
	f := s.c.f
	places := &x.classes[wholeKind]
	o := places.Next(0)
	for _, t := range p.tasks {
		node := ch.NodeCells[x.bin(o)]
		for anc != None && !f.Contains(anc, node) {
			o = places.Next(o + 1)
			node = ch.NodeCells[x.bin(o)]
		}
		o = places.Next(o + 1)
		first := f.Cells[node].FirstLeaf
		leaves := takeSlab(&s.t.newLeaves, int(t.leaves))
		for l := first; l < first+LeafID(t.leaves); l++ {
			leaves = append(leaves, l)
		}
		s.take(t.index, leaves)
	}
}
