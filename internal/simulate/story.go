package simulate

import (
	"fmt"
	"math"

	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/metrics"
	"github.com/combsched/comb/internal/sched"
	"github.com/combsched/comb/internal/trace"
)

// traceStory is a trace: jobs that are submitted one after the other.
type traceStory struct {
	make  jobs
	load  float64 // 0 is 1
	next  func() (trace.Job, error, bool)
	last  sched.Time
	todo  map[*sched.Job]work // of jobs that have not ended
	byID  map[sched.JobID]*sched.Job
	began bool
	done  bool // the trace has no more jobs
}

// work is what the world knows of a job and the core does not.
type work struct {
	duration sched.Duration
	gpus     int32
	id       string
	interval sched.Duration // between two reports
	loss     *trace.Curve   // nil where it reports none
	code     int32          // with which it exits
}

// feed implements story: the configuration, then one job after the other.
func (s *traceStory) feed(r *runner) (sched.Time, engine.Input, bool) {
	if !s.began {
		s.began = true
		return Origin, engine.Input{Command: sched.Reconfigure{Meta: meta(), Config: r.plan.config}, Reply: r.configured}, true
	}
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
	if s.load != 0 {
		t.Submit = sched.Time(math.Round(float64(t.Submit) / s.load))
	}
	j := s.make.job(&t)
	s.todo[j] = r.plan.work(&t)
	r.result.Submitted++
	if t.Duration == 0 {
		r.result.Timeless++
	}
	return Origin + t.Submit, engine.Input{Command: sched.Submit{Meta: meta(), Job: j}, Reply: func(a engine.Reply) {
		if r.accepted(j, a) {
			s.byID[a.Answer.Job] = j
		} else {
			delete(s.todo, j)
		}
	}}, true
}

// work implements story: what of the job's run time is left.
func (s *traceStory) work(t *sim.Task) (sched.Duration, int32) {
	if t.Job.Gangs[t.Attempt.Gang].Extra {
		return 0, 0 // the members above the minimum help as long as it runs
	}
	w := s.todo[t.Job]
	return max(w.duration-t.Served, 1), w.code
}

// work is what the world knows of a job of a trace: one that fails does so before it is
// done, if it has not been drawn to fail later.
func (p *plan) work(t *trace.Job) work {
	w := work{duration: t.Duration, gpus: t.GPUs, id: t.ID, interval: t.Interval, loss: t.Loss}
	if d := p.failures.of(t.ID); d > 0 && d < t.Duration {
		w.duration, w.code = d, 1
	}
	return w
}

// reports implements story: about a hundred where the trace does not say how often.
func (s *traceStory) reports(t *sim.Task, b *sim.Behavior) {
	w := s.todo[t.Job]
	if w.loss == nil || t.Start.Task != 0 {
		return
	}
	b.Loss = func(done sched.Duration) string { return w.loss.Text(done) }
	if b.Report = w.interval; b.Report <= 0 {
		b.Report = max(w.duration/100, sched.Second)
	}
}

// facts implements story.
func (s *traceStory) facts(_ sched.JobID, j *sched.Job) metrics.Facts {
	w := s.todo[j]
	return metrics.Facts{Duration: max(w.duration, 1), TraceID: w.id, App: j.Hints.App, Model: j.Hints.Model}
}

// gpus implements story.
func (s *traceStory) gpus(j *sched.Job) int32 { return s.todo[j].gpus }

// fact implements story.
func (s *traceStory) fact(sched.Fact) {}

// ended implements story.
func (s *traceStory) ended(j *sched.JobStatus) {
	delete(s.todo, s.byID[j.ID])
	delete(s.byID, j.ID)
}

// busy implements story.
func (s *traceStory) busy() bool { return !s.done || len(s.todo) > 0 }
