package collections

import (
	"iter"
	"math/bits"
	"slices"
)

// Set is a set of small numbers as a bitmap; nil is the empty set.
type Set[T ~int32] []uint64

// Add returns the set with a number in it.
func (s Set[T]) Add(n T) Set[T] {
	for int(n/64) >= len(s) {
		s = append(s, 0)
	}
	s[n/64] |= 1 << (n % 64)
	return s
}

// Has reports whether a number is in the set.
func (s Set[T]) Has(n T) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 != 0 }

// Meets reports whether two sets have a number in common.
func (s Set[T]) Meets(t Set[T]) bool {
	for i := range min(len(s), len(t)) {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// With returns the union of two sets; neither is changed.
func (s Set[T]) With(t Set[T]) Set[T] {
	if len(s) < len(t) {
		s, t = t, s
	}
	if len(t) == 0 {
		return s
	}
	out := slices.Clone(s)
	for i := range t {
		out[i] |= t[i]
	}
	return out
}

// Without returns what is in a set and not in another; neither is changed.
func (s Set[T]) Without(t Set[T]) Set[T] {
	out := slices.Clone(s)
	for i := range min(len(s), len(t)) {
		out[i] &^= t[i]
	}
	return out
}

// Both returns what is in both sets, never nil.
func (s Set[T]) Both(t Set[T]) Set[T] {
	out := make(Set[T], min(len(s), len(t)))
	for i := range out {
		out[i] = s[i] & t[i]
	}
	return out
}

// All yields what is in a set, in order.
func (s Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(T(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
