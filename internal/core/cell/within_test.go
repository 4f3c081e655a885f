package cell

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// What fits into a room, read task by task.
func TestWithin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		tasks := make([]task, r.IntN(12))
		for i := range tasks {
			tasks[i] = task{int32(i), 1 + int32(r.IntN(1+r.IntN(8)))}
		}
		slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
		room, had := int32(r.IntN(20)), slices.Clone(tasks)
		var leaves int32
		var others []task
		for _, x := range tasks {
			if leaves+x.leaves <= room {
				leaves += x.leaves
			} else {
				others = append(others, x)
			}
		}
		got, left := fitInto(tasks, room)
		if got != leaves || !slices.Equal(left, others) || served(tasks, room) != leaves || !slices.Equal(tasks, had) {
			t.Fatalf("of %v into %d: %d, others %v, and %d; want %d, others %v", had, room, got, left, served(tasks, room), leaves, others)
		}
	}
}

// What fits into several rooms, the largest task first, each into the tightest.
func TestServe(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		p := part{tasks: make([]task, 1+r.IntN(12))}
		for i := range p.tasks {
			p.tasks[i] = task{int32(i), 1 + int32(r.IntN(8))}
		}
		slices.SortStableFunc(p.tasks, func(a, b task) int { return cmp.Compare(b.leaves, a.leaves) })
		room := make([]int32, 1+r.IntN(4))
		for i := range room {
			room[i] = int32(r.IntN(9))
		}
		var want int32
		left := slices.Clone(room)
		for _, x := range p.tasks {
			if i := bestOpen(left, x.leaves); i >= 0 {
				left[i] -= x.leaves
				want += x.leaves
			}
		}
		if p.smallest() == p.tasks[0].leaves { // any order fits as many
			continue
		}
		if got := serve(slices.Clone(room), &p); got != want {
			t.Fatalf("%v into %v: %d, want %d", p.tasks, room, got, want)
		}
	}
}
