package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/sched"
)

// A task may also write a new file and put it in the place of the one before, as long and with
// the same number again or not; the next server knows which one was told.
func TestProgressInAnotherFile(t *testing.T) {
	w := newWorld(t)
	of := newTask(w.e, &attempt{id: sched.AttemptID{Job: 1, N: 1}}, 0)
	if err := os.MkdirAll(of.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := newProgress(of)
	steps := func(want int64) {
		t.Helper()
		p.read(maxProgressRead)
		got := int64(0)
		if p.latest != nil {
			got = p.latest.Step
		}
		if got != want {
			t.Errorf("step %d is read, want %d", got, want)
		}
		p.confirm, p.latest = p.at, nil
		p.look() // which keeps how far it is
		p.latest = nil
	}
	file := filepath.Join(of.dir, progressFile)
	replace := func(step int) {
		t.Helper()
		if err := os.WriteFile(file+".new", fmt.Appendf(nil, "{\"step\": %d}\n", step), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	steps(0)
	for step := 1; step < 6; step++ {
		replace(step)
		steps(int64(step))
		steps(0)
	}
	p = newProgress(of) // the next server
	steps(0)
	replace(6)
	p = newProgress(of)
	steps(6)
}
