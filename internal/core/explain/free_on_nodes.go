package explain

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

func (h *shapeHolders) More() int { return h.MoreOwn + h.MoreOthers }

// fitKeyOf is a key for what is the same for all gangs of a shape, such as rooms and holders.
func fitKeyOf(j *tables.Job, g int) tables.FitKey {
	return tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, cell.MinGuaranteed), Shape: j.Gangs[g].Shape.Text}
}

// bindableOn adds for each node the leaves on which unbound cells of a gang's VC could be bound. It
// reports whether the sum is exact: the VC has as many unbound cells as there are places for them.
func bindableOn(s *tables.Tables, j *tables.Job, g int, add func(node, free int32)) (exact bool) {
	type kind struct {
		chain int16
		level cell.Level
	}
	var kinds []kind
	var leaves []int32
	sp, f := s.Cluster.Space(s.Space(j.Spec.VC)), s.Cluster.Forest()
	for i := range sp.Roots {
		r := &sp.Roots[i]
		if r.Cell != cell.None || !s.UsableChain(j, g, r.Chain) || !s.RootServes(j, g, r) {
			continue
		}
		k := slices.Index(kinds, kind{r.Chain, r.Level})
		if k < 0 {
			k, kinds, leaves = len(kinds), append(kinds, kind{r.Chain, r.Level}), append(leaves, 0)
		}
		leaves[k] += f.Chains[r.Chain].LeavesAt(r.Level)
	}
	exact = len(kinds) < 2
	for k := range kinds {
		ch, sum := &f.Chains[kinds[k].chain], int32(0)
		if kinds[k].level > ch.NodeLevel {
			return false
		}
		for _, c := range ch.NodeCells {
			n := bindableLeaves(s, c, ch.LeavesAt(kinds[k].level))
			sum += n
			add(f.Cells[c].Node, min(n, leaves[k]))
		}
		exact = exact && sum == leaves[k]
	}
	return exact
}

// bindableLeaves counts the leaves on a node in cells of a size that could be bound: they are
// healthy, in no bound cell, promised to no gang, and used by opportunistic work at most.
func bindableLeaves(s *tables.Tables, node cell.CellID, size int32) (n int32) {
	f := s.Cluster.Forest()
	first := f.Cells[node].FirstLeaf
	for from := first; from < first+cell.LeafID(f.NumLeaves(node)); from += cell.LeafID(size) {
		loose := true
		for l := from; loose && l < from+cell.LeafID(size); l++ {
			hold, promised := s.Cluster.Holder(l)
			space, _ := s.Cluster.RootOver(f.Leaves[l])
			loose = space == cell.None && promised == cell.None && !s.LeafBad(l) &&
				(hold == cell.None || s.Cluster.Alloc(hold).Opportunistic())
		}
		if loose {
			n += size
		}
	}
	return n
}

// fitByNumber reports whether tasks fit on nodes by the number of free leaves alone, placing the
// largest first.
func fitByNumber(members []cell.Member, on []freeOnNode) bool {
	left := slices.Clone(on)
	larger := func(a, b cell.Member) int { return cmp.Compare(b.Leaves, a.Leaves) }
	for _, m := range slices.SortedStableFunc(slices.Values(members), larger) {
		for range m.Tasks {
			i := slices.IndexFunc(left, func(l freeOnNode) bool { return l.Free >= m.Leaves })
			if i < 0 {
				return false
			}
			left[i].Free -= m.Leaves
		}
	}
	return true
}

// needText says what a gang asks for in all, with one amount for members that may use the same
// SKUs.
func needText(s *tables.Tables, j *tables.Job, g int) string {
	type part struct {
		skus   []cell.TypeName
		leaves int32
	}
	var parts []part
	for _, m := range j.Gangs[g].Shape.Members {
		i := slices.IndexFunc(parts, func(p part) bool { return slices.Equal(p.skus, m.SKUs) })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{skus: m.SKUs})
		}
		parts[i].leaves += m.Tasks * m.Leaves
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = s.AmountOf(p.skus, p.leaves)
		if len(parts) > 1 && len(p.skus) > 0 {
			texts[i] += " of " + tables.SKUText(p.skus)
		}
	}
	return model.JoinAnd(texts)
}
