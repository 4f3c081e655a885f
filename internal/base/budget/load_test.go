package budget_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/base/budget"
)

// Within is what trying every assignment says, and then the fewer and smaller fit wherever the
// others do.
func TestWithin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	within := 0
	for range 3000 {
		few, many := things(rnd), things(rnd)
		var sizes, rooms []int32
		for _, s := range budget.LoadOf(few) {
			sizes = append(sizes, slices.Repeat([]int32{s.Size}, int(s.Count))...)
		}
		for _, s := range budget.LoadOf(many) {
			rooms = append(rooms, slices.Repeat([]int32{s.Size}, int(s.Count))...)
		}
		want := len(sizes) <= len(rooms)
		for i := 0; want && i < len(sizes); i++ {
			want = sizes[i] <= rooms[i]
		}
		got := budget.Load(few).Within(many)
		if got != want {
			t.Fatalf("%v within %v: %v", few, many, got)
		}
		if !got {
			continue
		}
		within++
		bins := []int32{8, 8, 6, 5, 3}
		_, _, manyFit := budget.Pack(rooms, slices.Clone(bins), 1e6)
		if _, _, fewFit := budget.Pack(sizes, slices.Clone(bins), 1e6); manyFit && !fewFit {
			t.Fatalf("%v fits, and %v within it does not", many, few)
		}
	}
	if within < 100 {
		t.Errorf("only %d of 3000 are within others", within)
	}
}

func things(rnd *rand.Rand) []budget.Sized {
	out := make([]budget.Sized, 1+rnd.IntN(3))
	for i := range out {
		out[i] = budget.Sized{Size: 1 + rnd.Int32N(8), Count: 1 + rnd.Int32N(3)}
	}
	return budget.LoadOf(out)
}
