package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/duplex"
	"github.com/combsched/comb/internal/base/limiter"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

const (
	logPoll     = 200 * time.Millisecond // interval of checks for more of a followed log
	logCheck    = 10 * time.Second       // interval of checks of a followed log's token
	logChunk    = 64 << 10
	tailPiece   = 256 << 10
	maxTailRead = 64 << 20 // bytes that are searched for the last lines, in pieces of tailPiece
)

func (s *Server) registerTasks(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-task-log", Method: http.MethodGet, Path: "/jobs/{ref}/tasks/{role}/{index}/logs",
		Summary: "A task's log, as text; with follow until the task's end (trailer Comb-Log-Complete)", Tags: []string{"jobs"},
		Description: "With stream=both, standard output and standard error come line by line in the order in " +
			"which they were printed. With frames, too, each piece stands behind a line STREAM OFFSET BYTES, so " +
			"that a reader knows which stream it is of and goes on with offset and errors behind the last piece of " +
			"each; a piece of the stream comb is the server's own word on what is missing.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The log; the header Comb-Log-Offset and the bytes of the answer add up to the offset at which to go on",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}},
		}},
	}, http.StatusTooManyRequests, http.StatusGone), s.taskLog)
	registerLogArchive(s, api)
}

type logInput struct {
	AfterSeq
	Ref     string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Role    string `path:"role"`
	Index   int64  `path:"index" minimum:"0" maximum:"2147483647"`
	Attempt int64  `query:"attempt" minimum:"0" maximum:"2147483647" doc:"Attempt of the task's gang; the latest if not given"`
	Stream  string `query:"stream" enum:"stdout,stderr,both" default:"stdout"`
	Offset  int64  `query:"offset" minimum:"0" doc:"First byte; of both, that of standard output"`
	Errors  int64  `query:"errors" minimum:"0" doc:"First byte of standard error, where both are asked for"`
	Frames  bool   `query:"frames" doc:"Of both: each piece behind a line STREAM OFFSET BYTES"`
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
	l.ref = executor.LogRef{Attempt: model.AttemptID{Job: j.ID, Gang: j.Tasks[task].Gang, N: int32(in.Attempt)}, Task: task, Stream: in.Stream}
	if in.Attempt == 0 {
		l.ref.Attempt.N = j.Tasks[task].Attempt
	}
	if in.Tail != "" {
		l.tail, _ = strconv.ParseInt(in.Tail, 10, 64)
	}
	if l.ref.Attempt.N == 0 && !in.Follow {
		return nil, notFound("task %s-%d has not run yet: there is no log; see comb job explain %s", in.Role, in.Index, j.Ref)
	}
	done, p := s.openStream(ctx)
	if p != nil {
		return nil, withHeaders(p)
	}
	begin, serve := l.begin, l.serve
	if in.Stream == bothStreams {
		begin, serve = l.both([2]int64{in.Offset, in.Errors}, in.Frames)
	}
	if err := begin(); err != nil && !(in.Follow && !j.Phase.Ended() && errors.Is(err, fs.ErrNotExist)) {
		done()
		name := fmt.Sprintf("attempt %d of task %s-%d", l.ref.Attempt.N, in.Role, in.Index)
		if gone, goneErr := removedOf(ctx, s, j.ID); goneErr == nil && gone != nil {
			return nil, rest.NewProblem(http.StatusGone, rest.CodeGone, fmt.Sprintf("the log of %s is gone: logs, work and checkpoints of the job were %s", name, gone.Words()))
		}
		return nil, s.noLog(err, name)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer done()
		serve(humago.Unwrap(c))
	}}, nil
}

// noLog says why the log of a task's attempt cannot be read.
func (s *Server) noLog(err error, attempt string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound("%s has no log here", attempt)
	case errors.Is(err, executor.ErrReplaced):
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			fmt.Sprintf("the log of %s cannot be read: %v; the server does not look behind it: put back what was there, or read another attempt", attempt, err))
	case errors.Is(err, fs.ErrPermission):
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			fmt.Sprintf("the log of %s cannot be read: the server's user may not open it or a folder above it; give that user the right to", attempt))
	}
	return s.fail(err)
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
	head   int64 // value of the answer's header Comb-Log-Offset
	gapEnd int64 // end of the gap from which the header counts
	tail   int64 // number of last lines; -1 is all
	until  int64 // offset at which the answer ends; 0 is the end of the log
	begun  bool  // offset is final
	follow bool

	w  io.Writer
	rc *http.ResponseController
}

