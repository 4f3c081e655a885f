package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
)

// Bounds on the memory of one stream. A stuck reader holds its piece and no events. Those of
// one user hold some 48 MiB at most, and maxLarge.
const (
	pieceSize   = 16 << 10               // bytes of frames that are written at once, unless one event has more
	pieceEvents = 64                     // events of a piece
	largePiece  = 64 << 10               // a larger piece counts against maxLarge
	maxLarge    = 16 << 20               // bytes of all large pieces; a larger piece goes alone
	makers      = 2                      // pieces that are being made at a time
	pacing      = 100 * time.Microsecond // wait before reading new events, for each open stream
	slowestPace = 100 * time.Millisecond // bound of that wait
	socketSpace = 32 << 10               // kernel buffer of a stream, in bytes
	lastSpace   = 1 << 20                // kernel buffer of a stream that ends, so that its last frames fit
	slowReader  = 20 * time.Second       // for taking a piece, and then lastWrite for the rest
	lastWrite   = 10 * time.Second
)

func (s *Server) eventStream(ctx context.Context, e *eventWriter) (*huma.StreamResponse, error) {
	done, p := s.openStream(ctx)
	if p != nil {
		return nil, withHeaders(p)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer done()
		r, w := humago.Unwrap(c)
		e.server, e.w, e.rc = s, w, http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		w.Header().Set("Connection", "close") // so that the kernel frees its buffer
		_ = e.rc.SetReadDeadline(time.Time{})
		e.conn = connOf(r.Context())
		e.conn.space(socketSpace)
		if err := e.run(r.Context()); err != nil && r.Context().Err() == nil {
			s.log.Debug("an event stream ended", "err", err)
		}
	}}, nil
}

// eventWriter is one stream of events with its place. Events are read a piece at a time, from
// the replica's memory or from disk. They are encoded as frames and dropped before the piece
// is written.
type eventWriter struct {
	server *Server
	w      http.ResponseWriter
	rc     *http.ResponseController
	conn   *conn
	after  uint64
	job    model.JobID            // 0 is all
	sees   func(model.JobID) bool // of which jobs the reader may read events, in a stream of all
	past   bool                   // the job had ended before the stream began
	ended  bool                   // the job's last event is in the piece
	piece  []byte
}

// errSlow ends the stream of a reader that did not take a piece in time.
var errSlow = errors.New("the reader is too slow")

// run writes events from its place on, until the client or the server goes or the token is no
// longer valid.
func (e *eventWriter) run(ctx context.Context) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := e.frame(": comb\n\n")
	for err == nil {
		var next engine.Tail
		if next, err = e.step(ctx); err != nil {
			break
		}
		if e.ended {
			return e.frame(fmt.Sprintf("id: %d\nevent: %s\ndata: {}\n\n", e.after, rest.StreamEnd))
		}
		more := next.Changed
		if e.after < next.End {
			more = passed
		}
		select {
		case <-more:
			if more == next.Changed && !e.pace(ctx) {
				return ctx.Err()
			}
		case <-next.Ended:
			if e.after >= next.End {
				return engine.ErrClosed
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-e.server.closing:
			return nil
		case <-beat.C:
			err = e.alive(ctx)
		}
	}
	switch {
	case errors.Is(err, engine.ErrAhead):
		return e.resync(ctx)
	case errors.Is(err, errSlow):
		return errors.Join(err, e.drop())
	}
	return err
}

// pace waits, so that many streams read several events at once and leave the state to other
// readers. It returns false when its client has gone.
func (e *eventWriter) pace(ctx context.Context) bool {
	t := time.NewTimer(min(slowestPace, time.Duration(e.server.streams.Taken())*pacing))
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.server.closing:
	case <-ctx.Done():
		return false
	}
	return true
}

// passed is a closed channel, on which nothing waits.
var passed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// step writes one piece, if there is something to write, and returns what to wait for next.
func (e *eventWriter) step(ctx context.Context) (engine.Tail, error) {
	next, held, err := e.make(ctx)
	defer e.server.large.free(held)
	if err == nil && len(e.piece) > 0 {
		err = e.write(e.piece)
	}
	if cap(e.piece) > largePiece {
		e.piece = nil
	}
	return next, err
}

// make makes the next piece. held is how much of maxLarge it takes.
func (e *eventWriter) make(ctx context.Context) (next engine.Tail, held int, err error) {
	for {
		select {
		case e.server.making <- struct{}{}:
		case <-ctx.Done():
			return next, held, ctx.Err()
		}
		place := e.after
		next, err = e.fill(ctx)
		turn := e.server.large.take(len(e.piece), &held)
		if turn != nil { // other streams hold too much: the piece is made again at its turn
			e.after, e.ended, e.piece = place, false, nil
		}
		<-e.server.making
		if turn == nil || err != nil {
			return next, held, err
		}
		select {
		case <-turn.ready:
			held = turn.n
		case <-ctx.Done():
			e.server.large.leave(turn)
			return next, held, ctx.Err()
		}
	}
}

