package kube

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

// sentLog is the log of a task whose pod sends what it prints.
type sentLog struct {
	mu    sync.Mutex
	store *logStore // nil: it is not open
	used  time.Time // when the pod sent last
	over  bool      // the pod has ended: it can send nothing any more
	told  bool      // that it cannot be written was logged
}

// logNotKept is logged where a log cannot be written.
const logNotKept = "a log is not kept for now: its pod keeps it for a while, and sends it again"

// unusedFor is after how long without news the files of a log are closed.
const unusedFor = time.Minute

// end ends what a pod that has ended can send, and reports whether all of its log is kept.
func (l *sentLog) end(dir string) (whole bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	s := l.store
	if l.store = nil; s == nil {
		if s, err = openLogStore(dir); err != nil {
			return false, err
		}
	}
	defer s.Close()
	return s.mark.Whole, nil
}

// close closes the files of a log that ends here.
func (l *sentLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = true; l.store != nil {
		l.store.Close()
		l.store = nil
	}
}

// rest closes the files of a log whose pod has sent nothing for a while.
func (l *sentLog) rest() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.store != nil && time.Since(l.used) > unusedFor {
		l.store.Close()
		l.store = nil
	}
}

// Take appends what a pod sent, but for what is kept already, and returns up to where all that the
// task printed is kept. Where something is missing in between the log says so: the pod had no room
// for it while no server took it.
func (s *logStore) Take(b link.LogBlock) (kept int64, err error) {
	if s.torn {
		if err := s.goBack(); err != nil {
			return 0, errors.Join(ErrNotWritten, err)
		}
	}
	if s.mark.Whole {
		return s.mark.Sent, nil
	}
	next, text := s.mark, b.Text
	end := b.From + int64(len(text))
	if missing := b.From - s.mark.Sent; missing > 0 {
		note := s.ownLine(fmt.Sprintf("%d bytes are missing here, printed up to %s: "+
			"a pod keeps only the end of what it prints while no server takes it", missing, stamp(b.At)))
		next.Text = s.mark.Size + int64(len(note))
		text = append(note, text...)
	} else {
		text = text[min(-missing, int64(len(text))):]
	}
	next.Sent, next.Whole = max(s.mark.Sent, end), b.Last && end >= s.mark.Sent
	if len(text) > 0 {
		next.At = b.At
	}
	if next == s.mark {
		return next.Sent, nil
	}
	if err := s.write(text, next); err != nil {
		return 0, errors.Join(ErrNotWritten, err, s.goBack())
	}
	return next.Sent, nil
}

// ownLine is a line that Comb itself writes into a log.
func (s *logStore) ownLine(words string) []byte {
	last := []byte{'\n'}
	if n := len(s.kept); n > 0 && s.kept[n-1].size > 0 {
		_, _ = s.text.ReadAt(last, s.kept[n-1].size-1)
	}
	line := "[comb: " + words + "]\n"
	if last[0] != '\n' {
		line = "\n" + line
	}
	return []byte(line)
}

// tailBytes is how much of the end of what a pod sent is looked for in what its kubelet has. Less
// than leastTail may stand in many places.
const (
	tailBytes = 4 << 10
	leastTail = 256
)

// tail is the end of the log, as far as it is as the task printed it.
func (s *logStore) tail() ([]byte, error) {
	if len(s.kept) == 0 {
		return nil, nil
	}
	from := max(s.mark.Text, s.mark.Size-tailBytes)
	l, err := readLog(s.dir, from)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return io.ReadAll(io.LimitReader(l, s.mark.Size-l.Start))
}

// Rest appends what the kubelet has of a log behind what the pod sent of it. The stream is all that
// the kubelet has, each line behind its time. With counts it begins with the first byte that the
// task printed, and the place is known by their number, else, as after a rotation, by what was
// sent last. It reports whether the place was found; nothing is written where it was not.
func (s *logStore) Rest(from io.Reader, counts bool) (found bool, err error) {
	if s.torn {
		if err := s.goBack(); err != nil {
			return false, errors.Join(ErrNotWritten, err)
		}
	}
	tail, err := s.tail()
	if err != nil {
		return false, err
	}
	m, at, sent := newMatcher(tail), int64(0), s.mark
	here := func(when time.Time) bool {
		return m.met() && (counts && at == sent.Sent || !counts && len(tail) >= leastTail && !when.Before(sent.At))
	}
	var pending []byte
	next := s.mark
	flush := func() error {
		if err := s.write(pending, next); err != nil {
			return errors.Join(ErrNotWritten, err, s.goBack())
		}
		pending = pending[:0]
		return nil
	}
	err = eachPart(from, func(when time.Time, text []byte) error {
		for len(text) > 0 && !found {
			if found = here(when); !found {
				m.next(text[0])
				at++
				text = text[1:]
			}
		}
		next.At, next.Sent = when, next.Sent+int64(len(text))
		if pending = append(pending, text...); len(pending) < 64<<10 {
			return nil
		}
		return flush()
	})
	if err != nil {
		return found, err
	}
	if found = found || here(time.Now()); !found {
		return false, nil
	}
	next.Whole = true
	return true, flush()
}

// eachPart hands out what a kubelet says of a log, in parts, each with the time of its line. What
// the kubelet says of its own is left out.
func eachPart(from io.Reader, take func(at time.Time, text []byte) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	var at time.Time
	ofTask := false
	for begins := true; ; {
		part, err := r.ReadSlice('\n')
		if begins && len(part) > 0 {
			var when time.Time
			if when, part, ofTask = cut(part); ofTask {
				at = when
			}
		}
		begins = len(part) > 0 && part[len(part)-1] == '\n'
		if ofTask && len(part) > 0 {
			if err := take(at, part); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// matcher finds a text in a stream (Knuth, Morris and Pratt).
type matcher struct {
	text []byte
	back []int // for each length that matches, the next shorter one that does
	n    int   // so much of it matches
}

func newMatcher(text []byte) *matcher {
	m := &matcher{text: text, back: make([]int, len(text)+1)}
	for i := 1; i < len(text); i++ {
		n := m.back[i]
		for n > 0 && text[n] != text[i] {
			n = m.back[n]
		}
		if text[n] == text[i] {
			n++
		}
		m.back[i+1] = n
	}
	return m
}

// met reports whether the stream ends with the text up to now.
func (m *matcher) met() bool { return m.n == len(m.text) }

// next takes the next byte.
func (m *matcher) next(b byte) {
	if len(m.text) == 0 {
		return
	}
	if m.n == len(m.text) {
		m.n = m.back[m.n]
	}
	for m.n > 0 && m.text[m.n] != b {
		m.n = m.back[m.n]
	}
	if m.text[m.n] == b {
		m.n++
	}
}
