package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/combsched/comb/internal/executor"
)

var mergedStreams = [2]string{executor.Stdout, executor.Stderr}

// mergedSource is the source of both streams.
type mergedSource struct {
	// Open opens a stream at an offset. A missing stream is fs.ErrNotExist.
	Open func(stream string, from int64) (executor.Log, error)
	// Tail returns where the last lines of a stream begin, between two offsets.
	Tail func(stream string, first, end int64) (int64, error)
	// Cut is the text in place of a number of removed bytes.
	Cut func(bytes int64) string
}

// mergedWriter writes both streams of a task, up to their present ends. It reads their
// lengths first, and then in which order they were written, and writes what is below the
// lengths. So each byte has its place, even while more is printed.
type mergedWriter struct {
	from    mergedSource
	out     *bufio.Writer
	frames  bool     // each piece follows a line STREAM OFFSET BYTES
	at      [2]int64 // offset of the next byte of each stream
	begun   bool
	told    bool      // with frames: the begin of each stream was sent
	counts  bool      // lines are counted, and nothing is written
	pending [2][]byte // without frames: the present line of each stream, which has not ended
	turns   func(behind [2]int64) ([]executor.StreamSwitch, error)
}

// newMergedWriter returns a writer that begins at an offset of each stream.
func newMergedWriter(from mergedSource, out io.Writer, at [2]int64, frames bool) *mergedWriter {
	return &mergedWriter{from: from, out: bufio.NewWriterSize(out, mergedPiece), at: at, frames: frames}
}

const mergedPiece = 64 << 10

