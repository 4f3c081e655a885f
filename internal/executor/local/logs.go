package local

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/task"
)

// Log is one stream of a task across its files. It never follows a link. Offsets count from the
// beginning of the stream. Rotation keeps the first lines; what it has removed is a gap behind
// them.
type Log struct {
	root   *os.Root
	stream string
	at     int64 // where Read continues
	file   *os.File
	open   segment // of file
	names  []segment
}

// segment is one file of a stream: bytes base to base+size.
type segment struct {
	name       string
	base, size int64
}

// maxBase is beyond anything that a task can print; a name with a larger base would make ends
// overflow.
const maxBase = 1 << 60

// OpenLog implements executor.Executor.
func (e *Executor) OpenLog(ref executor.LogRef, from int64) (executor.Log, error) {
	l, err := e.openLog(ref, from)
	if err != nil {
		return executor.Log{}, err
	}
	out := executor.Log{ReadCloser: l, Start: l.at, End: l.end()}
	out.Switches = func(behind [2]int64) ([]executor.StreamSwitch, error) { return turnsOfLog(e, ref, behind) }
	out.GapStart, out.GapEnd = l.gap()
	return out, nil
}

// turnsOfLog reads in which order the streams of a task were printed, from given offsets of both
// on. The task may write the file itself: reading stops at the first record that is out of order.
func turnsOfLog(e *Executor, ref executor.LogRef, behind [2]int64) ([]executor.StreamSwitch, error) {
	root, err := openTaskDir(e.o.Dir, e.place.task(ref.Attempt, ref.Task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openIn(root, task.OrderName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := recordsBehind(f, min(info.Size(), task.MaxOrder), behind)
	if err != nil {
		return nil, err
	}
	return turnsIn(data, behind), nil
}

// firstRecords is how many bytes of an order are read first; following a log needs few.
const firstRecords = 512 * task.RecordBytes

// recordsBehind reads the end of an order of size bytes: back to where both streams are at or
// before the offsets in behind. Following a log needs no more.
func recordsBehind(f io.ReaderAt, size int64, behind [2]int64) ([]byte, error) {
	size -= size % task.RecordBytes
	var data []byte
	var reached [2]bool
	for part := int64(firstRecords); ; part *= 2 {
		from := max(size-int64(len(data))-part, 0)
		more := make([]byte, size-int64(len(data))-from)
		if _, err := f.ReadAt(more, from); err != nil {
			return nil, err
		}
		data = append(more, data...)
		for left := more; len(left) > 0; left = left[task.RecordBytes:] {
			if stream, to := recordAt(left); to <= behind[stream] {
				reached[stream] = true
			}
		}
		if from == 0 || reached == [2]bool{true, true} {
			return data, nil
		}
	}
}

// recordAt reads the first record of data.
func recordAt(data []byte) (stream int, to int64) {
	n := binary.BigEndian.Uint64(data)
	return int(n / task.SecondBit), int64(n % task.SecondBit)
}

// turnsIn reads records of an order, without those up to the offsets in behind. The last record
// stays anyway: it says which stream goes on.
func turnsIn(data []byte, behind [2]int64) (list []executor.StreamSwitch) {
	streams := [2]string{Stdout, Stderr}
	reached, last := [2]int64{}, executor.StreamSwitch{}
	for ; len(data) >= task.RecordBytes; data = data[task.RecordBytes:] {
		stream, to := recordAt(data)
		if to <= reached[stream] || to > maxBase {
			break
		}
		reached[stream] = to
		if last = (executor.StreamSwitch{Stream: streams[stream], To: to}); to > behind[stream] {
			list = append(list, last)
		}
	}
	if len(list) == 0 && last.To > 0 {
		list = append(list, last)
	}
	return list
}

// openLog opens a log for Read at an offset in its stream, or at the next byte that is kept. A
// negative offset counts from the end, but not back over the gap. executor.ErrNoLog says that
// there is none, executor.ErrReplaced that something else is there.
func (e *Executor) openLog(ref executor.LogRef, from int64) (*Log, error) {
	if ref.Stream != Stdout && ref.Stream != Stderr {
		return nil, fmt.Errorf("%w: a task has %s and %s, not %q", executor.ErrNoLog, Stdout, Stderr, ref.Stream)
	}
	root, err := openTaskDir(e.o.Dir, e.place.task(ref.Attempt, ref.Task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: task %d of attempt %v has no files", executor.ErrNoLog, ref.Task, ref.Attempt)
	}
	if err != nil {
		return nil, err
	}
	l := &Log{root: root, stream: ref.Stream}
	first, end, err := l.Bounds()
	if err != nil {
		root.Close()
		return nil, err
	}
	if from < 0 {
		from = max(end+from, first)
	}
	l.at = l.past(min(from, end))
	return l, nil
}

// Offset returns where Read continues.
func (l *Log) Offset() int64 { return l.at }

// Bounds looks at the files, and returns the first offset behind any gap and the present end.
func (l *Log) Bounds() (first, end int64, err error) {
	if l.names, err = segments(l.root, l.stream); err != nil {
		return 0, 0, err
	}
	if len(l.names) == 0 {
		return 0, 0, fmt.Errorf("%w: the task has not started", executor.ErrNoLog)
	}
	_, first = l.gap()
	return first, l.end(), nil
}

// end is where the log ended at the last look.
func (l *Log) end() int64 {
	last := l.names[len(l.names)-1]
	return last.base + last.size
}

// gap is what rotation has removed, as of the last look; to is 0 when nothing.
func (l *Log) gap() (from, to int64) {
	switch head := l.names[0]; {
	case head.base > 0:
		return 0, head.base
	case len(l.names) > 1 && head.size < l.names[1].base:
		return head.size, l.names[1].base
	}
	return 0, 0
}

// past is the next kept offset from at on.
func (l *Log) past(at int64) int64 {
	if from, to := l.gap(); at >= from && at < to {
		return to
	}
	return at
}

// segments lists a stream's files by offset. A file that is not a plain one is an error: it
// stands in the place of a part of the log.
func segments(root *os.Root, stream string) ([]segment, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var list []segment
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.Name(), stream+".")
		base, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || base < 0 || base > maxBase || entry.Name() != task.LogName(stream, base) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			continue // rotated away
		}
		if !info.Mode().IsRegular() {
			return nil, replaced(entry.Name(), info, "a plain file")
		}
		list = append(list, segment{name: entry.Name(), base: base, size: info.Size()})
	}
	slices.SortFunc(list, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return list, nil
}

// Read implements io.Reader. io.EOF says that there is no more yet, executor.ErrCut that
// rotation has removed what follows.
func (l *Log) Read(p []byte) (int, error) {
	n, err := l.ReadAt(p, l.at)
	l.at += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt, except that it may return less than asked for
// at the end of a file. io.EOF says that there is no more yet, executor.ErrCut that
// rotation has removed what was at the offset. One goroutine may use a Log at a time.
func (l *Log) ReadAt(p []byte, at int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for range 2 { // the second time after a fresh look at the files
		if err := l.find(at); err != nil {
			return 0, err
		}
		if l.file != nil {
			n, err := l.file.ReadAt(p, at-l.open.base)
			if n > 0 {
				return n, nil
			}
			if err != nil && err != io.EOF {
				return 0, err
			}
		}
		if _, _, err := l.Bounds(); err != nil {
			return 0, err
		}
		if l.past(at) != at {
			return 0, executor.ErrCut
		}
	}
	return 0, io.EOF
}

// find makes l.file the file that holds the byte at an offset: the last one
// that begins there or before. It stays nil before what is kept.
func (l *Log) find(at int64) error {
	i, exact := slices.BinarySearchFunc(l.names, at, func(s segment, at int64) int { return cmp.Compare(s.base, at) })
	if !exact {
		i--
	}
	if i >= 0 && l.file != nil && l.open.base == l.names[i].base {
		return nil
	}
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if i < 0 {
		return nil
	}
	f, err := openIn(l.root, l.names[i].name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away since the look
	}
	if err == nil {
		l.file, l.open = f, l.names[i]
	}
	return err
}

// Close implements io.Closer.
func (l *Log) Close() error {
	if l.file != nil {
		l.file.Close()
	}
	return l.root.Close()
}
