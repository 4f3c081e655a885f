package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/task"
)

func TestLogIsCapped(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.LogFile, o.LogFiles, o.LogRate = 64<<10, 4, 1<<30 })
	a := w.action(1, "echo lr=0.1", "seq 1 200000", "echo last")
	w.e.Do(a)
	w.exit()
	var total int64
	files, err := filepath.Glob(filepath.Join(w.e.place.task(a.Attempt, 0), "stdout.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if len(files) > 4 || total > 256<<10 {
		t.Errorf("%d files, %d bytes", len(files), total)
	}
	l, err := w.e.openLog(ref(a.Attempt, 0, Stdout), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, end, err := l.Bounds()
	if err != nil || first < 1<<20 || l.Offset() != 0 || end != 1288907 {
		t.Errorf("bounds %d, %d, offset %d: %v", first, end, l.Offset(), err)
	}
	if _, err := l.ReadAt(make([]byte, 8), first-1); !errors.Is(err, executor.ErrCut) {
		t.Errorf("before what is kept: %v", err)
	}
	// The first lines are there, up to the end of one, and what follows is said to be cut.
	head, err := io.ReadAll(l)
	if !errors.Is(err, executor.ErrCut) || !strings.HasPrefix(string(head), "lr=0.1\n1\n2\n") || len(head) < 30<<10 || len(head) > 32<<10 || head[len(head)-1] != '\n' {
		t.Errorf("%d first bytes, %v", len(head), err)
	}
	for from, start := range map[int64]int64{0: 0, 7: 7, int64(len(head)): first, first - 1: first, first: first, end: end, -5: end - 5, -end: first} {
		log, err := w.e.OpenLog(ref(a.Attempt, 0, Stdout), from)
		if err != nil || log.Start != start || log.End != end || log.GapStart != int64(len(head)) || log.GapEnd != first {
			t.Errorf("from %d: %+v, %v", from, log, err)
		}
		log.Close()
	}
	if out := w.output(a.Attempt, 0, Stdout); !strings.HasPrefix(out, string(head)) || !strings.HasSuffix(out, "\n199999\n200000\nlast\n") || int64(len(out)) != end-first+int64(len(head)) {
		t.Errorf("%d bytes end in %q", len(out), out[max(0, len(out)-40):])
	}
}

// TestFirstLinesAreCutWhereTheyWere: a task that puts a link in the place of its log's first file
// does not have what the link names shortened; and who reads the first file while it is shortened
// is told.
func TestFirstLinesAreCutWhereTheyWere(t *testing.T) {
	for _, linked := range []bool{false, true} {
		w := newWorld(t)
		a := w.action(1, "true")
		w.e.Do(a)
		w.exit()
		dir := w.e.place.task(a.Attempt, 0)
		for _, name := range []string{task.LogName(Stdout, 0), task.LogName(Stderr, 0)} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		c, pipe, err := task.NewCapture(dir, Stdout, task.LogCaps{FileBytes: 1000, Files: 3, Rate: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		go c.Run()
		defer c.Finish()
		defer pipe.Close()
		write := func(text string) {
			t.Helper()
			if _, err := pipe.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		write(strings.Repeat("0123456789abcde\n", 60)) // 960 bytes
		w.eventually("the first lines are there", func() bool {
			l, err := w.e.OpenLog(ref(a.Attempt, 0, Stdout), 960)
			return err == nil && l.Close() == nil && l.Start == 960
		})
		l, err := w.e.openLog(ref(a.Attempt, 0, Stdout), 800)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		other, first := filepath.Join(t.TempDir(), "other"), filepath.Join(dir, task.LogName(Stdout, 0))
		if linked {
			if err := errors.Join(os.Rename(first, other), os.Symlink(other, first)); err != nil {
				t.Fatal(err)
			}
		}
		write(strings.Repeat("0123456789abcde\n", 200))
		w.eventually("it was rotated", func() bool { _, err := os.Stat(filepath.Join(dir, task.LogName(Stdout, 4000))); return err == nil })
		if linked {
			if data, err := os.ReadFile(other); err != nil || len(data) != 1000 {
				t.Errorf("what the link names has %d bytes: %v", len(data), err)
			}
			continue
		}
		if n, err := l.Read(make([]byte, 100)); n != 0 || !errors.Is(err, executor.ErrCut) {
			t.Errorf("%d bytes, %v behind the first lines", n, err)
		}
		want := strings.Repeat("0123456789abcde\n", 31) + strings.Repeat("0123456789abcde\n", 260)[3000:]
		w.eventually("the log has its first and last lines", func() bool { return w.output(a.Attempt, 0, Stdout) == want })
	}
}

// TestTurnsOfStreams wants to know in which order the streams of a task were printed, where each
// line was seen before the next one was printed; a task that writes its own order gets what is
// sound of it.
func TestTurnsOfStreams(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(t.TempDir(), "seen")
	wait := func(n string) string { return "until test -e " + mark + n + "; do sleep 0.01; done" }
	a := w.action(1, "echo one", wait("1"), "echo E1 >&2", wait("2"), "echo two", "echo three", wait("3"),
		"echo E2 >&2")
	w.e.Do(a)
	for i, c := range []struct{ stream, want string }{
		{Stdout, "one\n"}, {Stderr, "E1\n"}, {Stdout, "one\ntwo\nthree\n"},
	} {
		w.eventually(c.want, func() bool {
			l, err := w.e.openLog(ref(a.Attempt, 0, c.stream), 0)
			return err == nil && l.Close() == nil && l.end() == int64(len(c.want))
		})
		if err := os.WriteFile(mark+strconv.Itoa(i+1), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.exit()
	turns := []executor.StreamSwitch{{Stream: Stdout, To: 4}, {Stream: Stderr, To: 3}, {Stream: Stdout, To: 14}}
	if got, err := turnsOfLog(w.e, ref(a.Attempt, 0, Stdout), [2]int64{}); err != nil || !slices.Equal(got, turns) {
		t.Errorf("turns %v, %v; want %v", got, err, turns)
	}
	file := filepath.Join(w.e.place.task(a.Attempt, 0), task.OrderName)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string][]byte{
		"twice": append(slices.Clone(data), data...), "half a record": append(slices.Clone(data), 1, 2, 3),
		"a length that no log has": append(slices.Clone(data), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		if err := os.WriteFile(file, with, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := turnsOfLog(w.e, ref(a.Attempt, 0, Stdout), [2]int64{}); err != nil || !slices.Equal(got, turns) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := errors.Join(os.Remove(file), os.Symlink("/etc/passwd", file)); err != nil {
		t.Fatal(err)
	}
	if got, err := turnsOfLog(w.e, ref(a.Attempt, 0, Stdout), [2]int64{}); !errors.Is(err, executor.ErrReplaced) {
		t.Errorf("a link in its place: %v, %v", got, err)
	}
	if got, err := turnsOfLog(w.e, ref(model.AttemptID{Job: 7, N: 1}, 0, Stdout), [2]int64{}); err != nil || len(got) != 0 {
		t.Errorf("a task that has not been: %v, %v", got, err)
	}
}

// counted counts what is read of an order.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += n
	return n, err
}

// A look at what is new in a long order reads and keeps a part of it that does not grow with it.
func TestTurnsBehindOffsets(t *testing.T) {
	const records = task.MaxOrder / task.RecordBytes
	var data []byte
	for i := range int64(records) { // each stream in turn prints ten bytes
		data = binary.BigEndian.AppendUint64(data, uint64(i%2)*task.SecondBit|uint64((i/2+1)*10))
	}
	const end = records / 2 * 10
	for _, c := range []struct {
		behind       [2]int64
		turns, bytes int
	}{
		{[2]int64{}, records, len(data)},
		{[2]int64{end, end}, 1, firstRecords},
		{[2]int64{end, end - 1}, 1, firstRecords},
		{[2]int64{end - 15, end - 10}, 3, firstRecords},
		{[2]int64{end, end - 10_000}, 1000, 7 * firstRecords},
		{[2]int64{end + 1000, end + 1000}, 1, firstRecords}, // where an order was shortened
	} {
		f := &counted{ReaderAt: bytes.NewReader(data)}
		some, err := recordsBehind(f, int64(len(data)), c.behind)
		if err != nil {
			t.Fatal(err)
		}
		var want []executor.StreamSwitch // by all of it
		all := turnsIn(data, [2]int64{})
		for i, turn := range all {
			stream := 0
			if turn.Stream == Stderr {
				stream = 1
			}
			if turn.To > c.behind[stream] || i == len(all)-1 && len(want) == 0 {
				want = append(want, turn)
			}
		}
		if got := turnsIn(some, c.behind); !slices.Equal(got, want) || len(got) != c.turns || f.bytes != c.bytes {
			t.Errorf("behind %v: %d turns of %d bytes that were read, want %d of %d", c.behind, len(got), f.bytes, c.turns, c.bytes)
		}
	}
}

// followEvery is how often a followed log is looked at.
const followEvery = 100 * time.Millisecond

// followLog hands the log from an offset to f, and goes on until the task has
// ended and all is handed over (nil), ctx is done, or an error comes. A task
// that has not started is waited for. f must not keep its argument.
func (e *Executor) followLog(ctx context.Context, ref executor.LogRef, from int64, f func([]byte)) error {
	buf := make([]byte, 64<<10)
	for {
		over := e.ended(ref)
		next, err := e.copyLog(ref, from, buf, f)
		if err != nil && !(errors.Is(err, executor.ErrNoLog) && !over) {
			return err
		}
		from = next
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// copyLog hands over what there is and returns where to go on.
func (e *Executor) copyLog(ref executor.LogRef, from int64, buf []byte, f func([]byte)) (int64, error) {
	l, err := e.openLog(ref, from)
	if err != nil {
		return from, err
	}
	defer l.Close()
	for {
		n, err := l.Read(buf)
		if n > 0 {
			f(buf[:n])
		}
		switch {
		case err == io.EOF:
			return l.at, nil
		case errors.Is(err, executor.ErrCut):
			l.at = l.past(l.at)
		case err != nil:
			return l.at, err
		}
	}
}

// ended says whether the task's end is recorded: its log grows no more.
func (e *Executor) ended(ref executor.LogRef) bool {
	var o outcome
	return safefile.Read(e.place.task(ref.Attempt, ref.Task), outcomeFile, &o) == nil
}
