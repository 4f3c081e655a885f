package simulate

import (
	"fmt"
	"math"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sim/metrics"
	"github.com/combsched/comb/internal/spec/trace"
)

// traceWorkload is the workload of a trace: its jobs, submitted one after the other.
type traceWorkload struct {
	builder    jobBuilder
	load       float64                          // how many times as fast the jobs arrive; 0 is 1
	next       func() (*trace.Job, error, bool) // the job is valid until the next call
	last       model.Time
	unnumbered map[*model.Job]*builtJob // submitted jobs that have no id yet
	byID       []*builtJob              // jobs by id; nil where there is none, or it has ended
	open       int                      // number of jobs in fresh and todo
	began      bool
	done       bool // the trace has no more jobs
}

// jobWork is what the simulated world knows of a job and the core does not.
type jobWork struct {
	duration model.Duration
	gpus     int32
	id       string
	interval model.Duration // between two reports
	loss     *trace.Curve   // nil where the job reports no loss
	code     int32          // exit code
}

// nextInput implements story: the configuration, then one job after the other.
func (s *traceWorkload) nextInput(r *runner) (model.Time, engine.Input, bool) {
	if !s.began {
		s.began = true
		return Origin, engine.Input{Command: model.Reconfigure{Meta: meta(), Config: r.plan.config}, Reply: r.configured}, true
	}
	for {
		t, err, ok := s.next()
		if err == nil && ok && t.Submit < s.last {
			err = fmt.Errorf("job %q is submitted before the job that precedes it: sort the trace", t.ID)
		}
		if err != nil {
			r.fail(err)
		}
		if err != nil || !ok {
			s.done = true
			return 0, engine.Input{}, false
		}
		s.last = t.Submit
		m := s.builder.job(t)
		r.ignores(t)
		if r.fits(&m.Job, t.GPUs) {
			return s.submitTime(t.Submit), s.submit(r, t, m), true
		}
	}
}

// submitTime is the instant at which a job of the trace is submitted.
func (s *traceWorkload) submitTime(submit model.Time) model.Time {
	if s.load != 0 {
		return Origin + model.Time(math.Round(float64(submit)/s.load))
	}
	return Origin + submit
}

// submit submits a job.
func (s *traceWorkload) submit(r *runner, t *trace.Job, m *builtJob) engine.Input {
	m.work, m.Job.Retries = r.plan.work(t), r.plan.failures.retriesOf()
	s.unnumbered[&m.Job] = m
	s.open++
	r.result.Submitted++
	if t.Duration == 0 {
		r.result.Timeless++
	}
	return engine.Input{Command: model.Submit{Meta: meta(), Job: &m.Job}, Reply: func(a engine.Reply) {
		if !r.accepted(&m.Job, a) {
			delete(s.unnumbered, &m.Job)
			s.open--
		}
	}}
}

// jobOf returns a submitted job by its id. A job may start before the answer comes that it was
// accepted.
func (s *traceWorkload) jobOf(id model.JobID, j *model.Job) *builtJob {
	for int(id) >= len(s.byID) {
		s.byID = append(s.byID, nil)
	}
	if s.byID[id] == nil {
		s.byID[id] = s.unnumbered[j]
		delete(s.unnumbered, j)
	}
	return s.byID[id]
}

// work implements workload: the rest of the job's run time.
func (s *traceWorkload) work(t *sim.Task) (model.Duration, int32) {
	if t.Job.Gangs[t.Attempt.Gang].Extra {
		return 0, 0 // the members above the minimum help as long as it runs
	}
	w := &s.jobOf(t.Attempt.Job, t.Job).work
	return max(w.duration-t.Served, 1), w.code
}

// work reads a job's work from the trace. A job that is drawn to fail before it is done gets
// that shorter time, and exit code 1.
func (p *plan) work(t *trace.Job) jobWork {
	w := jobWork{duration: t.Duration, gpus: t.GPUs, id: t.ID, interval: t.Interval, loss: t.Loss}
	if d := p.failures.failsAfter(t.ID); d > 0 && d < t.Duration {
		w.duration, w.code = d, 1
	}
	return w
}

// fillBehavior implements story. Where the trace names no interval a job reports its loss about a
// hundred times.
func (s *traceWorkload) fillBehavior(t *sim.Task, b *sim.Behavior) {
	w := &s.jobOf(t.Attempt.Job, t.Job).work
	if t.Start.Task != 0 {
		return
	}
	if w.loss == nil {
		b.Report, b.Shared = s.builder.reportEvery, true
		return
	}
	b.Loss = func(done model.Duration) string { return w.loss.Text(done) }
	if b.Report = w.interval; b.Report <= 0 {
		b.Report = max(w.duration/100, model.Second)
	}
}

// jobFacts implements story.
func (s *traceWorkload) jobFacts(id model.JobID, j *model.Job) metrics.Facts {
	w := &s.jobOf(id, j).work
	return metrics.Facts{Duration: max(w.duration, 1), TraceID: w.id, App: j.Hints.App, Model: j.Hints.Model}
}

// gpus implements story.
func (s *traceWorkload) gpus(t *sim.Task) int32 { return s.jobOf(t.Attempt.Job, t.Job).work.gpus }

// factHappened implements story.
func (s *traceWorkload) factHappened(model.Fact) {}

// dropJob implements story.
func (s *traceWorkload) dropJob(id model.JobID) {
	s.byID[id] = nil // the slot exists: the job's facts were asked for at its submission
	s.open--
}

// busy implements story.
func (s *traceWorkload) busy() bool { return !s.done || s.open > 0 }
