package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// Which jobs are forgotten outlives the process, is kept as ranges, and what a dying machine has
// torn counts for nothing.
func TestForgotten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod-forgotten")
	open := func() *forgottenJobs {
		t.Helper()
		f, err := openForgottenJobs(file)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	check := func(f *forgottenJobs, want string, has ...model.JobID) {
		t.Helper()
		if got := f.text(); got != want {
			t.Errorf("it keeps %q, want %q", got, want)
		}
		for id := range model.JobID(40) {
			in := false
			for _, h := range has {
				in = in || h == id
			}
			if f.has(id) != in {
				t.Errorf("job %d: forgotten is %v", id, !in)
			}
		}
	}
	f := open()
	for _, id := range []model.JobID{5, 1, 3, 9, 2, 4, 9, 7} {
		if err := f.note(id); err != nil {
			t.Fatal(err)
		}
	}
	want := "1-5\n7\n9\n"
	check(f, want, 1, 2, 3, 4, 5, 7, 9)
	check(open(), want, 1, 2, 3, 4, 5, 7, 9)
	if text, err := os.ReadFile(file); string(text) != want {
		t.Errorf("the file has %q, %v, want %q", text, err, want)
	}
	if err := os.WriteFile(file, []byte("6-8\n4-5\n\x00\x00\nx\n12-\n30\n1"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = open()
	check(f, "4-8\n30\n", 4, 5, 6, 7, 8, 30)
	if err := f.note(31); err != nil {
		t.Fatal(err)
	}
	check(open(), "4-8\n30-31\n", 4, 5, 6, 7, 8, 30, 31)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.note(33); err == nil || f.has(33) {
		t.Errorf("a job counts as forgotten that could not be noted: %v", err)
	}
}
