package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Sizes of a page of jobs.
const (
	defaultPage = 100
	maxPage     = 1000
)

func (s *Server) registerJobs(api huma.API) {
	op := func(id, method, path, summary string) huma.Operation {
		return operation(api, huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"jobs"}})
	}
	submit := op("submit-job", http.MethodPost, "/jobs", "Submit a job: a job file, or JSON")
	submit.DefaultStatus = http.StatusCreated
	huma.Register(api, submit, s.submit)
	huma.Register(api, op("validate-job", http.MethodPost, "/jobs:validate",
		"Check a job without submitting it, and say whether it would start"), s.validate)
	for _, path := range []string{"/jobs", "/jobs:validate"} {
		describeSources(api, api.OpenAPI().Paths[rest.Prefix+path].Post)
	}
	huma.Register(api, op("list-jobs", http.MethodGet, "/jobs", "List jobs, newest first"), s.listJobs)
	starts{s}.register(api, op)
	huma.Register(api, op("get-job", http.MethodGet, "/jobs/{ref}", "One job by number, or the newest of a user's name"), s.getJob)
	huma.Register(api, op("stop-job", http.MethodPost, "/jobs/{ref}/stop", "Ask to end a job"), s.stop)
	jobCommands{s}.register(api, op)
	tags{s}.register(api, op)
	huma.Register(api, op("explain-job", http.MethodGet, "/jobs/{ref}/explain", "Why a job waits"), s.explain)
	huma.Register(api, op("get-job-config", http.MethodGet, "/jobs/{ref}/config",
		"The job file as submitted, secrets masked"), s.jobConfig)
}

// describeSources adds the JSON form to the description of a route that takes a job file. It
// is added afterwards, since the router would check a YAML body against it.
func describeSources(api huma.API, o *huma.Operation) {
	o.RequestBody.Content = map[string]*huma.MediaType{
		"application/yaml": {Schema: &huma.Schema{Type: "string", Description: "A job file"}},
		"text/yaml":        {Schema: &huma.Schema{Type: "string", Description: "A job file"}},
		"application/json": {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[rest.SubmitRequest](), true, "")},
	}
}

type submitInput struct {
	Meta
	Name        string `query:"name" doc:"Replaces the job's name (with a YAML body)"`
	VC          string `query:"vc" doc:"Replaces the job's virtual cluster (with a YAML body)"`
	DefaultVC   string `query:"default_vc" doc:"As in JSON (with a YAML body)"`
	Upload      string `query:"upload" maxLength:"71" doc:"Replaces the job's upload (with a YAML body)"`
	ContentType string `header:"Content-Type"`
	RawBody     []byte `contentType:"application/yaml"`
}

// request reads either form of a submission.
func (in *submitInput) request() (rest.SubmitRequest, error) {
	media, _, _ := strings.Cut(in.ContentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/json":
		var r rest.SubmitRequest
		if err := strictJSON(in.RawBody, &r); err != nil {
			return r, err
		}
		if (r.Source == "") == (r.Quick == nil) {
			return r, invalid("source", "give exactly one of source (a job file) and quick")
		}
		return r, nil
	case "", "text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml":
		if len(in.RawBody) == 0 {
			return rest.SubmitRequest{}, invalid("", "the body is empty: send a job file")
		}
		return rest.SubmitRequest{Source: string(in.RawBody), Name: in.Name, VC: in.VC, DefaultVC: in.DefaultVC,
			Upload: in.Upload}, nil
	}
	return rest.SubmitRequest{}, rest.NewProblem(http.StatusUnsupportedMediaType, rest.CodeMediaType,
		"send a job file as application/yaml, or application/json with source or quick")
}

// strictJSON decodes one value, refuses unknown fields, and reports where it stopped.
func strictJSON(src []byte, v any) error {
	if at, detail := rest.CheckJSON(src); detail != "" {
		return badJSON(src, at, rest.FieldError{Detail: detail})
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	offset := d.InputOffset()
	if err == nil {
		if _, more := d.Token(); more == io.EOF {
			return nil
		}
		err = errors.New("there is more than one value")
	}
	field := rest.FieldError{Detail: strings.TrimPrefix(err.Error(), "json: ")}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset, field.Pointer = kind.Offset, kind.Field
		field.Detail = fmt.Sprintf("%s cannot stand here", kind.Value)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		offset, field.Detail = int64(len(src)), "the JSON ends too early"
	}
	return badJSON(src, int(min(max(offset-1, 0), int64(len(src)))), field)
}

