package budget

// Untaken takes as many elements of a list as it can get, from its beginning, and returns the
// others. It tries all at once, or else half as many, and so on. If every prefix of an available
// prefix is available, the number of tries grows with the logarithm of the list.
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
