package kube

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
	"slices"
	"strings"
	"time"
	"unicode"
)

// A log is kept in a bounded number of files of bounded size, as on one machine. Older text is
// dropped, except the first lines: these say how a run was configured, and the last ones why it
// ended.
const (
	fileBytes = 8 << 20
	files     = 8
	headBytes = 64 << 10
)

const markFile = "stdout.mark"

// logMark says how far a log is known to be whole.
type logMark struct {
	Size int64     `json:"size"` // bytes of the stream, dropped ones included
	At   time.Time `json:"at"`   // of its last line
	// Sent is how much of what the task printed is kept, where its pod sends it. From Text on the
	// stream is as the task printed it: what is missing is before that. Whole says that nothing
	// follows.
	Sent  int64 `json:"sent,omitempty"`
	Text  int64 `json:"text,omitempty"`
	Whole bool  `json:"whole,omitempty"`
}

// ErrNotWritten says that text could not be written, such as on a full disk.
var ErrNotWritten = errors.New("the log cannot be written")

// logStore writes one log. Only one goroutine may use it. Its folder and its files are made with
// the first byte of text.
type logStore struct {
	dir         string
	kept        []segment
	text, marks *os.File // text is the last of the kept files; nil until there are some
	mark        logMark
	bytes, head int64 // the size of one file, and of the kept first lines
	torn        bool  // the files may hold more than the mark says, since a write failed
}

