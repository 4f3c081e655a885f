package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const (
	heartbeat     = 10 * time.Second // interval of signs of life on a quiet stream, at which the token is checked again
	eventPage     = 1000             // events of one page of a history,
	eventPageSize = 4 << 20          // and about as many bytes
	eventLooks    = 20_000           // events that a page may skip, since its reader may not see them
	namedInPage   = 50               // other jobs whose names a page of a job's events looks up
	pastWait      = time.Minute      // for the whole history of a job
)

func (s *Server) registerEvents(api huma.API) {
	stream := func(id, path, summary string) huma.Operation {
		return operation(api, huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"events"},
			Responses: map[string]*huma.Response{"200": {
				Description: "A page of events, or with follow a stream of frames event (data: an event), resync (data: {seq}), dropped (data: {seq, detail}) and end",
				Content: map[string]*huma.MediaType{
					"text/event-stream": {Schema: &huma.Schema{Type: "string"}},
					"application/json":  {Schema: api.OpenAPI().Components.Schemas.Schema(eventListType(), true, "")},
				}}},
		}, http.StatusTooManyRequests)
	}
	huma.Register(api, stream("list-events", "/events", "All events: a page, or a stream that resumes at Last-Event-ID"), s.allEvents)
	huma.Register(api, stream("list-job-events", "/jobs/{ref}/events", "One job's events: a page, or a stream to its end"), s.jobEvents)
	huma.Register(api, operation(api, huma.Operation{OperationID: "get-job-history", Method: http.MethodGet, Path: "/jobs/{ref}/history",
		Summary: "One job's attempts: where and when each ran, how it ended and what was lost", Tags: []string{"jobs"}}, http.StatusTooManyRequests),
		func(ctx context.Context, in *jobRead) (*body[rest.JobHistory], error) { return pastOf(ctx, s, in) })
	huma.Register(api, operation(api, huma.Operation{OperationID: "get-job-usage", Method: http.MethodGet, Path: "/jobs/{ref}/usage",
		Summary: "What the running tasks of a job took in the last minutes", Tags: []string{"jobs"}}),
		func(ctx context.Context, in *jobRead) (*body[rest.JobUsage], error) { return usageOf(ctx, s, in) })
}

// EventsInput asks for a page or a stream. Without After and LastID a stream starts now, and
// a page at the beginning.
type EventsInput struct {
	AfterSeq
	After  string `query:"after" maxLength:"20" doc:"Only events behind this one"`
	Follow bool   `query:"follow" doc:"Stream as server-sent events"`
	LastID string `header:"Last-Event-ID" maxLength:"20" doc:"Resume a stream behind this event"`
}

// start returns the requested place; given is false when none was.
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
	sees := s.authorizer.Reads(ctx)
	if !in.Follow {
		list, err := s.pageOf(ctx, seq, 0, sees)
		return writePage(list, s.fail(err))
	}
	if !given {
		err = s.read(ctx, 0, func(st *core.State) { seq = st.Seq() })
	}
	if err != nil {
		return nil, err
	}
	return s.eventStream(ctx, &eventWriter{after: seq, sees: sees})
}

type jobEventsInput struct {
	EventsInput
	Ref string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
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
		list, err := jobPage(ctx, s, &j, seq)
		return writePage(list, s.fail(err))
	}
	first, err := s.history(ctx, 0, j.ID, 1)
	if err != nil {
		return nil, s.fail(err)
	}
	if len(first) > 0 {
		seq = max(seq, first[0].Seq-1) // older events are not about this job
	}
	return s.eventStream(ctx, &eventWriter{after: seq, job: j.ID, past: j.Phase.Ended()})
}

// writePage answers with a page of events.
func writePage(list rest.EventList, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		writeJSON(w, list)
	}}, nil
}

// jobPage is a page of one job's events, each with a sentence. Other jobs have their names
// where the asker may see them.
func jobPage(ctx context.Context, s *Server, j *rest.Job, seq uint64) (rest.EventList, error) {
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return rest.EventList{}, err
	}
	list, err := s.pageOf(ctx, seq, j.ID, nil)
	looks := namedInPage
	told := narrate.New(j, func(id model.JobID) (string, error) {
		if looks--; looks < 0 {
			return "", nil
		}
		other, found, err := presentOf(ctx, s, id)
		if err != nil || !found || !sight.Sees(other.VC, other.User) {
			return "", err
		}
		return other.Name.ShownTo(people.Subject(ctx), other.User), nil
	})
	for i := range list.Events {
		list.Events[i].Says = told.Tell(&list.Events[i])
	}
	return list, err
}

