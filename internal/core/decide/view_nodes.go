package decide

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// emptiest returns the nodes of a VC with the most idle leaves: as many as a gang needs, and
// all that are as empty as the last of them. It samples some nodes of each kind, so its cost
// does not grow with the cluster.
func (s *Pass) emptiest(space int32, g *tables.Gang) cell.NodeSet {
	type offer struct {
		node, idle int32
	}
	var offers []offer
	f := s.Cluster.Forest()
	for _, at := range s.Cluster.Samples(space, samples) {
		cl := &f.Cells[at.Cell]
		if !usableBy(g, f.Chains[cl.Chain].SKU) {
			continue
		}
		if i := slices.IndexFunc(offers, func(o offer) bool { return o.node == cl.Node }); i >= 0 {
			offers[i].idle += at.Idle
		} else {
			offers = append(offers, offer{cl.Node, at.Idle})
		}
	}
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(b.idle, a.idle) })
	var out cell.NodeSet
	room, fresh := int32(0), s.unbound(space, g)
	for i, o := range offers {
		if room >= g.Leaves && o.idle < offers[i-1].idle {
			break
		}
		out = out.Add(o.node)
		if s.Cluster.NodeLiesIn(o.node, space) {
			room += o.idle
		} else {
			room += min(o.idle, fresh)
			fresh -= min(o.idle, fresh)
		}
	}
	return out
}

// unbound counts the leaves of the VC's unbound cells that a gang can use.
func (s *Pass) unbound(space int32, g *tables.Gang) (n int32) {
	sp, f := s.Cluster.Space(space), s.Cluster.Forest()
	for i := range sp.Roots {
		if ch := &f.Chains[sp.Roots[i].Chain]; sp.Roots[i].Cell == cell.None && usableBy(g, ch.SKU) {
			n += ch.LeavesAt(sp.Roots[i].Level)
		}
	}
	return n
}

// usableBy reports whether some member of a gang can use a SKU.
func usableBy(g *tables.Gang, sku cell.TypeName) bool {
	return slices.ContainsFunc(g.Shape.Members, func(m cell.Member) bool {
		return len(m.SKUs) == 0 ||
			slices.Contains(m.SKUs, sku)
	})
}

// samples is how many nodes of each kind a policy sees.
const samples = 4

// Nodes implements View.
func (v view) Nodes() iter.Seq[model.NodeView] {
	return func(yield func(model.NodeView) bool) {
		if v.w != nil {
			v.w.sawIdle = true
		}
		lent := v.lent()
		nodes := v.byNode(v.withLent(v.s.Cluster.Samples(v.space, samples), lent))
		for i := range nodes {
			if !yield(nodes[i]) {
				return
			}
		}
	}
}

// byNode groups cells by node.
func (v view) byNode(all []cell.Sample) []model.NodeView {
	f, out, offers := v.s.Cluster.Forest(), make([]model.NodeView, 0, len(all)), make([]model.Offer, 0, len(all))
	for _, at := range all {
		cl, o := &f.Cells[at.Cell], model.Offer{SKU: f.Chains[f.Cells[at.Cell].Chain].SKU, Idle: at.Idle,
			Of: f.NumLeaves(at.Cell)}
		if len(f.Nodes[cl.Node].Cells) > 1 {
			if i := slices.IndexFunc(out, func(n model.NodeView) bool { return n.Node == cl.Node }); i >= 0 {
				out[i].Offers = append(out[i].Offers, o)
				continue
			}
		}
		offers = append(offers, o)
		out = append(out, model.NodeView{Node: cl.Node, Offers: offers[len(offers)-1 : len(offers) : len(offers)]})
	}
	return out
}

// lent counts, by node-level cell, the healthy leaves that opportunistic work holds. With
// backfill they count as idle: else lending would change the order after the policy was asked,
// and start a gang that is stopped at once.
func (v view) lent() map[cell.CellID]int32 {
	s := v.s
	if !v.besideBookings() || s.Cluster.PreemptibleCount() == 0 {
		return nil
	}
	f, out := s.Cluster.Forest(), map[cell.CellID]int32{}
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.NotFirst || a.State == model.AttemptReserving ||
			!s.Cluster.Alloc(a.Alloc).Opportunistic() {
			continue
		}
		for k := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
			for _, l := range s.Cluster.Alloc(a.Alloc).Placement.Tasks[k].Leaves {
				if !s.LeafBad(l) {
					out[f.NodeCell(l)]++
				}
			}
		}
	}
	return out
}

// withLent adds lent leaves to the samples, for nodes whose cells are the VC's or unbound.
func (v view) withLent(all []cell.Sample, lent map[cell.CellID]int32) []cell.Sample {
	for i := range all {
		all[i].Idle += lent[all[i].Cell]
		delete(lent, all[i].Cell)
	}
	from := len(all)
	for c, n := range lent { // in any order: sorted below
		if space, _ := v.s.Cluster.RootOver(c); space == v.space || space == cell.None {
			all = append(all, cell.Sample{Cell: c, Idle: n})
		}
	}
	slices.SortFunc(all[from:], func(a, b cell.Sample) int { return cmp.Compare(a.Cell, b.Cell) })
	return all
}
