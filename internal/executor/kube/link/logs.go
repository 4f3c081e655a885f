package link

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const logPath = "/v1/log"

// logTaker takes what pods print. However many print at once, only some are taken at a time, and
// each pod at a bounded rate: the others keep what they have, and ask again.
type logTaker struct {
	log     func(pod string, b LogBlock) (int64, error)
	coming  chan struct{} // a place for each that comes
	written chan struct{} // likewise for each that is written
	pace    *pace         // in KiB
	room    sync.Pool     // for the text of one
	oneEach               // block of a pod
}

// oneEach lets each pod do something once at a time.
type oneEach struct {
	mu sync.Mutex
	of map[string]bool // the pods that do it now
}

// enters reports whether a pod does not do it now, and notes that it does.
func (o *oneEach) enters(pod string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[pod] {
		return false
	}
	o.of[pod] = true
	return true
}

func (o *oneEach) leaves(pod string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, pod)
}

func newLogTaker(log func(pod string, b LogBlock) (int64, error)) *logTaker {
	return &logTaker{log: log, coming: make(chan struct{}, maxLogs), written: make(chan struct{}, logsAtOnce),
		pace: newPace(time.Now, logEvery, logAtOnce), oneEach: oneEach{of: map[string]bool{}},
		room: sync.Pool{New: func() any { return new([LongestLog]byte) }}}
}

func (l *logTaker) take(w http.ResponseWriter, r *http.Request, pod string) {
	b, ok := readLogBlock(r)
	if !ok {
		http.Error(w, "some of a log says from which byte of all it is, and has at most 256 KiB", http.StatusBadRequest)
		return
	}
	if !l.enters(pod) {
		fail(w, ErrSoon)
		return
	}
	defer l.leaves(pod)
	more := max(int(r.ContentLength)>>10-leastLog, 0) // the least was noted as it came
	if !l.pace.allows(pod, more) {
		fail(w, ErrSoon)
		return
	}
	select {
	case l.coming <- struct{}{}:
		defer func() { <-l.coming }()
	default:
		fail(w, ErrSoon)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(logTime))
	room := l.room.Get().(*[LongestLog]byte)
	defer l.room.Put(room)
	b.Text = room[:r.ContentLength]
	if _, err := io.ReadFull(r.Body, b.Text); err != nil {
		l.pace.spend(pod) // it had a place for nothing
		fail(w, errors.New("it did not come whole"))
		return
	}
	l.written <- struct{}{}
	defer func() { <-l.written }()
	tell(w, pod, func(pod string) (says logAnswer, err error) {
		says.Kept, err = l.log(pod, b)
		return says, err
	})
}

// readLogBlock reads what stands before the text.
func readLogBlock(r *http.Request) (b LogBlock, ok bool) {
	q := r.URL.Query()
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	if err != nil || from < 0 || from > math.MaxInt64/2 || r.ContentLength < 0 || r.ContentLength > LongestLog {
		return b, false
	}
	at, err := strconv.ParseInt(q.Get("at"), 10, 64)
	now := time.Now()
	when := time.UnixMicro(at)
	if err != nil || when.Before(now.AddDate(-10, 0, 0)) || when.After(now.AddDate(1, 0, 0)) {
		when = now // its clock is its own: only its own log goes by it
	}
	return LogBlock{From: from, At: when, Last: q.Get("last") == "true"}, true
}
