// Package simulate replays a trace on a cluster: the engine and the core that run
// live, with the simulated machine room of executor/sim for the world and the trace
// for its users. It makes clusters, virtual clusters and jobs from what the command
// line says, and runs them. It must not decide anything, and must not know policies.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/metrics"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/trace"
)

// Origin is the instant at which every simulation begins: a trace's times count
// from it. It is a midnight, so that hours of a trace, and leases of policies, begin
// on the hour.
const Origin = sched.Time(1_000_080_000 * sched.Second)

// GCPercent is what programs that simulate give to debug.SetGCPercent: almost all that
// a simulation allocates is short-lived and what it keeps is small, so collecting less
// often saves a fifth of its time.
const GCPercent = 300

// Options are the parts of a run that its Spec does not say.
type Options struct {
	Policies sched.Policies
	// Ended, when set, gets each job as it ends.
	Ended func(*metrics.Row)
	// OnBatch, when set, sees all events.
	OnBatch func(engine.Batch)
	// Journal keeps them; nil keeps none.
	Journal engine.Journal
}

// Result is what came of a run.
type Result struct {
	*metrics.Result
	Submitted int
	// Refused are the jobs that the cluster can never run, with the reason of the
	// first of them.
	Refused int
	Reason  string
	Records uint64
}

// runner is one run.
type runner struct {
	plan   *plan
	o      Options
	make   jobs
	load   float64 // 0 is 1
	next   func() (trace.Job, error, bool)
	stop   context.CancelFunc
	fold   *metrics.Fold
	last   sched.Time
	work   map[*sched.Job]work // of jobs that have not ended
	byID   map[sched.JobID]*sched.Job
	result Result
	err    error
	began  bool
	done   bool       // the trace has no more jobs
	end    sched.Time // of the last batch
}

// work is what the world knows of a job and the core does not.
type work struct {
	duration sched.Duration
	gpus     int32
	id       string
}

// Run replays a trace to its end. It stops at the first job that cannot be read, or
// when the context is done.
func Run(ctx context.Context, spec Spec, t *Trace, o Options) (*Result, error) {
	p, err := spec.read(t)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, &spec, t, o)
}

// run replays a trace as planned.
func (p *plan) run(ctx context.Context, spec *Spec, t *Trace, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, stop := iter.Pull2(t.jobs())
	defer stop()
	r := &runner{plan: p, o: o, load: spec.Load, next: next, stop: cancel, work: map[*sched.Job]work{}, byID: map[sched.JobID]*sched.Job{}}
	r.make = newJobs(spec, p)
	r.fold = metrics.New(metrics.Options{Policy: spec.Policy, Origin: Origin, Facts: r.facts, Speed: r.speedOf, Ended: o.Ended})
	w := sim.New(sim.Options{Start: Origin, Behave: r.behave, Feed: r.feed, Forget: true, Prompt: true})
	w.Extend(math.MaxInt64)
	if p.faults != nil {
		p.faults.plan(w, p.config, func() bool { return !r.done || len(r.work) > 0 })
	}
	if o.Journal == nil {
		r.o.Journal = &engine.Sink{}
	}
	e, err := engine.Open(ctx, engine.Options{Inputs: w, Executor: w, Journal: r.o.Journal, Policies: o.Policies, Epoch: 1, OnBatch: r.see, Alone: true})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(e.Run(ctx), r.err, w.Err()); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r.result.Result, err = r.fold.Finish(r.end)
	return &r.result, err
}

