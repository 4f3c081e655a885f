package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// finishedJobs returns up to one more than a page of ended jobs, newest first.
func (s *Server) finishedJobs(ctx context.Context, f *jobFilter) ([]sched.JobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	ask := engine.Past{Users: f.users, VCs: f.vcs, Name: f.name, Tag: f.tag, Within: f.sight.Within(), Before: f.before, Limit: f.limit + 1}
	if len(f.states) > 0 {
		for _, p := range f.states {
			if p.Ended() {
				ask.Phases = append(ask.Phases, p)
			}
		}
		if len(ask.Phases) == 0 {
			return nil, nil
		}
	}
	var out []sched.JobStatus
	for {
		page, next, err := s.store.Finished(ctx, ask)
		if err != nil {
			return nil, s.fail(err)
		}
		for i := range page {
			if j := &page[i]; f.sight.Sees(j.VC, j.User) { // all else the store has looked at
				out = append(out, *j)
			}
		}
		if next == 0 || len(out) > f.limit {
			return out, nil
		}
		ask.Before = next
	}
}

// finishedJob returns an ended job by number, or the last of that name of a user.
func (s *Server) finishedJob(ctx context.Context, id sched.JobID, user sched.Subject, name sched.JobName) (sched.JobStatus, bool, error) {
	if id > 0 {
		j, ok, err := s.store.Job(ctx, id)
		if err != nil {
			return j, false, s.fail(err)
		}
		if ok {
			return j, true, nil
		}
	}
	j, ok, err := s.store.LastNamed(ctx, user, name)
	if err != nil {
		return j, false, s.fail(err)
	}
	return j, ok, nil
}

// history returns the next events after seq: at most limit of one job, or of all jobs (job 0) a piece's bytes.
func (s *Server) history(ctx context.Context, seq uint64, job sched.JobID, limit int) ([]sched.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if job != 0 {
		return s.store.JobEvents(ctx, job, seq, limit)
	}
	return s.store.Events(ctx, seq, largePiece)
}

// tags are those of jobs.
type tags struct{ *Server }

const mostTags = 32 // of one job

type tagInput struct {
	Ref string `path:"ref" doc:"A job's number, a NAME of the caller's, or USER~NAME"`
	Tag string `path:"tag" doc:"Up to 64 letters, digits and . _ : = @ + -"`
}

func (s tags) register(api huma.API, op func(id, method, path, summary string) huma.Operation) {
	set := func(on bool) func(context.Context, *tagInput) (*body[rest.Tagged], error) {
		return func(ctx context.Context, in *tagInput) (*body[rest.Tagged], error) {
			j, err := s.find(ctx, in.Ref, 0)
			if err != nil {
				return nil, err
			}
			list, err := s.set(ctx, &j, in.Tag, on)
			if err != nil {
				return nil, err
			}
			return answer(rest.Tagged{Tags: list}), nil
		}
	}
	huma.Register(api, op("tag-job", http.MethodPut, "/jobs/{ref}/tags/{tag}", "Give a job a tag"), set(true))
	huma.Register(api, op("untag-job", http.MethodDelete, "/jobs/{ref}/tags/{tag}", "Take a tag off a job"), set(false))
}

// set gives a job a tag, or takes it off, and returns those that it has then.
func (s tags) set(ctx context.Context, j *rest.Job, tag string, on bool) ([]string, error) {
	if why := rest.CheckTag(tag); why != "" {
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, why)
	}
	err := s.opts.Tags.Tag(ctx, j.ID, tag, on, mostTags)
	if errors.Is(err, engine.ErrTooMany) {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeConflict, fmt.Sprintf("job %s has %d tags, the most that one may have: take one off first", j.Ref, mostTags))
	}
	if err != nil {
		return nil, s.fail(err)
	}
	of, err := s.opts.Tags.Of(ctx, []sched.JobID{j.ID})
	if err != nil {
		return nil, s.fail(err)
	}
	return append([]string{}, of[j.ID]...), nil
}

// add gives jobs of an answer their tags.
func (s tags) add(ctx context.Context, jobs []rest.Job) error {
	if s.opts.Tags == nil {
		return nil
	}
	ids := make([]sched.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	of, err := s.opts.Tags.Of(ctx, ids)
	if err != nil {
		return s.fail(err)
	}
	for i := range jobs {
		jobs[i].Tags = of[jobs[i].ID]
	}
	return nil
}

// removedOf says when the files of a job were removed; nil where they were not.
func removedOf(ctx context.Context, s *Server, id sched.JobID) (*rest.Removed, error) {
	r, ok, err := s.store.Removed(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return &rest.Removed{At: r.At, Rule: r.Rule}, nil
}
