package budget

import "slices"

// askFew is how often Least asks near the least before it asks for all.
const askFew = 3

// Least returns how many of the first of n suffice, at least least of them, or 0 if not even all
// suffice. It asks for the least and for a few more first, since asking for few is cheap. Then it
// asks for all, and then for ever more than the least. Its last call of suffice that returned
// true was with the result.
func Least(least, n int, suffice func(n int) bool) int {
	short, step, found := least-1, 1, false // short does not suffice; n does, once found
	for asked := 0; short+step < n && step <= max(n/4, 2); asked++ {
		if asked == askFew {
			if found = suffice(n); !found {
				return 0
			}
		}
		if suffice(short + step) {
			n, found = short+step, true
			break
		}
		if short += step; asked > 0 {
			step *= 2
		}
	}
	if !found && !suffice(n) {
		return 0
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

// DropUnneeded removes from the first `of` elements of a list those that are not needed, the last
// first: one, and twice as many each time as long as the rest suffices. It does not try to remove
// elements for which `may` returns false. It ends when so many (`needed`) tries failed.
func DropUnneeded[T any](list []T, of, needed int, may, suffice func([]T) bool) []T {
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
