package podinit

import (
	"context"
	"os"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/process"
)

// measureEvery is how often the task's usage is reported.
const measureEvery = 10 * time.Second

// measure reports what the task uses until ctx is done. A sample that the server did not take is
// not sent again.
func measure(ctx context.Context, server *link.Client) {
	m := process.NewMeter(ctx, measureEvery)
	defer m.Watch(model.AttemptID{}, 0, process.Of(os.Getpid()), "")()
	var last model.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		all := m.Usage(executor.TaskRef{})
		if len(all) == 0 || all[len(all)-1].At == last {
			continue
		}
		u := all[len(all)-1]
		last = u.At
		_ = server.Take(ctx, link.Usage{CPU: u.CPU, MemoryMB: u.MemoryMB, Read: u.Read, Written: u.Written})
	}
}