// pageOf reads a page of the events after seq, of one job unless job is 0. It reads piece by
// piece. One event may have a MiB, so a thousand of them would need a GiB before the page is
// cut to its size.
func (s *Server) pageOf(ctx context.Context, seq uint64, job model.JobID, sees func(model.JobID) bool) (rest.EventList, error) {
	list := rest.EventList{Events: []rest.Event{}}
	for size, looked := 0, 0; ; {
		records, err := s.history(ctx, seq, job, eventPage)
		if err != nil || len(records) == 0 {
			return list, err
		}
		for _, r := range records {
			if seq = r.Seq; sees != nil && !sees(engine.JobOf(r.Event)) {
				if looked++; looked == eventLooks {
					list.Next = seq
					return list, nil
				}
				continue
			}
			e, err := wireEvent(r)
			if err != nil {
				return list, err
			}
			list.Events = append(list.Events, e)
			if size += len(e.Data); len(list.Events) == eventPage || size > eventPageSize {
				list.Next = seq
				return list, nil
			}
		}
	}
}

// pastOf returns a job's attempts: one job at a time for each caller, since it reads all
// events of the job.
func pastOf(ctx context.Context, s *Server, in *jobRead) (*body[rest.JobHistory], error) {
	caller := people.Subject(ctx)
	if _, told := s.telling.LoadOrStore(caller, true); told {
		return nil, withHeaders(busy(1, "the history of another job is being told to you: one at a time, try again"))
	}
	defer s.telling.Delete(caller)
	ctx, cancel := context.WithTimeout(ctx, pastWait)
	defer cancel()
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return nil, err
	}
	past, err := fold(ctx, s, j.ID)
	if err != nil {
		return nil, s.fail(err)
	}
	out := rest.JobHistory{Ref: j.Ref, Attempts: []rest.PastAttempt{}}
	list, left := past.Attempts()
	out.Attempts, out.Left = append(out.Attempts, list...), left
	if out.Removed, err = removedOf(ctx, s, j.ID); err != nil {
		return nil, s.fail(err)
	}
	known := map[model.JobID]otherJob{}
	for i := range out.Attempts {
		a := &out.Attempts[i]
		if a.By == nil {
			continue
		}
		by, ok := known[a.By.Job]
		if !ok {
			if by, err = otherOf(ctx, s, a.By.Job, sight); err != nil {
				return nil, s.fail(err)
			}
			known[a.By.Job] = by
		}
		a.Why = past.Why(a, by)
	}
	return answer(out), nil
}

// fold reads all events of a job, page by page.
func fold(ctx context.Context, s *Server, id model.JobID) (*attemptFold, error) {
	carry := map[cell.TypeName]int64{}
	err := s.read(ctx, 0, func(st *core.State) {
		if c := st.Config(); c != nil {
			for i := range c.Cluster.SKUs {
				carry[c.Cluster.SKUs[i].Name] = c.Cluster.SKUs[i].GPU
			}
		}
	})
	if err != nil {
		return nil, err
	}
	past := newAttemptFold(func(sku cell.TypeName) (int64, bool) {
		n, ok := carry[sku]
		return n, ok
	})
	for seq, more := uint64(0), true; more; {
		leave, err := awaitTurn(ctx, &s.lanes.Look, people.Subject(ctx)) // one for each page
		if err != nil {
			return past, err
		}
		page, err := s.history(ctx, seq, id, eventPage)
		for i := range page {
			past.Add(&page[i])
			seq = page[i].Seq
		}
		more = err == nil && len(page) > 0
		if leave(); err != nil {
			return past, err
		}
	}
	return past, nil
}

// otherOf is another job as the asker may know it: without its name where the asker may not
// see it.
func otherOf(ctx context.Context, s *Server, id model.JobID, sight *people.Sight) (otherJob, error) {
	j, found, err := presentOf(ctx, s, id)
	if err != nil || !found {
		return otherJob{Ref: rest.JobRef(id)}, err
	}
	out := otherJob{Ref: rest.JobRef(id), VC: j.VC, Priority: j.Priority}
	if sight.Sees(j.VC, j.User) {
		out.Ref += " (" + j.Name.ShownTo(people.Subject(ctx), j.User) + ")"
	}
	return out, nil
}

// presentOf is a job as it is now. Its virtual cluster may have been renamed since its
// submission, and another one may have its former name.
func presentOf(ctx context.Context, s *Server, id model.JobID) (j model.JobStatus, found bool, err error) {
	err = s.read(ctx, 0, func(st *core.State) {
		if spec, live := st.Spec(id); live {
			j, found = model.JobStatus{ID: id, Name: spec.Name, User: spec.User, VC: spec.VC, Priority: spec.Priority}, true
		}
	})
	if err != nil || found {
		return j, found, err
	}
	return s.store.Job(ctx, id)
}
