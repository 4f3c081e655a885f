// Package spool keeps what a pod prints in a file, so that it is there when the pod is gone. A line is in it once,
// also when the server was killed meanwhile: beside the text stands the time of the last line that is whole in it. It must
// not know Kubernetes.
package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/combsched/comb/internal/executor"
)

const (
	textFile = "stdout"
	markFile = "stdout.mark"
)

// Most is how much of one log is kept, in bytes.
const Most = 256 << 20

// mark says how far a log is whole.
type mark struct {
	Size int64     `json:"size"` // bytes of the text
	At   time.Time `json:"at"`   // of its last line
	Full bool      `json:"full,omitempty"`
}

// Spool writes one log. One goroutine may use it.
type Spool struct {
	text, marks *os.File
	mark        mark
	most        int64
}

// Open takes up the log in a folder where it ended.
func Open(dir string) (*Spool, error) {
	s := &Spool{most: Most}
	var err error
	if s.text, err = os.OpenFile(filepath.Join(dir, textFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if s.marks, err = os.OpenFile(filepath.Join(dir, markFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		s.text.Close()
		return nil, err
	}
	if data, err := io.ReadAll(io.LimitReader(s.marks, 4096)); err == nil {
		_ = json.Unmarshal(bytes.TrimRight(data, "\x00 \n"), &s.mark) // none yet: the log begins
	}
	if st, err := s.text.Stat(); err == nil && st.Size() < s.mark.Size {
		s.mark = mark{} // the text was lost with the machine: it is read anew
	}
	if err := s.text.Truncate(s.mark.Size); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Since is the time of the last line that is kept; zero where there is none. Lines up to it are left out by Copy.
func (s *Spool) Since() time.Time { return s.mark.At }

// longestLine is how much of a line may be held until it is whole, in bytes.
const longestLine = 1 << 20

// Copy appends lines, each behind its time and a blank, until they end. ended says that nothing follows: then the last line
// counts without its end, too. Else a part of a line is left to the next Copy, since the stream may have been broken inside of it.
func (s *Spool) Copy(from io.Reader, ended bool) error {
	r := bufio.NewReaderSize(from, 64<<10)
	last, at := s.mark.At, s.mark.At // of what is kept, and of the line that is read
	var pending []byte
	whole, known := 0, false // so many bytes of it are whole lines; the line that is read is kept already
	for begins := true; ; {
		part, err := r.ReadSlice('\n')
		if begins && len(part) > 0 {
			when, rest, ok := cut(part)
			known = !ok || !when.After(last) // without a time it is the kubelet's own word, such as that the container is gone
			if part = rest; ok && !known && when.After(at) {
				at = when // lines of the two streams of a pod may stand in another order than their times
			}
		}
		if !known {
			pending = append(pending, part...)
		}
		begins = len(part) > 0 && part[len(part)-1] == '\n'
		if begins || len(pending)-whole >= longestLine || ended && errors.Is(err, io.EOF) {
			whole, s.mark.At = len(pending), at
		}
		if whole > 0 && (err != nil || r.Buffered() == 0 || whole >= 64<<10) {
			if writeErr := s.write(pending[:whole]); writeErr != nil {
				return writeErr
			}
			pending, whole = append(pending[:0], pending[whole:]...), 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// cut takes the time off a line.
func cut(line []byte) (at time.Time, rest []byte, ok bool) {
	stamp, rest, found := bytes.Cut(line, []byte{' '})
	if !found {
		return at, line, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return at, line, false
	}
	return at, rest, true
}

// write appends text, and then says that it is whole.
func (s *Spool) write(text []byte) error {
	if s.mark.Full {
		return nil
	}
	if s.mark.Size+int64(len(text)) > s.most {
		text, s.mark.Full = fmt.Appendf(nil, "[comb: what follows was left out: %d MiB of a log are kept]\n", s.most>>20), true
	}
	n, err := s.text.WriteAt(text, s.mark.Size)
	if err != nil {
		return err
	}
	s.mark.Size += int64(n)
	data, err := json.Marshal(s.mark)
	if err != nil {
		return err
	}
	_, err = s.marks.WriteAt(fmt.Appendf(nil, "%-120s\n", data), 0)
	return err
}

// Close lets go of the files.
func (s *Spool) Close() {
	s.text.Close()
	s.marks.Close()
}

// Read opens the log in a folder at an offset; a negative one counts from the end. executor.ErrNoLog says that there is none.
func Read(dir string, from int64) (executor.Log, error) {
	f, err := os.Open(filepath.Join(dir, textFile))
	if errors.Is(err, fs.ErrNotExist) {
		return executor.Log{}, fmt.Errorf("%w: the task has not started", executor.ErrNoLog)
	}
	if err != nil {
		return executor.Log{}, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return executor.Log{}, err
	}
	if from < 0 {
		from = max(0, st.Size()+from)
	}
	from = min(from, st.Size())
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		f.Close()
		return executor.Log{}, err
	}
	return executor.Log{ReadCloser: f, Start: from, End: st.Size()}, nil
}

// LastLine is the last line of the log in a folder that says something, for a message: without what does not print, and cut.
func LastLine(dir string) string {
	l, err := Read(dir, -4096)
	if err != nil {
		return ""
	}
	defer l.Close()
	data, err := io.ReadAll(io.LimitReader(l, 4096))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(data), "\r\n\t "), "\n")
	if len(lines) == 1 && l.Start > 0 {
		return "" // its beginning is not seen
	}
	text := strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, lines[len(lines)-1]))
	if len(text) > longestWords {
		text = strings.ToValidUTF8(text[:longestWords], "") + "..."
	}
	return text
}

const longestWords = 200
