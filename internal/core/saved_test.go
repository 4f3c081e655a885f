package core_test

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestSaved: what exit code 0 means after each stop behind which a job waits again.
func TestSaved(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoint, zeroIsDone, own bool
		step, total                 int64
		again                       bool
		says                        string
	}{
		"without checkpoint":                {says: "counts as done, since checkpoint is off"},
		"with checkpoint":                   {checkpoint: true, again: true, says: "goes on later, since checkpoint is on"},
		"its file says that 0 is done":      {checkpoint: true, zeroIsDone: true, says: "had done its work"},
		"that counts more than its steps":   {checkpoint: true, zeroIsDone: true, step: 1, total: 9, says: "had done its work"},
		"steps are left":                    {step: 1, total: 9, again: true, says: "before the last of its steps"},
		"steps are left, with checkpoint":   {checkpoint: true, step: 1, total: 9, again: true, says: "goes on later, since checkpoint is on"},
		"all steps are done":                {step: 9, total: 9, says: "had done its work"},
		"the same, with checkpoint":         {checkpoint: true, step: 9, total: 9, says: "had done its work"},
		"steps without a total say nothing": {checkpoint: true, step: 9, again: true, says: "goes on later, since checkpoint is on"},
		"it had ended before the stop":      {checkpoint: true, own: true},
	} {
		for _, cause := range []model.EndCause{model.EndDrained, model.EndRequeued, model.EndPreempted} {
			w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
			j := gangJob("train", "a", 10, 1, 4)
			j.Hints.Checkpoint, j.Hints.ExitZeroMeansDone = c.checkpoint, c.zeroIsDone
			j.AllowedNodes = []cell.NodeName{"n0"}
			id := w.submit(j)
			w.start(id)
			at := model.AttemptID{Job: id, N: 1}
			if c.step > 0 {
				w.tell(model.Progress{Attempt: at, Step: c.step, Total: c.total})
			}
			switch cause {
			case model.EndDrained:
				w.do(model.Cordon{Node: "n0", On: true, Drain: w.now})
			case model.EndRequeued:
				w.do(model.Requeue{Job: id})
			default:
				urgent := gangJob("urgent", "a", 100, 1, 4)
				urgent.AllowedNodes = []cell.NodeName{"n0"}
				w.submit(urgent)
			}
			w.tell(model.TaskExited{Attempt: at, Exit: model.Exit{Own: c.own}})
			if st, lives := w.s.Job(id); lives != c.again {
				t.Errorf("%s, %v: it waits again: %v, want %v", name, cause, lives, c.again)
			} else if last := st.Attempts; lives && (last[len(last)-1].Cause != cause || !strings.Contains(last[len(last)-1].Message, c.says)) {
				t.Errorf("%s: %+v, want %v: %q", name, last, cause, c.says)
			} else if !lives && (w.ended[0].Phase != model.Succeeded || !strings.Contains(w.ended[0].Message, c.says) || c.says == "" && w.ended[0].Message != "") {
				t.Errorf("%s, %v: %v: %q, want %q", name, cause, w.ended[0].Phase, w.ended[0].Message, c.says)
			}
		}
	}
}

// TestSavedOfBefore: in a journal of before this rule exit code 0 means what it meant then: the
// event does not say that work is left.
func TestSavedOfBefore(t *testing.T) {
	w := newWorld(t, cluster(2, map[cell.VCName]int32{"a": 2}))
	j := gangJob("train", "a", 10, 1, 4)
	j.Hints.Checkpoint = true
	id := w.submit(j)
	w.start(id)
	w.do(model.Requeue{Job: id})
	w.apply([]model.Event{model.TaskExited{Attempt: model.AttemptID{Job: id, N: 1}}})
	if len(w.ended) != 1 || w.ended[0].Phase != model.Succeeded {
		t.Errorf("%+v", w.ended)
	}
}
