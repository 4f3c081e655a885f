package local

import (
	"context"
	"net"
	"time"

	"github.com/combsched/comb/internal/base/safefile"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
)

// Exec implements executor.Executor.
func (e *Executor) Exec(ctx context.Context, ref executor.TaskRef, c executor.Command) (*executor.Session, error) {
	w, err := e.way(ctx, ref)
	if err != nil {
		return nil, err
	}
	return w.Exec(ctx, c)
}

// Dial implements executor.Executor.
func (e *Executor) Dial(ctx context.Context, ref executor.TaskRef, port uint16) (net.Conn, error) {
	w, err := e.way(ctx, ref)
	if err != nil {
		return nil, err
	}
	return w.Dial(ctx, port)
}

// way is how to reach a running task.
func (e *Executor) way(ctx context.Context, ref executor.TaskRef) (EntryClient, error) {
	e.mu.Lock()
	at := e.attempts[ref.Attempt]
	e.mu.Unlock()
	if at == nil || at.start == nil {
		return EntryClient{}, executor.ErrNotRunning
	}
	for _, t := range at.tasks {
		if t.n != ref.Task {
			continue
		}
		t.mu.Lock()
		w := EntryClient{Dir: t.dir, Owner: t.supervisor()}
		t.mu.Unlock()
		if e.containers.runs(&at.start.Job.Roles[t.start.Role]) {
			w.Owner = containerProcess(ctx, t.dir)
		}
		if w.Owner.PID > 0 {
			return w, nil
		}
	}
	return EntryClient{}, executor.ErrNotRunning
}

// boxKnown is how long it may take until process 1 of a running container is known: the task may
// be told to run before.
const boxKnown = 5 * time.Second

// containerProcess is process 1 of a task's container, which listens instead of its supervisor. It
// is zero where it is not known in time.
func containerProcess(ctx context.Context, dir string) process.ID {
	ctx, cancel := context.WithTimeout(ctx, boxKnown)
	defer cancel()
	for one := (process.ID{}); ctx.Err() == nil; {
		if err := safefile.Read(dir, containerFile, &one); err == nil {
			return one
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return process.ID{}
}
