package collections

import (
	"math/bits"
	"slices"
)

// SparseSet is a set of small numbers as a bitmap with a summary: adding, removing and finding
// the next number take a few words, however large the set is. A zero SparseSet has room for none.
type SparseSet struct {
	words []uint64
	sum   []uint64 // a bit for each word that is not zero
}

// NewSparseSet returns an empty set with room for the numbers below n.
func NewSparseSet(n int) SparseSet {
	words := (n + 63) / 64
	both := make([]uint64, words+(words+63)/64)
	return SparseSet{words: both[:words:words], sum: both[words:]}
}

// Add puts a number into the set.
func (s *SparseSet) Add(n int32) {
	w := n / 64
	s.words[w] |= 1 << (n % 64)
	s.sum[w/64] |= 1 << (w % 64)
}

// Remove takes a number out of it.
func (s *SparseSet) Remove(n int32) {
	w := n / 64
	if s.words[w] &^= 1 << (n % 64); s.words[w] == 0 {
		s.sum[w/64] &^= 1 << (w % 64)
	}
}

// Next returns the first number that is not before n, or -1.
func (s *SparseSet) Next(n int32) int32 {
	w := int(n / 64)
	if w >= len(s.words) {
		return -1
	}
	if rest := s.words[w] >> (n % 64); rest != 0 {
		return n + int32(bits.TrailingZeros64(rest))
	}
	for w++; w < len(s.words); {
		rest := s.sum[w/64] >> (w % 64)
		if rest == 0 {
			w = (w/64 + 1) * 64
			continue
		}
		w += bits.TrailingZeros64(rest)
		return int32(w*64 + bits.TrailingZeros64(s.words[w]))
	}
	return -1
}

// Clone returns a copy.
func (s *SparseSet) Clone() SparseSet { return SparseSet{slices.Clone(s.words), slices.Clone(s.sum)} }

// Words is the size of the set in words.
func (s *SparseSet) Words() int { return len(s.words) + len(s.sum) }

// CloneIn returns a copy in the first words of a slab, and the rest of the slab.
func (s *SparseSet) CloneIn(slab []uint64) (SparseSet, []uint64) {
	n, m := len(s.words), s.Words()
	copy(slab, s.words)
	copy(slab[n:], s.sum)
	return SparseSet{words: slab[:n:n], sum: slab[n:m:m]}, slab[m:]
}
