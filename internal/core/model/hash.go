package model

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Hash is a running hash over what was mixed in so far; its start value may be any number.
type Hash uint64

// Word mixes in one number: the two halves of a product that depends on all bits so
// far, one folded onto the other.
func (h *Hash) Word(x uint64) {
	hi, lo := bits.Mul64(uint64(*h)^x, 0xBF58476D1CE4E5B9)
	*h = Hash(hi ^ lo)
}

// Num mixes in a number.
func (h *Hash) Num(x int64) { h.Word(uint64(x)) }

// Flag mixes in a yes or no.
func (h *Hash) Flag(b bool) {
	if b {
		h.Word(1)
	} else {
		h.Word(2)
	}
}

// Text mixes in a text. A text of up to seven bytes, as most are, is one number with its
// length. A longer one is its length and then eight bytes at a time; the last eight may
// overlap the ones before.
func (h *Hash) Text(s string) {
	n := len(s)
	switch {
	case n > 8:
		h.Word(uint64(n))
		for at := 0; at < n-8; at += 8 {
			h.Word(FourLetters(s[at:])<<32 | FourLetters(s[at+4:]))
		}
		h.Word(FourLetters(s[n-8:])<<32 | FourLetters(s[n-4:]))
	case n == 8:
		h.Word(uint64(n))
		h.Word(FourLetters(s)<<32 | FourLetters(s[4:]))
	case n >= 4:
		h.Word(uint64(n)<<56 | FourLetters(s)<<24 | FourLetters(s[n-4:])&0xFFFFFF)
	case n > 0:
		h.Word(uint64(n)<<56 | uint64(s[0])<<16 | uint64(s[n/2])<<8 | uint64(s[n-1]))
	default:
		h.Word(1 << 63)
	}
}

// FourLetters returns the first four bytes of a text.
func FourLetters(s string) uint64 {
	return uint64(s[0])<<24 | uint64(s[1])<<16 | uint64(s[2])<<8 | uint64(s[3])
}

// HashNumbers mixes in numbers, two at a time; how many there are is mixed in elsewhere.
func HashNumbers[T ~int32](h *Hash, all []T) {
	for ; len(all) > 1; all = all[2:] {
		h.Word(uint64(uint32(all[0]))<<32 | uint64(uint32(all[1])))
	}
	if len(all) > 0 {
		h.Word(uint64(uint32(all[0])))
	}
}

// Hex is the hash as 16 hexadecimal digits.
func (h Hash) Hex() (text [16]byte) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(h))
	hex.Encode(text[:], b[:])
	return text
}
