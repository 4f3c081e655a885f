package server_test

import (
	"io"
	"net/http"
	"strings"
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

// A number that no field can hold is refused in the words of its sender.
func TestNumbersTooLarge(t *testing.T) {
	w := newWorld(t, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+rest.Prefix+"/jobs/train/update", strings.NewReader(`{"time_limit":1e30}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	r.Header.Set("Content-Type", "application/json")
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	if want := `{"detail":"number 1e30 cannot stand here","pointer":"body.time_limit"}`; err != nil || out.StatusCode != 422 || !strings.Contains(string(text), want) {
		t.Errorf("%d: %s, %v: want %s", out.StatusCode, text, err, want)
	}
}
