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

// Each part divides the next, holds what it is for, and is the smallest of the chain that does.
func TestPart(t *testing.T) {
	for _, c := range []struct{ gpus, node, want int }{
		{1, 8, 1}, {2, 8, 2}, {3, 8, 4}, {5, 8, 8}, {8, 8, 8}, {9, 8, 8}, {3, 1, 1},
		{2, 12, 2}, {3, 12, 4}, {4, 12, 4}, {5, 12, 12}, {3, 6, 6}, {2, 7, 7}, {100, 960, 192}, {4, 10, 10},
	} {
		if got := Part(c.gpus, c.node); got != c.want {
			t.Errorf("Part(%d, %d) = %d, want %d", c.gpus, c.node, got, c.want)
		}
	}
	for node := 1; node <= 200; node++ {
		for gpus := 2; gpus <= node; gpus++ {
			if a, b := Part(gpus-1, node), Part(gpus, node); b < gpus || b%a != 0 || node%b != 0 || b > a && a >= gpus {
				t.Fatalf("of a node of %d, %d GPUs are %d and %d are %d", node, gpus-1, a, gpus, b)
			}
		}
	}
}

// What counting parts rests on: whoever stands wherever it found room, as many tasks as were
// counted find room, when those of smaller parts leave, and are placed again behind them.
func TestPartsFindRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		size := []int{2, 4, 6, 8, 12, 16}[r.IntN(6)]
		f := floor{Rand: r, size: size, free: slices.Repeat([]int{size}, 1+r.IntN(8))}
		left := size * len(f.free)
		for range 60 {
			task := 1 + r.IntN(size)
			if part := Part(task, size); part <= left {
				left -= part
				f.place(t, onNode{task: task, part: part})
			}
		}
	}
}

// floor is some nodes of one size with tasks on them.
type floor struct {
	*rand.Rand
	size  int
	free  []int
	stand []onNode
}

type onNode struct{ task, part, node int }

// place finds room for a task on any node that has it, and then for those that left for it.
func (f *floor) place(t *testing.T, first onNode) {
	t.Helper()
	for wait := []onNode{first}; len(wait) > 0; wait = wait[1:] {
		s := wait[0]
		var fit []int
		for n := range f.free {
			if f.room(n, s.part) >= s.task {
				fit = append(fit, n)
			}
		}
		if len(fit) == 0 {
			t.Fatalf("a task of %d finds no room on nodes of %d: %v", s.task, f.size, f.stand)
		}
		s.node = fit[f.IntN(len(fit))]
		wait = append(wait, f.clear(s)...)
		f.free[s.node] -= s.task
		f.stand = append(f.stand, s)
	}
}

// room is what a node has with those of smaller parts away.
func (f *floor) room(node, part int) int {
	n := f.free[node]
	for _, o := range f.stand {
		if o.node == node && o.part < part {
			n += o.task
		}
	}
	return n
}

// clear lets those of smaller parts leave a task's node until it has room.
func (f *floor) clear(s onNode) (left []onNode) {
	for i := len(f.stand) - 1; i >= 0 && f.free[s.node] < s.task; i-- {
		if o := f.stand[i]; o.node == s.node && o.part < s.part {
			f.free[o.node] += o.task
			left = append(left, o)
			f.stand = slices.Delete(f.stand, i, i+1)
		}
	}
	return left
}
