// Package simulate runs a trace, or the journal of a server, on a simulated cluster. The
// engine and the core are those that run live. executor/sim stands for the machines, and the
// trace for the users. The package makes clusters, virtual clusters and jobs from what the
// command line says, and runs them. It must not decide anything, and must not know policies.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sim/metrics"
)

// Origin is the instant at which every simulation begins: a trace's times count
// from it. It is a midnight, so that hours of a trace, and leases of policies, begin
// on the hour.
const Origin = model.Time(1_000_080_000 * model.Second)

// GCPercent is what programs that simulate give to debug.SetGCPercent: almost all that
// a simulation allocates is short-lived and what it keeps is small, so collecting less
// often saves a fifth of its time.
const GCPercent = 300

// Options are the parts of a run that its Spec does not say.
type Options struct {
	Policies model.Policies
	// Ended, when set, is called for each job as it ends.
	Ended func(*metrics.Row)
	// OnBatch, when set, is called with all events.
	OnBatch func(engine.Batch)
	// Journal keeps the events; nil keeps none.
	Journal engine.Journal
}

// Result is the outcome of a run.
type Result struct {
	*metrics.Result
	Submitted int
	// Refused counts the jobs that the cluster can never run, Refusals the same by reason.
	Refused  int
	Refusals []Refusal
	Records  uint64
	// Timeless counts the jobs without a run time in the trace: they end as soon as they
	// start.
	Timeless int
	Trace    TraceCounts
	// KeptOff counts jobs by the types of GPUs on which they cannot run. Ignored counts them
	// by what the trace says of them and a simulation ignores.
	KeptOff Tally
	Ignored Tally
	// Replayed counts what of a journal was repeated; nil for a trace.
	Replayed *ReplayCounts
}

// Refusal is why jobs were refused: how many, and the first of them.
type Refusal struct {
	What  string        `json:"what"`
	N     int           `json:"n"`
	First model.JobName `json:"first"`
}

// At most maxRefusals reasons are told apart; otherReasons stands for all further ones.
const (
	maxRefusals  = 20
	otherReasons = "for other reasons"
)

// refuse counts a job that was refused.
func (r *Result) refuse(job model.JobName, what string) {
	r.Refused++
	is := func(o Refusal) bool { return o.What == what }
	if !slices.ContainsFunc(r.Refusals, is) && len(r.Refusals) >= maxRefusals-1 {
		what = otherReasons
	}
	i := slices.IndexFunc(r.Refusals, is)
	if i < 0 {
		i = len(r.Refusals)
		r.Refusals = append(r.Refusals, Refusal{What: what, First: job})
	}
	r.Refusals[i].N++
}

// runner is one run.
type runner struct {
	plan      *plan
	o         Options
	workload  workload
	world     *sim.World
	stop      context.CancelFunc
	fold      *metrics.Fold
	occupancy *occupancy
	// task is the task that is about to start, behavior what is filled in for it.
	task     sim.Task
	behavior sim.Behavior
	// changed are speeds of which the metrics were not told yet.
	changed         []change
	result          Result
	err             error
	reportsProgress bool       // jobs tell their progress
	end             model.Time // time of the last batch
}

// workload is a workload: what comes from outside in a run. It gives the inputs in order of
// time, and how much work jobs are.
type workload interface {
	// nextInput returns the next input and its time, and false at the end. The first input is the
	// configuration. It is asked for before r.world exists.
	nextInput(*runner) (model.Time, engine.Input, bool)
	// work is how long a starting task will work at full speed, and its exit code. A time of
	// 0 is until it is told to end.
	work(*sim.Task) (model.Duration, int32)
	// fillBehavior fills in what else a starting task does, such as what it reports and how often.
	// It is called after work.
	fillBehavior(*sim.Task, *sim.Behavior)
	// jobFacts are what is known of a job that was just submitted.
	jobFacts(model.JobID, *model.Job) metrics.Facts
	// gpus is the number of GPUs of a starting task's job.
	gpus(*sim.Task) int32
	// factHappened is called with each fact of the world before the engine gets it.
	factHappened(model.Fact)
	// dropJob drops a job.
	dropJob(model.JobID)
	// busy reports whether anything is to come.
	busy() bool
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
	next, stop := t.reading()
	defer stop()
	r, err := p.runWorkload(ctx, spec.Policy, &traceWorkload{builder: newJobBuilder(spec, p), load: spec.Load,
		next:       next,
		unnumbered: map[*model.Job]*builtJob{}}, timeframe{begin: Origin, horizon: math.MaxInt64}, o)
	if err == nil {
		r.Trace = t.counts
	}
	return r, err
}

// timeframe is when a run begins, and when it ends at the latest.
type timeframe struct{ begin, horizon model.Time }

