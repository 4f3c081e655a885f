package policy

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Times are seconds, or say their unit.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]int64{"90": 90, "90s": 90, "5m": 300, "2h": 7200, "1d": 86_400, "0": -1, "5 m": -1, "m": -1, "1h30m": -1, "-5": -1, "5M": -1, "2d": -1, "99999999999999999999": -1, "1099511627775d": -1, "": -1} {
		a := &args{policy: "p", given: []model.Param{{Key: "k", Value: text}}}
		got := a.seconds("k", 77, 1, 86_400)
		if want < 0 && (len(a.wrong) != 1 || got != 77*model.Second) || want >= 0 && (len(a.wrong) > 0 || got != model.Duration(want)*model.Second) {
			t.Errorf("%q: got %v, %v", text, got, a.wrong)
		}
	}
}
