package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor"
)

type jobRead struct {
	AfterSeq
	Ref string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
}

func (s *Server) getJob(ctx context.Context, in *jobRead) (*body[rest.Job], error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	if s.opts.Checkpoints != nil && slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool { return t.Attempt > 0 }) {
		j.CheckpointDir = s.opts.Checkpoints(j.ID)
	}
	if j.Notices, err = s.authorizer.Notices(ctx, j.Notices); err != nil {
		return nil, err
	}
	if j.Upload, err = s.uploadOf(ctx, &j); err != nil {
		return nil, s.fail(err)
	}
	one := []rest.Job{j}
	if err := (tags{s}).add(ctx, one); err != nil {
		return nil, err
	}
	if err := (temporaryConfigs{s}).tell(ctx, one); err != nil {
		return nil, err
	}
	return answer(one[0]), nil
}

// uploadOf is the code of a job; nil where it has none. Its size is 0 when it is no longer
// kept.
func (s *Server) uploadOf(ctx context.Context, j *rest.Job) (*rest.Upload, error) {
	if s.opts.Uploads == nil {
		return nil, nil
	}
	var spec *model.Job
	found := false
	err := s.read(ctx, 0, func(st *core.State) { spec, found = st.Spec(j.ID) })
	if err == nil && !found {
		spec, found, err = s.store.Spec(ctx, j.ID)
	}
	if err != nil || !found || spec.Upload == "" {
		return nil, err
	}
	return &rest.Upload{Digest: spec.Upload, Size: s.opts.Uploads.Size(string(spec.User), spec.Upload)}, nil
}

// jobName is a job as a path names it: by number, else by its user and its name.
type jobName struct {
	ref    string
	number model.JobID // 0 is none
	user   model.Subject
	name   model.JobName
}

// nameOf reads the name in a path. A name alone is one of the caller's own jobs, and never
// another user's.
func nameOf(ref string, caller model.Subject) (n jobName, err error) {
	user, name, ok := rest.SplitRef(ref)
	if !ok {
		return n, notFound("no such job: want its number, a name of your own jobs or USER~NAME; a name has 1 to 255 letters, digits and ._~-")
	}
	n = jobName{ref: ref, user: user, name: name}
	if user == "" {
		id, _ := strconv.ParseInt(ref, 10, 64)
		n.number, n.user = model.JobID(id), caller
	}
	return n, nil
}

// missing is the error for a job that does not exist.
func (n *jobName) missing(caller model.Subject) error {
	switch {
	case n.user != caller:
		return notFound("no job %q of user %q; see comb job list", n.name, n.user)
	case n.number > 0:
		return notFound("no job %q; see comb job list", n.ref)
	}
	return notFound("no job %q of yours: another user's is USER~NAME; see comb job list", n.name)
}

// find returns the job that a path names, if the asker may do with it what the route does.
// For a job that the asker may not see it answers as for one that does not exist, after the
// same look-ups.
func (s *Server) find(ctx context.Context, ref string, after uint64) (rest.Job, error) {
	caller := people.Subject(ctx)
	n, err := nameOf(ref, caller)
	if err != nil {
		return rest.Job{}, err
	}
	j, err := s.lookUp(ctx, &n, after)
	if err != nil {
		return rest.Job{}, err
	}
	a, o := people.Of(ctx), access.Object{VC: j.VC, Owner: string(j.User)}
	hidden := n.missing(caller)
	if err := s.authorizer.May(ctx, a.Verb, o, hidden); err != nil {
		if !j.Phase.Ended() && errors.Is(err, hidden) {
			_, _, _ = s.finishedJob(ctx, n.number, n.user, n.name) // takes the time of looking for a job
		}
		return rest.Job{}, err
	}
	a.Object = o
	return j, nil
}

// lookUp returns a job by number, or the newest one of a user's name: the live one, else the
// last that ended.
func (s *Server) lookUp(ctx context.Context, n *jobName, after uint64) (rest.Job, error) {
	caller := people.Subject(ctx)
	var out rest.Job
	found := false
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return out, err
	}
	err = s.read(ctx, after, func(st *core.State) {
		var status model.JobStatus
		shown := func() bool { return sight.Sees(status.VC, status.User) }
		if n.number > 0 {
			status, found = st.AsOf(s.opts.Now()).Job(n.number)
			found = found && shown()
		}
		if id, ok := st.ByName(n.user, n.name); ok && !found {
			status, found = st.AsOf(s.opts.Now()).Job(id)
		}
		if found && !shown() { // no more work for a job that is not shown
			out = jobOf(caller, status)
		} else if found {
			defer withReader(st, caller, sight)()
			out = withReason(st, caller, status)
		}
	})
	if err != nil || found {
		return out, err
	}
	status, found, err := s.finishedJob(ctx, n.number, n.user, n.name)
	if err != nil || found {
		return jobOf(caller, status), err
	}
	return out, n.missing(caller)
}

