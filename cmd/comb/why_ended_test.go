package main

import (
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/kube"
)

// TestWhyEnded: what an event on a pod says of its end. The ordinary course says nothing, and no
// other job is named but by its number.
func TestWhyEnded(t *testing.T) {
	d := &daemon{} // nothing is known yet
	at := model.AttemptID{Job: 7}
	for cause, want := range map[model.EndCause]string{
		0:                  "",
		model.EndSucceeded: "",
		model.EndCompleted: "",
		model.EndFailed:    "another task of its gang has failed",
		model.EndPreempted: "preempted for job 12",
		model.EndTimeLimit: "its time limit is over",
		model.EndStopped:   "its job is stopped by a user",
		model.EndRequeued:  "its job waits again, since a user wants it so",
		model.EndDrained:   "drained",
	} {
		of := kube.Ending{Attempt: at, Cause: cause}
		if cause == model.EndPreempted {
			of.By = &model.AttemptID{Job: 12}
		}
		if got := d.whyEnded(of); got != want {
			t.Errorf("%v: %q, want %q", cause, got, want)
		}
	}
	tail := engine.Tail{Records: []model.Record{
		{Event: model.StopRequested{Job: 7, Reason: "an earlier one", Meta: model.Meta{Subject: "eve"}}},
		{Event: model.StopRequested{Job: 8, Meta: model.Meta{Subject: "bob"}}},
		{Event: model.JobRequeued{Job: 7, Reason: "again", Meta: model.Meta{Subject: "cyd"}}},
		{Event: model.StopRequested{Job: 7, Reason: "not needed", Meta: model.Meta{Subject: "ada"}}},
	}}
	for cause, want := range map[model.EndCause]string{
		model.EndStopped:  "its job is stopped by ada: not needed",
		model.EndRequeued: "its job waits again, since cyd wants it so: again",
	} {
		if got := stopper(tail, kube.Ending{Attempt: at, Cause: cause}); got != want {
			t.Errorf("%v: %q, want %q", cause, got, want)
		}
	}
	if got := stopper(tail, kube.Ending{Attempt: model.AttemptID{Job: 9}, Cause: model.EndStopped}); got != "" {
		t.Errorf("of another job: %q", got)
	}
}
