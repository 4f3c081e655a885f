package cell

// reach is the highest level at which the gang's leaves in a chain may meet; noLevel if the
// distance does not matter.
func (s *search) reach(ci int16) Level {
	if s.r.Reach == nil || s.r.Reach[ci] == 0 {
		return noLevel
	}
	return s.r.Reach[ci]
}

// insideNode reports whether the gang must stay below one cell inside a node.
func (s *search) insideNode(ci int16) bool { return s.reach(ci) < s.c.f.Chains[ci].NodeLevel }

// withinReach reports whether all that was placed is within reach, also where several parts share a
// chain.
func (s *search) withinReach() bool {
	if s.r.Reach == nil {
		return true
	}
	f := s.c.f
	for i := range s.placed {
		ci := f.Cells[f.Leaves[s.placed[i].leaves[0]]].Chain
		if l := s.reach(ci); l <= f.Chains[ci].Top && !s.under(ci, f.Ancestor(f.Leaves[s.placed[i].leaves[0]], l)) {
			return false
		}
	}
	return true
}

// under reports whether all leaves that were placed in a chain lie below a cell.
func (s *search) under(ci int16, at CellID) bool {
	f := s.c.f
	for i := range s.placed {
		for _, l := range s.placed[i].leaves {
			if id := f.Leaves[l]; f.Cells[id].Chain == ci && !f.Contains(at, id) {
				return false
			}
		}
	}
	return true
}

// packPreemptingWithin packs a part below one cell of a level, with victims: below the cell that
// needs the fewest, then those of the least cost.
func (s *search) packPreemptingWithin(bins []bin, p *part, l Level) bool {
	if l <= s.c.f.Chains[s.c.f.Cells[bins[0].cell].Chain].NodeLevel {
		return s.packPreempting(s.inside(bins, l), &part{skus: p.skus, pinned: p.pinned, tasks: []task{{leaves: p.total}}, total: p.total}) && s.distribute(p)
	}
	start, lifted := s.mark(), len(s.victims)
	best, bestOf := option{}, []bin(nil)
	for gs := s.groups(bins, l, p); gs.len() > 0 && (bestOf == nil || !s.spent()); gs.pop() {
		var under []bin
		for _, i := range gs.first(bins) {
			under = append(under, bins[i])
		}
		if s.packPreempting(under, p) || s.preemptPerBin(under, p) {
			o := option{n: len(s.victims) - lifted}
			for _, v := range s.victims[lifted:] {
				o.cost = o.cost.Plus(s.r.cost(v))
			}
			if bestOf == nil || o.compare(best) < 0 {
				best, bestOf = o, under
			}
		}
		s.rewind(start)
	}
	return bestOf != nil && (s.packPreempting(bestOf, p) || s.preemptPerBin(bestOf, p))
}

// inside divides bins at the cells of a level in their nodes.
func (s *search) inside(bins []bin, l Level) []bin {
	f := s.c.f
	var out []bin
	for i := range bins {
		b := &bins[i]
		if l == f.Cells[b.cell].Level {
			out = append(out, *b)
			continue
		}
		parts := b.parts
		if parts == nil {
			parts = []CellID{b.cell}
		}
		for _, c := range f.below(b.cell, l) {
			var own []CellID
			for _, p := range parts {
				if f.Contains(p, c) {
					own = []CellID{c}
				} else if f.Contains(c, p) {
					own = append(own, p)
				}
			}
			if k := s.newBin(b.cell, own); len(own) > 0 && k.avail > 0 {
				out = append(out, k)
			}
		}
	}
	return out
}

// below lists the cells of a level at or below a cell.
func (f *Forest) below(id CellID, l Level) []CellID {
	if f.Cells[id].Level == l {
		return []CellID{id}
	}
	var out []CellID
	first, step, n := f.Children(id)
	for i := int32(0); i < n; i++ {
		out = append(out, f.below(first+CellID(i)*step, l)...)
	}
	return out
}

// distribute divides what was placed last, as one task, among the tasks of a part.
func (s *search) distribute(p *part) bool {
	leaves := s.placed[len(s.placed)-1].leaves
	s.placed = s.placed[:len(s.placed)-1]
	for _, t := range p.tasks {
		s.placed = append(s.placed, placedTask{t.index, leaves[:t.leaves:t.leaves]})
		leaves = leaves[t.leaves:]
	}
	return true
}
