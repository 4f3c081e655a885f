package collections

// EqualPadded reports whether two lists hold the same, where a missing entry at the end counts as
// the zero value.
func EqualPadded[T comparable](a, b []T) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	var zero T
	for i, y := range b {
		x := zero
		if i < len(a) {
			x = a[i]
		}
		if x != y {
			return false
		}
	}
	return true
}