// openLogStore continues the log in a folder where it ended.
func openLogStore(dir string) (*logStore, error) {
	s := &logStore{dir: dir, bytes: fileBytes, head: headBytes}
	var err error
	s.marks, err = os.OpenFile(filepath.Join(dir, markFile), os.O_RDWR, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.marks == nil {
		err = nil
	} else if data, err := io.ReadAll(io.LimitReader(s.marks, 4096)); err == nil {
		_ = json.Unmarshal(bytes.TrimRight(data, "\x00 \n"), &s.mark) // no mark yet: the log begins
	}
	if s.kept, err = segments(dir); err == nil {
		err = s.takeUp()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// goBack repairs the log after a failed write, such as on a full disk: it cuts the files to the
// mark, as after a kill. What was not written is read once more, or reported as missing.
func (s *logStore) goBack() error {
	s.torn = true
	if s.text != nil {
		s.text.Close()
		s.text = nil
	}
	kept, err := segments(s.dir)
	if err != nil {
		return err
	}
	s.kept = kept
	if err := s.takeUp(); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// takeUp cuts off what is behind the mark, and opens the last file.
func (s *logStore) takeUp() error {
	end := int64(0)
	if n := len(s.kept); n > 0 {
		end = s.kept[n-1].end()
	}
	switch lost := s.mark.Size - end; {
	case lost <= 0 && len(s.kept) > 0:
	case s.mark.Sent > lost: // by a crash of the machine: the pod sends it again, if it still has it
		s.mark.Size, s.mark.Sent, s.mark.Text, s.mark.Whole = end, s.mark.Sent-lost, min(s.mark.Text, end), false
	default:
		s.mark = logMark{} // it is read anew
	}
	for n := len(s.kept); n > 0 && (s.kept[n-1].base > s.mark.Size || s.mark.Size == 0); n-- {
		if err := os.Remove(filepath.Join(s.dir, s.kept[n-1].name)); err != nil {
			return err
		}
		s.kept = s.kept[:n-1]
	}
	if len(s.kept) == 0 {
		return nil
	}
	last := &s.kept[len(s.kept)-1]
	last.size = s.mark.Size - last.base
	var err error
	if s.text, err = os.OpenFile(filepath.Join(s.dir, last.name), os.O_RDWR, 0); err != nil {
		return err
	}
	return s.text.Truncate(last.size)
}

// next begins a new file, and makes room for it.
func (s *logStore) next(base int64) error {
	for len(s.kept) >= files {
		oldest := 1
		switch first := &s.kept[0]; {
		case first.base > 0:
			oldest = 0
		case first.end() == s.kept[1].base:
			if err := s.cutHead(first); err != nil {
				return err
			}
		}
		if err := os.Remove(filepath.Join(s.dir, s.kept[oldest].name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.kept = slices.Delete(s.kept, oldest, oldest+1)
	}
	now := segment{name: nameOf(base), base: base}
	path := filepath.Join(s.dir, now.name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return err
	}
	if s.text != nil {
		s.text.Close()
	}
	s.text, s.kept = f, append(s.kept, now)
	return nil
}

// cutHead shortens the first file to its first lines.
func (s *logStore) cutHead(first *segment) error {
	f, err := os.OpenFile(filepath.Join(s.dir, first.name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, s.head)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if lines := bytes.LastIndexByte(head[:n], '\n') + 1; lines > 0 {
		n = lines
	}
	first.size = int64(n)
	return f.Truncate(first.size)
}

// Since is the time of the last line that is kept; zero where there is none. Copy skips lines up
// to it.
func (s *logStore) Since() time.Time { return s.mark.At }

// longestLine is how much of an unfinished line may be held, in bytes.
const longestLine = 1 << 20

// Copy appends lines, each behind its time and a blank, until they end. ended says that nothing
// follows: then the last line counts even without its newline. Else an unfinished line is left to
// the next Copy, since the stream may have broken inside it. A stream read from Since on begins
// with the last line that is kept: where it does not, the log says that something is missing.
// After an error Copy may be called again, and goes on behind what is kept.
func (s *logStore) Copy(from io.Reader, ended bool) error {
	if s.torn {
		if err := s.goBack(); err != nil {
			return errors.Join(ErrNotWritten, err)
		}
	}
	r := bufio.NewReaderSize(from, 64<<10)
	last, at := s.mark.At, s.mark.At // of what is kept, and of the line being read
	var pending []byte
	whole, wholeAt := 0, at // whole lines take so many bytes of pending, up to this time
	known := false          // the line being read is kept already
	met := last.IsZero()    // the stream continues where the log ends
	for begins := true; ; {
		part, err := r.ReadSlice('\n')
		if begins && len(part) > 0 {
			when, rest, ok := cut(part)
			known = !ok || !when.After(last) // a line without a time is the kubelet's own
			if ok && !known && !met {
				pending = fmt.Appendf(pending, "[comb: what was printed from %s to %s is missing here: the node keeps the end of a log alone, and this server had not read it by then]\n", stamp(last), stamp(when))
			}
			met = met || ok
			if part = rest; ok && !known && when.After(at) {
				at = when // lines of the two streams of a pod may be out of order
			}
		}
		if !known {
			pending = append(pending, part...)
		}
		begins = len(part) > 0 && part[len(part)-1] == '\n'
		if begins || len(pending)-whole >= longestLine || ended && errors.Is(err, io.EOF) {
			whole, wholeAt = len(pending), at
		}
		if whole > 0 && (err != nil || r.Buffered() == 0 || whole >= 64<<10) {
			next := s.mark
			next.At = wholeAt
			if writeErr := s.write(pending[:whole], next); writeErr != nil {
				return errors.Join(ErrNotWritten, writeErr, s.goBack())
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

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// cut takes the time off a line.
func cut(line []byte) (at time.Time, rest []byte, ok bool) {
	text, rest, found := bytes.Cut(line, []byte{' '})
	if !found {
		return at, line, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return at, line, false
	}
	return at, rest, true
}

// write appends text, and then moves the mark to now and so much further. Until all is written the
// old mark holds. While nothing was printed the mark is in memory alone.
func (s *logStore) write(text []byte, now logMark) (err error) {
	now.Size = s.mark.Size
	for len(text) > 0 {
		if n := len(s.kept); n == 0 || s.kept[n-1].size >= s.bytes {
			if err := s.next(now.Size); err != nil {
				return err
			}
			continue
		}
		last := &s.kept[len(s.kept)-1]
		n, err := s.text.WriteAt(text[:min(int64(len(text)), s.bytes-last.size)], last.size)
		if err != nil {
			return err
		}
		last.size, now.Size, text = last.size+int64(n), now.Size+int64(n), text[n:]
	}
	if s.marks == nil && len(s.kept) == 0 {
		s.mark = now
		return nil
	}
	if s.marks == nil {
		if s.marks, err = os.OpenFile(filepath.Join(s.dir, markFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if _, err = s.marks.WriteAt(fmt.Appendf(nil, "%-200s\n", data), 0); err == nil {
		s.mark = now
	}
	return err
}

// Close closes the files.
func (s *logStore) Close() {
	if s.text != nil {
		s.text.Close()
	}
	if s.marks != nil {
		s.marks.Close()
	}
}

// lastLine is the last line of the log in a folder that is not blank, for a message: without what
// cannot be printed, and cut.
func lastLine(dir string) string {
	l, err := readLog(dir, -4096)
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
