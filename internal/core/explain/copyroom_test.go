package explain

import (
	"testing"

	"github.com/combsched/comb/internal/core/tables"
)

// TestCopiesAreBounded lets an explanation try changes without end: it copies a million jobs at
// most, however many wait, and says that something was left untried.
func TestCopiesAreBounded(t *testing.T) {
	for _, jobs := range []int{10_000, 60_000} {
		s := &Explainer{}
		s.Jobs = make([]tables.Job, jobs)
		g := newSuggester(s, nil, 0)
		copied := 0
		for w := g.copy(s); w != nil; w = g.copy(s) {
			copied += len(w.Jobs)
		}
		if copied > copiedMost || copied <= copiedMost-jobs || !g.untried {
			t.Errorf("%d jobs: %d were copied; left untried: %v", jobs, copied, g.untried)
		}
	}
}

// An explanation whose copies took all its steps tries nothing more, and says so.
func TestStepsOfCopiesAreBounded(t *testing.T) {
	s := &Explainer{}
	s.Jobs = make([]tables.Job, 3)
	g := newSuggester(s, nil, 0)
	if g.copy(s) == nil || g.untried {
		t.Fatalf("nothing may be tried; left untried: %v", g.untried)
	}
	g.stepsLeft = 0
	if g.copy(s) != nil || !g.untried {
		t.Errorf("more is tried; left untried: %v", g.untried)
	}
}
