package policy

import "math/bits"

// Logarithms to base 2 in fixed point, with integers only: two machines must agree
// on every comparison.

// logBits are the binary digits after the point.
const logBits = 32

// Log2 returns the logarithm of x to base 2, times 2^32, rounded down; that of what
// is below 1 is 0. It squares the mantissa, one binary digit at a time.
func Log2(x int64) int64 {
	if x <= 1 {
		return 0
	}
	whole := bits.Len64(uint64(x)) - 1
	m := uint64(x) << (63 - whole) // in [1, 2) times 2^63
	out := int64(whole) << logBits
	for d := int64(1) << (logBits - 1); d > 0; d >>= 1 {
		hi, lo := bits.Mul64(m, m)
		two := hi >> 63 // 1 if it is at least 2; without a branch, which could not be predicted
		out |= d & -int64(two)
		m = hi<<(1-two) | lo>>63&^-two
	}
	return out
}

// Exp2 returns 2 to the power of a logarithm that is at most 0, in parts per
// million, to the nearest.
func Exp2(log int64) int64 {
	if log >= 0 {
		return PPM
	}
	whole := (-log) >> logBits
	if whole >= 21 {
		return 0
	}
	// 2^-f for the part f after the point, times 2^32: the product of the roots of
	// 1/2 that its binary digits name.
	f := uint64(-log) & (1<<logBits - 1)
	out := uint64(1) << logBits
	for i, root := range roots() {
		if f>>(logBits-1-i)&1 == 1 {
			out = out * root >> logBits
		}
	}
	scaled := out * PPM >> whole
	return int64((scaled + 1<<(logBits-1)) >> logBits)
}

// roots returns 2^-(1/2), 2^-(1/4) and so on, times 2^32, rounded down: each the square
// root of the one before.
func roots() [24]uint64 {
	return [...]uint64{
		3037000499, 3611622602, 3938502375, 4112874772, 4202935002, 4248701964,
		4271771996, 4283353945, 4289156689, 4292061009, 4293513906, 4294240539,
		4294603902, 4294785595, 4294876444, 4294921869, 4294944582, 4294955938,
		4294961616, 4294964455, 4294965875, 4294966585, 4294966940, 4294967117,
	}
}
