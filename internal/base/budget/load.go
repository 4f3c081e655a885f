package budget

import (
	"cmp"
	"slices"
)

// Load counts things by size, the largest first.
type Load []Sized

// Sized is a number of things of one size.
type Sized struct{ Size, Count int32 }

// LoadOf is the load of some things; several entries may have the same size.
func LoadOf(things []Sized) Load {
	slices.SortStableFunc(things, func(a, b Sized) int { return cmp.Compare(b.Size, a.Size) })
	return things
}

// Within reports whether each thing of l can be matched with one of its own in others that is at
// least as large: then l fits wherever others fit.
func (l Load) Within(others Load) bool {
	i, left := -1, int32(0) // the present size of others, and how many of it are unmatched
	for _, t := range l {
		for need := t.Count; need > 0; {
			for left == 0 {
				if i++; i == len(others) {
					return false
				}
				left = others[i].Count
			}
			if others[i].Size < t.Size {
				return false
			}
			n := min(need, left)
			need, left = need-n, left-n
		}
	}
	return true
}
