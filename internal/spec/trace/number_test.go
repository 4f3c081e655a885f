package trace

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// exactly is a second, slow decimal: times 10^digits in exact fractions, rounded
// half away from zero.
func exactly(text string, digits int) (int64, bool) {
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	x.Mul(x, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)))
	negative := x.Sign() < 0
	x.Abs(x).Add(x, big.NewRat(1, 2))
	q := new(big.Int).Quo(x.Num(), x.Denom())
	if negative {
		q.Neg(q)
	}
	return q.Int64(), q.IsInt64()
}

// TestDecimal compares random numbers, with and without a point, with exact ones.
func TestDecimal(t *testing.T) {
	r := newRandom(3, 4)
	for range 100_000 {
		text := strings.Repeat("-", int(r.below(2))) + fmt.Sprint(r.below(1<<r.between(1, 62)))
		if r.below(2) == 1 {
			text += "." + fmt.Sprintf("%0*d", r.between(1, 9), r.below(10))
			text += fmt.Sprint(r.below(100_000))
		}
		digits := int(r.below(10))
		got, wrong := decimal([]byte(text), digits)
		want, fits := exactly(text, digits)
		switch {
		case wrong == "" && (!fits || got != want):
			t.Fatalf("%s times 10^%d is %d, not %d", text, digits, got, want)
		case wrong == tooLarge && fits && want < 1<<59 && want > -1<<59:
			t.Fatalf("%s times 10^%d is not too large: %d", text, digits, want)
		case wrong != "" && wrong != tooLarge:
			t.Fatalf("%s: %s", text, wrong)
		}
	}
}

func TestDecimalForms(t *testing.T) {
	for text, want := range map[string]int64{"1": 1000, "+1.5": 1500, "-0.0005": -1, "0.0004": 0, "1e3": 1_000_000, "2.5E-3": 3, ".5": 500, "5.": 5000,
		"000007": 7000} {
		if got, wrong := decimal([]byte(text), 3); wrong != "" || got != want {
			t.Errorf("%s: %d %s, want %d", text, got, wrong, want)
		}
	}
	for text, want := range map[string]string{"": isEmpty, " 1": notANumber, "1_000": notANumber, "0x1p3": notANumber, "NaN": notANumber, "Inf": notANumber,
		"1e": notANumber, "e5": notANumber, "1e5e": notANumber, ".": notANumber, "9223372036854775807": tooLarge, "1e99": tooLarge} {
		if got, wrong := decimal([]byte(text), 3); wrong != want {
			t.Errorf("%q: %d %q, want %q", text, got, wrong, want)
		}
	}
}