// fill puts frames of the next events into the piece. It keeps no event.
func (e *eventWriter) fill(ctx context.Context) (engine.Tail, error) {
	e.piece = e.piece[:0]
	if e.past {
		records, err := e.server.store.JobEvents(ctx, e.job, e.after, pieceEvents)
		e.ended = err == nil && len(records) == 0
		return engine.Tail{End: math.MaxUint64}, errors.Join(err, e.add(records))
	}
	next, err := e.server.replica.Tail(ctx, e.after, pieceEvents)
	records := next.Records
	next.Records = nil
	if err == nil && next.Older {
		records, err = e.older(ctx, next.End)
	}
	if err != nil {
		return next, err
	}
	return next, e.add(records)
}

// older reads the next events up to event end from disk.
func (e *eventWriter) older(ctx context.Context, end uint64) ([]model.Record, error) {
	var records []model.Record
	var err error
	if e.job == 0 {
		records, err = e.server.store.Events(ctx, e.after, pieceSize)
	} else {
		records, err = e.server.store.JobEvents(ctx, e.job, e.after, pieceEvents)
	}
	if i := slices.IndexFunc(records, func(r model.Record) bool { return r.Seq > end }); i >= 0 {
		records = records[:i]
	}
	if err == nil && len(records) == 0 {
		e.after = end // nothing of the job is left there
	}
	return records, err
}

// add puts frames of records into the piece until it is large enough.
func (e *eventWriter) add(records []model.Record) error {
	for _, r := range records {
		if len(e.piece) >= pieceSize || e.ended {
			break
		}
		e.after = r.Seq
		if e.job != 0 && engine.JobOf(r.Event) != e.job {
			continue
		}
		if e.job == 0 && !e.sees(engine.JobOf(r.Event)) {
			continue
		}
		var err error
		e.piece, err = e.server.frames.Append(e.piece, r.Seq, rest.StreamEvent, func() ([]byte, error) {
			w, err := wireEvent(r)
			if err != nil {
				return nil, err
			}
			return json.Marshal(w)
		})
		if err != nil {
			return err
		}
		_, ended := r.Event.(model.JobEnded)
		e.ended = ended && e.job != 0
	}
	return nil
}

// alive sends a sign of life, after it checked the token.
func (e *eventWriter) alive(ctx context.Context) error {
	if p := e.server.authorizer.CheckStream(ctx); p != nil {
		return p
	}
	return e.frame(": alive\n\n")
}

// resync tells a client whose place does not exist, such as after a restore of the server's
// data, where to continue. The client reconnects there.
func (e *eventWriter) resync(ctx context.Context) error {
	var seq uint64
	if err := e.server.read(ctx, 0, func(st *core.State) { seq = st.Seq() }); err != nil {
		return err
	}
	return e.say(rest.StreamResync, seq, rest.Resync{Seq: seq})
}

// drop tells a slow reader where the stream ended, for when it reads on.
func (e *eventWriter) drop() error {
	return e.say(rest.StreamDropped, e.after, rest.Dropped{Seq: e.after, Detail: fmt.Sprintf(
		"this stream was not read for %v and has ended here; reconnect with the header Last-Event-ID: %d to go on without a gap",
		e.server.slow, e.after)})
}

// say writes a frame that is not an event.
func (e *eventWriter) say(name string, seq uint64, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.frame(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", seq, name, data))
}

// frame writes and flushes one frame.
func (e *eventWriter) frame(text string) error { return e.write([]byte(text)) }

// write writes and flushes a piece. When its reader does not take it in time the kernel's
// buffer is enlarged, so that the piece is completed and the last frame fits after it
// (errSlow). If that does not help the reader is cut off.
func (e *eventWriter) write(piece []byte) error {
	var late atomic.Bool
	t := time.AfterFunc(e.server.slow, func() {
		late.Store(true)
		e.conn.space(lastSpace)
	})
	defer t.Stop()
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.server.slow + lastWrite))
	if _, err := e.w.Write(piece); err != nil {
		return err
	}
	if err := e.rc.Flush(); err != nil {
		return err
	}
	if late.Load() {
		return errSlow
	}
	return nil
}

// take takes n bytes, if the piece is large, including those that are held already. When
// other streams hold too much it takes none and returns the turn to wait for.
func (b *budget) take(n int, held *int) *turn {
	if n <= largePiece {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if *held == 0 && b.used > 0 && (b.used+n > maxLarge || len(b.queue) > 0) {
		t := &turn{n: n, ready: make(chan struct{})}
		b.queue = append(b.queue, t)
		return t
	}
	b.used += n - *held
	*held = n
	return nil
}

// free gives n bytes back. They go to the waiting streams in order.
func (b *budget) free(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	for len(b.queue) > 0 && (b.used == 0 || b.used+b.queue[0].n <= maxLarge) {
		t := b.queue[0]
		b.queue = b.queue[1:]
		b.used += t.n
		close(t.ready)
	}
}

// leave gives up a turn.
func (b *budget) leave(t *turn) {
	b.mu.Lock()
	at := slices.Index(b.queue, t)
	if at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
	}
	b.mu.Unlock()
	if at < 0 { // the turn came meanwhile
		b.free(t.n)
	}
}

