package core_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestFewHolders lets a gang preempt where a dozen hold everything. Every set of victims is tried
// once, that is up to 4,096; not again for each of some dozens of choices of those who give up
// their guarantee, and not for 4,096 of these. No more are stopped than with all of them.
func TestFewHolders(t *testing.T) {
	w := newWorld(t, cluster(48, map[cell.VCName]int32{"a": 48}))
	for i, leaves := range []int32{4, 2, 3, 1, 4, 3, 4, 2, 3, 1, 4, 3} {
		w.start(w.submit(gangJob(fmt.Sprintf("h%d", i), "a", 10, 4, leaves)))
	}
	had, began := w.s.Searches(), len(w.log)
	w.submit(gangJob("urgent", "a", 100, 36, 3))
	stopped := 0
	for _, r := range w.log[began:] {
		if _, ok := r.Event.(model.StopSent); ok {
			stopped++
		}
	}
	want(t, "stopped", stopped, 7)
	if n := w.s.Searches() - had; n > 3000 {
		t.Errorf("one decision searched for cells %d times", n)
	}
}
