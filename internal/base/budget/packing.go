package budget

import "slices"

// Pack puts things, the largest first, into bins with some room, in at most most steps. It tries
// every assignment that differs: equal things and equally filled bins count once. It returns the
// bin of each thing, and the steps; more than most says that they ended the search. room is used
// up.
func Pack(sizes, room []int32, most int) (where []int, steps int, ok bool) {
	e := packSearch{sizes: sizes, left: room, where: make([]int, len(sizes)), most: most}
	ok = e.from(0, 0)
	return e.where, e.steps, ok
}

type packSearch struct {
	sizes       []int32
	left        []int32
	where       []int
	steps, most int
	seen        SeenStates // the rooms left, in any order, when the first thing of a size was to be placed
}

// from places thing i and all after it; equal things go to bins from first on.
func (e *packSearch) from(i, first int) bool {
	if i == len(e.sizes) {
		return true
	}
	if i > 0 && e.sizes[i] != e.sizes[i-1] {
		if first = 0; !e.fresh(i) {
			return false
		}
	}
	last, tried := int32(-1), uint64(0) // rooms of bins that were tried for this thing
	for k := first; k < len(e.left); k++ {
		n := e.left[k]
		if n < e.sizes[i] || n == last || n < 64 && tried>>n&1 != 0 {
			continue
		}
		if e.steps++; e.steps > e.most {
			return false
		}
		if last = n; n < 64 {
			tried |= 1 << n
		}
		e.left[k] -= e.sizes[i]
		e.where[i] = k
		if e.from(i+1, k) {
			return true
		}
		e.left[k] = n
	}
	return false
}

// fresh reports whether the rooms left are new for thing i.
func (e *packSearch) fresh(i int) bool {
	left := slices.Concat([]int32{int32(i)}, e.left)
	slices.Sort(left[1:])
	return e.seen.Add(left)
}
