package local

import (
	"context"
	"net"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/local/enter"
	"github.com/combsched/comb/internal/executor/local/record"
)

// Exec implements executor.Executor.
func (e *Executor) Exec(ctx context.Context, ref executor.TaskRef, c executor.Command) (*executor.Session, error) {
	w, err := e.way(ref)
	if err != nil {
		return nil, err
	}
	return w.Exec(ctx, c)
}

// Dial implements executor.Executor.
func (e *Executor) Dial(ctx context.Context, ref executor.TaskRef, port uint16) (net.Conn, error) {
	w, err := e.way(ref)
	if err != nil {
		return nil, err
	}
	return w.Dial(ctx, port)
}

// way is how to a running task.
func (e *Executor) way(ref executor.TaskRef) (enter.Way, error) {
	e.mu.Lock()
	at := e.attempts[ref.Attempt]
	e.mu.Unlock()
	if at == nil || at.start == nil {
		return enter.Way{}, executor.ErrNotRunning
	}
	for _, t := range at.tasks {
		if t.n != ref.Task {
			continue
		}
		t.mu.Lock()
		w := enter.Way{Dir: t.dir, Owner: t.supervisor()}
		t.mu.Unlock()
		if e.boxes.runs(&at.start.Job.Roles[t.start.Role]) {
			_ = record.Read(t.dir, boxFile, &w.Owner) // a process has none: its supervisor listens
		}
		if w.Owner.PID > 0 {
			return w, nil
		}
	}
	return enter.Way{}, executor.ErrNotRunning
}