// badJSON reports a mistake at its place.
func badJSON(src []byte, offset int, field rest.FieldError) error {
	before := src[:offset]
	field.Line = 1 + bytes.Count(before, []byte{'\n'})
	field.Column = len(before) - bytes.LastIndexByte(before, '\n')
	return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "the JSON cannot be read", field)
}

// submitNote is stored with the answer to a submission.
type submitNote struct {
	Name     model.JobName `json:"name"`
	Warnings []string      `json:"warnings,omitempty"`
}

func (s *Server) submit(ctx context.Context, in *submitInput) (*body[rest.Submitted], error) {
	r, err := in.request()
	if err != nil {
		return nil, err
	}
	w, err := in.writeOf(ctx, "submit", r)
	if err != nil {
		return nil, s.fail(err)
	}
	reply, err := s.doOnce(ctx, w, func() (engine.Reply, error) { return s.submitNew(ctx, w, r) })
	if err != nil {
		return nil, err
	}
	var note submitNote
	if err := json.Unmarshal(reply.Note, &note); err != nil {
		return nil, s.fail(fmt.Errorf("what was said about job %d cannot be read: %w", reply.Answer.Job, err))
	}
	return answer(rest.Submitted{ID: reply.Answer.Job, Name: note.Name, Seq: reply.Seq,
		Repeated: reply.Answer.Repeated, Warnings: note.Warnings}), nil
}

// submitNew submits a job under a key that was not used yet, or without one.
func (s *Server) submitNew(ctx context.Context, w write, r rest.SubmitRequest) (engine.Reply, error) {
	parsed, err := s.parseJob(ctx, r, w.meta.Key)
	if err != nil {
		return engine.Reply{}, err
	}
	note, err := json.Marshal(submitNote{parsed.Job.Name, parsed.Warnings})
	if err != nil {
		return engine.Reply{}, s.fail(err)
	}
	reply, err := s.do(ctx, w, engine.Input{Command: model.Submit{Meta: w.meta, Job: parsed.Job}, Secrets: parsed.Secrets, Note: note})
	if reply.Refusal != nil {
		err = aboutJob(parsed.Job.Name, err)
	}
	return reply, err
}

// validate tries a job on a copy of the state: its answer is what the core would do now.
func (s *Server) validate(ctx context.Context, in *submitInput) (*body[rest.Validated], error) {
	r, err := in.request()
	if err != nil {
		return nil, err
	}
	parsed, err := s.parseJob(ctx, r, in.of(ctx).Key)
	if err != nil {
		return nil, err
	}
	out := rest.Validated{Job: parsed.Job, Warnings: parsed.Warnings}
	known, err := s.measured(ctx)
	if err != nil {
		return nil, err
	}
	var refusal *model.Refusal
	err = s.thinkFor(ctx, 0, func(st *core.State, hide func(*model.Explanation)) {
		ex, no := st.DryRun(parsed.Job, known)
		hide(&ex)
		refusal = no
		dryRun(st, parsed.Job, ex, no, &out)
	})
	if err != nil {
		return nil, err
	}
	if refusal != nil && refusal.Kind != model.Never {
		return nil, aboutJob(parsed.Job.Name, refusalProblem(refusal))
	}
	return answer(out), nil
}

// aboutJob adds the name of the refused job, unless the sentence contains it.
func aboutJob(name model.JobName, err error) error {
	var p *rest.Problem
	if errors.As(err, &p) && p.Code != rest.CodeStorageFull && !strings.Contains(p.Detail, strconv.Quote(string(name))) {
		p.Detail = fmt.Sprintf("job %s: %s", name, p.Detail)
	}
	return err
}

