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

// room sets CPUs and memory aside for tasks that started on the leaves of others, when nothing is
// for these any more: one of those that are left has it then.
type room struct{ *Executor }

// take sets it aside for a task whose pod runs, if it is its turn to have it. It is tried again
// after the time that it returns.
func (r room) take(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	list := pods.Room(pod)
	if t.stray || t.room.done || list == nil {
		return 0, nil
	}
	r.mu.Lock()
	all := r.swept
	r.mu.Unlock()
	if !all {
		return time.Second, nil // not all tasks of the time before are taken up yet
	}
	if before, seen := r.others(t); before && seen {
		return 0, nil // it is looked again when those are told to share no more
	} else if before {
		return roomPause, nil
	}
	err := t.in(r.Executor).Resize(ctx, pod, pods.Container, list)
	switch {
	case api.Refuses(err):
		r.refused(ctx, t, pod, err)
		if api.NotThere(err) { // rights come, and quotas have room again
			return roomPause, nil
		}
	case err != nil:
		return 0, fmt.Errorf("set CPUs and memory aside for pod %s: %w", t.name, err)
	}
	t.room.done = true
	return 0, nil
}

// roomPause is after how long it is tried again where nothing tells that it can be.
var roomPause = 30 * time.Second

// refused says, once, that nothing can be set aside for a task.
func (r room) refused(ctx context.Context, t *podTask, pod *corev1.Pod, err error) {
	if t.room.none {
		return
	}
	t.room.none = true
	level := slog.LevelWarn
	if own := pods.Own(pod); own != nil && len(own.Resources.Claims) > 0 && !api.NotThere(err) {
		level = slog.LevelDebug // Kubernetes up to 1.36 resizes no pod with claims: kubernetes/kubernetes#138641
	}
	r.o.Log.Log(ctx, level, "no CPUs and memory can be set aside for a task whose mates are gone: others may take them", "pod", t.name, "error", api.Words(err))
}

// others reports whether another task on the same leaves has them set aside, or is to have them
// before this one; seen is that this is not only since nothing is known of one yet.
func (r room) others(t *podTask) (before, seen bool) {
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
		if pod == nil && o.known { // it may be there, and is not seen
			before = true
		}
		if pod != nil && pods.Look(pod, false).Phase != pods.Ended && (pods.Room(pod) == nil || o.name < t.name) {
			return true, true
		}
	}
	return before, false
}

// overlap reports whether two tasks of one node have leaves in common.
func overlap(a, b *podTask) bool {
	return a.ts.Place.SKU == b.ts.Place.SKU && slices.ContainsFunc(a.ts.Place.Devices, func(d int32) bool { return slices.Contains(b.ts.Place.Devices, d) })
}