// open opens the log at an offset.
func (l *logWriter) open(from int64) (executor.Log, error) {
	if l.ref.Attempt.N == 0 {
		return executor.Log{}, fs.ErrNotExist
	}
	return l.server.logs.OpenLog(l.ref, from)
}

// begin finds the offset at which the answer begins.
func (l *logWriter) begin() error {
	if l.begun {
		return nil
	}
	log, err := l.open(l.offset)
	if err != nil {
		return err
	}
	_ = log.Close()
	if l.tail >= 0 {
		if l.offset, err = l.tailOffset(max(log.Start, log.GapEnd), log.End); err != nil {
			return err
		}
		if l.tail > 0 && l.offset == log.GapEnd { // few lines follow the gap: it is reported
			l.offset = log.GapStart
		}
	}
	l.begun, l.head = true, l.offset
	if l.offset < log.GapEnd {
		l.gapEnd = log.GapEnd
		first := max(log.GapStart-l.offset, 0)
		l.head = max(log.GapEnd-first-int64(len(cutText(log.GapEnd-max(l.offset, log.GapStart)))), 0)
	}
	return nil
}

// cutText replaces removed output in a log.
func cutText(bytes int64) string {
	return fmt.Sprintf("\n[comb: %d bytes of output are missing here: they were removed to make room for what follows]\n", bytes)
}

// tailOffset returns where the last lines begin. It reads backwards from the end, each byte
// once, up to maxTailRead. If the lines are longer than that the answer begins there, within
// a line.
func (l *logWriter) tailOffset(first, end int64) (int64, error) {
	if l.tail == 0 || end <= first {
		return end, nil
	}
	buf := make([]byte, min(tailPiece, end-first))
	first = max(first, end-maxTailRead)
	left := l.tail
	for to := end; to > first; {
		from := max(first, to-tailPiece)
		start, text, err := l.readAt(from, buf[:to-from])
		if err != nil {
			return 0, err
		}
		for i := len(text) - 1; i >= 0; i-- {
			at := start + int64(i) + 1
			if text[i] != '\n' || at == end { // the end of the last line does not begin a line
				continue
			}
			if left--; left == 0 {
				return at, nil
			}
		}
		if start > from { // rotation removed what was before
			return start, nil
		}
		to = from
	}
	return first, nil
}

// readAt fills buf with the log's bytes from an offset on, as far as they are still kept.
// They begin at start.
func (l *logWriter) readAt(from int64, buf []byte) (start int64, text []byte, err error) {
	log, err := l.open(from)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	text = buf[:max(0, int64(len(buf))-(log.Start-from))]
	n, err := io.ReadFull(log, text)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return log.Start, text[:n], err
}

func (l *logWriter) serve(r *http.Request, w http.ResponseWriter) {
	if !l.begun {
		l.head = l.offset
	}
	w.Header().Set(rest.HeaderLogOffset, strconv.FormatInt(l.head, 10))
	l.answer(r, w, l.begin, l.copy)
}

// bothStreams asks for standard output and standard error in the order in which they were
// written.
const bothStreams = "both"

// both returns how an answer with both streams begins, and is served. Without frames a client
// could not tell where to continue.
func (l *logWriter) both(at [2]int64, frames bool) (begin func() error, serve server) {
	if !frames {
		at = [2]int64{}
	}
	m := newMergedWriter(mergedSource{
		Open: func(stream string, from int64) (executor.Log, error) {
			l.ref.Stream = stream
			return l.open(from)
		},
		Tail: func(stream string, first, end int64) (int64, error) {
			l.ref.Stream = stream
			return l.tailOffset(first, end)
		},
		Cut: cutText,
	}, sender{l}, at, frames)
	begin = func() error { return m.Begin(l.tail) }
	return begin, func(r *http.Request, w http.ResponseWriter) {
		l.answer(r, w, begin, m.More)
		if err := m.Finish(); err != nil {
			l.server.log.Debug("a log could not be sent", "err", err)
		}
	}
}

