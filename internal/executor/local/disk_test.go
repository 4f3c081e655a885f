package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/smalldisk"
)

// TestStartsWaitForTheServersDisk: what the server's disk lacks is no refusal, which would be held
// against the node, and no end of the job.
func TestStartsWaitForTheServersDisk(t *testing.T) {
	var full, unread atomic.Bool
	full.Store(true)
	unread.Store(true)
	w := newWorld(t, func(o *Options) {
		o.Room = func() error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}
		o.Secrets = func(model.JobID) (map[string]string, error) {
			if unread.Load() {
				return nil, fmt.Errorf("the database: %w", unix.EIO)
			}
			return map[string]string{"word": "sesame"}, nil
		}
	})
	goesOn, stopped := w.action(2, "[ <% $secrets.word %> = sesame ]"), w.action(1, "true")
	w.e.Do(goesOn)
	w.e.Do(stopped)
	if n := want[model.Notice](w); !strings.Contains(n.Message, "waits for room on the disk") {
		t.Errorf("the job is told %q", n.Message)
	}
	w.e.Do(model.Action{Attempt: stopped.Attempt, Grace: model.Second})
	if x := w.exit(); x.Cause != model.NeverStarted {
		t.Errorf("a start that waits and is stopped ends with %+v", x)
	}
	full.Store(false)
	if f := w.nextTaskFact(3 * diskPause); f != nil {
		t.Fatalf("with secrets that cannot be read: %+v", f)
	}
	unread.Store(false)
	for range 2 { // each was started, or it would be refused; one may end before the other starts
		if x := w.exit(); x != (model.Exit{Own: true}) {
			t.Errorf("exit %+v", x)
		}
	}
}

// TestDamagedSecretsEndTheJob: they do not come back, whatever is waited for.
func TestDamagedSecretsEndTheJob(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Secrets = func(model.JobID) (map[string]string, error) { return nil, errors.New("they are damaged") }
	})
	w.e.Do(w.action(1, "true"))
	if r, ok := w.nextTaskFact(patience).(model.TaskRefused); !ok || !r.Job || !strings.Contains(r.Reason, "they are damaged") {
		t.Errorf("told %+v", r)
	}
}

// atEachLastPage runs a world on a full file system of which some pages are left, one more each
// time, until there is nothing that a start lacks. f returns whether its start had to wait.
func atEachLastPage(t *testing.T, f func(w *world, pages int64, free func()) bool) {
	t.Helper()
	if !smalldisk.Alone(t) {
		return
	}
	waited := 0
	for pages := range int64(12) {
		disk := filepath.Join(t.TempDir(), "disk")
		smalldisk.Mount(t, disk, 4<<20)
		w := newWorld(t, func(o *Options) { o.Dir = filepath.Join(disk, "jobs") })
		if f(w, pages, smalldisk.Fill(t, disk, pages)) {
			waited++
		}
	}
	if waited < 3 {
		t.Errorf("only %d starts had to wait", waited)
	}
}

// TestStartAtEachLastPage: whatever of a start does not fit any more, in the server or in the
// supervisor, it waits and goes on.
func TestStartAtEachLastPage(t *testing.T) {
	atEachLastPage(t, func(w *world, pages int64, free func()) bool {
		w.e.Do(w.action(1, "true"))
		f := w.nextTaskFact(3 * diskPause)
		if _, refused := f.(model.TaskRefused); refused {
			t.Fatalf("with %d pages: %+v", pages, f)
		}
		waited := f == nil
		free()
		healed := time.Now()
		if waited {
			f = w.nextTaskFact(patience)
		}
		if _, started := f.(model.TaskStarted); !started {
			t.Fatalf("with %d pages, when there was room: %+v", pages, f)
		}
		if x := w.exit(); x != (model.Exit{Own: true}) {
			t.Errorf("with %d pages: exit %+v", pages, x)
		}
		t.Logf("%d pages: all over %v after there was room", pages, time.Since(healed))
		return waited
	})
}

// TestStopWithoutRoom ends a start that its supervisor holds up: the order itself finds no room.
func TestStopWithoutRoom(t *testing.T) {
	atEachLastPage(t, func(w *world, pages int64, free func()) bool {
		a := w.action(1, "sleep 600")
		w.e.Do(a)
		f := w.nextTaskFact(2 * diskPause)
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
		x := w.exit()
		if f == nil && x.Cause != model.NeverStarted && x.Signal == 0 { // a slow machine may start it late
			t.Errorf("with %d pages: exit %+v of what never started", pages, x)
		}
		free()
		return x.Cause == model.NeverStarted
	})
}
