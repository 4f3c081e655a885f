package budget_test

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/base/budget"
)

// Of a list those are found that are needed, in its order; one of too many alone; or none.
func TestOf(t *testing.T) {
	needs := func(some ...int) func(...int) (int, bool) {
		return func(list ...int) (int, bool) {
			for _, n := range some {
				if !slices.Contains(list, n) {
					return 0, false
				}
			}
			return len(list), true
		}
	}
	alone := func(list ...int) (int, bool) { return 1, len(list) == 1 && list[0] == 3 }
	for _, c := range []struct {
		name string
		with func(...int) (int, bool)
		want []int
	}{
		{"two of five", needs(2, 4), []int{2, 4}},
		{"the last alone", needs(5), []int{5}},
		{"all", needs(1, 2, 3, 4, 5), []int{1, 2, 3, 4, 5}},
		{"none do", needs(6), nil},
		{"one alone, not all together", alone, []int{3}},
	} {
		set, n := budget.Fewest([]int{1, 2, 3, 4, 5}, c.with)
		if !slices.Equal(set, c.want) || n != len(c.want) {
			t.Errorf("%s: %v with %d, want %v", c.name, set, n, c.want)
		}
	}
	if set, _ := budget.Fewest(nil, needs()); set != nil {
		t.Errorf("of nothing: %v", set)
	}
}
