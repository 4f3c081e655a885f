package tables

import (
	"slices"
	"testing"
)

// An append to what was handed out reaches nothing that was handed out beside it.
func TestApart(t *testing.T) {
	var c Arena[int]
	a, b := c.Take(2), c.Take(2)
	_ = append(a, 9)
	if k := c.Keep(5); !slices.Equal(b, []int{0, 0}) || *k != 5 || len(c.Take(3*ArenaChunk)) != 3*ArenaChunk {
		t.Errorf("an append changed %v, or %d is not 5", b, *k)
	}
	pool := make([]int, 0, 8)
	x, pool := CopyPooled([]int{1, 2}, pool)
	y, _ := CopyPooled([]int{3}, pool)
	_ = append(x, 9)
	if !slices.Equal(x, []int{1, 2}) || !slices.Equal(y, []int{3}) || !slices.Equal(CopyAgain(x, []int{7}), []int{7}) {
		t.Errorf("copies are %v and %v", x, y)
	}
}
