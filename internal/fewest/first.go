package fewest

import "slices"

// First returns how many of the first of n suffice, at least so many, or 0 where all do not. It asks for the least first, then for
// all, and then for ever more than the least, since asking for few is cheap. The last yes that it hears is to what it returns.
func First(least, n int, suffice func(n int) bool) int {
	if suffice(least) {
		return least
	}
	if least >= n || !suffice(n) {
		return 0
	}
	short := least // does not suffice
	for step := 1; step < n/4 && short+step < n; step *= 2 {
		if suffice(short + step) {
			n = short + step
			break
		}
		short += step
	}
	for short+1 < n {
		if mid := (short + n) / 2; suffice(mid) {
			n = mid
		} else {
			short = mid
		}
	}
	return n
}

// Spare drops of the first `of` of a list what is not needed, the last first: one, and twice as many each time as long as that goes
// well. It does not ask where `may` denies it of what is to be dropped, and ends when so many proved needed that it asked about.
func Spare[T any](list []T, of, needed int, may, suffice func([]T) bool) []T {
	for most := 1; of > 0 && needed > 0; {
		k := min(most, of)
		asks := may(list[of-k : of])
		if asks {
			if fewer := slices.Concat(list[:of-k], list[of:]); suffice(fewer) {
				list, of, most = fewer, of-k, 2*k
				continue
			}
		}
		if most = k / 2; k > 1 {
			continue
		}
		if of, most = of-1, 1; asks {
			needed--
		}
	}
	return list
}
