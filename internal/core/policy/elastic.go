package policy

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// What policies that choose sizes share: how long a job takes with another number of
// GPUs, or on another type, by the offline model (model.GangView.Speeds).

// sizable reports whether a gang can have more than one size of which something is known.
func sizable(g *model.GangView) bool {
	return g.Sizes.Most > g.Sizes.Least && perf.RateOn(g.Speeds, declaredOn(g), usualGPUs(g)) > 0
}

// gpusOf is how many GPUs a gang has with so many members.
func gpusOf(g *model.GangView, members int32) int32 {
	return g.Leaves + (members-g.Sizes.Least)*g.Sizes.MemberLeaves
}

// usualGPUs are those for which a gang declares its run time.
func usualGPUs(g *model.GangView) int32 {
	if g.Sizes.Usual == 0 {
		return g.Leaves
	}
	return gpusOf(g, g.Sizes.Usual)
}

// skusOf are the types of which the offline model knows something; "" is all others.
func skusOf(g *model.GangView) []cell.TypeName {
	var out []cell.TypeName
	for i, s := range g.Speeds {
		if i == 0 || s.SKU != g.Speeds[i-1].SKU {
			if s.SKU == "" || usable(g, s.SKU) {
				out = append(out, s.SKU)
			}
		}
	}
	return out
}

// candidateSizes are the sizes of which one is the fastest on a type: the least and the most, and
// those around the numbers of GPUs that were measured, as speed is linear between these.
func candidateSizes(g *model.GangView, sku cell.TypeName) []int32 {
	z := &g.Sizes
	out := []int32{z.Least, z.Most}
	for _, s := range g.Speeds {
		if s.SKU != sku || s.GPUs <= g.Leaves || s.GPUs >= gpusOf(g, z.Most) {
			continue
		}
		n := z.Least + (s.GPUs-g.Leaves)/max(z.MemberLeaves, 1)
		out = append(out, n, min(n+1, z.Most))
	}
	return out
}

// declaredOn is the type for which a gang declares its run time: the one on which it is
// fastest, of those that it can use.
func declaredOn(g *model.GangView) cell.TypeName {
	best, most := cell.TypeName(""), int64(-1)
	for _, sku := range skusOf(g) {
		if rate := perf.RateOn(g.Speeds, sku, usualGPUs(g)); rate > most {
			best, most = sku, rate
		}
	}
	return best
}

// atSize is how long a gang takes on a type with so many members, if it takes left where its
// run time is declared for. Where the offline model knows too little, that is left as well.
func atSize(g *model.GangView, left int64, sku cell.TypeName, members int32) int64 {
	usual := perf.RateOn(g.Speeds, declaredOn(g), usualGPUs(g))
	rate := perf.RateOn(g.Speeds, sku, gpusOf(g, members))
	if usual <= 0 || rate <= 0 {
		return left
	}
	return scale(left, usual, rate)
}
