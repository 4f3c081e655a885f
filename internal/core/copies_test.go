package core_test

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestCopiesInOnePlace changes one copy after the other, made in the same memory: neither the
// state nor the next copy knows of it.
func TestCopiesInOnePlace(t *testing.T) {
	w := newWorld(t, cluster(4, map[cell.VCName]int32{"a": 2, "b": 2}))
	var ids []model.JobID
	for i := range 12 {
		ids = append(ids, w.submit(gangJob(fmt.Sprint("j", i), []cell.VCName{"a", "b"}[i%2], 10, 2, 4)))
	}
	before, next := string(w.s.Save()), w.s.Copies()
	for _, id := range ids {
		c := next()
		want(t, "a copy", string(c.Save()), before)
		c.Apply(model.Record{Seq: c.Seq() + 1, Time: w.now, Event: model.StopRequested{Job: id}})
		c.Decide(w.now)
		if string(c.Save()) == before {
			t.Fatalf("nothing became of stopping job %d", id)
		}
	}
	want(t, "the state", string(w.s.Save()), before)
}
