package leases

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The erratum: what is rounded is the GPU count.
func TestRoundUp(t *testing.T) {
	for _, c := range []struct {
		gpus, node     int
		up, waste      int
		split, wastesS int
		parts          []int
	}{
		{1, 8, 1, 0, 1, 0, []int{1}},
		{2, 8, 2, 0, 2, 0, []int{2}},
		{3, 8, 4, 1, 4, 1, []int{4}},
		{5, 8, 8, 3, 8, 3, []int{8}},
		{7, 8, 8, 1, 8, 1, []int{8}},
		{8, 8, 8, 0, 8, 0, []int{8}},
		{10, 8, 16, 6, 10, 0, []int{8, 2}},
		{11, 8, 16, 5, 12, 1, []int{8, 4}},
		{13, 8, 16, 3, 16, 3, []int{8, 8}},
		{17, 8, 24, 7, 17, 0, []int{8, 8, 1}},
		{32, 8, 32, 0, 32, 0, []int{8, 8, 8, 8}},
		{3, 4, 4, 1, 4, 1, []int{4}},
		{5, 4, 8, 3, 5, 0, []int{4, 1}},
		{3, 1, 3, 0, 3, 0, []int{1, 1, 1}},
	} {
		up, split := RoundUp(c.gpus, c.node), Split(c.gpus, c.node)
		if up.GPUs != c.up || up.Waste != c.waste {
			t.Errorf("RoundUp(%d, %d) = %+v, want %d with %d wasted", c.gpus, c.node, up, c.up, c.waste)
		}
		if split.GPUs != c.split || split.Waste != c.wastesS || !slices.Equal(split.Parts, c.parts) {
			t.Errorf("Split(%d, %d) = %+v, want %d as %v with %d wasted", c.gpus, c.node, split, c.split, c.parts, c.wastesS)
		}
		if n := (c.gpus + c.node - 1) / c.node; len(up.Parts) != n || len(split.Parts) != n {
			t.Errorf("%d GPUs need %d nodes of %d: %v, %v", c.gpus, n, c.node, up.Parts, split.Parts)
		}
	}
}

// The proposition: whatever is planned within the cluster's GPUs can be placed, with
// no piece divided, by best fit in descending order; with both ways of rounding.
func TestRoundedIsPlaceable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		node := 1 << r.IntN(5)
		free := slices.Repeat([]int{node}, 1+r.IntN(12))
		left := node * len(free)
		var parts []int
		for range 60 {
			rounded := RoundUp(1+r.IntN(3*node), node)
			if r.IntN(2) == 0 {
				rounded = Split(1+r.IntN(3*node), node)
			}
			if rounded.GPUs <= left {
				left -= rounded.GPUs
				parts = append(parts, rounded.Parts...)
			}
		}
		slices.SortFunc(parts, func(a, b int) int { return b - a })
		for _, g := range parts {
			best := -1
			for n, f := range free {
				if f >= g && (best < 0 || f < free[best]) {
					best = n
				}
			}
			if best < 0 {
				t.Fatalf("%d GPUs fit on no node of %v; pieces %v", g, free, parts)
			}
			free[best] -= g
		}
	}
}
