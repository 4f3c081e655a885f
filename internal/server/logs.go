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

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

const (
	logPoll     = 200 * time.Millisecond // between looks for more of a followed log
	logCheck    = 15 * time.Second       // between checks of a followed log's token
	logChunk    = 64 << 10
	maxTailRead = 64 << 20 // bytes searched for the last lines
)

// Logs is the part of an executor.Executor that the server needs.
type Logs interface {
	OpenLog(ref executor.LogRef, from int64) (executor.Log, error)
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
	Index   int64  `path:"index" minimum:"0" maximum:"2147483647"`
	Attempt int64  `query:"attempt" minimum:"0" maximum:"2147483647" doc:"Attempt of the task's gang; the latest if not given"`
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
	task, err := taskOf(&j, in.Role, int32(in.Index))
	if err != nil {
		return nil, err
	}
	l := &logWriter{server: s, follow: in.Follow, offset: in.Offset, tail: -1}
	l.ref = executor.LogRef{Attempt: sched.AttemptID{Job: j.ID, Gang: j.Tasks[task].Gang, N: int32(in.Attempt)}, Task: task, Stream: in.Stream}
	if in.Attempt == 0 {
		l.ref.Attempt.N = j.Tasks[task].Attempt
	}
	if in.Tail != "" {
		l.tail, _ = strconv.ParseInt(in.Tail, 10, 64)
	}
	if l.ref.Attempt.N == 0 && !in.Follow {
		return nil, notFound("task %s-%d has not run yet: there is no log; see comb job explain %s", in.Role, in.Index, j.Name)
	}
	done, p := s.openStream()
	if p != nil {
		return nil, withHeaders(p)
	}
	if err := l.begin(); err != nil && !(in.Follow && errors.Is(err, fs.ErrNotExist)) {
		done()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notFound("attempt %d of task %s-%d has no log here", l.ref.Attempt.N, in.Role, in.Index)
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
	server *Server
	ref    executor.LogRef
	offset int64 // of the next byte to send
	tail   int64 // last lines; -1 is all
	begun  bool  // offset is settled
	follow bool

	w     http.ResponseWriter
	rc    *http.ResponseController
	token string
}

// open opens the log at an offset.
func (l *logWriter) open(from int64) (executor.Log, error) {
	if l.ref.Attempt.N == 0 {
		return executor.Log{}, fs.ErrNotExist
	}
	return l.server.logs.OpenLog(l.ref, from)
}

// begin finds where the answer begins.
func (l *logWriter) begin() error {
	if l.begun {
		return nil
	}
	log, err := l.open(l.offset)
	if err != nil {
		return err
	}
	_ = log.Close()
	l.offset = max(l.offset, log.Start)
	if l.tail >= 0 {
		if l.offset, err = l.tailOffset(log.Start, log.End); err != nil {
			return err
		}
	}
	l.begun = true
	return nil
}

// tailOffset returns where the last lines begin: it reads growing pieces of the
// end, up to maxTailRead.
func (l *logWriter) tailOffset(first, end int64) (int64, error) {
	if l.tail == 0 {
		return end, nil
	}
	for size := int64(logChunk); ; size *= 4 {
		size = min(size, end-first, maxTailRead)
		log, err := l.open(end - size)
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(io.LimitReader(log, size))
		_ = log.Close()
		if err != nil {
			return 0, err
		}
		at, found := lastLines(text, l.tail)
		if found || size == end-first || size == maxTailRead || log.Start > end-size {
			return log.Start + int64(at), nil
		}
	}
}

// lastLines returns where the last n lines of text begin; found is false when
// there are fewer.
func lastLines(text []byte, n int64) (at int, found bool) {
	seen := int64(0)
	for i := len(text) - 2; i >= 0; i-- { // the last byte's own line end starts no line
		if text[i] != '\n' {
			continue
		}
		if seen++; seen == n {
			return i + 1, true
		}
	}
	return 0, false
}

func (l *logWriter) serve(r *http.Request, w http.ResponseWriter) {
	l.w, l.rc, l.token = w, http.NewResponseController(w), r.Header.Get("Authorization")
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
	log, err := l.open(l.offset)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	l.offset = max(l.offset, log.Start)
	buf := make([]byte, logChunk)
	total := int64(0)
	for {
		n, err := log.Read(buf)
		if n > 0 {
			_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := l.w.Write(buf[:n]); err != nil {
				return total, err
			}
			l.offset += int64(n)
			total += int64(n)
		}
		if err == io.EOF {
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
		n := int64(0)
		if err = l.begin(); err == nil {
			n, err = l.copy()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	err := l.server.read(ctx, 0, func(st *sched.State) { status, found = st.Job(l.ref.Attempt.Job) })
	if err != nil {
		return false, err
	}
	if !found || int(l.ref.Task) >= len(status.Tasks) {
		return true, nil
	}
	t := status.Tasks[l.ref.Task]
	if l.ref.Attempt.N == 0 {
		l.ref.Attempt.N = t.Attempt
	}
	if t.Attempt != l.ref.Attempt.N {
		return t.Attempt > l.ref.Attempt.N, nil
	}
	switch t.State {
	case sched.TaskSucceeded, sched.TaskFailed, sched.TaskEnded:
		return true, nil
	case sched.TaskWaiting: // for its next attempt; this one is over
		return t.Attempt > 0, nil
	}
	return false, nil
}
