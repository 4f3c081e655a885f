package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// The two ways in which a VC chooses among equal places (VCConfig.Placement). By
// default it packs: the tightest fit, so that large holes stay whole.
const (
	placePack   = "pack"
	placeSpread = "spread"
)

// emptiest are nodes of a VC with the most idle leaves, as many as a gang needs and all that
// are equally empty: the search chooses among these in its own order. It reads some
// nodes of each kind, so what it costs does not grow with the cluster.
func (s *State) emptiest(space int32, g *gang) cell.NodeSet {
	type offer struct {
		node, idle int32
	}
	var offers []offer
	f := s.cl.Forest()
	for _, n := range s.cl.Samples(space, samples) {
		o := offer{node: n}
		for _, c := range f.Nodes[n].Cells {
			if usableBy(g, f.Chains[f.Cells[c].Chain].SKU) {
				o.idle += s.cl.Idle(c)
			}
		}
		if o.idle > 0 {
			offers = append(offers, o)
		}
	}
	slices.SortFunc(offers, func(a, b offer) int { return cmp.Or(cmp.Compare(b.idle, a.idle), cmp.Compare(a.node, b.node)) })
	var out cell.NodeSet
	room, fresh := int32(0), s.unbound(space, g)
	for i, o := range offers {
		if room >= g.leaves && o.idle < offers[i-1].idle {
			break
		}
		out = out.Add(o.node)
		if s.cl.LiesIn(o.node, space) {
			room += o.idle
		} else {
			room += min(o.idle, fresh)
			fresh -= min(o.idle, fresh)
		}
	}
	return out
}

// unbound is how many leaves the VC's unbound cells have that a gang can use.
func (s *State) unbound(space int32, g *gang) (n int32) {
	sp, f := s.cl.Space(space), s.cl.Forest()
	for i := range sp.Roots {
		if ch := &f.Chains[sp.Roots[i].Chain]; sp.Roots[i].Cell == cell.None && usableBy(g, ch.SKU) {
			n += ch.LeavesAt(sp.Roots[i].Level)
		}
	}
	return n
}

// usableBy reports whether some member of a gang can use a SKU.
func usableBy(g *gang, sku cell.TypeName) bool {
	return slices.ContainsFunc(g.shape.members, func(m cell.Member) bool { return len(m.SKUs) == 0 || slices.Contains(m.SKUs, sku) })
}
