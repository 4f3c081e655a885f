package place_test

import (
	"testing"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/place"
)

func load(things ...budget.Sized) budget.Load { return budget.LoadOf(things) }

// A gang answers for those of its SKUs that ask for as much, of no higher rank.
func TestAnswers(t *testing.T) {
	o := place.Miss{SKUs: "a", Load: load(budget.Sized{Size: 2, Count: 3}), Rank: 5}
	for _, c := range []struct {
		name string
		of   place.Miss
		want bool
	}{
		{"the same", o, true},
		{"more things", place.Miss{SKUs: "a", Load: load(budget.Sized{Size: 2, Count: 4}), Rank: 5}, true},
		{"larger things", place.Miss{SKUs: "a", Load: load(budget.Sized{Size: 1, Count: 9}, budget.Sized{Size: 3, Count: 3}), Rank: 1}, true},
		{"fewer things", place.Miss{SKUs: "a", Load: load(budget.Sized{Size: 8, Count: 2}), Rank: 5}, false},
		{"smaller things", place.Miss{SKUs: "a", Load: load(budget.Sized{Size: 8, Count: 2}, budget.Sized{Size: 1, Count: 9}), Rank: 5}, false},
		{"other SKUs", place.Miss{SKUs: "b", Load: o.Load, Rank: 5}, false},
		{"a higher rank", place.Miss{SKUs: "a", Load: o.Load, Rank: 6}, false},
	} {
		var n place.Misses
		n.Answered(&o, 7)
		n.Add(o)
		if got := n.Answered(&c.of, 7); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if n.Answered(&c.of, 8) {
			t.Errorf("%s: it answers though things changed", c.name)
		}
	}
	level := o
	level.Level = true
	lower := o
	lower.Rank--
	if level.Answers(&lower) || !level.Answers(&o) {
		t.Error("one that answers for its own rank alone answers for a lower one, or not for its own")
	}
}