// feed gives the configuration, then one job after the other.
func (r *runner) feed() (sched.Time, engine.Input, bool) {
	meta := sched.Meta{Subject: "simulation"}
	if !r.began {
		r.began = true
		return Origin, engine.Input{Command: sched.Reconfigure{Meta: meta, Config: r.plan.config}, Reply: r.configured}, true
	}
	t, err, ok := r.next()
	if err == nil && ok && t.Submit < r.last {
		err = fmt.Errorf("job %q is submitted before the job that precedes it: sort the trace", t.ID)
	}
	if err != nil {
		r.fail(err)
	}
	if err != nil || !ok {
		r.done = true
		return 0, engine.Input{}, false
	}
	r.last = t.Submit
	if r.load != 0 {
		t.Submit = sched.Time(math.Round(float64(t.Submit) / r.load))
	}
	j := r.make.job(&t)
	r.work[j] = work{t.Duration, t.GPUs, t.ID}
	r.result.Submitted++
	return Origin + t.Submit, engine.Input{Command: sched.Submit{Meta: meta, Job: j}, Reply: func(a engine.Reply) { r.answer(j, a) }}, true
}

// fail ends the run.
func (r *runner) fail(err error) {
	r.err = errors.Join(r.err, err)
	r.stop()
}

// configured ends the run when the cluster cannot be built.
func (r *runner) configured(a engine.Reply) {
	if a.Refusal != nil {
		r.fail(fmt.Errorf("the cluster is refused: %s", a.Refusal.Message))
	} else if a.Err != nil {
		r.fail(a.Err)
	}
}

// answer counts a job that was not accepted.
func (r *runner) answer(j *sched.Job, a engine.Reply) {
	switch {
	case a.Err != nil:
		r.fail(a.Err)
	case a.Refusal != nil:
		delete(r.work, j)
		if r.result.Refused++; r.result.Refused == 1 {
			r.result.Reason = fmt.Sprintf("job %q: %s", j.Name, a.Refusal.Message)
		}
	default:
		r.byID[a.Answer.Job] = j
	}
}

// facts tells the figures what the core does not know.
func (r *runner) facts(_ sched.JobID, j *sched.Job) metrics.Facts {
	w := r.work[j]
	return metrics.Facts{Duration: max(w.duration, 1), TraceID: w.id, App: j.Hints.App, Model: j.Hints.Model}
}

// behave is how a task behaves: all of a gang do its work side by side.
func (r *runner) behave(t sim.Task) sim.Behavior {
	w := r.work[t.Job]
	b := sim.Behavior{RunFor: max(w.duration-t.Served, 1)}
	if t.Attempt.N > 1 && r.plan.restart != nil {
		b.StartUp = r.plan.restart(w.gpus)
	}
	if r.plan.spreads != nil {
		nodes := make([]cell.NodeName, len(t.Gang))
		for i := range t.Gang {
			nodes[i] = t.Gang[i].Place.Node
		}
		b.Speed = r.speed(t.Job, w.gpus, nodes)
	}
	return b
}

// speedOf is the speed of a placement, for the figures.
func (r *runner) speedOf(_ sched.AttemptID, j *sched.Job, p *cell.Placement) int64 {
	if r.plan.spreads == nil {
		return metrics.FullSpeed
	}
	nodes := make([]cell.NodeName, len(p.Tasks))
	for i := range p.Tasks {
		nodes[i] = p.Tasks[i].Node
	}
	return r.speed(j, r.work[j].gpus, nodes)
}

// speed looks a gang on some nodes up.
func (r *runner) speed(j *sched.Job, gpus int32, nodes []cell.NodeName) int64 {
	slices.Sort(nodes)
	return int64(r.plan.spreads.On(j.Hints.Model, gpus, int32(len(slices.Compact(nodes)))))
}

// see lets go of jobs that have ended.
func (r *runner) see(b engine.Batch) {
	r.fold.Add(b.Records)
	for i := range b.Ended {
		id := b.Ended[i].ID
		delete(r.work, r.byID[id])
		delete(r.byID, id)
	}
	if n := len(b.Records); n > 0 {
		r.result.Records, r.end = b.Records[n-1].Seq, b.Records[n-1].Time
	}
	if r.o.OnBatch != nil {
		r.o.OnBatch(b)
	}
}
