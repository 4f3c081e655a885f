package cell

import (
	"cmp"
	"slices"
)

// SwapLeaves exchanges leaves of a gang for others within the same cells of its VC: of those that
// can be had, the ones with the highest score.
func SwapLeaves[S cmp.Ordered](f *Forest, p *Placement, free func(LeafID) bool, score func(LeafID) S) {
	x := exchanger[S]{f: f, free: free, score: score, taken: map[LeafID]bool{}}
	p.Tasks = slices.Clone(p.Tasks)
	for i := range p.Tasks {
		p.Tasks[i].Leaves = slices.Clone(p.Tasks[i].Leaves)
		p.Tasks[i].Devices = slices.Clone(p.Tasks[i].Devices)
		p.Tasks[i].Parts = slices.Clone(p.Tasks[i].Parts)
		for _, l := range p.Tasks[i].Leaves {
			x.taken[l] = true
		}
	}
	for i := range p.Tasks {
		x.task(&p.Tasks[i], p.Binds)
	}
}

type exchanger[S cmp.Ordered] struct {
	f     *Forest
	free  func(LeafID) bool
	score func(LeafID) S
	taken map[LeafID]bool // leaves of the gang
}

// task exchanges one task's leaves, cell by cell.
func (x *exchanger[S]) task(t *Task, binds []Bind) {
	for from := 0; from < len(t.Leaves); {
		parent := x.parent(t.Leaves[from])
		to := from
		for to < len(t.Leaves) && x.parent(t.Leaves[to]) == parent {
			to++
		}
		if parent != None && slices.ContainsFunc(binds, func(b Bind) bool { return b.Space == 0 && x.f.Contains(b.Cell, parent) }) {
			x.swapUnder(parent, t.Leaves[from:to])
		}
		from = to
	}
	slices.Sort(t.Leaves)
	for i, l := range t.Leaves {
		t.Devices[i] = x.f.Device(l)
		if len(t.Parts) > 0 {
			t.Parts[i] = x.f.Part(l)
		}
	}
}

func (x *exchanger[S]) parent(l LeafID) CellID { return x.f.Cells[x.f.Leaves[l]].Parent }

// swapUnder exchanges leaves of one cell.
func (x *exchanger[S]) swapUnder(parent CellID, leaves []LeafID) {
	node := x.f.Cells[x.f.Leaves[leaves[0]]].Node
	for _, l := range leaves {
		delete(x.taken, l)
	}
	all := slices.Clone(leaves)
	first := x.f.Cells[parent].FirstLeaf
	for l := first; l < first+LeafID(x.f.NumLeaves(parent)); l++ {
		if !x.taken[l] && !slices.Contains(leaves, l) && x.f.Cells[x.f.Leaves[l]].Node == node && x.free(l) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b LeafID) int {
		return cmp.Or(cmp.Compare(x.score(b), x.score(a)),
			cmp.Compare(a, b))
	})
	copy(leaves, all)
	for _, l := range leaves {
		x.taken[l] = true
	}
}
