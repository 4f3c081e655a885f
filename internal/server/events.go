package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

const (
	heartbeat = 15 * time.Second // between signs of life on a quiet stream; the token is checked again then
	eventPage = 1000             // events of one page of a job's history
)

func (s *Server) registerEvents(api huma.API) {
	stream := func(id, path, summary string) huma.Operation {
		return operation(api, huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"events"},
			Responses: map[string]*huma.Response{"200": {
				Description: "A page of events, or with follow a stream of frames event (data: an event), resync (data: {seq}) and end",
				Content: map[string]*huma.MediaType{
					"text/event-stream": {Schema: &huma.Schema{Type: "string"}},
					"application/json":  {Schema: api.OpenAPI().Components.Schemas.Schema(eventListType(), true, "")},
				}}},
		})
	}
	huma.Register(api, stream("list-events", "/events", "All events: a page, or a stream that resumes at Last-Event-ID"), s.allEvents)
	huma.Register(api, stream("list-job-events", "/jobs/{ref}/events", "One job's events: a page, or a stream to its end"), s.jobEvents)
}

// EventsInput asks for a page or a stream. Without After and LastID a stream
// starts now, a page at the beginning.
type EventsInput struct {
	AfterSeq
	After  string `query:"after" maxLength:"20" doc:"Only events behind this one"`
	Follow bool   `query:"follow" doc:"Stream as server-sent events"`
	LastID string `header:"Last-Event-ID" maxLength:"20" doc:"Resume a stream behind this event"`
}

// start returns the place asked for; given is false when none was.
func (in *EventsInput) start() (seq uint64, given bool, err error) {
	text := in.After
	if in.LastID != "" {
		text = in.LastID
	}
	if text == "" {
		return 0, false, nil
	}
	seq, err = strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false, invalid("after", "%q is not an event number", clip(text))
	}
	return seq, true, nil
}

func (s *Server) allEvents(ctx context.Context, in *EventsInput) (*huma.StreamResponse, error) {
	seq, given, err := in.start()
	if err != nil {
		return nil, err
	}
	if !in.Follow {
		return s.eventPage(ctx, seq, 0)
	}
	if !given {
		err = s.read(ctx, 0, func(st *sched.State) { seq = st.Seq() })
	}
	if err != nil {
		return nil, err
	}
	return s.eventStream(&eventWriter{after: seq})
}

type jobEventsInput struct {
	EventsInput
	Ref string `path:"ref" doc:"A job's number or name"`
}

func (s *Server) jobEvents(ctx context.Context, in *jobEventsInput) (*huma.StreamResponse, error) {
	seq, _, err := in.start()
	if err != nil {
		return nil, err
	}
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	if !in.Follow {
		return s.eventPage(ctx, seq, j.ID)
	}
	first, err := s.history(ctx, 0, j.ID, 1)
	if err != nil {
		return nil, s.fail(err)
	}
	if len(first) > 0 {
		seq = max(seq, first[0].Seq-1) // what is older is not about this job
	}
	return s.eventStream(&eventWriter{after: seq, job: j.ID, ended: j.Phase.Ended()})
}

// eventPage answers with the events behind seq, of one job unless job is 0.
func (s *Server) eventPage(ctx context.Context, seq uint64, job sched.JobID) (*huma.StreamResponse, error) {
	list := rest.EventList{Events: []rest.Event{}}
	records, err := s.history(ctx, seq, job, eventPage)
	if err != nil {
		return nil, s.fail(err)
	}
	for _, r := range records {
		e, err := wireEvent(r)
		if err != nil {
			return nil, s.fail(err)
		}
		list.Events = append(list.Events, e)
	}
	if n := len(list.Events); n == eventPage {
		list.Next = list.Events[n-1].Seq
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		writeJSON(w, list)
	}}, nil
}

func (s *Server) eventStream(e *eventWriter) (*huma.StreamResponse, error) {
	done, p := s.openStream()
	if p != nil {
		return nil, withHeaders(p)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer done()
		r, w := humago.Unwrap(c)
		e.server, e.w, e.rc, e.token = s, w, http.NewResponseController(w), r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		_ = e.rc.SetReadDeadline(time.Time{})
		if err := e.run(r.Context()); err != nil && r.Context().Err() == nil {
			s.log.Debug("an event stream ended", "err", err)
		}
	}}, nil
}

// eventWriter is one stream of events with its place.
type eventWriter struct {
	server *Server
	w      http.ResponseWriter
	rc     *http.ResponseController
	token  string
	after  uint64
	job    sched.JobID // 0: all
	ended  bool        // the job of the stream is over
}

// run writes what has happened since its place, then what happens, until the
// client or the server goes or the token is no longer valid.
func (e *eventWriter) run(ctx context.Context) error {
	if err := e.frame(": comb\n\n"); err != nil {
		return err
	}
	if e.ended {
		return e.past(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	records := make(chan sched.Record)
	broken := make(chan error, 1)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	after, job := e.after, e.job
	follower.Go(func() {
		broken <- e.server.replica.Follow(ctx, after, func(r sched.Record) error {
			if job != 0 && engine.JobOf(r.Event) != job {
				return nil
			}
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return e.pump(ctx, records, broken)
}

// past writes the history of a job that has ended before the stream began.
func (e *eventWriter) past(ctx context.Context) error {
	for {
		page, err := e.server.history(ctx, e.after, e.job, eventPage)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := e.send(r); err != nil {
				return err
			}
		}
		if len(page) < eventPage {
			return e.end()
		}
	}
}

// pump writes what the follower hands over, and signs of life in between.
func (e *eventWriter) pump(ctx context.Context, records <-chan sched.Record, broken <-chan error) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case r := <-records:
			err = e.send(r)
		case err = <-broken:
			if errors.Is(err, engine.ErrAhead) {
				err = e.resync(ctx)
			}
			return err
		case <-ctx.Done():
			err = ctx.Err()
		case <-e.server.closing:
			return nil
		case <-beat.C:
			err = e.alive(ctx)
		}
		if err != nil {
			return err
		}
		if e.ended {
			return e.end()
		}
	}
}

// alive shows that the stream lives and that its token still does.
func (e *eventWriter) alive(ctx context.Context) error {
	r := &http.Request{Header: http.Header{"Authorization": {e.token}}}
	if _, p := e.server.authenticate(r.WithContext(ctx)); p != nil {
		return p
	}
	return e.frame(": alive\n\n")
}

// resync tells a client whose place does not exist, such as after a restore of
// the server's data, where to go on; the client reconnects there.
func (e *eventWriter) resync(ctx context.Context) error {
	var seq uint64
	if err := e.server.read(ctx, 0, func(st *sched.State) { seq = st.Seq() }); err != nil {
		return err
	}
	data, err := json.Marshal(rest.Resync{Seq: seq})
	if err != nil {
		return err
	}
	return e.frame(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", seq, rest.StreamResync, data))
}

// send writes one record.
func (e *eventWriter) send(r sched.Record) error {
	e.after = r.Seq
	w, err := wireEvent(r)
	if err != nil {
		return err
	}
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if _, ended := r.Event.(sched.JobEnded); ended && e.job != 0 {
		e.ended = true
	}
	return e.frame(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", r.Seq, rest.StreamEvent, data))
}

// end tells that the job is over and ends the stream.
func (e *eventWriter) end() error {
	return e.frame(fmt.Sprintf("id: %d\nevent: %s\ndata: {}\n\n", e.after, rest.StreamEnd))
}

// frame writes and flushes one frame; a client that does not read is cut off.
func (e *eventWriter) frame(text string) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}