// server serves an answer.
type server func(*http.Request, http.ResponseWriter)

// sender writes to a client, with a new deadline for each piece.
type sender struct{ l *logWriter }

// Write implements io.Writer.
func (s sender) Write(p []byte) (int, error) {
	if err := s.l.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// answer sends what there is, and with follow what comes.
func (l *logWriter) answer(r *http.Request, w http.ResponseWriter, begin func() error, more func() (int64, error)) {
	l.w, l.rc = w, http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", "inline") // the default name of the file when a browser saves it
	if l.follow {
		h.Set("Trailer", rest.TrailerLogDone)
		_ = l.rc.SetReadDeadline(time.Time{})
		_ = l.rc.Flush()
		if l.followAll(r.Context(), begin, more) == nil {
			h.Set(rest.TrailerLogDone, "true")
		}
		return
	}
	if _, err := more(); err != nil {
		l.server.log.Debug("a log could not be sent", "err", err)
	}
}

// copy sends all after the present offset, with a line for removed output.
func (l *logWriter) copy() (int64, error) {
	for total := int64(0); ; {
		from := l.offset
		n, err := l.copyRun()
		total += n
		if !errors.Is(err, executor.ErrCut) || l.offset == from {
			return total, err
		}
	}
}

// copyRun sends all up to a gap, at which it returns executor.ErrCut.
func (l *logWriter) copyRun() (total int64, err error) {
	log, err := l.open(l.offset)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	if log.Start > l.offset {
		// A client counts from the header on. With a later gap it would continue at the wrong
		// place.
		if l.follow && log.Start != l.gapEnd {
			return 0, errOvertaken
		}
		text := cutText(log.Start - l.offset)
		if err := l.send([]byte(text)); err != nil {
			return 0, err
		}
		l.offset, total = log.Start, int64(len(text))
	}
	buf := make([]byte, logChunk)
	for {
		n, err := log.Read(buf)
		if n > 0 {
			if err := l.send(buf[:n]); err != nil {
				return total, err
			}
			l.offset += int64(n)
			total += int64(n)
		}
		if err == io.EOF || l.until > 0 && l.offset >= l.until {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// errOvertaken ends a followed answer that is slower than its log's rotation. The client asks
// again, and is told of the gap.
var errOvertaken = errors.New("the log was removed faster than it was read")

func (l *logWriter) send(p []byte) error {
	_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := l.w.Write(p)
	return err
}

// followAll sends the log until its task has ended and all of it is sent (nil).
func (l *logWriter) followAll(ctx context.Context, begin func() error, more func() (int64, error)) error {
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	checked := time.Now()
	for {
		over, err := l.over(ctx)
		if err != nil {
			return err
		}
		n := int64(0)
		if err = begin(); err == nil {
			n, err = more()
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
			if p := l.server.authorizer.CheckStream(ctx); p != nil {
				return p
			}
		}
	}
}

// over reports whether nothing more can come into this log. It also finds the attempt of a
// task that had not run when the log was requested.
func (l *logWriter) over(ctx context.Context) (bool, error) {
	var status model.JobStatus
	found := false
	err := l.server.read(ctx, 0, func(st *core.State) { status, found = st.Job(l.ref.Attempt.Job) })
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
	case model.TaskSucceeded, model.TaskFailed, model.TaskEnded:
		return true, nil
	case model.TaskWaiting: // it waits for its next attempt, and this one is over
		return t.Attempt > 0, nil
	}
	return false, nil
}

const (
	maxVisitNotices = 16 // notices of one job, which may have only a few; more go to the server's log
)

func registerVisits(s *Server, api huma.API) {
	e := &visits{s: s, seats: limiter.Limiter{All: maxVisits, One: maxOneVisits, What: "commands and connections in tasks"}}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "exec-in-task", Method: http.MethodGet, Path: "/jobs/{ref}/tasks/{role}/{index}/exec", Tags: []string{"jobs"},
		Summary: "Run a command beside a running task, over a WebSocket", Responses: map[string]*huma.Response{"101": {Description: "A WebSocket"}},
		Description: "The first message is JSON in text: `command`, a list; for a terminal `terminal` with `rows` and `cols`, and `term`. All others are binary, and " +
			"their first byte says what they are: from the client 0 is input (without bytes its end) and 4 a new size of the terminal; from the server 1 is " +
			"output, 2 is of standard error, and 3 is the last: JSON with `code`, `signal`, `why` it was ended, or the `problem` that kept it from beginning.",
	}, http.StatusTooManyRequests), func(ctx context.Context, in *TaskPath) (*huma.StreamResponse, error) {
		v, err := e.enter(ctx, in)
		if err != nil {
			return nil, err
		}
		return v.answer((*taskVisit).Exec), nil
	})
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "connect-to-task", Method: http.MethodGet, Path: "/jobs/{ref}/tasks/{role}/{index}/ports/{port}", Tags: []string{"jobs"},
		Summary: "Connect to a port on which a running task listens, over a WebSocket", Responses: map[string]*huma.Response{"101": {Description: "A WebSocket"}},
		Description: "Each binary message carries bytes; one without bytes ends its direction. With `watch` nothing is connected: such a connection notes the use of " +
			"the port in the job's events, and says when it ends: with a problem as JSON in text.",
	}, http.StatusTooManyRequests), e.port)
}