// registerLogArchive registers the route with the logs of all tasks of a job as one archive.
func registerLogArchive(s *Server, api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-job-logs", Method: http.MethodGet, Path: "/jobs/{ref}/logs", Tags: []string{"jobs"},
		Summary: "The logs of all tasks of a job, of the latest attempt of each, as a zip archive",
		Responses: map[string]*huma.Response{"200": {
			Description: "A file for each task and stream that there is, such as main-0.stdout.log, with what had been printed when its turn came. One that cannot be read has the reason in its place",
			Content:     map[string]*huma.MediaType{"application/zip": {Schema: &huma.Schema{Type: "string", Format: "binary"}}},
		}},
	}, http.StatusTooManyRequests, http.StatusGone), func(ctx context.Context, in *struct {
		AfterSeq
		Ref string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	}) (*huma.StreamResponse, error) {
		j, err := s.find(ctx, in.Ref, in.after())
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool { return t.Attempt > 0 }) {
			return nil, notFound("no task of job %s has run yet: there are no logs; see comb job explain %s", j.Ref, j.Ref)
		}
		if gone, err := removedOf(ctx, s, j.ID); err == nil && gone != nil {
			return nil, rest.NewProblem(http.StatusGone, rest.CodeGone, fmt.Sprintf("the logs of job %s are gone: its logs, work and checkpoints were %s", j.Ref, gone.Words()))
		}
		done, p := s.openStream(ctx)
		if p != nil {
			return nil, withHeaders(p)
		}
		leave, err := awaitTurn(ctx, &s.lanes.Pack, people.Subject(ctx))
		if err != nil {
			done()
			return nil, s.fail(err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer done()
			defer leave()
			r, w := humago.Unwrap(c)
			w.Header().Set("Content-Type", "application/zip")
			w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%d-logs.zip"`, j.Name, j.ID))
			rc := http.NewResponseController(w)
			_ = rc.SetReadDeadline(time.Time{}) // the request's deadline would end the answer
			pack := func(w io.Writer) error { return writeLogArchive(w, time.Now(), s.logsOf(r.Context(), &j, rc)) }
			err := packInTurn(r.Context(), &s.lanes.Think, people.Subject(ctx), &deadlineWriter{w, rc}, pack)
			if err != nil {
				s.log.Debug("logs could not be sent", "job", j.ID, "err", err)
				panic(http.ErrAbortHandler) // else the partial archive would look complete
			}
		}}, nil
	})
}

// deadlineWriter sets a new deadline for each write.
type deadlineWriter struct {
	w  io.Writer
	rc *http.ResponseController
}

// Write implements io.Writer.
func (p *deadlineWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.w.Write(b)
}

// logsOf yields the logs of a job's tasks, for as long as the reader may read them.
func (s *Server) logsOf(ctx context.Context, j *rest.Job, rc *http.ResponseController) iter.Seq[archivedLog] {
	checked := time.Now()
	still := func() error {
		if time.Since(checked) > logCheck {
			checked = time.Now()
			if p := s.authorizer.CheckStream(ctx); p != nil {
				return p
			}
		}
		return ctx.Err()
	}
	return func(yield func(archivedLog) bool) {
		for n := range 2 * len(j.Tasks) {
			t := &j.Tasks[n/2]
			l := &logWriter{server: s, tail: -1, rc: rc, ref: executor.LogRef{Task: int32(n / 2), Stream: []string{"stdout", "stderr"}[n%2],
				Attempt: model.AttemptID{Job: j.ID, Gang: t.Gang, N: t.Attempt}}}
			if t.Attempt > 0 && !yield(l.file(fmt.Sprintf("%s-%d", t.Role, t.Index), still)) {
				return
			}
		}
	}
}

// file is the log of a task for an archive.
func (l *logWriter) file(task string, still func() error) archivedLog {
	return archivedLog{Name: task + "." + l.ref.Stream + ".log",
		Copy: func(w io.Writer) error {
			if err := still(); err != nil {
				return err
			}
			l.w = w
			return l.whole()
		},
		Why: func(err error) error {
			if !errors.Is(err, executor.ErrReplaced) && !errors.Is(err, fs.ErrPermission) {
				return nil
			}
			return l.server.noLog(err, fmt.Sprintf("attempt %d of task %s", l.ref.Attempt.N, task))
		}}
}

// whole sends the log up to its present end.
func (l *logWriter) whole() error {
	log, err := l.open(0)
	if err != nil {
		return err
	}
	_ = log.Close()
	if l.until = log.End; l.until == 0 {
		return nil
	}
	_, err = l.copy()
	return err
}
