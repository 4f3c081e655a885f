package kube

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/combsched/comb/internal/executor/kube/line"
	"github.com/combsched/comb/internal/executor/progress"
	"github.com/combsched/comb/internal/sched"
)

// hearEvery is how often a task may tell its progress.
const hearEvery = 500 * time.Millisecond

// Line answers the pods of this executor's tasks.
func (e *Executor) Line() *line.Handler {
	return &line.Handler{Token: e.maker.LineToken, Code: e.code, Told: e.toldProgress}
}

// liveTask is a task that the engine knows, by its pod's name.
func (e *Executor) liveTask(pod string) (*task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[pod]
	if t == nil || t.stray {
		return nil, fmt.Errorf("%w: %s is no task that runs", line.ErrNone, pod)
	}
	return t, nil
}

// code opens the code of a task's job.
func (e *Executor) code(pod string) (io.ReadCloser, int64, error) {
	t, err := e.liveTask(pod)
	if err != nil {
		return nil, 0, err
	}
	if t.start.Job.Upload == "" || e.o.Code == nil {
		return nil, 0, fmt.Errorf("%w: the job of %s brings no code", line.ErrNone, pod)
	}
	return e.o.Code(t.start.Job)
}

// toldProgress tells the last of the lines, and the last checkpoint among them.
func (e *Executor) toldProgress(pod string, text []byte) error {
	t, err := e.liveTask(pod)
	if err != nil {
		return err
	}
	e.mu.Lock()
	soon := time.Since(t.heard) < hearEvery
	if !soon {
		t.heard = time.Now()
	}
	e.mu.Unlock()
	if soon {
		return line.ErrSoon
	}
	var point, latest *sched.Progress
	for one := range bytes.Lines(text) {
		f, err := progress.Parse(bytes.TrimSpace(one))
		if err != nil || len(one) > progress.Longest {
			continue
		}
		f.Attempt, f.Task = t.at, t.ts.Task
		if !f.Checkpoint {
			latest = &f
			continue
		}
		if latest != nil {
			progress.Fill(&f, latest)
		}
		point, latest = &f, nil
	}
	for _, f := range []*sched.Progress{point, latest} {
		if f != nil {
			e.o.Tell(*f)
		}
	}
	return nil
}
