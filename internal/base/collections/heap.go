// Package collections has what Go's library lacks: a heap of values that know their order, sets
// of small numbers as bitmaps, and a hash table whose cells its user searches. It must not know
// what they hold.
package collections

// HeapItem is a value in a heap.
type HeapItem[T any] interface {
	// Before reports whether the value comes out before another one.
	Before(T) bool
}

// Heap is a binary heap; its first element is the one that comes out next.
type Heap[T HeapItem[T]] []T

// Push adds a value.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].Before(q[up]) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

// Pop takes out the first value; the heap must not be empty.
func (h *Heap[T]) Pop() T {
	q := *h
	n := len(q) - 1
	first := q[0]
	var none T
	q[0], q[n] = q[n], none
	*h = q[:n]
	(*h).Sink()
	return first
}

// Sink moves the first value to its place after it has changed.
func (h Heap[T]) Sink() {
	for i := 0; ; {
		next := 2*i + 1
		if next >= len(h) {
			return
		}
		if r := next + 1; r < len(h) && h[r].Before(h[next]) {
			next = r
		}
		if !h[next].Before(h[i]) {
			return
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
}