// TaskPath names a task of a job.
type TaskPath struct {
	AfterSeq
	Ref     string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Role    string `path:"role"`
	Index   int64  `path:"index" minimum:"0" maximum:"2147483647"`
	upgrade bool   // the request asks for a WebSocket
}

// Resolve implements huma.Resolver.
func (in *TaskPath) Resolve(c huma.Context) []error {
	in.upgrade = strings.EqualFold(c.Header("Upgrade"), "websocket")
	return nil
}

// visits lets users into running tasks.
type visits struct {
	s     *Server
	seats limiter.Limiter
}

// visitor is one user in one task.
type visitor struct {
	*visits
	job  rest.Job
	ref  executor.TaskRef
	task string // name of the task
	by   model.Subject
	done func()
}

// enter finds a task that a user may enter now.
func (e *visits) enter(ctx context.Context, in *TaskPath) (*visitor, error) {
	j, err := e.s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	n, err := taskOf(&j, in.Role, int32(in.Index))
	if err != nil {
		return nil, err
	}
	v := &visitor{visits: e, job: j, task: fmt.Sprintf("%s-%d", in.Role, in.Index), by: people.Subject(ctx)}
	t := &j.Tasks[n]
	if e.s.opts.Entry == nil || !isThere(t.State) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
			fmt.Sprintf("task %s of job %s does not run: it is %s; see comb job get %s", v.task, j.Ref, strings.ToLower(t.State.String()), j.Ref))
	}
	if !in.upgrade { // no connection to the task is made, and no audit line written
		p := rest.NewProblem(http.StatusUpgradeRequired, rest.CodeInvalid,
			"this path speaks WebSocket only: use comb job exec or comb job port-forward, or a WebSocket client")
		return nil, huma.ErrorWithHeaders(p, http.Header{"Upgrade": {"websocket"}})
	}
	v.ref = executor.TaskRef{Attempt: model.AttemptID{Job: j.ID, Gang: t.Gang, N: t.Attempt}, Task: n}
	var refusal string
	if v.done, refusal = e.seats.Take(string(v.by)); refusal != "" {
		return nil, withHeaders(busy(5, refusal))
	}
	return v, nil
}

func isThere(s model.TaskState) bool {
	return s == model.TaskRunning || s == model.TaskStopping
}

// problem turns an error of an executor into an answer.
func (v *visitor) problem(err error) *rest.Problem {
	said := strings.TrimPrefix(err.Error(), executor.ErrRefused.Error()+": ")
	known := errors.Is(err, executor.ErrRefused) || errors.Is(err, executor.ErrNotRunning) || errors.Is(err, executor.ErrNoEntry)
	var p *rest.Problem
	if !known && errors.As(v.s.fail(err), &p) {
		return p
	}
	return rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf("task %s of job %s: %s", v.task, v.job.Name, said))
}

