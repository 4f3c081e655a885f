package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

const (
	logPoll     = 200 * time.Millisecond // between looks for more of a followed log
	logCheck    = 15 * time.Second       // between checks of a followed log's token
	logChunk    = 64 << 10
	maxTailRead = 64 << 20 // bytes searched for the last lines
)

// Log is one task's log of one attempt. Offsets count from the log's start, also
// when rotation has dropped its beginning.
type Log interface {
	// ReadAt reads at an offset; io.EOF says that there is no more yet.
	io.ReaderAt
	io.Closer
	// Bounds returns the first offset that is still kept and the present end.
	Bounds() (first, end int64, err error)
}

// Logs opens a task's log. fs.ErrNotExist says that there is none (yet). stream
// is stdout or stderr.
type Logs interface {
	OpenLog(attempt sched.AttemptID, task int32, stream string) (Log, error)
}

func (s *Server) registerTasks(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-task-log", Method: http.MethodGet, Path: "/jobs/{ref}/tasks/{role}/{index}/logs",
		Summary: "A task's log, as text; with follow until the task's end (trailer Comb-Log-Complete)", Tags: []string{"jobs"},
		Responses: map[string]*huma.Response{"200": {
			Description: "The log; the header Comb-Log-Offset is the offset of its first byte",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}},
		}},
	}), s.taskLog)
}

type logInput struct {
	AfterSeq
	Ref     string `path:"ref" doc:"A job's number or name"`
	Role    string `path:"role"`
	Index   int32  `path:"index" minimum:"0"`
	Attempt int32  `query:"attempt" minimum:"0" doc:"Attempt of the task's gang; the latest if not given"`
	Stream  string `query:"stream" enum:"stdout,stderr" default:"stdout"`
	Offset  int64  `query:"offset" minimum:"0" doc:"First byte"`
	Tail    string `query:"tail" maxLength:"9" pattern:"^[0-9]+$" doc:"Only the last lines"`
	Follow  bool   `query:"follow"`
}

func (s *Server) taskLog(ctx context.Context, in *logInput) (*huma.StreamResponse, error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	task, err := taskOf(&j, in.Role, in.Index)
	if err != nil {
		return nil, err
	}
	l := &logWriter{server: s, stream: in.Stream, task: task, follow: in.Follow, offset: in.Offset, tail: -1}
	l.attempt = sched.AttemptID{Job: j.ID, Gang: j.Tasks[task].Gang, N: in.Attempt}
	if in.Attempt == 0 {
		l.attempt.N = j.Tasks[task].Attempt
	}
	if in.Tail != "" {
		l.tail, _ = strconv.ParseInt(in.Tail, 10, 64)
	}
	if l.attempt.N == 0 && !in.Follow {
		return nil, notFound("task %s-%d has not run yet: there is no log; see comb job explain %s", in.Role, in.Index, j.Name)
	}
	done, p := s.openStream()
	if p != nil {
		return nil, withHeaders(p)
	}
	if err := l.open(); err != nil && !(in.Follow && errors.Is(err, fs.ErrNotExist)) {
		done()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notFound("attempt %d of task %s-%d has no log here", l.attempt.N, in.Role, in.Index)
		}
		return nil, s.fail(err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer done()
		l.serve(humago.Unwrap(c))
	}}, nil
}

// taskOf returns a task's ordinal in its job.
func taskOf(j *rest.Job, role string, index int32) (int32, error) {
	for i, t := range j.Tasks {
		if t.Role == role && t.Index == index {
			return int32(i), nil
		}
	}
	var known []string
	for i, t := range j.Tasks {
		if i == 8 {
			known = append(known, "...")
			break
		}
		known = append(known, fmt.Sprintf("%s-%d", t.Role, t.Index))
	}
	return 0, notFound("job %s has no task %s-%d; it has %v", j.Name, clip(role), index, known)
}

// logWriter is one answer with a task's log.
type logWriter struct {
	server  *Server
	attempt sched.AttemptID
	task    int32
	stream  string
	offset  int64
	tail    int64 // last lines; -1 is all
	follow  bool

	log   Log
	w     http.ResponseWriter
	rc    *http.ResponseController
	token string
}