// jobOf is a job in the form for a reader.
func jobOf(reader model.Subject, j model.JobStatus) rest.Job {
	return rest.Job{JobStatus: rest.StatusOf(&j), Ref: j.Name.ShownTo(reader, j.User)}
}

type stopInput struct {
	Meta
	Ref  string            `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Body *rest.StopRequest `required:"false"`
}

func (s *Server) stop(ctx context.Context, in *stopInput) (*body[rest.Done], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return jobCommands{s}.change(ctx, target{&in.Meta, "stop", in.Ref, reason}, func(m model.Meta, id model.JobID) model.Command {
		return model.Stop{Meta: m, Job: id, Reason: reason}
	})
}

// jobCommands has the routes that change a job in other ways than to stop it.
type jobCommands struct{ *Server }

type requeueInput struct {
	Meta
	Ref  string               `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Body *rest.RequeueRequest `required:"false"`
}

type updateInput struct {
	Meta
	Ref  string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Body rest.UpdateRequest
}

func (s jobCommands) register(api huma.API, op func(id, method, path, summary string) huma.Operation) {
	huma.Register(api, op("hold-job", http.MethodPost, "/jobs/{ref}/hold", "Keep a waiting job from starting"), s.hold)
	huma.Register(api, op("release-job", http.MethodPost, "/jobs/{ref}/release", "Let a held job start"), s.release)
	huma.Register(api, op("requeue-job", http.MethodPost, "/jobs/{ref}/requeue", "Stop what runs of a job, so that it waits again"),
		func(ctx context.Context, in *requeueInput) (*body[rest.Done], error) {
			var r rest.RequeueRequest
			if in.Body != nil {
				r = *in.Body
			}
			return s.change(ctx, target{&in.Meta, "requeue", in.Ref, r}, func(m model.Meta, id model.JobID) model.Command {
				return model.Requeue{Meta: m, Job: id, Hold: r.Hold, Reason: r.Reason}
			})
		})
	huma.Register(api, op("update-job", http.MethodPost, "/jobs/{ref}/update", "Change a job's priority or time limit"),
		func(ctx context.Context, in *updateInput) (*body[rest.Done], error) {
			if l := in.Body.TimeLimit; l != nil && *l%model.Second != 0 {
				return nil, invalid("time_limit", "a time limit is a whole number of seconds: want such as %d, or 0 for none", model.Second)
			}
			return s.change(ctx, target{&in.Meta, "update", in.Ref, in.Body}, func(m model.Meta, id model.JobID) model.Command {
				return model.Update{Meta: m, Job: id, Priority: in.Body.Priority, TimeLimit: in.Body.TimeLimit}
			})
		})
}

func (s jobCommands) hold(ctx context.Context, in *stopInput) (*body[rest.Done], error) {
	return s.holding(ctx, in, "hold", true)
}

func (s jobCommands) release(ctx context.Context, in *stopInput) (*body[rest.Done], error) {
	return s.holding(ctx, in, "release", false)
}

func (s jobCommands) holding(ctx context.Context, in *stopInput, verb string, on bool) (*body[rest.Done], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	return s.change(ctx, target{&in.Meta, verb, in.Ref, reason}, func(m model.Meta, id model.JobID) model.Command {
		return model.Hold{Meta: m, Job: id, On: on, Reason: reason}
	})
}

// change gives a command about a job.
func (s jobCommands) change(ctx context.Context, in target, command func(model.Meta, model.JobID) model.Command) (*body[rest.Done], error) {
	return s.command(ctx, in, func(m model.Meta) (model.Command, *engine.Audit, error) {
		j, err := s.find(ctx, in.ref, 0)
		if err != nil {
			return nil, nil, err
		}
		if j.Phase.Ended() {
			return nil, nil, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
				"job "+j.Ref+" has ended already: "+string(j.Phase))
		}
		limit := model.Duration(0)
		if err := s.read(ctx, 0, func(st *core.State) {
			if spec, ok := st.Spec(j.ID); ok {
				limit = spec.TimeLimit
			}
		}); err != nil {
			return nil, nil, err
		}
		c := command(m, j.ID)
		return c, lineOfJob(ctx, s.opts.People, c, &j, limit), nil
	})
}

