package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

type jobRead struct {
	AfterSeq
	Ref string `path:"ref" doc:"A job's number or name"`
}

func (s *Server) getJob(ctx context.Context, in *jobRead) (*body[rest.Job], error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	if s.opts.Checkpoints != nil && slices.ContainsFunc(j.Tasks, func(t sched.TaskStatus) bool { return t.Attempt > 0 }) {
		j.CheckpointDir = s.opts.Checkpoints(j.ID)
	}
	return answer(j), nil
}

// find returns a job by number, or the newest of a name: the live one, else the
// last that ended.
func (s *Server) find(ctx context.Context, ref string, after uint64) (rest.Job, error) {
	if err := checkName("job", ref); err != nil {
		return rest.Job{}, err
	}
	number, _ := strconv.ParseInt(ref, 10, 64)
	var out rest.Job
	found := false
	err := s.read(ctx, after, func(st *sched.State) {
		var status sched.JobStatus
		if number > 0 {
			status, found = st.AsOf(s.opts.Now()).Job(sched.JobID(number))
		}
		if id, ok := st.ByName(sched.JobName(ref)); ok && !found {
			status, found = st.AsOf(s.opts.Now()).Job(id)
		}
		if found {
			out = withReason(st, status)
		}
	})
	if err != nil || found {
		return out, err
	}
	status, found, err := s.finishedJob(ctx, sched.JobID(number), sched.JobName(ref))
	if err != nil {
		return out, err
	}
	if !found {
		return out, notFound("no job %q; see comb job list", ref)
	}
	return rest.Job{JobStatus: status}, nil
}

type stopInput struct {
	Meta
	Ref  string            `path:"ref" doc:"A job's number or name"`
	Body *rest.StopRequest `required:"false"`
}

func (s *Server) stop(ctx context.Context, in *stopInput) (*body[rest.Done], error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	w, err := in.writeOf(ctx, "stop", in.Ref, reason)
	if err != nil {
		return nil, s.fail(err)
	}
	reply, err := s.once(ctx, w, func() (engine.Reply, error) {
		j, err := s.find(ctx, in.Ref, 0)
		if err != nil {
			return engine.Reply{}, err
		}
		if j.Phase.Ended() {
			return engine.Reply{}, rest.NewProblem(http.StatusConflict, rest.CodeConflict,
				"job "+string(j.Name)+" has ended already: "+string(j.Phase))
		}
		return s.do(ctx, w, engine.Input{Command: sched.Stop{Meta: w.meta, Job: j.ID, Reason: reason}})
	})
	if err != nil {
		return nil, err
	}
	return doneOf(reply), nil
}

func (s *Server) explain(ctx context.Context, in *jobRead) (*body[rest.Explanation], error) {
	j, err := s.find(ctx, in.Ref, in.after())
	if err != nil {
		return nil, err
	}
	out := rest.Explanation{Explanation: sched.Explanation{
		Job: j.ID, Name: j.Name, VC: j.VC, Phase: j.Phase, Gangs: []sched.GangReason{}}}
	if j.Phase != sched.Waiting {
		out.Status = &j.JobStatus
	}
	if j.Phase.Ended() {
		return answer(out), nil
	}
	known, err := s.measured(ctx)
	if err != nil {
		return nil, err
	}
	err = s.think(ctx, in.after(), func(st *sched.State) {
		ex, ok := st.Explain(j.ID)
		if !ok {
			return // it ended in between
		}
		if est, waits := st.Estimate(j.ID, known); waits {
			ex.Estimate = &est
		}
		out.Explanation, out.Names = ex, namesIn(st, &ex)
	})
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

// rawAnswer is a body that is no JSON.
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
