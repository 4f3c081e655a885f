package state

import (
	"math/bits"
)

// digits are the binary digits of a factor behind its point.
const digits = 32

// Decay is a number from 0 to 1, times 2^32.
type Decay uint64

// NoDecay is the factor 1.
const NoDecay Decay = 1 << digits

// Of multiplies a number that is not negative, rounded down.
func (f Decay) Of(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(f))
	return int64(hi<<digits | lo>>digits)
}

// DecayAfter is 2 to the power of -t over the half-life, rounded down: as many halvings as
// half-lives have passed, then a root of 1/2 for each binary digit of the remainder. It is 0 for a
// negative t.
func DecayAfter(t, half int64) Decay {
	whole := t / half
	if t < 0 || whole >= digits {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t%half), 1<<digits)
	rest, _ := bits.Div64(hi, lo, uint64(half))
	out := uint64(NoDecay)
	for i, root := range halfRoots() {
		if rest>>(digits-1-i)&1 == 1 {
			out = out * root >> digits
		}
	}
	return Decay(out >> whole)
}

// halfRoots returns 2^-(1/2), 2^-(1/4) and so on, times 2^32, rounded down.
func halfRoots() [24]uint64 {
	return [...]uint64{
		3037000499, 3611622602, 3938502375, 4112874772, 4202935002, 4248701964,
		4271771996, 4283353945, 4289156689, 4292061009, 4293513906, 4294240539,
		4294603902, 4294785595, 4294876444, 4294921869, 4294944582, 4294955938,
		4294961616, 4294964455, 4294965875, 4294966585, 4294966940, 4294967117,
	}
}