// Begin finds where to begin: with a tail of 0 or more, at the last lines of both together.
func (w *mergedWriter) Begin(tail int64) error {
	if w.begun {
		return nil
	}
	ends, err := w.ends()
	if err != nil {
		return err
	}
	w.begun = true
	if tail < 0 {
		return nil
	}
	for i, stream := range mergedStreams { // lines before these are not among the last of both
		log, err := w.from.Open(stream, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_ = log.Close()
		if w.at[i], err = w.from.Tail(stream, max(log.Start, log.GapEnd), ends[i]); err != nil {
			return err
		}
	}
	return w.skip(ends, tail)
}

// More writes all that is new, and returns how many bytes of the streams that was.
func (w *mergedWriter) More() (total int64, err error) {
	ends, err := w.ends()
	if err != nil {
		return 0, err
	}
	if w.frames && !w.told {
		w.told = true
		for i, stream := range mergedStreams {
			fmt.Fprintf(w.out, "%s %d 0\n", stream, w.at[i]) // Flush returns its error
		}
	}
	err = w.pass(ends, func(stream int, p []byte) (int, error) {
		total += int64(len(p))
		return len(p), w.write(stream, p)
	})
	return total, errors.Join(err, w.out.Flush())
}

// Finish writes the lines that have not ended.
func (w *mergedWriter) Finish() error {
	for i := range w.pending {
		_, _ = w.out.Write(w.pending[i]) // Flush returns its error
	}
	return w.out.Flush()
}

// ends are the present lengths of both streams. It is an error if neither exists.
func (w *mergedWriter) ends() (ends [2]int64, err error) {
	none := 0
	for i, stream := range mergedStreams {
		log, openErr := w.from.Open(stream, 0)
		if errors.Is(openErr, fs.ErrNotExist) {
			if none++; none == len(mergedStreams) {
				return ends, openErr
			}
			continue
		}
		if openErr != nil {
			return ends, openErr
		}
		_ = log.Close()
		ends[i], w.turns = log.End, log.Switches
	}
	return ends, nil
}

// skip skips the first lines that both streams have from their offsets on, so that at most
// wanted are left.
func (w *mergedWriter) skip(ends [2]int64, wanted int64) error {
	w.counts = true
	defer func() { w.counts = false }()
	from, have, open := w.at, int64(0), [2]bool{}
	if err := w.pass(ends, func(stream int, p []byte) (int, error) {
		have += int64(bytes.Count(p, []byte{'\n'}))
		open[stream] = p[len(p)-1] != '\n'
		return len(p), nil
	}); err != nil {
		return err
	}
	if w.at = from; open[0] || open[1] { // a line that has not ended counts too
		have++
	}
	left := have - wanted
	if left <= 0 {
		return nil
	}
	err := w.pass(ends, func(_ int, p []byte) (int, error) {
		for i, c := range p {
			if c != '\n' {
				continue
			}
			if left--; left == 0 {
				return i + 1, errEnough
			}
		}
		return len(p), nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a pass.
var errEnough = errors.New("enough was read")

// pass goes through what is between the offsets and the lengths of both streams, in order,
// and moves the offsets. take returns how many bytes of a piece it used.
func (w *mergedWriter) pass(ends [2]int64, take func(stream int, p []byte) (int, error)) error {
	if w.at[0] >= ends[0] && w.at[1] >= ends[1] {
		return nil
	}
	turns := w.order(ends)
	var logs [2]io.ReadCloser
	defer func() {
		for _, log := range logs {
			if log != nil {
				_ = log.Close()
			}
		}
	}()
	for _, t := range turns {
		i := indexOf(t.Stream)
		if err := w.run(i, min(t.To, ends[i]), &logs[i], take); err != nil {
			return err
		}
	}
	return nil
}

// order is the order in which both streams reach their lengths. If it cannot be read, since a
// task has overwritten output or closed a file, the streams follow one after the other.
func (w *mergedWriter) order(ends [2]int64) (turns []executor.StreamSwitch) {
	if w.turns != nil {
		var err error
		if turns, err = w.turns(w.at); err != nil {
			turns = nil
		}
	}
	now := 0
	if n := len(turns); n > 0 {
		now = 1 - indexOf(turns[n-1].Stream)
	}
	for _, i := range []int{now, 1 - now} {
		turns = append(turns, executor.StreamSwitch{Stream: mergedStreams[i], To: ends[i]})
	}
	return turns
}

func indexOf(stream string) int {
	if stream == executor.Stderr {
		return 1
	}
	return 0
}

// run goes through a stream up to an offset. log is the open stream, nil before the first
// read.
func (w *mergedWriter) run(stream int, to int64, log *io.ReadCloser, take func(int, []byte) (int, error)) error {
	buf := make([]byte, min(mergedPiece, max(0, to-w.at[stream])))
	for w.at[stream] < to {
		if *log == nil {
			if err := w.open(stream, log); err != nil {
				return err
			}
		}
		n, err := (*log).Read(buf[:max(0, min(int64(len(buf)), to-w.at[stream]))])
		if n > 0 {
			took, takeErr := take(stream, buf[:n])
			w.at[stream] += int64(took)
			if takeErr != nil {
				return takeErr
			}
		}
		switch {
		case errors.Is(err, executor.ErrCut):
			_ = (*log).Close()
			*log = nil
		case err == io.EOF:
			return nil // rotation removed the rest
		case err != nil:
			return err
		}
	}
	return nil
}

// open opens a stream at its offset, and writes what is missing before it.
func (w *mergedWriter) open(stream int, log *io.ReadCloser) error {
	opened, err := w.from.Open(mergedStreams[stream], w.at[stream])
	if err != nil {
		return err
	}
	*log = opened
	missing := opened.Start - w.at[stream]
	if missing <= 0 {
		return nil
	}
	w.at[stream] = opened.Start
	if w.counts {
		return nil
	}
	text := w.from.Cut(missing)
	if w.frames {
		text = fmt.Sprintf("comb 0 %d\n%s", len(text), text)
	}
	_, err = w.out.WriteString(text)
	return err
}

// write writes a piece of a stream. Without frames it writes whole lines, so that no stream
// continues within a line of the other.
func (w *mergedWriter) write(stream int, p []byte) error {
	if w.frames {
		if _, err := fmt.Fprintf(w.out, "%s %d %d\n", mergedStreams[stream], w.at[stream], len(p)); err != nil {
			return err
		}
		_, err := w.out.Write(p)
		return err
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	if whole == 0 && len(w.pending[stream])+len(p) > mergedPiece {
		whole = len(p)
	}
	if whole > 0 {
		if _, err := w.out.Write(append(w.pending[stream], p[:whole]...)); err != nil {
			return err
		}
		w.pending[stream] = nil
	}
	w.pending[stream] = append(w.pending[stream], p[whole:]...)
	return nil
}
