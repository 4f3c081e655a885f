package budget

import "testing"

// As many are taken as there is room for, in few tries.
func TestLeft(t *testing.T) {
	for n := range 200 {
		for room := range 200 {
			left, tries := room, 0
			got := Untaken(make([]int, n), func(some []int) bool {
				if tries++; len(some) == 0 || len(some) > left {
					return false
				}
				left -= len(some)
				return true
			})
			if want := n - min(n, room); len(got) != want || tries > 18 {
				t.Fatalf("of %d with room for %d, %d are left after %d tries, want %d", n, room, len(got), tries, want)
			}
		}
	}
}
