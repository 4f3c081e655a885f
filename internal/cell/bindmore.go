package cell

import "cmp"

// bindMore tentatively binds unbound preassigned cells of the VC in one chain,
// at every level that can hold the part's smallest task, until the newly bound
// cells of a level could hold `want` leaves. It reports whether it bound any.
// The packing then chooses among all of them; what it does not use is unbound.
func (s *search) bindMore(ci int16, p *part, want int32) bool {
	sp := &s.c.spaces[s.r.Space]
	smallest := p.tasks[len(p.tasks)-1].leaves
	grown := false
	for l := Level(1); l <= s.c.f.Chains[ci].Top; l++ {
		each := s.c.f.Chains[ci].LeavesAt(l)
		if each < smallest {
			continue
		}
		got := s.boundHere(ci, l)
		for i := range sp.Roots {
			if got >= want {
				break
			}
			r := &sp.Roots[i]
			if r.Chain != ci || r.Level != l || r.Cell != None {
				continue
			}
			if !s.bindBest(RootID(i), p) {
				break
			}
			got += each
			grown = true
		}
	}
	return grown
}

// boundHere counts the leaves of the tentatively bound cells of a level.
func (s *search) boundHere(ci int16, l Level) int32 {
	var n int32
	for _, root := range s.bound {
		if r := &s.c.spaces[s.r.Space].Roots[root]; r.Chain == ci && r.Level == l {
			n += s.c.f.Chains[ci].LeavesAt(l)
		}
	}
	return n
}

// candidate ranks a physical cell for a preassigned one: first those with a bin
// for the largest task, then by what binding it would disturb.
type candidate struct {
	cell CellID
	fits bool
	lent int32 // leaves in opportunistic use
	lost int32 // leaves this gang could not use
}

func (a candidate) better(b candidate) bool {
	if a.fits != b.fits {
		return a.fits
	}
	return cmp.Or(cmp.Compare(a.lent, b.lent), cmp.Compare(a.lost, b.lost), cmp.Compare(a.cell, b.cell)) < 0
}

// bindBest binds a root to the best physical cell: from the lowest level with a
// free cell that is of use (buddy allocation), or, when bad or avoided cells
// stand in the way, from a higher one as long as every other guarantee stays
// safe (HiveD's safe relaxed allocation).
func (s *search) bindBest(root RootID, p *part) bool {
	c := s.c
	r := &c.spaces[s.r.Space].Roots[root]
	ch := &c.f.Chains[r.Chain]
	for l := r.Level; l <= ch.Top; l++ {
		best, found := candidate{}, false
		for _, free := range c.spaces[0].free[slot(r.Chain, l)] {
			k := s.bestBelow(free, r.Level, p)
			if k.cell != None && (!found || k.better(best)) {
				best, found = k, true
			}
			if found && best.fits && best.lent == 0 && best.lost == 0 {
				break
			}
		}
		if found && c.bind(s.r.Space, root, best.cell) {
			s.bound = append(s.bound, root)
			return true
		}
	}
	return false
}

// bestBelow returns the best cell of a level at or below a free cell; its cell
// is None when the gang could use no leaf of it.
func (s *search) bestBelow(id CellID, l Level, p *part) candidate {
	f := s.c.f
	if f.Cells[id].Level == l {
		return s.candidate(id, p)
	}
	first, step, n := f.Children(id)
	best := candidate{cell: None}
	for i := int32(0); i < n; i++ {
		k := s.bestBelow(first+CellID(i)*step, l, p)
		if k.cell != None && (best.cell == None || k.better(best)) {
			best = k
		}
		if best.cell != None && best.fits && best.lent == 0 && best.lost == 0 {
			break
		}
	}
	return best
}

func (s *search) candidate(id CellID, p *part) candidate {
	k := candidate{cell: id}
	largest := p.tasks[0].leaves
	var widest, avail int32
	for _, b := range s.nodeBins(nil, id, 0) {
		widest = max(widest, b.avail)
		avail += b.avail
		k.lent += b.lent
	}
	node := s.c.f.Chains[s.c.f.Cells[id].Chain].NodeLevel
	if most := s.c.f.Chains[s.c.f.Cells[id].Chain].LeavesAt(min(node, s.c.f.Cells[id].Level)); most < largest {
		largest = most // it can only serve the smaller tasks
	}
	if avail == 0 || widest < p.tasks[len(p.tasks)-1].leaves {
		k.cell = None
	}
	k.fits = widest >= largest
	k.lost = s.c.f.NumLeaves(id) - avail
	return k
}
