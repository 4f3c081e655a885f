package server

import (
	"context"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// finishedJobs returns up to one more than a page of ended jobs, newest first.
func (s *Server) finishedJobs(ctx context.Context, f *jobFilter) ([]sched.JobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	ask := engine.Past{Users: f.users, VCs: f.vcs, Name: f.name, Within: f.sight.Within(), Before: f.before, Limit: f.limit + 1}
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

// removedOf says when the files of a job were removed; nil where they were not.
func removedOf(ctx context.Context, s *Server, id sched.JobID) (*rest.Removed, error) {
	r, ok, err := s.store.Removed(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return &rest.Removed{At: r.At, Rule: r.Rule}, nil
}