// answer upgrades a request and serves it.
func (v *visitor) answer(serve func(*taskVisit, *duplex.Conn)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer v.done()
		r, w := humago.Unwrap(c)
		ctx := context.WithoutCancel(r.Context()) // the request is over once its connection is a WebSocket
		ws, err := duplex.Accept(w, r, rest.MaxExecRequest)
		if err != nil {
			return // Upgrade has answered
		}
		defer ws.CloseNow()
		serve(&taskVisit{ID: rest.NewKey()[:6], Task: v.task, By: string(v.by), Context: ctx, Closing: v.s.closing, Problem: v.problem,
			Record: func(ctx context.Context, command string) error { return v.record(ctx, command) },
			Start: func(ctx context.Context, c executor.Command) (*executor.Session, error) {
				return v.s.opts.Entry.Exec(ctx, v.ref, c)
			},
			Over: func() *rest.Problem { return v.over(ctx) },
			Note: func(text string) { v.note(ctx, text) },
			Hide: func(text string) string { return v.hide(ctx, text) },
		}, ws)
	}}
}

// record writes a command in a job of another user to the audit log. Each one gets a line,
// however many there are, since the journal does not contain them.
func (v *visitor) record(ctx context.Context, command string) error {
	if v.job.User == v.by {
		return nil
	}
	return v.s.opts.People.WriteSummaries(ctx, lineOfVisit(ctx, &v.job, v.task, command))
}

// over says why a visit must end: its token is no longer valid, or the task has ended or is
// unknown.
func (v *visitor) over(ctx context.Context) *rest.Problem {
	if p := v.s.authorizer.CheckStream(ctx); p != nil {
		if p.Status == http.StatusUnauthorized {
			p.Detail = "the token is not valid any more"
		}
		return p
	}
	ended := false
	err := v.s.read(ctx, 0, func(st *core.State) {
		j, found := st.Job(v.job.ID)
		if ended = !found || int(v.ref.Task) >= len(j.Tasks); !ended {
			t := &j.Tasks[v.ref.Task]
			ended = t.Attempt != v.ref.Attempt.N || !isThere(t.State) && t.State != model.TaskIsUnknown
		}
	})
	if err != nil || !ended {
		return nil
	}
	return rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf("task %s of job %s has ended", v.task, v.job.Ref))
}

// note adds a notice to the job's events.
func (v *visitor) note(ctx context.Context, text string) {
	have := 0
	err := v.s.read(ctx, 0, func(st *core.State) {
		j, _ := st.Job(v.job.ID)
		have = len(j.Notices)
	})
	if err != nil || have >= maxVisitNotices {
		v.s.log.Warn(text, "job", v.job.ID)
		text = "commands and connections behind these are noted in the server's log"
	} else {
		v.s.log.Info(text, "job", v.job.ID) // the core drops notices beyond its bound
	}
	if err == nil && have <= maxVisitNotices {
		v.s.live.Tell(model.Notice{Job: v.job.ID, Message: text})
	}
}

// hide removes the values of the job's secrets from a text.
func (v *visitor) hide(ctx context.Context, text string) string {
	secrets, err := v.s.store.Secrets(ctx, v.job.ID)
	if err != nil {
		return "(its secrets cannot be read, and it may hold one)"
	}
	values := slices.Collect(maps.Values(secrets))
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // one may contain another
	for _, value := range values {
		if value != "" {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}

type portInput struct {
	TaskPath
	Port  int64 `path:"port" minimum:"1" maximum:"65535"`
	Watch bool  `query:"watch" doc:"Only note the use, and say when it ends"`
}

func (e *visits) port(ctx context.Context, in *portInput) (*huma.StreamResponse, error) {
	v, err := e.enter(ctx, &in.TaskPath)
	if err != nil {
		return nil, err
	}
	port := uint16(in.Port)
	if in.Watch {
		return v.answer(func(u *taskVisit, ws *duplex.Conn) { u.Use(ws, port) }), nil
	}
	conn, err := e.s.opts.Entry.Dial(ctx, v.ref, port)
	if err != nil {
		v.done()
		return nil, v.problem(err)
	}
	leave := v.done
	v.done = func() { conn.Close(); leave() } // also where it becomes no WebSocket
	return v.answer(func(u *taskVisit, ws *duplex.Conn) { u.Connect(ws, conn) }), nil
}
