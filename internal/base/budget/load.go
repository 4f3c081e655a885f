package budget

import (
	"cmp"
	"slices"
)

// Load is how many things there are of each size, the largest first.
type Load []Sized

// Sized is so many things of one size.
type Sized struct{ Size, Count int32 }

// LoadOf is the load of some things; several entries may be of one size.
func LoadOf(things []Sized) Load {
	slices.SortStableFunc(things, func(a, b Sized) int { return cmp.Compare(b.Size, a.Size) })
	return things
}

// Within reports whether each thing has one of its own among others that is as large or larger:
// wherever those fit, these fit.
func (l Load) Within(others Load) bool {
	i, left := -1, int32(0) // the other that comes next, and how many there still are of it
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
