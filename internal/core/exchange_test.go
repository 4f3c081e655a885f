package core_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
)

// Where backfill gives a gang other leaves of the same cell, it names the devices
// and the parts of devices of these leaves.
func TestBackfillNamesParts(t *testing.T) {
	c := flat(8, "conservative")
	c.Cluster.SKUs[0].Part = cell.MIG
	for l := range c.Cluster.Cells[0].Children {
		c.Cluster.Cells[0].Children[l].Address = fmt.Sprintf("%d:%d", l/3, l%3)
	}
	// 1 has 0 to 4 until 10; 2 has 5 and 6 until 12, and leaves at 1; 3 is booked for
	// 10 on 0 to 4 and 7. 4 is gone by then, so it goes on 7, which is kept, first.
	early, last := need(2, 12), need(2, 3)
	early.run, last.at = model.Minute, 2*minute
	d := play(t, c, []work{need(5, 10), early, need(6, 10), last})
	seen := false
	for _, r := range d.log {
		e, ok := r.Event.(model.Placed)
		if !ok || e.Attempt.Job != 4 {
			continue
		}
		task := e.Placement.Tasks[0]
		seen = slices.Equal(task.Leaves, []cell.LeafID{5, 7})
		if !slices.Equal(task.Devices, []int32{1, 2}) || !slices.Equal(task.Parts, []int32{2, 1}) {
			t.Errorf("on leaves %v it is told devices %v, parts %v", task.Leaves, task.Devices, task.Parts)
		}
	}
	if !seen {
		t.Error("the fourth job is not on leaves 5 and 7")
	}
}

// A further look that a decision asked for stays due when something else is
// decided on at the same instant, also after a restart.
func TestAnotherLookStaysDue(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 1}))
	for _, again := range []bool{true, false} {
		w.s.Apply(model.Record{Seq: w.s.Seq() + 1, Time: w.now, Event: model.Decided{Now: w.now, Through: w.s.Seq(), Again: again}})
	}
	s, err := core.Load(w.s.Save(), policy.New)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the next decision", w.s.Wake(), w.now+1)
	want(t, "the next decision after a restart", s.Wake(), w.now+1)
	want(t, "decisions then", len(s.Decide(w.now+1)), 1)
}
