package budget

// Untaken takes as many of a list as are to be had, from its beginning, and returns the others: all
// at once, or else half as many, and so on. Where fewer can be had whenever more can, it asks a
// number of times that grows with the logarithm of the list.
func Untaken[T any](list []T, take func([]T) bool) []T {
	for n := len(list); n > 0; n = min(n, len(list)) {
		if take(list[:n]) {
			list = list[n:]
		} else {
			n /= 2
		}
	}
	return list
}
