package leases

import "math/bits"

// sliced is a number for each lease, written in planes of bits: bit t of plane k
// is bit k of lease t's number. So comparing all leases with a number, or adding
// a number to any set of them, takes a few words a plane whatever the set's size.
type sliced struct {
	words  int
	planes int
	bits   []uint64 // plane k is bits[k*words:][:words]
}

// set makes s hold the numbers of a slice.
func (s *sliced) set(numbers []int32, planes int) {
	s.words = (len(numbers) + 63) / 64
	s.planes = planes
	s.bits = grown(s.bits, s.words*planes)
	clear(s.bits)
	for t, n := range numbers {
		for k := range planes {
			s.bits[k*s.words+t/64] |= uint64(n>>k&1) << (t % 64)
		}
	}
}

// atLeast writes into dst which leases, among the first len(dst) words, have
// numbers of at least c, which must be at least 1.
func (s *sliced) atLeast(c int32, dst []uint64) {
	k := bits.TrailingZeros32(uint32(c))
	if c>>s.planes != 0 {
		clear(dst)
		return
	}
	copy(dst, s.bits[k*s.words:])
	for k++; k < s.planes; k++ {
		plane := s.bits[k*s.words:][:len(dst)]
		if c>>k&1 != 0 {
			for i, w := range plane {
				dst[i] &= w
			}
			continue
		}
		for i, w := range plane {
			dst[i] |= w
		}
	}
}

// sub takes c from the number of each lease in a set; none may be below c.
func (s *sliced) sub(c int32, set []uint64) {
	for i, borrowable := range set {
		if borrowable == 0 {
			continue
		}
		borrow := uint64(0)
		for k := bits.TrailingZeros32(uint32(c)); k < s.planes; k++ {
			at := k*s.words + i
			a := s.bits[at]
			b := uint64(0)
			if c>>k&1 != 0 {
				b = borrowable
			} else if borrow == 0 && c>>k == 0 {
				break
			}
			s.bits[at] = a ^ b ^ borrow
			borrow = ^a&(b|borrow) | b&borrow
		}
	}
}

// add gives c to the number of each lease in a set.
func (s *sliced) add(c int32, set []uint64) {
	for i, in := range set {
		if in == 0 {
			continue
		}
		carry := uint64(0)
		for k := bits.TrailingZeros32(uint32(c)); k < s.planes; k++ {
			at := k*s.words + i
			a := s.bits[at]
			b := uint64(0)
			if c>>k&1 != 0 {
				b = in
			} else if carry == 0 && c>>k == 0 {
				break
			}
			s.bits[at] = a ^ b ^ carry
			carry = a&(b|carry) | b&carry
		}
	}
}

// largest keeps of a set the n leases with the largest numbers, the later among
// equals; the set has at least n. rest is scratch of the same length.
func (s *sliced) largest(n int, set, rest []uint64) {
	copy(rest, set)
	clear(set)
	for k := s.planes - 1; k >= 0; k-- {
		plane := s.bits[k*s.words:][:len(rest)]
		have := 0
		for i, w := range plane {
			have += bits.OnesCount64(w & rest[i])
		}
		if have >= n {
			for i, w := range plane {
				rest[i] &= w
			}
			continue
		}
		n -= have
		for i, w := range plane {
			set[i] |= w & rest[i]
			rest[i] &^= w
		}
	}
	keepLatest(n, rest)
	for i, w := range rest {
		set[i] |= w
	}
}

// keepLatest keeps of a set the last n leases; the set has at least n.
func keepLatest(n int, set []uint64) {
	i := len(set) - 1
	for ; i >= 0; i-- {
		have := bits.OnesCount64(set[i])
		if have > n {
			break
		}
		n -= have
	}
	if i < 0 {
		return
	}
	for drop := bits.OnesCount64(set[i]) - n; drop > 0; drop-- {
		set[i] &= set[i] - 1
	}
	clear(set[:i])
}

// keepBefore empties all of a set but the leases before t.
func keepBefore(t int32, set []uint64) {
	for i := range set {
		switch from := int32(i) * 64; {
		case from >= t:
			set[i] = 0
		case t-from < 64:
			set[i] &= 1<<(t-from) - 1
		}
	}
}

// countBefore counts the leases of a set before t.
func countBefore(t int32, set []uint64) int32 {
	n := 0
	whole := int(t / 64)
	for _, w := range set[:whole] {
		n += bits.OnesCount64(w)
	}
	if t%64 != 0 {
		n += bits.OnesCount64(set[whole] & (1<<(t%64) - 1))
	}
	return int32(n)
}

// grown returns a slice of n elements, the same memory where it is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
