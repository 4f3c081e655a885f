package budget

import "slices"

// askFew is how often First asks near the least before it asks for all.
const askFew = 3

// Least returns how many of the first of n suffice, at least so many, or 0 where all do not. It
// asks for the least first and for a few more, since asking for few is cheap, then for all, and
// then for ever more than the least. The last yes that it hears is to what it returns.
func Least(least, n int, suffice func(n int) bool) int {
	short, step, found := least-1, 1, false // short does not suffice; n does, when it was found to
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

// Spare drops of the first `of` of a list what is not needed, the last first: one, and twice as
// many each time as long as that goes well. It does not ask where `may` denies it of what is to be
// dropped, and ends when so many proved needed that it asked about.
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
