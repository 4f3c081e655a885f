package cell

import (
	"cmp"
	"slices"
)

// lowest returns the level of the lowest cell at or below id that has n leaves
// which the gang may take; one above id's level when none has.
func (s *search) lowest(id CellID, n int32) Level {
	best := s.c.f.Cells[id].Level + 1
	s.scan(id, func(cell CellID, avail int32) {
		if l := s.c.f.Cells[cell].Level; avail >= n && l < best {
			best = l
		}
	})
	return best
}

// scan visits id and every cell below it, children first, with the number of
// leaves that the gang may take; it returns that of id.
func (s *search) scan(id CellID, visit func(CellID, int32)) int32 {
	first, step, n := s.c.f.Children(id)
	var avail int32
	if n == 0 {
		if s.leaf(s.c.f.Cells[id].FirstLeaf) == leafFree {
			avail = 1
		}
	}
	for i := int32(0); i < n; i++ {
		avail += s.scan(first+CellID(i)*step, visit)
	}
	visit(id, avail)
	return avail
}

// pick returns n leaves at or below id with the lowest common ancestor; among
// such cells it takes the tightest, so that large holes stay whole. There must
// be n free leaves.
func (s *search) pick(id CellID, n int32) []LeafID {
	best, bestAvail := CellID(None), int32(0)
	avail := map[CellID]int32{}
	s.scan(id, func(cell CellID, a int32) {
		avail[cell] = a
		if a < n {
			return
		}
		l := s.c.f.Cells[cell].Level
		if best == None || l < s.c.f.Cells[best].Level || l == s.c.f.Cells[best].Level && a < bestAvail {
			best, bestAvail = cell, a
		}
	})
	leaves := s.gather(nil, best, n, avail)
	slices.Sort(leaves)
	return leaves
}

// gather appends n free leaves below a cell of which no child has n: whole
// children first, the largest first, then the rest from the tightest child.
func (s *search) gather(out []LeafID, id CellID, n int32, avail map[CellID]int32) []LeafID {
	if n == 0 {
		return out
	}
	first, step, k := s.c.f.Children(id)
	if k == 0 {
		return append(out, s.c.f.Cells[id].FirstLeaf)
	}
	kids := make([]CellID, 0, k)
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
			return s.gather(out, kids[tight], n, avail)
		}
		out = s.gather(out, kids[0], avail[kids[0]], avail)
		n -= avail[kids[0]]
		kids = kids[1:]
	}
	return out
}
