package local

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// on is the start of a task on a device, or on a part of it when it is in parts.
func (w *world) on(sku cell.TypeName, device, part, parts int32) model.Action {
	a := w.action(1, "sleep 600")
	t := &a.Start.Tasks[0]
	t.SKU.Name, t.Place.SKU, t.Place.Devices = sku, sku, []int32{device}
	if parts > 0 {
		t.SKU.Part = cell.Share
		t.Place.Parts, t.Division = []int32{part}, []int32{parts}
	}
	return a
}

// A supervisor outlives the server and two changes of the cluster file: whatever the server
// believes by now, nobody starts on what the supervisor's task has all or a part of, and
// others start beside it.
func TestDeviceLocksOutliveTheFile(t *testing.T) {
	w := newWorld(t)
	quarter := w.on("QUARTER", 0, 1, 4)
	w.e.Do(quarter)
	want[model.TaskStarted](w)
	w.restart()
	quarter.Known = true
	w.e.Do(quarter)
	refuse := func(what string, a model.Action, why string) {
		t.Helper()
		w.e.Do(a)
		if r := w.refused(); r.Attempt != a.Attempt || !strings.Contains(r.Reason, why) || r.Job {
			t.Errorf("%s: refused with %+v, want %q", what, r, why)
		}
	}
	refuse("the whole device", w.on("V100", 0, 0, 0), "still has an owner of one of 4 parts of it")
	refuse("a half", w.on("HALF", 0, 0, 2), "still has an owner of one of 4 parts of it")
	refuse("a fifth", w.on("FIFTH", 0, 4, 5), "still has an owner of one of 4 parts of it")
	refuse("the same quarter under another SKU", w.on("PIECE", 0, 1, 4), "/"+quarter.Attempt.String()+"/0")
	beside, other := w.on("PIECE", 0, 2, 4), w.on("V100", 1, 0, 0)
	for _, a := range []model.Action{beside, other} {
		w.e.Do(a)
		want[model.TaskStarted](w)
	}
	w.end(quarter.Attempt)
	refuse("the whole device, of which a quarter is left", w.on("V100", 0, 0, 0), "still has an owner of one of 4 parts of it")
	w.end(beside.Attempt)

	whole := w.on("V100", 0, 0, 0)
	w.e.Do(whole)
	want[model.TaskStarted](w)
	refuse("a half of a whole device", w.on("HALF", 0, 1, 2), "still has an owner of the whole device")
	refuse("the whole device again", w.on("V100", 0, 0, 0), "/"+whole.Attempt.String()+"/0")
	w.end(whole.Attempt, other.Attempt)
}
