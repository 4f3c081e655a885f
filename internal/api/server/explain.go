package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/people"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const (
	// measuredJobs is from how many ended jobs estimates learn run times.
	measuredJobs = 500
)

// think calls f with a copy of the present state. f may change the copy, but not keep it.
// Neither the loop nor other readers wait. Routes that think take turns.
func (s *Server) think(ctx context.Context, after uint64, f func(*core.State)) error {
	var copied *core.State
	spare, _ := s.spares.Get().(*core.CopyMemory)
	if spare == nil {
		spare = &core.CopyMemory{}
	}
	defer s.spares.Put(spare)
	if err := s.read(ctx, after, func(st *core.State) { copied = st.AtIn(spare, s.opts.Now()) }); err != nil {
		return err
	}
	f(copied)
	return nil
}

// measured sums up how long the last successful jobs ran.
func (s *Server) measured(ctx context.Context) (model.MeasuredRuns, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	jobs, _, err := s.store.Finished(ctx, engine.FinishedFilter{Phases: []model.Phase{model.Succeeded}, Limit: measuredJobs})
	if err != nil {
		return nil, s.fail(err)
	}
	out := model.MeasuredRuns{}
	for i := range jobs {
		if j := &jobs[i]; j.Phase == model.Succeeded && j.Started > 0 {
			out.Add(j.User, j.Name, model.Duration(j.Ended-j.Started))
		}
	}
	return out, nil
}

// namesIn returns the names of the jobs that an explanation mentions by number.
func namesIn(st *core.State, reader model.Subject, ex *model.Explanation) []rest.NamedJob {
	var out []rest.NamedJob
	add := func(ids []model.JobID) {
		for _, id := range ids {
			out = appendName(st, out, reader, id)
		}
	}
	for _, g := range ex.Gangs {
		add(g.Reason.Jobs)
		for _, change := range g.Suggestions {
			add(change.Jobs)
			add(change.Preempts)
		}
	}
	for _, g := range ex.Shares {
		for i := range g.With {
			add([]model.JobID{g.With[i].Job})
		}
	}
	if ex.Estimate != nil {
		add(ex.Estimate.Jobs)
		for _, end := range ex.Estimate.Ends {
			add([]model.JobID{end.Job})
		}
	}
	return sortedNames(out)
}

// thinkFor is think for an asker: jobs have the names by which it calls them. Jobs that it may
// not see have numbers and no names; hide removes their names from an explanation.
func (s *Server) thinkFor(ctx context.Context, after uint64, f func(st *core.State, hide func(*model.Explanation))) error {
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return err
	}
	return s.think(ctx, after, func(st *core.State) {
		st.NameFor(people.Subject(ctx))
		if sight == nil {
			f(st, func(*model.Explanation) {})
			return
		}
		st.HideNames(func(j *model.Job) bool { return !sight.Sees(j.VC, j.User) })
		f(st, func(ex *model.Explanation) {
			rest.Hide(ex, func(id model.JobID) bool {
				spec, ok := st.Spec(id)
				return ok && st.HidesName(spec)
			})
			for i := range ex.Gangs { // advice for other users is no help
				g := &ex.Gangs[i]
				g.Suggestions = slices.DeleteFunc(g.Suggestions, func(to model.Suggestion) bool { return to.VC != "" && !sight.Submits(to.VC) })
			}
		})
	})
}

// standing says on which cells a job runs, and when it must leave them.
func standing(job *model.Job) (guaranteed bool, why string) {
	if job.Priority >= cell.MinGuaranteed {
		return true, fmt.Sprintf("guaranteed: it gets cells of VC %s, and no job of another VC can take them", job.VC)
	}
	return false, "borrowed: an opportunistic job gets cells that are free now, and gives way when a VC needs its own"
}

// dryRun fills in the outcome of a job on a copy of the state: what the core would do now.
func dryRun(st *core.State, job *model.Job, ex model.Explanation, refusal *model.Refusal, out *rest.Validated) {
	if refusal != nil {
		out.Verdict, out.Message, out.Reason = rest.VerdictNever, refusal.Message, refusal.Reason
		if refusal.Kind == model.Never {
			out.Explanation = &rest.Explanation{Explanation: ex, Ref: string(ex.Name),
				Names: namesIn(st, job.User, &ex)}
		}
		return
	}
	out.Explanation = &rest.Explanation{Explanation: ex, Ref: string(ex.Name), Names: append(namesIn(st, job.User, &ex), namedJob(job.User, ex.Job, job))}
	out.Guaranteed, out.Standing = standing(job)
	starting := ex.Starting()
	switch {
	case starting == 0 && len(ex.Gangs) > 0:
		out.Verdict, out.Message, out.Reason = rest.VerdictWaits, ex.Gangs[0].Reason.Message, &ex.Gangs[0].Reason
	case len(ex.Preempts) > 0:
		out.Verdict = rest.VerdictStarts
		out.Message = fmt.Sprintf("it would start once %d jobs have given way", len(ex.Preempts))
		if len(ex.Preempts) == 1 {
			out.Message = fmt.Sprintf("it would start once %s has given way", ex.Preempts[0].Name.ShownTo(job.User, ex.Preempts[0].User))
		}
	default:
		out.Verdict, out.Message = rest.VerdictStarts, "it would start at once"
	}
	if out.Verdict == rest.VerdictStarts && len(ex.Gangs) > 0 {
		all := 0
		for _, g := range job.Gangs {
			all += len(g.Tasks)
		}
		out.Message += fmt.Sprintf(", with %d of its %d tasks", starting, all)
	}
}

// starts has the routes about when jobs start.
type starts struct{ *Server }

func (s starts) register(api huma.API, op func(id, method, path, summary string) huma.Operation) {
	huma.Register(api, op("list-starts", http.MethodGet, "/starts", "When jobs that wait are expected to start"),
		s.list)
}

type startsInput struct {
	Job []int64 `query:"job,explode" maxItems:"400" doc:"Numbers of jobs; may repeat"`
}

// list returns when the requested jobs start that the asker may see. The estimates are some
// seconds old.
func (s starts) list(ctx context.Context, in *startsInput) (*body[rest.Starts], error) {
	sight, err := s.authorizer.Sight(ctx)
	if err != nil {
		return nil, err
	}
	out := rest.Starts{Starts: []model.Expected{}}
	err = s.foreseen.Use(ctx, s.estimate, func(list map[model.JobID]model.Expected, at time.Time) error {
		out.AsOf = model.Time(at.UnixMicro())
		return s.read(ctx, 0, func(st *core.State) {
			for _, id := range in.Job {
				e, known := list[model.JobID(id)]
				if job, ok := st.Spec(model.JobID(id)); known && ok && sight.Sees(job.VC, job.User) {
					out.Starts = append(out.Starts, e)
				}
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return answer(out), nil
}

func (s starts) estimate(ctx context.Context) (list []model.Expected, err error) {
	known, err := s.measured(ctx)
	if err != nil {
		return nil, err
	}
	err = s.think(ctx, 0, func(st *core.State) { list = st.Starts(known) })
	return list, err
}
