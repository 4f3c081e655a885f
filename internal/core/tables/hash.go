package tables

import (
	"math/bits"

	"github.com/combsched/comb/internal/core/model"
)

// KeyedHash hashes pairs of texts that users choose. Without its key they cannot choose texts with
// equal hashes.
type KeyedHash uint64

// NewKeyedHash makes a key from two numbers.
func NewKeyedHash(a, b uint64) KeyedHash {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD6E8FEB86659FD93)
	return KeyedHash((hi ^ lo) | 1)
}

// Pair is the hash of two texts. The length of the first is hashed too, so that ("a", "bc")
// differs from ("ab", "c").
func (k KeyedHash) Pair(a, b string) uint32 {
	h := k.fold(k.fold(uint64(k)^uint64(len(b))^uint64(len(a))<<32, a), b)
	hi, lo := bits.Mul64(h, 0x94D049BB133111EB)
	return uint32(hi ^ lo)
}

// fold hashes a text eight bytes at a time: each product with the key has its halves xored.
func (k KeyedHash) fold(h uint64, s string) uint64 {
	for ; len(s) > 8; s = s[8:] {
		hi, lo := bits.Mul64(h^(model.FourLetters(s)<<32|model.FourLetters(s[4:])), uint64(k))
		h = hi ^ lo
	}
	var x uint64
	for i := range len(s) {
		x = x<<8 | uint64(s[i])
	}
	hi, lo := bits.Mul64(h^x, uint64(k))
	return hi ^ lo
}
