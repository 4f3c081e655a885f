// Package upkeep keeps a data directory small and safe. It removes what is kept too long: files
// of ended jobs, and old lines of the audit log. It makes the directory into one file and back,
// also while its server runs. It must not know jobs that still run.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// EndedJobs records which jobs have ended, and what was removed of them.
type EndedJobs interface {
	// EndedOf returns when jobs ended, for those among ids that have.
	EndedOf(ctx context.Context, ids []model.JobID) (map[model.JobID]model.Time, error)
	// MarkRemoved notes that the files of jobs are about to be removed. Jobs that are noted
	// already stay as they are.
	MarkRemoved(ctx context.Context, list []engine.Removed) error
	// OldestAudit is the time of the oldest line of the audit log, 0 without one.
	OldestAudit(ctx context.Context) (model.Time, error)
	// ForgetAudit removes lines from before an instant, at most 1,000, and returns how many.
	ForgetAudit(ctx context.Context, before, now model.Time) (int, error)
}

// Files are what jobs left on disk.
type Files interface {
	// Left returns the jobs that have files, in any order.
	Left() ([]model.JobID, error)
	// Size is the disk space of a job's files, in bytes.
	Size(model.JobID) (int64, error)
	// Forget removes a job's files. A job with an attempt that may live is refused.
	Forget(model.JobID) error
}

// Options say how long and how much is kept. Zero values: for ever, and any amount.
type Options struct {
	Files time.Duration // files of a job since its end
	Bytes int64         // of all ended jobs together; the oldest ended go first
	Audit time.Duration // lines of the audit log
	Pause time.Duration // between portions; 0 is a second
	Now   func() model.Time
	Log   *slog.Logger
}

// portion is how many jobs are removed at a time: their notes are one transaction, which is short
// compared with a submission's.
const portion = 50

// Keeper removes what is kept too long. Its Stats may be called from any goroutine.
type Keeper struct {
	notes EndedJobs
	files Files
	o     Options

	ended map[model.JobID]model.Time // when jobs with files ended: that does not change
	sizes map[model.JobID]int64
	swept bool // a sweep has run since the start

	mu    sync.Mutex
	stats Stats
}

// Stats count what a Keeper did since its start.
type Stats struct {
	Removed int64 // jobs whose files were removed
	Failed  int64 // failed sweeps
	Lines   int64 // of the audit log that were removed
	Ended   int   // ended jobs that still have files
	Bytes   int64 // of these files, where they are bounded
}

// New makes a Keeper.
func New(notes EndedJobs, files Files, o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	return &Keeper{notes: notes, files: files, o: o, ended: map[model.JobID]model.Time{}, sizes: map[model.JobID]int64{}}
}

// Stats returns the counts so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

func (k *Keeper) count(f func(*Stats)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.stats)
}

