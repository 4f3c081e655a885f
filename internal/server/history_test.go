package server_test

import (
	"testing"

	"github.com/combsched/comb/internal/rest"
)

// A job that names no GPUs holds those of its leaf: its history counts them as the job itself does.
func TestHistoryCountsLeaves(t *testing.T) {
	w := newWorld(t, 2)
	made, err := w.client.Submit(t.Context(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: "train", Command: []string{"true"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.until("it runs", w.running(made.ID))
	j, err := w.client.Job(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	past, err := w.client.JobHistory(t.Context(), "train")
	if err != nil || len(past.Attempts) != 1 || j.GPUs != 1 || past.Attempts[0].GPUs != j.GPUs {
		t.Errorf("the job has %d GPUs, its history is %+v, %v", j.GPUs, past.Attempts, err)
	}
}