// open opens the log and finds where to begin.
func (l *logWriter) open() error {
	if l.attempt.N == 0 {
		return fs.ErrNotExist
	}
	log, err := l.server.logs.OpenLog(l.attempt, l.task, l.stream)
	if err != nil {
		return err
	}
	first, end, err := log.Bounds()
	if err == nil && l.tail >= 0 {
		l.offset, err = tailOffset(log, max(first, end-maxTailRead), end, l.tail)
	}
	if err != nil {
		_ = log.Close()
		return err
	}
	l.offset = max(l.offset, first)
	l.log = log
	return nil
}

// tailOffset returns where the last lines begin, searching backwards from end.
func tailOffset(r io.ReaderAt, first, end, lines int64) (int64, error) {
	if lines == 0 {
		return end, nil
	}
	buf := make([]byte, logChunk)
	seen := int64(0)
	for at := end; at > first; {
		n := min(int64(len(buf)), at-first)
		at -= n
		if _, err := r.ReadAt(buf[:n], at); err != nil && err != io.EOF {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] != '\n' || at+i == end-1 {
				continue // the last line's own end starts no line
			}
			if seen++; seen == lines {
				return at + i + 1, nil
			}
		}
	}
	return first, nil
}

func (l *logWriter) serve(r *http.Request, w http.ResponseWriter) {
	l.w, l.rc, l.token = w, http.NewResponseController(w), r.Header.Get("Authorization")
	defer func() {
		if l.log != nil {
			_ = l.log.Close()
		}
	}()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `inline; filename="log.txt"`)
	h.Set(rest.HeaderLogOffset, strconv.FormatInt(l.offset, 10))
	if l.follow {
		h.Set("Trailer", rest.TrailerLogDone)
		_ = l.rc.SetReadDeadline(time.Time{})
		_ = l.rc.Flush()
		if l.followAll(r.Context()) == nil {
			h.Set(rest.TrailerLogDone, "true")
		}
		return
	}
	if _, err := l.copy(); err != nil {
		l.server.log.Debug("a log could not be sent", "err", err)
	}
}

// copy sends what there is behind the present offset.
func (l *logWriter) copy() (int64, error) {
	if l.log == nil {
		return 0, nil
	}
	buf := make([]byte, logChunk)
	total := int64(0)
	for {
		n, err := l.log.ReadAt(buf, l.offset)
		if n > 0 {
			_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := l.w.Write(buf[:n]); err != nil {
				return total, err
			}
			l.offset += int64(n)
			total += int64(n)
		}
		if err == io.EOF || (err == nil && n == 0) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// followAll sends the log until its task has ended and all of it is sent (nil).
func (l *logWriter) followAll(ctx context.Context) error {
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	checked := time.Now()
	for {
		over, err := l.over(ctx)
		if err != nil {
			return err
		}
		if l.log == nil {
			if err := l.open(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		n, err := l.copy()
		if err != nil {
			return err
		}
		if over {
			return nil
		}
		if n > 0 {
			_ = l.rc.Flush()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.server.closing:
			return context.Canceled
		case <-tick.C:
		}
		if time.Since(checked) > logCheck {
			checked = time.Now()
			r := &http.Request{Header: http.Header{"Authorization": {l.token}}}
			if _, p := l.server.authenticate(r.WithContext(ctx)); p != nil {
				return p
			}
		}
	}
}

// over reports whether nothing more can come into this log. It also learns the
// attempt of a task that had not run when the log was asked for.
func (l *logWriter) over(ctx context.Context) (bool, error) {
	var status sched.JobStatus
	found := false
	err := l.server.read(ctx, 0, func(st *sched.State) { status, found = st.Job(l.attempt.Job) })
	if err != nil {
		return false, err
	}
	if !found || int(l.task) >= len(status.Tasks) {
		return true, nil
	}
	t := status.Tasks[l.task]
	if l.attempt.N == 0 {
		l.attempt.N = t.Attempt
	}
	if t.Attempt != l.attempt.N {
		return t.Attempt > l.attempt.N, nil
	}
	return t.State == sched.TaskSucceeded || t.State == sched.TaskFailed || t.State == sched.TaskEnded || t.State == sched.TaskWaiting && l.log != nil, nil
}
