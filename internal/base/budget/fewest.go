package budget

import (
	"slices"
	"sort"
)

const (
	aloneMost = 8  // of so many that do not suffice together, each is tried alone
	needMost  = 16 // of so many that suffice, each is tested for being needed
)

// Fewest returns changes of a list that suffice, and the result of trying them: those that are
// needed of the shortest prefix that suffices. If all together do not suffice, it tries each of
// the first ones alone, since others may use what all of them leave. It is empty if none is
// found.
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
