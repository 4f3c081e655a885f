package metrics

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/core/model"
)

// Number is a figure; NaN is "not defined" and becomes null in JSON. It is written with at
// most six decimals: the last bits of a division may differ between machines and must not be
// seen.
type Number float64

// undefined is a figure without a value.
func undefined() Number { return Number(math.NaN()) }

// Defined reports whether a figure has a value.
func (n Number) Defined() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n.text("null")), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = undefined()
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*n = Number(v)
	return err
}

// text formats a figure; none is the text for one without a value.
func (n Number) text(none string) string {
	if !n.Defined() {
		return none
	}
	return string(n.append(nil))
}

// append appends a figure with at most six decimals.
func (n Number) append(b []byte) []byte {
	at := len(b)
	b = strconv.AppendFloat(b, float64(n), 'f', 6, 64)
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	if b[len(b)-1] == '.' {
		b = b[:len(b)-1]
	}
	if string(b[at:]) == "-0" {
		return append(b[:at], '0')
	}
	return b
}

// sum is a signed sum of 128 bits: a million jobs of a year each overflow 64.
type sum struct {
	hi int64
	lo uint64
}

func (s *sum) add(v int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
	s.hi += v>>63 + int64(carry)
}

func (s *sum) plus(o sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi += o.hi + int64(carry)
}

// minus returns the difference of two sums.
func (s sum) minus(o sum) sum {
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	return sum{s.hi - o.hi - int64(borrow), lo}
}

func (s sum) float() float64 { return float64(float64(s.hi)*(1<<64)) + float64(s.lo) }

// seconds is the mean of n durations that add up to the sum.
func (s sum) seconds(n int64) Number { return ratio(s.float(), float64(n)*float64(model.Second)) }

// ratio divides; by 0 it is undefined.
func ratio(a, b float64) Number {
	if b == 0 {
		return undefined()
	}
	return Number(a / b)
}

// percentile returns the p-th percentile (0 to 100) of sorted values by linear
// interpolation between closest ranks: rank p/100 x (n-1), counted from 0.
func percentile[T int64 | float64](sorted []T, p int64) Number {
	n := int64(len(sorted))
	if n == 0 {
		return undefined()
	}
	rank, rest := p*(n-1)/100, p*(n-1)%100
	low := float64(sorted[rank])
	if rest == 0 {
		return Number(low)
	}
	step := float64(sorted[rank+1]) - low
	return Number(low + float64(step*float64(rest)/100))
}

// secondsOf turns a figure in microseconds into one in seconds.
func secondsOf(n Number) Number { return n / Number(model.Second) }

// scale returns a x b / FullSpeed without overflow, rounded down; b is at most
// a few times FullSpeed.
func scale(a uint64, b int64) uint64 {
	if b == FullSpeed {
		return a
	}
	hi, lo := bits.Mul64(a, uint64(max(b, 0)))
	if hi >= FullSpeed {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, FullSpeed)
	return q
}

// jain is Jain's index of fairness, (sum x)^2 / (n x sum x^2), of sorted values.
func jain(sorted []float64) Number {
	var s, q float64
	for _, x := range sorted {
		s += x
		q += float64(x * x)
	}
	return ratio(float64(s*s), float64(len(sorted))*q)
}

// merged returns the values of all lists, sorted.
func merged[T int64 | float64](lists ...[]T) []T {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return all
}

// over divides a sum that is not negative by a weight, rounded down. A result that would be
// too large is 0.
func (s sum) over(weight int64) model.Duration {
	if weight <= 0 || s.hi < 0 || uint64(s.hi) >= uint64(weight) {
		return 0
	}
	q, _ := bits.Div64(uint64(s.hi), s.lo, uint64(weight))
	return model.Duration(q)
}