// runWorkload runs a workload.
func (p *plan) runWorkload(ctx context.Context, policy string, s workload, at timeframe, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{plan: p, o: o, workload: s, reportsProgress: profilerOn(p.config), stop: cancel}
	r.occupancy = newOccupancy(p, r.setSpeed)
	r.occupancy.configure(&p.config.Cluster)
	figures := metrics.Options{Policy: policy, Origin: at.begin, Facts: s.jobFacts, Ended: o.Ended}
	if p.model != nil {
		figures.Speed = r.speedOf
	}
	r.fold = metrics.New(figures)
	r.world = sim.New(sim.Options{Start: at.begin, Behave: r.behave, Feed: r.feed, Forget: true, Prompt: true})
	r.world.Extend(at.horizon)
	if p.faults != nil {
		p.faults.schedule(r.world, p.config, s.busy)
	}
	if o.Journal == nil {
		r.o.Journal = &engine.CountingJournal{}
	}
	e, err := engine.Open(ctx, engine.Options{Inputs: r, Executor: r.world, Journal: r.o.Journal, Policies: o.Policies, Epoch: 1, OnBatch: r.foldBatch,
		Alone: true, DropEnded: o.Journal == nil})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(e.Run(ctx), r.err, r.world.Err()); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if r.result.Submitted == r.result.Refused {
		return nil, r.result.nothing()
	}
	r.result.Result, err = r.fold.Finish(r.end)
	return &r.result, err
}

// nothing is the error of a run in which no job was accepted: it would have no metrics.
func (r *Result) nothing() error {
	if r.Refused == 0 {
		return errors.New("there is no job to run")
	}
	text := fmt.Sprintf("no job can run: all %d were refused", r.Refused)
	for _, f := range r.Refusals {
		text += "\n  " + f.String()
	}
	return errors.New(text)
}

// String is the number of the jobs, the first of them, and why.
func (f Refusal) String() string {
	jobs := "jobs"
	if f.N == 1 {
		jobs = "job"
	}
	return fmt.Sprintf("%d %s, the first %q: %s", f.N, jobs, f.First, f.What)
}

// Next implements engine.Inputs: the inputs of the world, whose facts the workload sees
// first.
func (r *runner) Next(ctx context.Context, wake model.Time) (model.Time, []engine.Input, error) {
	now, in, err := r.world.Next(ctx, wake)
	for i := range in {
		if in[i].Fact != nil {
			r.workload.factHappened(in[i].Fact)
		}
	}
	return now, in, err
}

func (r *runner) feed() (model.Time, engine.Input, bool) { return r.workload.nextInput(r) }

// meta names the subject of the run's commands.
func meta() model.Meta { return model.Meta{Subject: "simulation"} }

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

// accepted counts a submission; it is false when the cluster can never run the job.
func (r *runner) accepted(j *model.Job, a engine.Reply) bool {
	switch {
	case a.Err != nil:
		r.fail(a.Err)
	case a.Refusal != nil:
		what := a.Refusal.Message
		if a.Refusal.Kind == model.Conflict {
			what = "the trace has another job of this id that has not ended yet; give each an id of its own"
		}
		r.result.refuse(j.Name, what)
	default:
		return true
	}
	return false
}

// behave says how a starting task behaves. All tasks of a gang work side by side.
func (r *runner) behave(t sim.Task) sim.Behavior {
	r.task, r.behavior = t, sim.Behavior{} // stories read and fill in these by pointer
	b := &r.behavior
	b.RunFor, b.Code = r.workload.work(&r.task)
	if r.reportsProgress {
		b.Tell = progressAfter
	}
	r.workload.fillBehavior(&r.task, b)
	b.Speed = perf.FullSpeed
	if r.occupancy.model != nil {
		places := make([]cell.Task, len(t.Gang))
		for i := range t.Gang {
			places[i] = t.Gang[i].Place
		}
		b.Speed = r.occupancy.enter(t.Attempt, t.Job, places)
	}
	if t.Attempt.N > 1 {
		b.StartUp = r.occupancy.startUp(t.Attempt, r.workload.gpus(&r.task))
	}
	return *b
}

// progressAfter is when a job reports its progress, where a policy's profiler measures run times.
const progressAfter = 10 * model.Second

// profilerOn reports whether a VC's policy measures run times.
func profilerOn(c *model.Config) bool {
	for i := range c.VCs {
		for _, p := range c.VCs[i].Params {
			if p.Key == "profiler" && p.Value != "off" {
				return true
			}
		}
	}
	return false
}

// setSpeed changes the speed of an attempt, in the world and in the metrics.
func (r *runner) setSpeed(id model.AttemptID, speed perf.Speed) {
	r.world.SetSpeed(id, speed)
	r.changed = append(r.changed, change{id, speed})
}

// change is a speed of which the metrics are told once they know the attempt.
type change struct {
	id    model.AttemptID
	speed perf.Speed
}

// speedOf is the speed of a placement, for the metrics.
func (r *runner) speedOf(id model.AttemptID, j *model.Job, p *cell.Placement) int64 {
	return int64(r.occupancy.enter(id, j, p.Tasks))
}

// foldBatch folds a batch and drops jobs that have ended.
func (r *runner) foldBatch(b engine.Batch) {
	r.fold.Add(b.Records)
	r.occupancy.follow(b.Records)
	for _, c := range r.changed {
		r.fold.SetSpeed(r.world.Now(), c.id, int64(c.speed))
	}
	r.changed = r.changed[:0]
	for i := range b.Records {
		if e, is := b.Records[i].Event.(model.JobEnded); is {
			r.workload.dropJob(e.Job)
		}
	}
	if n := len(b.Records); n > 0 {
		r.result.Records, r.end = b.Records[n-1].Seq, b.Records[n-1].Time
	}
	if r.o.OnBatch != nil {
		r.o.OnBatch(b)
	}
}
