package sched

// Size is for how many values memory is taken at once, and so how many others one that is kept for
// long can keep.
const ArenaChunk = 16

// Of is memory for values of one type.
type Arena[T any] struct{ free []T }

// Take returns memory for n values; an append to it goes elsewhere.
func (s *Arena[T]) Take(n int) []T {
	if len(s.free) < n {
		s.free = make([]T, max(n, ArenaChunk))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Keep returns a copy of a value.
func (s *Arena[T]) Keep(v T) *T {
	p := &s.Take(1)[0]
	*p = v
	return p
}

// Copy copies values into the spare room of a pool. It returns the copy, cut so that an append to
// it cannot reach its neighbour, and the longer pool.
func CopyPooled[T any](values, pool []T) ([]T, []T) {
	n := len(pool)
	pool = append(pool, values...)
	return pool[n:len(pool):len(pool)], pool
}

// Again copies values into memory that other values had.
func CopyAgain[T any](to, from []T) []T { return append(to[:0], from...) }
