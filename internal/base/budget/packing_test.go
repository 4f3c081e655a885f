package budget_test

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/base/budget"
)

// What fits is found where taking the largest first into the fullest bin does not find it, nothing
// else is, and the steps bound the search.
func TestExact(t *testing.T) {
	cases := []struct {
		sizes, room []int32
		most        int
		fits        bool
	}{
		{[]int32{5, 4, 4, 3, 2}, []int32{9, 9}, 100, true},
		{[]int32{4, 3, 3, 2, 2, 2}, []int32{6, 5, 5}, 100, true},
		{[]int32{4, 3, 3, 3, 2}, []int32{5, 5, 5}, 100, false},
		{[]int32{3, 3, 3}, []int32{8, 2}, 100, false},
		{[]int32{4, 3, 3, 2, 2, 2}, []int32{6, 5, 5}, 3, false},
		{nil, nil, 0, true},
	}
	for _, c := range cases {
		left := slices.Clone(c.room)
		where, steps, ok := budget.Pack(c.sizes, slices.Clone(c.room), c.most)
		if ok != c.fits || !ok && c.most == 3 && steps <= c.most {
			t.Errorf("%v in %v: %v after %d steps", c.sizes, c.room, ok, steps)
		}
		for i, k := range where {
			if ok {
				left[k] -= c.sizes[i]
			}
		}
		if ok && slices.ContainsFunc(left, func(n int32) bool { return n < 0 }) {
			t.Errorf("%v in %v: %v is too much", c.sizes, c.room, where)
		}
	}
}

// A state is new once.
func TestMemory(t *testing.T) {
	var m budget.SeenStates
	if !m.Add([]int32{1, 2}) || m.Add([]int32{1, 2}) || !m.Add([]int32{2, 1}) || !m.Add(nil) || m.Add(nil) {
		t.Error("a state was taken for another, or forgotten")
	}
}
