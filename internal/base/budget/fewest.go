package budget

import (
	"slices"
	"sort"
)

const (
	aloneMost = 8  // of many that do not suffice together, of which each is tried alone
	needMost  = 16 // of a few that suffice, of which it is asked whether they are needed
)

// Fewest returns the changes of a list that suffice, and what came of trying them: of the shortest
// beginning that suffices, those that are needed. What all of them leave may be of use to others:
// then one of the first of them alone may do. It is empty where none are found.
func Fewest[T, R any](list []T, with func(...T) (R, bool)) ([]T, R) {
	var nothing R
	if len(list) == 0 {
		return nil, nothing
	}
	if _, ok := with(list...); !ok {
		for i := range list[:min(len(list), aloneMost)] {
			if r, ok := with(list[i]); ok && len(list) > 1 {
				return list[i : i+1], r
			}
		}
		return nil, nothing
	}
	n := sort.Search(len(list)-1, func(i int) bool { _, ok := with(list[:i+1]...); return ok })
	set := slices.Clone(list[:n+1])
	if r, ok := with(list[n]); ok {
		return list[n : n+1], r
	}
	for i := min(n, needMost) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(set), i, i+1)
		if _, still := with(fewer...); still {
			set = fewer
		}
	}
	r, ok := with(set...)
	if !ok {
		return nil, nothing
	}
	return set, r
}
