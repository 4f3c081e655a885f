package podinit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/test/testkit"
)

// held is a turner over a program below this process, which writes a byte into a file again and
// again.
type held struct {
	*suspender
	t       *testing.T
	file    string
	program int
}

var mine, other = model.AttemptID{Job: 1, N: 1}, model.AttemptID{Job: 2, N: 1}

func newHeld(t *testing.T, o Turns, script string) *held {
	dir := t.TempDir()
	h := &held{t: t, file: filepath.Join(dir, "ticks")}
	o.Attempt, o.File = mine, filepath.Join(dir, "suspended")
	c := exec.Command("/bin/sh", "-c", script)
	c.Env = append(os.Environ(), "TICKS="+h.file, "COMB_SUSPEND_FILE="+o.File)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	h.program = c.Process.Pid
	h.suspender = &suspender{o: o, line: newTurnLine(nil), had: true}
	h.line.heard = time.Now()
	t.Cleanup(func() {
		h.end()
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	h.until("it begins", func() bool { return h.size() > 0 })
	return h
}

func (h *held) size() int64 {
	st, err := os.Stat(h.file)
	if err != nil {
		return 0
	}
	return st.Size()
}

func (h *held) until(what string, done func() bool) {
	h.t.Helper()
	testkit.Wait(h.t, what, done)
}

// reaches steps until it is in a phase.
func (h *held) reaches(want phase) {
	h.t.Helper()
	h.until("the phase is reached", func() bool {
		if _, why := h.step(); why != "" {
			h.t.Fatal(why)
		}
		return h.phase == want
	})
}

// goesOn waits until the program writes more.
func (h *held) goesOn(when string) {
	h.t.Helper()
	before := h.size()
	h.until("it goes on "+when, func() bool { return h.size() > before })
}

// moving are the processes of the program that are not stopped, nor wait for one that is.
func (h *held) moving() (list []int) {
	h.t.Helper()
	all, err := process.All()
	if err != nil {
		h.t.Fatal(err)
	}
	found, members := map[int]bool{h.program: true}, map[int]process.Stat{}
	process.Descend(all, found)
	for pid := range found {
		if st := all[pid]; !st.Dead() {
			members[pid] = st
		}
	}
	for pid, st := range members {
		if !st.Stopped() && !(st.State == 'D' && process.WaitsForStart(pid, members)) {
			list = append(list, pid)
		}
	}
	return list
}

func turns(first, second model.AttemptID) model.Rotation {
	return model.Rotation{Turns: [][]model.AttemptID{{first}, {second}}, Quantum: model.Hour, Epoch: wallClock()}
}

const ticking = "while :; do printf x >> $TICKS; sleep 0.02; done"

// A task is held when its turn is over, and goes on when it has the next one and the server lets it
// in, or is away; also when it is alone.
func TestATaskTakesTurns(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(mine, other)}, ticking)
	if h.step(); h.phase != running || !h.state().Holds {
		t.Error("it does not run in its turn")
	}
	h.goesOn("in its turn")
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	if list := h.moving(); len(list) > 0 || h.state().Holds {
		t.Errorf("%v move in the turn of another", list)
	}
	h.o.Rotation = turns(mine, other)
	for range 20 {
		h.line.heard = time.Now()
		h.step()
		time.Sleep(5 * time.Millisecond) // the pace of the steps
	}
	if list := h.moving(); h.phase != frozen || len(list) > 0 || !h.state().Wants {
		t.Errorf("%v go on before it is let in", list)
	}
	h.line.enter = time.Now()
	h.reaches(running)
	if h.state().Wants {
		t.Error("it wants its turn when it is let in")
	}
	h.goesOn("when it is let in")
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	h.o.Rotation = turns(mine, other)
	h.line.heard = time.Now().Add(-away)
	began := time.Now()
	h.reaches(running)
	if took := time.Since(began); took < firstGuard { // a busy machine only adds to it
		t.Errorf("the server is away, and it went on after %v", took)
	}
	h.goesOn("while the server is away")
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	h.o.Rotation = model.Rotation{}
	h.reaches(running)
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	h.end()
	h.goesOn("when it is stopped")
}

// A task that is asked is held when it has acknowledged that, and stopped when it does not in time.
func TestATaskIsAsked(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(other, mine), Signal: "USR1", Timeout: 10 * model.Second},
		"trap 'sleep 0.3; : > $COMB_SUSPEND_FILE; while [ -e $COMB_SUSPEND_FILE ]; do sleep 0.02; done; printf y >> $TICKS' USR1; "+ticking)
	h.reaches(asked)
	h.reaches(frozen)
	if !h.acknowledged() {
		t.Error("it was held before it had acknowledged that")
	}
	h.o.Rotation = model.Rotation{}
	h.reaches(running)
	h.until("it is told that its turn has come", func() bool {
		text, err := os.ReadFile(h.file)
		return err == nil && strings.Contains(string(text), "y")
	})

	deaf := newHeld(t, Turns{Rotation: turns(other, mine), Signal: "USR1", Timeout: model.Second / 5}, "trap : USR1; "+ticking)
	why := ""
	deaf.until("it is given up", func() bool {
		_, why = deaf.step()
		return why != ""
	})
	if !strings.Contains(why, "did not acknowledge its suspension within 200ms") {
		t.Errorf("it is given up: %q", why)
	}
	deaf.goesOn("when it is given up")
}

// A task that leaves its turn so late that it has the next one loses that.
func TestALateTaskLosesATurn(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(other, mine)}, ticking)
	var lost model.Time
	h.until("it is held", func() bool {
		if h.phase == running {
			h.step()
		}
		lost = wallClock().Add(model.Second)
		h.freeze(true, lost)
		return h.phase == frozen
	})
	h.o.Rotation = turns(mine, other)
	h.line.enter = time.Now().Add(time.Hour)
	h.reaches(running)
	if now := wallClock(); now < lost {
		t.Errorf("it went on at %d, in the turn that it was to lose, which ends at %d", now, lost)
	}
}

// A pod that asks too often waits, and does not take the server that says so for one that is away.
func TestATaskThatAsksTooOften(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	asks := make(chan time.Time, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asks <- time.Now(); len(asks) == 2 {
			cancel()
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	l := newTurnLine(link.NewClient(server.URL, link.PinOf(server.Certificate().Raw), "a", "aa"))
	began := time.Now()
	l.heard = began.Add(-away)
	l.state.Wants = true
	l.run(ctx)
	if len(asks) != 2 {
		t.Fatalf("it asked %d times", len(asks))
	}
	if first, second := <-asks, <-asks; second.Sub(first) < turnEvery { // a busy machine only adds to it
		t.Errorf("it asked again after %v", second.Sub(first))
	}
	if l.heard.Before(began) || !l.enter.IsZero() {
		t.Error("it takes the server for away, or itself for let in")
	}
}
