package kube

import (
	"slices"
	"sync"

	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// home is the namespace of an attempt. All tasks of a gang are in one, since the names by which
// they find each other hold in one namespace alone.
type home struct {
	mu    sync.Mutex
	known bool   // an earlier server may have started it
	space string // "": not decided
	led   bool   // its first task's pod has what all tasks need, or there will be none

	shares bool         // vars are worked out
	vars   *pods.Shared // see pods.GangVariables
	made   int          // of how many tasks the pod was made

	whose func() (executor.Identity, error) // as which user and group the gang's tasks run
}

// variables are those that all tasks of the attempt have.
func (h *home) variables(e *Executor, t *podTask) *pods.Shared {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.shares {
		h.shares, h.vars = true, e.maker.GangVariables(t.at, t.start)
	}
	return h.vars
}

// podMade notes that a task's pod was made. What all tasks have is not kept beyond the last of
// them: it would be worked out again.
func (h *home) podMade(t *podTask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made++; h.made >= len(t.start.Tasks) {
		h.shares, h.vars = false, nil
	}
}

// shared are those that a pod has from the gang's ConfigMaps. A new server relies on none for the
// pods that it makes: an earlier one may have made none, and tasks that have ended are not told.
func (h *home) shared(e *Executor, t *podTask) *pods.Shared {
	if h.known {
		return nil
	}
	return h.variables(e, t)
}

// begun reports whether the pod of a task may be made: the first task of a gang comes first, since
// its pod owns what all of them need. A new server waits for none, since the first may have ended.
func (h *home) begun(t *podTask) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.led || h.known || len(t.start.Tasks) < 2 || t.leads()
}

// letFollow lets the pods of a gang's other tasks be made.
func (e *Executor) letFollow(t *podTask) {
	if !t.leads() {
		return
	}
	t.home.mu.Lock()
	before := t.home.led
	t.home.led = true
	t.home.mu.Unlock()
	if before {
		return
	}
	e.mu.Lock()
	keys := slices.Clone(e.attempts[t.at])
	e.mu.Unlock()
	for _, key := range keys {
		e.queue.Add(key)
	}
}