// refusalsOf lists why nodes refused to start a waiting job, each reason once.
func refusalsOf(j *rest.Job) (list []string) {
	if j.Phase != model.Waiting {
		return nil
	}
	var seen []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Exit == nil || t.Exit.Cause != model.StartRefused || t.Exit.Message == "" ||
			slices.Contains(seen, t.Exit.Message) {
			continue
		}
		seen = append(seen, t.Exit.Message)
		by := cmp.Or(string(t.Node), "a node")
		list = append(list, fmt.Sprintf("%s refused task %s-%d: %s", by, t.Role, t.Index, t.Exit.Message))
	}
	return list
}

func (s *Server) explain(ctx context.Context, in *jobRead) (*body[rest.Explanation], error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	notices, err := s.authorizer.Notices(ctx, j.Notices)
	if err != nil {
		return nil, err
	}
	j.Notices = notices
	refusals, err := s.authorizer.Notices(ctx, refusalsOf(&j))
	if err != nil {
		return nil, err
	}
	notices = append(slices.Clone(notices), refusals...)
	one := []rest.Job{j}
	if err := (temporaryConfigs{s}).tell(ctx, one); err != nil {
		return nil, err
	}
	j.Coming = one[0].Coming
	out := rest.Explanation{Ref: j.Ref, Notices: notices, Explanation: model.Explanation{
		Job: j.ID, Name: j.Name, VC: j.VC, Phase: j.Phase, Gangs: []model.GangReason{}}}
	if j.Phase != model.Waiting {
		out.Status = &j.JobStatus
	}
	if j.Phase.Ended() {
		return answer(out), nil
	}
	known, err := s.measured(ctx)
	if err != nil {
		return nil, err
	}
	err = s.thinkFor(ctx, in.after(), func(st *core.State, hide func(*model.Explanation)) {
		ex, ok := st.Explain(j.ID)
		if !ok {
			return // it has ended meanwhile
		}
		if est, waits := st.Estimate(j.ID, known); waits {
			ex.Estimate = &est
		}
		hide(&ex)
		out.Explanation, out.Names, out.Nodes = ex, namesIn(st, people.Subject(ctx), &ex), rest.NotesOf(st.Nodes(), &ex)
	})
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

// rawAnswer is a body that is not JSON.
type rawAnswer struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (s *Server) jobConfig(ctx context.Context, in *jobRead) (*rawAnswer, error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	spec, found, err := s.store.Spec(ctx, j.ID)
	if err != nil {
		return nil, s.fail(err)
	}
	if !found || spec.Source == "" {
		return nil, notFound("the job file of %q is not kept", in.Ref)
	}
	return &rawAnswer{ContentType: "application/yaml; charset=utf-8", Body: []byte(spec.Source)}, nil
}

// usageOf is what the running tasks of a job used.
func usageOf(ctx context.Context, s *Server, in *jobRead) (*body[rest.JobUsage], error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	out := rest.JobUsage{Job: j.ID, Ref: j.Ref, Tasks: []rest.TaskUsage{}}
	for n := range j.Tasks {
		t := &j.Tasks[n]
		if !isThere(t.State) {
			continue
		}
		u := rest.TaskUsage{Role: t.Role, Index: t.Index, Node: t.Node, Attempt: t.Attempt, Limits: t.Limits, GPUs: len(t.Devices), Samples: []rest.Usage{}}
		if t.Progress != nil {
			u.Devices = t.Progress.Use
		}
		if s.opts.Meter != nil {
			for _, v := range s.opts.Meter.Usage(executor.TaskRef{Attempt: model.AttemptID{Job: j.ID, Gang: t.Gang, N: t.Attempt}, Task: int32(n)}) {
				u.Samples = append(u.Samples, rest.Usage{At: v.At, MilliCPU: v.CPU, MemoryMB: v.MemoryMB, Read: v.Read, Written: v.Written})
			}
		}
		out.Tasks = append(out.Tasks, u)
	}
	return answer(out), nil
}