// Run sweeps from time to time until ctx is done: every ten minutes, or every tenth of a shorter
// retention time.
func (k *Keeper) Run(ctx context.Context) {
	every := 10 * time.Minute
	for _, d := range []time.Duration{k.o.Files, k.o.Audit} {
		if d > 0 {
			every = max(min(every, d/10), time.Second)
		}
	}
	for {
		if err := k.RemoveDue(ctx); err != nil && ctx.Err() == nil {
			k.o.Log.Warn("what is kept too long could not all be removed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// RemoveDue removes what is due now.
func (k *Keeper) RemoveDue(ctx context.Context) error {
	defer func() { k.swept = true }()
	return errors.Join(k.sweepFiles(ctx), k.sweepAudit(ctx))
}

// loud is the level at which removals are logged. The first sweep is logged so that it is seen,
// since the server's flags may be new; later ones are routine.
func (k *Keeper) loud() slog.Level {
	if k.swept {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

func (k *Keeper) sweepFiles(ctx context.Context) error {
	left, err := k.look(ctx)
	if err != nil {
		return err
	}
	list, err := k.due(ctx, left)
	if len(list) > 0 {
		k.o.Log.Log(ctx, k.loud(), "logs, work and checkpoints of ended jobs are removed now",
			"jobs", len(list), "kept", SpanWords(k.o.Files), "bytes", k.o.Bytes)
	}
	before := k.Stats().Removed
	for part := range slices.Chunk(list, portion) {
		err = errors.Join(err, k.remove(ctx, part))
		if !pause(ctx, k.o.Pause) {
			return errors.Join(err, ctx.Err())
		}
	}
	if n := k.Stats().Removed - before; n > 0 {
		k.o.Log.Info("logs, work and checkpoints of ended jobs were removed", "jobs", n, "kept", SpanWords(k.o.Files), "bytes", k.o.Bytes)
	}
	return err
}

// look finds the ended jobs that have files, the earliest end first.
func (k *Keeper) look(ctx context.Context) ([]model.JobID, error) {
	left, err := k.files.Left()
	if err != nil {
		return nil, fmt.Errorf("cannot look which jobs have files: %w", err)
	}
	slices.Sort(left)
	var unknown []model.JobID
	there := make(map[model.JobID]model.Time, len(k.ended))
	for _, id := range left {
		if at, ok := k.ended[id]; ok {
			there[id] = at
		} else {
			unknown = append(unknown, id)
		}
	}
	for part := range slices.Chunk(unknown, 500) {
		found, err := k.notes.EndedOf(ctx, part)
		if err != nil {
			return nil, err
		}
		for id, at := range found {
			there[id] = at
		}
	}
	k.ended = there
	left = slices.DeleteFunc(left, func(id model.JobID) bool { _, ok := there[id]; return !ok })
	slices.SortStableFunc(left, func(a, b model.JobID) int { return int(max(-1, min(1, there[a]-there[b]))) })
	for id := range k.sizes {
		if _, ok := there[id]; !ok {
			delete(k.sizes, id)
		}
	}
	k.count(func(s *Stats) { s.Ended = len(left) })
	return left, nil
}

// due returns the jobs whose files must be removed, with the rule that says so.
func (k *Keeper) due(ctx context.Context, left []model.JobID) (list []engine.Removed, err error) {
	now := k.o.Now()
	if k.o.Files > 0 {
		before := now.Add(-model.Duration(k.o.Files.Microseconds()))
		for len(left) > 0 && k.ended[left[0]] <= before {
			list = append(list, engine.Removed{Job: left[0], At: now, Rule: "kept " + SpanWords(k.o.Files)})
			left = left[1:]
		}
	}
	if k.o.Bytes <= 0 {
		return list, nil
	}
	total, err := k.measure(ctx, left)
	for ; len(left) > 0 && total > k.o.Bytes; left = left[1:] {
		total -= k.sizes[left[0]]
		list = append(list, engine.Removed{Job: left[0], At: now, Rule: fmt.Sprintf("kept while ended jobs have %s at most", model.MemoryText(k.o.Bytes>>20))})
	}
	k.count(func(s *Stats) { s.Bytes = total })
	return list, err
}

// measure adds up the size of jobs' files. The files of an ended job do not change: each is
// measured once.
func (k *Keeper) measure(ctx context.Context, left []model.JobID) (total int64, err error) {
	for i, id := range left {
		n, ok := k.sizes[id]
		if !ok {
			var sizeErr error
			if n, sizeErr = k.files.Size(id); sizeErr != nil {
				err = errors.Join(err, fmt.Errorf("cannot measure the files of job %d: %w", id, sizeErr))
				continue
			}
			k.sizes[id] = n
			if i%portion == portion-1 && !pause(ctx, k.o.Pause/10) {
				return 0, ctx.Err()
			}
		}
		total += n
	}
	return total, err
}

// remove notes that files are removed, and removes them. What fails is due again at the next
// sweep, since the files are still there.
func (k *Keeper) remove(ctx context.Context, part []engine.Removed) error {
	if err := k.notes.MarkRemoved(ctx, part); err != nil {
		return err
	}
	var errs []error
	for i := range part {
		id := part[i].Job
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := k.files.Forget(id); err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", id, err))
			k.count(func(s *Stats) { s.Failed++ })
			continue
		}
		delete(k.ended, id)
		delete(k.sizes, id)
		k.count(func(s *Stats) { s.Removed++; s.Ended-- })
	}
	return errors.Join(errs...)
}

// slack is the part of the retention time by which lines of the audit log may be older: each
// removal adds a line itself.
const slack = 50

func (k *Keeper) sweepAudit(ctx context.Context) error {
	if k.o.Audit <= 0 {
		return nil
	}
	oldest, err := k.notes.OldestAudit(ctx)
	if err != nil || oldest == 0 {
		return err
	}
	now := k.o.Now()
	keep := model.Duration(k.o.Audit.Microseconds())
	if oldest >= now.Add(-keep-keep/slack) {
		return nil
	}
	k.o.Log.Log(ctx, k.loud(), "old lines of the audit log are forgotten now",
		"before", time.UnixMicro(int64(now.Add(-keep))).UTC(), "kept", SpanWords(k.o.Audit))
	total := 0
	for {
		n, err := k.notes.ForgetAudit(ctx, now.Add(-keep), now)
		if err != nil {
			return err
		}
		k.count(func(s *Stats) { s.Lines += int64(n) })
		if total += n; n == 0 || !pause(ctx, k.o.Pause) {
			break
		}
	}
	k.o.Log.Info("old lines of the audit log were forgotten", "lines", total, "kept", SpanWords(k.o.Audit))
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// SpanWords writes a duration in the form of flags; 0 is "forever".
func SpanWords(d time.Duration) string {
	if d <= 0 {
		return "forever"
	}
	return document.FormatDuration(d.Microseconds())
}

// Span is the value of a flag: how long something is kept; "forever" or 0 is no bound.
type Span time.Duration

const longest = 100 * 365 * 24 * time.Hour

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	if text == "forever" {
		*s = 0
		return nil
	}
	if err := document.Unitless(text); err != nil {
		return err
	}
	micros, ok := document.ParseDuration(text)
	if !ok || micros < 0 || micros > longest.Microseconds() || micros > 0 && micros < 1_000_000 {
		return errors.New("want a time such as 30d or 12h, or forever")
	}
	*s = Span(time.Duration(micros) * time.Microsecond)
	return nil
}

// String implements pflag.Value.
func (s *Span) String() string { return SpanWords(time.Duration(*s)) }

// Type implements pflag.Value.
func (s *Span) Type() string { return "time" }

// Flags are those of a server that say what it keeps.
type Flags struct {
	files, audit Span
	bytes        quantity
}

// Add adds the flags to those of a command.
func (f *Flags) Add(to *pflag.FlagSet) {
	f.files, f.audit = Span(30*24*time.Hour), Span(400*24*time.Hour)
	to.Var(&f.files, "keep-logs", "how long logs, work and checkpoints of a job stay after its end, such as 90d; forever, or 0, is no bound; what is older is removed at once")
	to.Var(&f.bytes, "keep-logs-bytes", "how much these may take of the disk, of all ended jobs together, such as 500Gi; beyond, those that ended first are removed (default: no limit)")
	to.Var(&f.audit, "keep-audit", "how long lines of the audit log stay, such as 400d; forever, or 0, is no bound")
}

// Options are what the flags say.
func (f *Flags) Options(now func() model.Time, log *slog.Logger) Options {
	return Options{Files: time.Duration(f.files), Bytes: int64(f.bytes), Audit: time.Duration(f.audit), Now: now, Log: log}
}

// quantity is a number of bytes, with a unit.
type quantity int64

// Set implements pflag.Value.
func (a *quantity) Set(text string) error {
	if err := document.UnitlessSize(text); err != nil {
		return err
	}
	mib, ok := document.ParseMemory(text)
	if !ok || mib < 0 || mib > 1<<40 {
		return errors.New("want an amount of a disk such as 500Gi or 2Ti")
	}
	*a = quantity(mib << 20)
	return nil
}

// String implements pflag.Value; "" hides the default.
func (a *quantity) String() string {
	if *a == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*a)>>20, 10) + "Mi"
}

// Type implements pflag.Value.
func (a *quantity) Type() string { return "amount" }
