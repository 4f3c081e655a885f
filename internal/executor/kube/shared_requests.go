package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// sharedState says that CPUs and memory were reserved for a task on shared leaves (done), or that
// they cannot be had now and this was logged (none).
type sharedState struct{ done, none bool }

// sharedRequests reserves CPUs and memory for tasks that started on leaves of others, once no task
// on these leaves has any reserved: one of the remaining tasks gets them.
type sharedRequests struct{ *Executor }

// take reserves them for a task whose pod runs, if it is the one to have them. It is tried again
// after the time that it returns.
func (r sharedRequests) take(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	list := pods.PendingRequests(pod)
	if t.stray || t.shared.done || list == nil {
		return 0, nil
	}
	r.mu.Lock()
	all := r.swept
	r.mu.Unlock()
	if !all {
		return time.Second, nil // not all tasks from before the start are taken up yet
	}
	if before, seen := r.others(t); before && seen {
		return 0, nil // it is called again when the rotation changes
	} else if before {
		return reservePause, nil
	}
	err := t.in(r.Executor).Resize(ctx, pod, pods.Container, list)
	switch {
	case api.NeverAccepts(err):
		r.refused(ctx, t, pod, err)
		if api.NamespaceRefuses(err) { // rights may be granted, and quotas may have room again
			return reservePause, nil
		}
	case err != nil:
		return 0, fmt.Errorf("set CPUs and memory aside for pod %s: %w", t.name, err)
	}
	t.shared.done = true
	return 0, nil
}

// reservePause is how long to wait before the next try where no event tells when it may succeed.
var reservePause = 30 * time.Second

// refused logs, once, that nothing can be reserved for a task.
func (r sharedRequests) refused(ctx context.Context, t *podTask, pod *corev1.Pod, err error) {
	if t.shared.none {
		return
	}
	t.shared.none = true
	level := slog.LevelWarn
	if own := pods.TaskContainer(pod); own != nil && len(own.Resources.Claims) > 0 && !api.NamespaceRefuses(err) {
		level = slog.LevelDebug // Kubernetes up to 1.36 resizes no pod with claims: kubernetes/kubernetes#138641
	}
	r.o.Log.Log(ctx, level, "no CPUs and memory can be set aside for a task whose mates are gone: others may take them", "pod", t.name, "error", api.ErrorText(err))
}

// others reports whether another task on the same leaves has them reserved, or is to have them
// before this one. seen is false where that is only assumed of a task whose pod was not seen yet.
func (r sharedRequests) others(t *podTask) (before, seen bool) {
	r.mu.Lock()
	shared := t.turns
	r.mu.Unlock()
	shared.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.seenOf(string(t.ts.Place.Node)).tasks { // in any order
		if _, shares := shared.turn[o.at]; !shares || o == t || !overlap(o, t) {
			continue
		}
		pod := r.spaces.pod(o.space, o.name)
		if pod == nil && o.known { // it may be there without having been seen
			before = true
		}
		if pod != nil && pods.Look(pod, false).Phase != pods.Ended && (pods.PendingRequests(pod) == nil || o.name < t.name) {
			return true, true
		}
	}
	return before, false
}

// overlap reports whether two tasks of one node have leaves in common.
func overlap(a, b *podTask) bool {
	return a.ts.Place.SKU == b.ts.Place.SKU && slices.ContainsFunc(a.ts.Place.Devices, func(d int32) bool { return slices.Contains(b.ts.Place.Devices, d) })
}
