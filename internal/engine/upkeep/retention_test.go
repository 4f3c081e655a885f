package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// world has ended jobs with files, in memory.
type world struct {
	*testing.T
	now     model.Time
	ended   map[model.JobID]model.Time
	files   map[model.JobID]int64
	noted   map[model.JobID]string
	audit   []model.Time
	fails   map[model.JobID]bool
	largest int // portion
}

func (w *world) EndedOf(_ context.Context, ids []model.JobID) (map[model.JobID]model.Time, error) {
	out := map[model.JobID]model.Time{}
	for _, id := range ids {
		if at, ok := w.ended[id]; ok {
			out[id] = at
		}
	}
	return out, nil
}

func (w *world) MarkRemoved(_ context.Context, list []engine.Removed) error {
	w.largest = max(w.largest, len(list))
	for _, r := range list {
		if _, ok := w.noted[r.Job]; !ok {
			w.noted[r.Job] = r.Rule
		}
	}
	return nil
}

func (w *world) OldestAudit(context.Context) (model.Time, error) {
	if len(w.audit) == 0 {
		return 0, nil
	}
	return w.audit[0], nil
}

func (w *world) ForgetAudit(_ context.Context, before, now model.Time) (n int, _ error) {
	for n < len(w.audit) && n < 1000 && w.audit[n] < before {
		n++
	}
	if n > 0 {
		w.audit = append(w.audit[n:], now)
	}
	return n, nil
}

func (w *world) Left() ([]model.JobID, error)       { return slices.Collect(maps.Keys(w.files)), nil }
func (w *world) Size(id model.JobID) (int64, error) { return w.files[id], nil }
func (w *world) sweep(k *Keeper) error              { return k.RemoveDue(context.Background()) }
func (w *world) left() []model.JobID                { return slices.Sorted(maps.Keys(w.files)) }
func (w *world) after(days int) model.Time          { return model.Time(days) * day }
func (w *world) keeper(o Options) *Keeper {
	o.Now, o.Pause = func() model.Time { return w.now }, 1
	return New(w, w, o)
}
func (w *world) is(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) Forget(id model.JobID) error {
	if w.fails[id] {
		return errors.New("an attempt may live")
	}
	if _, ok := w.noted[id]; !ok {
		w.Errorf("files of job %d go before that is noted", id)
	}
	if _, ok := w.ended[id]; !ok {
		w.Errorf("files of job %d go, which has not ended", id)
	}
	delete(w.files, id)
	return nil
}

const day = model.Time(24 * 3600 * 1_000_000)

func newWorld(t *testing.T, jobs int) *world {
	w := &world{T: t, ended: map[model.JobID]model.Time{}, files: map[model.JobID]int64{}, noted: map[model.JobID]string{}, fails: map[model.JobID]bool{}}
	for id := range model.JobID(jobs) {
		w.files[id+1] = 100 << 20
		w.ended[id+1] = model.Time(id) * day
	}
	return w
}

// TestOld: files go when their time is over, of ended jobs alone, in portions; what cannot go is
// tried again.
func TestOld(t *testing.T) {
	w := newWorld(t, 200)
	delete(w.ended, 3)
	w.fails[2] = true
	w.now = w.after(150)
	var said strings.Builder
	k := w.keeper(Options{Files: 30 * 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err := w.sweep(k); err == nil || !strings.Contains(err.Error(), "job 2: an attempt may live") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(said.String(), `level=WARN msg="logs, work and checkpoints of ended jobs are removed now" jobs=120 kept=30d`) {
		t.Errorf("at the start it says %s", said.String())
	}
	w.is("jobs with files, the first", w.left()[:3], "[2 3 122]")
	w.is("the rule", w.noted[1], "kept 30d")
	w.is("the largest portion", w.largest, portion)
	w.fails[2] = false
	if err := w.sweep(k); err != nil {
		t.Error(err)
	}
	w.is("jobs with files, the first", w.left()[:2], "[3 122]")
	w.is("counts", k.Stats(), Stats{Removed: 120, Failed: 1, Ended: 79})
	if err := w.sweep(w.keeper(Options{})); err != nil || len(w.files) != 80 {
		t.Errorf("for ever: %d jobs have files, %v", len(w.files), err)
	}
}

// TestBytes: beyond a size those that ended first go.
func TestBytes(t *testing.T) {
	w := newWorld(t, 10)
	w.ended[7] = -1
	w.now = w.after(20)
	k := w.keeper(Options{Bytes: 750 << 20})
	if err := w.sweep(k); err != nil {
		t.Error(err)
	}
	w.is("jobs with files", w.left(), "[3 4 5 6 8 9 10]")
	w.is("the rule", w.noted[7], "kept while ended jobs have 750 MiB at most")
	w.is("bytes", k.Stats().Bytes, 700<<20)
}

// TestAudit: old lines go a portion at a time, and not a line is written for each sweep.
func TestAudit(t *testing.T) {
	w := newWorld(t, 0)
	for range 2500 {
		w.audit = append(w.audit, w.after(1))
	}
	w.audit = append(w.audit, w.after(300))
	w.now = w.after(402)
	k := w.keeper(Options{Audit: 400 * 24 * time.Hour})
	for range 3 {
		if err := w.sweep(k); err != nil {
			t.Error(err)
		}
		if w.now == w.after(402) {
			w.is("lines, a little over the time", len(w.audit), 2501)
		}
		w.now = w.after(420)
	}
	w.is("lines", len(w.audit), 4)
	w.is("counts", k.Stats(), Stats{Lines: 2500})
}

// TestFolder: only folders that are named by a job's number are of jobs; links out of one are not
// followed.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1/a", "20", "020", "x", "-3", "0"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "1/a/log"), make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "1/a/log"), filepath.Join(dir, "20/far")); err != nil {
		t.Fatal(err)
	}
	f := Folder{Dir: dir}
	left, err := f.Left()
	slices.Sort(left)
	if err != nil || !slices.Equal(left, []model.JobID{1, 20}) {
		t.Errorf("%v, %v", left, err)
	}
	if n, err := f.Size(1); err != nil || n < 100_000 || n > 200_000 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := f.Size(20); err != nil || n > 20_000 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"forever": 0, "0s": 0, "30d": 720 * time.Hour, "1h30m": 90 * time.Minute} {
		var s Span
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(s), err)
		}
	}
	var bare Span
	if err := bare.Set("30"); err == nil || err.Error() != "say of what: 30d, 30h, 30m or 30s" {
		t.Errorf("30 without a unit: %v", err)
	}
	for _, text := range []string{"", "-1d", "30", "0.5", "5q", "10us", "40000000d", "for ever"} {
		var s Span
		if s.Set(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