type listInput struct {
	AfterSeq
	State  []string `query:"state,explode" doc:"Waiting, Held (of those that wait), Active, Succeeded, Failed or Stopped; may repeat"`
	VC     []string `query:"vc,explode" doc:"May repeat"`
	User   []string `query:"user,explode" doc:"May repeat"`
	Name   string   `query:"name" maxLength:"255" doc:"A part of the name"`
	Tag    string   `query:"tag" maxLength:"64" doc:"A tag that jobs have"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" doc:"Jobs of a page; 100 if not given"`
	Cursor string   `query:"cursor" maxLength:"512" doc:"The field next of the page before, which was asked for in the same order"`
	Sort   string   `query:"sort" enum:"left,place,gpus,-gpus,name,-name,user,-user,vc,-vc,submitted,-submitted" doc:"Another order than the newest first; with - the other way. name, user, vc and submitted are of all jobs. Of those that have not ended alone: gpus; left, those that end first; place, those that wait in one virtual cluster, in the order in which it serves them"`
}

// jobFilter is the filter of a list in the core's types.
type jobFilter struct {
	states []model.Phase
	held   bool // of the jobs that wait, only those that a user holds
	isHeld func(model.JobID) bool
	vcs    []string
	users  []string
	name   string
	tag    string
	tagged map[model.JobID]bool // the jobs that have the tag
	before model.JobID          // 0 is from the newest
	limit  int
	sight  *people.Sight
}

func (in *listInput) filter() (jobFilter, error) {
	f := jobFilter{vcs: in.VC, users: in.User, name: in.Name, tag: in.Tag, limit: cmp.Or(in.Limit, defaultPage)}
	for _, state := range in.State {
		if strings.EqualFold(state, heldState) {
			f.held = true
			continue
		}
		i := slices.IndexFunc(phases(), func(p model.Phase) bool { return strings.EqualFold(string(p), state) })
		if i < 0 {
			return f, invalid("query.state",
				"%q is not a state: want Waiting, Held, Active, Succeeded, Failed or Stopped", clip(state))
		}
		f.states = append(f.states, phases()[i])
	}
	if f.held = f.held && !slices.Contains(f.states, model.Waiting); f.held {
		f.states = append(f.states, model.Waiting)
	}
	if in.Cursor != "" && in.Sort == "" {
		n, err := strconv.ParseInt(in.Cursor, 10, 64)
		if err != nil || n < 1 {
			return f, invalid("query.cursor", "not a cursor: pass the field next of the page before")
		}
		f.before = model.JobID(n)
	}
	return f, nil
}

// heldState selects jobs that wait and that a user holds.
const heldState = "held"

func phases() []model.Phase {
	return []model.Phase{model.Waiting, model.Active, model.Succeeded, model.Failed, model.Stopped}
}

// clip shortens a text of a stranger for a message.
func clip(text string) string {
	if len(text) > 64 {
		return text[:64] + "..."
	}
	return text
}

func (f *jobFilter) wants(id model.JobID, j *model.Job, phase model.Phase) bool {
	return (f.before == 0 || id < f.before) &&
		(f.tag == "" || f.tagged[id]) &&
		(len(f.states) == 0 || slices.Contains(f.states, phase)) &&
		(!f.held || phase != model.Waiting || f.isHeld(id)) &&
		(len(f.vcs) == 0 || slices.Contains(f.vcs, string(j.VC))) &&
		(len(f.users) == 0 || slices.Contains(f.users, string(j.User))) &&
		strings.Contains(string(j.Name), f.name) && f.sight.Sees(j.VC, j.User)
}

// noteVCs notes which virtual clusters exist, if any is asked for, and how held jobs are found.
// Virtual clusters that are gone but still have jobs are only looked for where those of the
// configuration do not suffice, since that takes a walk over all jobs.
func (f *jobFilter) noteVCs(st *core.State, known map[string]bool) {
	f.isHeld = func(id model.JobID) bool { return st.IsHeld(id) }
	if c := st.Config(); c != nil {
		for _, v := range c.Cluster.VCs {
			known[string(v.Name)] = true
		}
	}
	if slices.ContainsFunc(f.vcs, func(name string) bool { return !known[name] }) {
		for _, v := range st.VCs() {
			known[string(v.Name)] = true
		}
	}
}

