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

// traceStory is the workload of a trace: its jobs, submitted one after the other.
type traceStory struct {
	make  jobs
	load  float64                          // how many times as fast the jobs arrive; 0 is 1
	next  func() (*trace.Job, error, bool) // the job is valid until the next call
	last  model.Time
	fresh map[*model.Job]*made // submitted jobs that have no id yet
	todo  []*made              // jobs by id; nil where there is none, or it has ended
	open  int                  // number of jobs in fresh and todo
	began bool
	done  bool // the trace has no more jobs
}

// work is what the simulated world knows of a job and the core does not.
type work struct {
	duration model.Duration
	gpus     int32
	id       string
	interval model.Duration // between two reports
	loss     *trace.Curve   // nil where the job reports no loss
	code     int32          // exit code
}

// feed implements story: the configuration, then one job after the other.
func (s *traceStory) feed(r *runner) (model.Time, engine.Input, bool) {
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
		m := s.make.job(t)
		r.ignores(t)
		if r.fits(&m.Job, t.GPUs) {
			return s.at(t.Submit), s.submit(r, t, m), true
		}
	}
}

// at is the instant at which a job of the trace is submitted.
func (s *traceStory) at(submit model.Time) model.Time {
	if s.load != 0 {
		return Origin + model.Time(math.Round(float64(submit)/s.load))
	}
	return Origin + submit
}

// submit submits a job.
func (s *traceStory) submit(r *runner, t *trace.Job, m *made) engine.Input {
	m.work, m.Job.Retries = r.plan.work(t), r.plan.failures.retriesOf()
	s.fresh[&m.Job] = m
	s.open++
	r.result.Submitted++
	if t.Duration == 0 {
		r.result.Timeless++
	}
	return engine.Input{Command: model.Submit{Meta: meta(), Job: &m.Job}, Reply: func(a engine.Reply) {
		if !r.accepted(&m.Job, a) {
			delete(s.fresh, &m.Job)
			s.open--
		}
	}}
}

// of returns a submitted job by its id. A job may start before the answer comes that it was
// accepted.
func (s *traceStory) of(id model.JobID, j *model.Job) *made {
	for int(id) >= len(s.todo) {
		s.todo = append(s.todo, nil)
	}
	if s.todo[id] == nil {
		s.todo[id] = s.fresh[j]
		delete(s.fresh, j)
	}
	return s.todo[id]
}

// work implements story: the rest of the job's run time.
func (s *traceStory) work(t *sim.Task) (model.Duration, int32) {
	if t.Job.Gangs[t.Attempt.Gang].Extra {
		return 0, 0 // the members above the minimum help as long as it runs
	}
	w := &s.of(t.Attempt.Job, t.Job).work
	return max(w.duration-t.Served, 1), w.code
}

// work reads a job's work from the trace. A job that is drawn to fail before it is done gets
// that shorter time, and exit code 1.
func (p *plan) work(t *trace.Job) work {
	w := work{duration: t.Duration, gpus: t.GPUs, id: t.ID, interval: t.Interval, loss: t.Loss}
	if d := p.failures.of(t.ID); d > 0 && d < t.Duration {
		w.duration, w.code = d, 1
	}
	return w
}

// behaves implements story. Where the trace names no interval a job reports its loss about a
// hundred times.
func (s *traceStory) behaves(t *sim.Task, b *sim.Behavior) {
	w := &s.of(t.Attempt.Job, t.Job).work
	if t.Start.Task != 0 {
		return
	}
	if w.loss == nil {
		b.Report, b.Shared = s.make.listens, true
		return
	}
	b.Loss = func(done model.Duration) string { return w.loss.Text(done) }
	if b.Report = w.interval; b.Report <= 0 {
		b.Report = max(w.duration/100, model.Second)
	}
}

// facts implements story.
func (s *traceStory) facts(id model.JobID, j *model.Job) metrics.Facts {
	w := &s.of(id, j).work
	return metrics.Facts{Duration: max(w.duration, 1), TraceID: w.id, App: j.Hints.App, Model: j.Hints.Model}
}

// gpus implements story.
func (s *traceStory) gpus(t *sim.Task) int32 { return s.of(t.Attempt.Job, t.Job).work.gpus }

// fact implements story.
func (s *traceStory) fact(model.Fact) {}

// ended implements story.
func (s *traceStory) ended(id model.JobID) {
	s.todo[id] = nil // the slot exists: the job's facts were asked for at its submission
	s.open--
}

// busy implements story.
func (s *traceStory) busy() bool { return !s.done || s.open > 0 }
