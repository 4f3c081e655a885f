package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"
)

// Networks are the networks of one server's containers.
type Networks struct {
	Engine  *Engine
	Cluster string // the server's id, in the label and, shortened, in names
	Label   string // prefix of labels
	// Lives says whether a job has attempts here, or is about to.
	Lives func(job int64) bool
	Log   *slog.Logger

	gate  Gate             // no network is removed while one is made
	asked atomic.Int64     // how often a network was asked for
	found map[string]int64 // by network name: asked, when it was last seen; guarded by gate
}

const jobLabel = "job"

func (n *Networks) name(job int64) string {
	if job == 0 {
		return "comb-" + n.Cluster
	}
	return fmt.Sprintf("comb-%s-%d", n.Cluster, job)
}

// For is the network of a container of a live job; it is made where it is missing. Calls that
// wait for the engine share its answer: a gang has dozens of tasks that start at the same time.
func (n *Networks) For(ctx context.Context, job int64, alone bool) (string, error) {
	mine := n.asked.Add(1)
	leave, err := n.gate.Enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if alone {
		job = 0
	}
	net := &Network{Name: n.name(job), Apart: alone, Labels: map[string]string{
		n.Label + "cluster": n.Cluster, n.Label + jobLabel: fmt.Sprint(job)}}
	if n.found[net.Name] >= mine {
		return net.Name, nil
	}
	if err := n.Engine.Ensure(ctx, net); err != nil {
		return "", err
	}
	if n.found == nil {
		n.found = map[string]int64{}
	}
	n.found[net.Name] = n.asked.Load()
	return net.Name, nil
}

// Containers of a job that is over may take a moment to leave their network.
const (
	leaveTries = 20
	leavePause = 500 * time.Millisecond
)

// Leave removes the network of a job that has no attempt left. If that fails, RemoveUnused removes
// it later, while the server runs or when it starts again.
func (n *Networks) Leave(ctx context.Context, job int64) {
	for range leaveTries {
		select {
		case <-ctx.Done():
			return
		case <-time.After(leavePause):
		}
		if err := n.drop(ctx, job); !errors.Is(err, ErrInUse) {
			if err != nil && ctx.Err() == nil {
				n.Log.Warn("remove the network of a job that is over; it is tried again", "job", job, "error", err)
			}
			return
		}
	}
}

func (n *Networks) drop(ctx context.Context, job int64) error {
	leave, err := n.gate.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if n.Lives(job) {
		return nil
	}
	delete(n.found, n.name(job))
	return n.Engine.Drop(context.Background(), n.name(job))
}

// RemoveUnused removes the networks of jobs that are not live.
func (n *Networks) RemoveUnused(ctx context.Context) error {
	found, err := n.Engine.Networks(ctx, n.Label+"cluster", n.Cluster)
	if err != nil {
		return err
	}
	for _, labels := range found {
		if job, err := strconv.ParseInt(labels[n.Label+jobLabel], 10, 64); err == nil && job > 0 {
			err = n.drop(ctx, job)
			if err != nil && !errors.Is(err, ErrInUse) {
				n.Log.Warn("remove the network of a job that the server does not know", "job", job, "error", err)
			}
		}
	}
	return nil
}
