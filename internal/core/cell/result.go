package cell

import (
	"slices"
)

// slabSize is for how many values memory is taken at once. One value that is kept for long keeps
// that much.
const slabSize = 32

// takeSlab returns memory for n values, with room for no more: an append copies it.
func takeSlab[T any](from *[]T, n int) []T {
	if n == 0 {
		return nil
	}
	if len(*from) < n {
		*from = make([]T, max(n, slabSize))
	}
	out := (*from)[:0:n]
	*from = (*from)[n:]
	return out
}

// bindOf adds the preassigned cell of a leaf to a placement. It may add a cell twice.
func (s *search) bindOf(pl *Placement, l LeafID) {
	leaf := s.c.leaves[l].node
	if cl := &s.c.f.Cells[leaf]; s.c.bins[cl.Chain][cl.Bin].vc != s.r.Space {
		leaf = s.c.f.Leaves[l] // parts of the node are bound, or it is pinned
	}
	if n := len(pl.Binds); n > 0 && s.c.f.Contains(pl.Binds[n-1].Cell, leaf) {
		return
	}
	ref := s.c.rootOver(leaf)
	pl.Binds = append(pl.Binds, Bind{Root: ref.root, Cell: s.c.spaces[ref.space].Roots[ref.root].Cell})
}

// holdersOf returns the holders of a placement's leaves, in the order of leaves. The order of
// their ids means nothing, since ids differ after a restart.
func (c *Cluster) holdersOf(pl Placement) []AllocID {
	t := c.tmp
	t.listed = slices.Grow(t.listed, max(len(c.allocs)-len(t.listed), 0))[:max(len(c.allocs), len(t.listed))]
	if t.list++; t.list == 0 {
		clear(t.listed)
		t.list = 1
	}
	var hs []AllocID
	for i := range pl.Tasks {
		for _, l := range pl.Tasks[i].Leaves {
			if h := c.leaves[l].holder; h != None && t.listed[h] != t.list {
				t.listed[h] = t.list
				hs = append(hs, h)
			}
		}
	}
	return hs
}