func (s *Server) listJobs(ctx context.Context, in *listInput) (*body[rest.JobList], error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	if f.sight, err = s.authorizer.Sight(ctx); err != nil {
		return nil, err
	}
	if f.tag != "" && s.opts.Tags != nil {
		if f.tagged, err = s.opts.Tags.With(ctx, f.tag); err != nil {
			return nil, s.fail(err)
		}
	}
	if in.Sort != "" {
		return s.sortedJobs(ctx, in, &f)
	}
	out := rest.JobList{Jobs: []rest.Job{}}
	known := map[string]bool{}
	err = s.read(ctx, in.after(), func(st *core.State) {
		out.Seq = st.Seq()
		f.noteVCs(st, known)
		out.Jobs = append(out.Jobs, liveJobs(st, people.Subject(ctx), s.opts.Now(), &f)...)
	})
	if err != nil {
		return nil, err
	}
	finished, err := s.finishedJobs(ctx, &f, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := s.checkVCs(ctx, f.vcs, known); err != nil {
		return nil, err
	}
	for _, j := range finished {
		// A job that ended since the replica was read is in both lists; then the ended one
		// counts.
		out.Jobs = slices.DeleteFunc(out.Jobs, func(o rest.Job) bool { return o.ID == j.ID })
		out.Jobs = append(out.Jobs, jobOf(people.Subject(ctx), j))
	}
	slices.SortFunc(out.Jobs, func(a, b rest.Job) int { return cmp.Compare(b.ID, a.ID) })
	if len(out.Jobs) > f.limit {
		out.Jobs = out.Jobs[:f.limit]
		out.Next = rest.JobRef(out.Jobs[f.limit-1].ID)
	}
	if err := (tags{s}).add(ctx, withoutNotices(out.Jobs)); err != nil {
		return nil, err
	}
	if err := (temporaryConfigs{s}).tell(ctx, out.Jobs); err != nil {
		return nil, err
	}
	return answer(out), nil
}

// withoutNotices removes notices from a list, since its reader may see jobs that it may not
// read.
func withoutNotices(jobs []rest.Job) []rest.Job {
	for i := range jobs {
		jobs[i].Notices = nil
	}
	return jobs
}

// checkVCs refuses names of virtual clusters that never existed: a list that is empty because
// of a typo looks like an idle cluster.
func (s *Server) checkVCs(ctx context.Context, names []string, known map[string]bool) error {
	for _, name := range names {
		if known[name] {
			continue
		}
		past, _, err := s.store.Finished(ctx, engine.FinishedFilter{VCs: []string{name}, Limit: 1})
		if err != nil {
			return s.fail(err)
		}
		if len(past) == 0 {
			return notFound("no virtual cluster %q; see comb vc list", clip(name))
		}
	}
	return nil
}

// liveJobs returns up to one more than a page of jobs, newest first, with the reasons of
// those that wait.
func liveJobs(st *core.State, reader model.Subject, now model.Time, f *jobFilter) []rest.Job {
	var out []rest.Job
	defer withReader(st, reader, f.sight)()
	for j := range st.AsOf(now).Newest(f.wants) {
		if out = append(out, withReason(st, reader, j)); len(out) > f.limit {
			break
		}
	}
	return out
}

// withReader lets a state write for a reader with a sight of some jobs (nil is all) until back is
// called. It makes no copy, so the next list can reuse what this one computed.
func withReader(st *core.State, reader model.Subject, sight *people.Sight) (back func()) {
	if sight == nil {
		return st.TellFor(reader, nil)
	}
	return st.TellFor(reader, func(j *model.Job) bool { return !sight.Sees(j.VC, j.User) })
}

func withReason(st *core.State, reader model.Subject, j model.JobStatus) rest.Job {
	out := jobOf(reader, j)
	if j.Phase != model.Waiting {
		return out
	}
	if ex, ok := st.Why(j.ID); ok && len(ex.Gangs) > 0 {
		out.Reason, out.Position = rest.ReasonOf(&ex.Gangs[0].Reason), ex.Position
	}
	return out
}
