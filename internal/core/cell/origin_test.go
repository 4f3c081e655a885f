package cell_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
)

// Parts with equal numbers are the same where all parts of the device are there, with their
// sizes; names of SKUs may differ.
func TestSameDivision(t *testing.T) {
	of := func(text string) (d cell.Division) {
		for i, sku := range strings.Fields(text) {
			d = append(d, cell.Part{N: int32(i), SKU: cell.TypeName(sku)})
		}
		return d
	}
	for _, test := range []struct {
		was, now string
		same     bool
	}{
		{"", "", false}, {"", "a", false}, {"a", "", false}, {"a", "a a", false},
		{"a", "a", true}, {"a a a", "a a a", true}, {"a", "b", true}, {"a a", "b b", true},
		{"a b", "a b", true}, {"a b", "c d", true}, {"a b", "a c", true}, {"a b", "c b", true}, {"a b a", "c d c", true},
		{"a b", "b a", false}, {"a b", "b c", false}, {"a b", "c a", false}, {"a b", "b b", false}, {"a a", "a b", false}, {"a b", "c c", false},
		{"a a", "b c", false}, {"a b a", "c d d", false}, {"a a b", "a b b", false}, {"a b c", "b c a", false},
	} {
		if got := of(test.was).Same(of(test.now)); got != test.same {
			t.Errorf("%q and then %q: same is %v", test.was, test.now, got)
		}
		if got := of(test.now).Same(of(test.was)); got != test.same {
			t.Errorf("%q and then %q: same is %v", test.now, test.was, got)
		}
	}
	if d, e := (cell.Division{{N: 0, SKU: "a"}, {N: 2, SKU: "a"}}), of("a a"); d.Same(e) {
		t.Error("parts with other numbers are the same")
	}
}
