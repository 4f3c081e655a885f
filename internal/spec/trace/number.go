package trace

import (
	"bytes"
	"math"
	"strconv"
)

// What can be wrong with a number. Bad rows are counted by these.
const (
	notANumber = "not a number"
	tooLarge   = "out of range"
	isEmpty    = "no value"
)

// decimal reads a number such as -12.5 times 10^digits, rounded half away from zero, in
// integers only. Exponents are accepted, since tools write 1e+06; hexadecimal, NaN and
// infinity are not. The second result says what is wrong, or is "".
func decimal(b []byte, digits int) (int64, string) {
	if len(b) == 0 {
		return 0, isEmpty
	}
	rest, negative := b, false
	if b[0] == '-' || b[0] == '+' {
		rest, negative = b[1:], b[0] == '-'
	}
	value, seen, point := int64(0), 0, -1
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			seen++
			if point >= 0 && i-point > digits {
				continue // rounded below
			}
			if value > (math.MaxInt64-9)/10 {
				return 0, tooLarge
			}
			value = value*10 + int64(c-'0')
		case c == '.' && point < 0:
			point = i
		case (c == 'e' || c == 'E') && seen > 0:
			return exponent(b, digits)
		default:
			return 0, notANumber
		}
	}
	if seen == 0 {
		return 0, notANumber
	}
	return scaled(value, rest, point, digits, negative)
}

// scaled is the end of decimal: it adds missing digits, and rounds away those that are too
// many.
func scaled(value int64, rest []byte, point, digits int, negative bool) (int64, string) {
	written := 0
	if point >= 0 {
		written = len(rest) - point - 1
	}
	for ; written < digits; written++ {
		if value > math.MaxInt64/10 {
			return 0, tooLarge
		}
		value *= 10
	}
	if written > digits && rest[point+1+digits] >= '5' {
		value++
	}
	if negative {
		value = -value
	}
	return value, ""
}

// exponent reads a number with an exponent.
func exponent(b []byte, digits int) (int64, string) {
	if bytes.ContainsAny(b, "xX_pP") {
		return 0, notANumber
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0, notANumber
	}
	f *= math.Pow10(digits)
	if math.IsNaN(f) || math.Abs(f) >= 1<<62 {
		return 0, tooLarge
	}
	return int64(math.Round(f)), ""
}
