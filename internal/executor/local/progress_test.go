package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// A task may also write a new file and put it in the place of the one before, as long and with
// the same number again or not; the next server knows which one was told.
func TestProgressInAnotherFile(t *testing.T) {
	w := newWorld(t)
	of := newTask(w.e, &attempt{id: model.AttemptID{Job: 1, N: 1}}, 0)
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

// What Python writes for a loss that is no number is read, and a checkpoint on such a
// line is one. What a checkpoint line leaves out is taken from the line before.
func TestLossThatIsNoNumber(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  model.Progress
	}{
		{`{"step": 3, "loss": NaN}`, model.Progress{Step: 3, Loss: "NaN"}},
		{`{"loss":-Infinity,"step":3}`, model.Progress{Step: 3, Loss: "-Infinity"}},
		{`{"loss": Infinity, "step": NaN, "total": Infinity, "memory": NaN, "iteration_s": -Infinity, "checkpoint": true}`,
			model.Progress{Loss: "Infinity", Total: 1 << 53, Checkpoint: true}},
		{`{"note": "NaN \" Infinity", "step": 4, "loss": NaN}`, model.Progress{Step: 4, Loss: "NaN"}},
		{`{"step": 1e3, "loss": 0.123456789012345678901234567890123456789}`, model.Progress{Step: 1000, Loss: "0.12345678901234568"}},
		{`{"step": 5, "total": 9, "loss": 0.25, "memory": 100}` + "\n" + `{"checkpoint": true}`,
			model.Progress{Step: 5, Total: 9, Loss: "0.25", MemoryMB: 100, Checkpoint: true}},
		{`{"step": 5, "loss": 0.5}` + "\n" + `{"step": 6, "loss": NaN, "checkpoint": true}`, model.Progress{Step: 6, Loss: "NaN", Checkpoint: true}},
	} {
		p := newProgress(newTask(&Executor{ctx: t.Context()}, &attempt{}, 0))
		for line := range strings.Lines(c.lines) {
			p.line([]byte(line))
		}
		got := p.latest
		if c.want.Checkpoint {
			got = p.point
		}
		if got == nil || *got != c.want || p.warned {
			t.Errorf("%s: %+v, warned %v", c.lines, got, p.warned)
		}
	}
}
