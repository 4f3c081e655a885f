package budget

import (
	"slices"
	"testing"
)

// The shortest beginning that suffices is found, and the last yes was to it; near the least it
// costs few questions.
func TestFirst(t *testing.T) {
	for n := 1; n < 120; n++ {
		for k := range n * (n + 1) {
			least, enough := 1+k/(n+1), 1+k%(n+1)
			asked, yes := 0, 0
			got := Least(least, n, func(k int) bool {
				if asked++; k >= enough {
					yes = k
				}
				return k >= enough
			})
			want := max(enough, least)
			if enough > n {
				want = 0
			}
			if got != want || yes != want || asked > 16 {
				t.Fatalf("from %d of %d, where %d suffice: %d, last yes to %d, after %d questions", least, n, enough, got, yes, asked)
			}
		}
	}
}

// Of a list those stay that are needed, as if each had been asked about by itself from the last on,
// and fewer questions are asked.
func TestSpare(t *testing.T) {
	const n = 12
	for needs := range 1 << n {
		list := make([]int, n+1)
		for i := range list {
			list[i] = i
		}
		needed := func(i int) bool { return i == n || needs>>i&1 != 0 }
		asked, spare := 0, n/2 // as many may be dropped at most
		got := DropUnneeded(list, n, n, func(some []int) bool { return len(some) <= spare }, func(fewer []int) bool {
			asked++
			for i := range list {
				if needed(i) && !slices.Contains(fewer, i) {
					return false
				}
			}
			spare = n/2 - (len(list) - len(fewer))
			return true
		})
		var want []int
		left := n / 2
		for i := n; i >= 0; i-- {
			if needed(i) || left == 0 {
				want = append(want, i)
			} else {
				left--
			}
		}
		slices.Reverse(want)
		if !slices.Equal(got, want) || needs == 0 && asked > 5 {
			t.Fatalf("of %d, where %b are needed: %v after %d questions, want %v", n, needs, got, asked, want)
		}
	}
	if got := DropUnneeded([]int{1, 2, 3, 4}, 4, 2, func([]int) bool { return true }, func(fewer []int) bool { return len(fewer) > 3 && !slices.Contains(fewer, 1) }); len(got) != 4 {
		t.Errorf("after two that are needed it went on: %v", got)
	}
}
