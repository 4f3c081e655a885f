package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
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

// A number that no field can hold is refused in the words of its sender.
func TestNumbersTooLarge(t *testing.T) {
	w := newWorld(t, 1)
	for _, c := range [][3]string{
		{"/jobs/train/update", `{"priority":1e30}`, `"pointer":"body.priority"`},
		{"/jobs/train/update", `{"time_limit":1e30}`, `"pointer":"body.time_limit"`},
		{"/jobs", `{"quick":{"name":"large","gpus":1e30}}`, `{"detail":"number 1e30 cannot stand here","pointer":"quick.gpus"`},
	} {
		status, _, text := w.request(http.MethodPost, rest.Prefix+c[0], c[1], map[string]string{"Content-Type": "application/json"})
		if status/100 != 4 || !strings.Contains(text, c[2]) || strings.Contains(text, "int64") {
			t.Errorf("%s: %d: %s, want %s", c[1], status, text, c[2])
		}
	}
}
