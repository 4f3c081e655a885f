package attend

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor/kube/line"
	"github.com/combsched/comb/internal/sched"
)

// held is a turner over a program below this process, which writes a byte into a file again and again.
type held struct {
	*turner
	t    *testing.T
	file string
}

var mine, other = sched.AttemptID{Job: 1, N: 1}, sched.AttemptID{Job: 2, N: 1}

func newHeld(t *testing.T, o Turns, script string) *held {
	dir := t.TempDir()
	h := &held{t: t, file: filepath.Join(dir, "ticks")}
	o.Attempt, o.File = mine, filepath.Join(dir, "suspended")
	c := exec.Command("/bin/sh", "-c", script)
	c.Env = append(os.Environ(), "TICKS="+h.file, "COMB_SUSPEND_FILE="+o.File)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	h.turner = &turner{o: o, line: newTurnLine(nil), had: true}
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
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("not within 20 s: %s", what)
		}
	}
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

func (h *held) moves() bool {
	before := h.size()
	time.Sleep(300 * time.Millisecond)
	return h.size() > before
}

func turns(first, second sched.AttemptID) sched.Rotation {
	return sched.Rotation{Turns: [][]sched.AttemptID{{first}, {second}}, Quantum: sched.Hour, Epoch: wallClock()}
}

const ticking = "while :; do printf x >> $TICKS; sleep 0.02; done"

// A task is held when its turn is over, and goes on when it has the next one and the server lets it in, or is away; also when it is alone.
func TestATaskTakesTurns(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(mine, other)}, ticking)
	if h.step(); h.phase != running || !h.moves() || !h.state().Holds {
		t.Error("it does not run in its turn")
	}
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	if h.moves() || h.state().Holds {
		t.Error("it moves in the turn of another")
	}
	h.o.Rotation = turns(mine, other)
	for range 20 {
		h.line.heard = time.Now()
		h.step()
		time.Sleep(5 * time.Millisecond)
	}
	if h.phase != frozen || h.moves() || !h.state().Wants {
		t.Error("it goes on before it is let in")
	}
	h.line.enter = time.Now()
	h.reaches(running)
	if !h.moves() || h.state().Wants {
		t.Error("it does not go on when it is let in")
	}
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	h.o.Rotation = turns(mine, other)
	h.line.heard = time.Now().Add(-away)
	began := time.Now()
	h.reaches(running)
	if took := time.Since(began); took < firstGuard || !h.moves() {
		t.Errorf("the server is away, and it went on after %v", took)
	}
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	h.o.Rotation = sched.Rotation{}
	h.reaches(running)
	h.o.Rotation = turns(other, mine)
	h.reaches(frozen)
	if h.end(); !h.moves() {
		t.Error("a stop does not wake it")
	}
}

// A task that is asked is held when it has acknowledged that, and stopped when it does not in time.
func TestATaskIsAsked(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(other, mine), Signal: "USR1", Timeout: 10 * sched.Second},
		"trap 'sleep 0.3; : > $COMB_SUSPEND_FILE; while [ -e $COMB_SUSPEND_FILE ]; do sleep 0.02; done; printf y >> $TICKS' USR1; "+ticking)
	h.reaches(asked)
	h.reaches(frozen)
	if !h.acknowledged() {
		t.Error("it was held before it had acknowledged that")
	}
	h.o.Rotation = sched.Rotation{}
	h.reaches(running)
	h.until("it is told that its turn has come", func() bool {
		text, err := os.ReadFile(h.file)
		return err == nil && strings.Contains(string(text), "y")
	})

	deaf := newHeld(t, Turns{Rotation: turns(other, mine), Signal: "USR1", Timeout: sched.Second / 5}, "trap : USR1; "+ticking)
	why := ""
	deaf.until("it is given up", func() bool {
		_, why = deaf.step()
		return why != ""
	})
	if !strings.Contains(why, "did not acknowledge its suspension within 200ms") || !deaf.moves() {
		t.Errorf("it is given up: %q", why)
	}
}

// A task that leaves its turn so late that it has the next one loses that.
func TestALateTaskLosesATurn(t *testing.T) {
	h := newHeld(t, Turns{Rotation: turns(other, mine)}, ticking)
	h.until("it is held", func() bool {
		if h.phase == running {
			h.step()
		}
		h.freeze(true, wallClock().Add(sched.Second))
		return h.phase == frozen
	})
	h.o.Rotation = turns(mine, other)
	h.line.enter = time.Now().Add(time.Hour)
	began := time.Now()
	h.reaches(running)
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("it went on after %v, in the turn that it was to lose", took)
	}
}

// A pod that asks too often waits, and does not take the server that says so for one that is away.
func TestATaskThatAsksTooOften(t *testing.T) {
	var asks atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asks.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	l := newTurnLine(line.NewClient(server.URL, line.PinOf(server.Certificate().Raw), "a", "aa"))
	l.heard = time.Now().Add(-away)
	l.state.Wants = true
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	l.run(ctx)
	if n := asks.Load(); n < 1 || n > 2 {
		t.Errorf("it asked %d times in 1.5 s", n)
	}
	if l.silent(time.Now().Add(-time.Hour), time.Second) || !l.enter.IsZero() {
		t.Error("it takes the server for away, or itself for let in")
	}
}
