package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// bind binds a pod that waits for Comb to bind it. One whose maker was killed before that is bound
// by the next server. Where the API server says that the pod was changed, the watch tells how: it
// is gone, ends or is bound, or is to be bound again soon. What will never be bound is given up.
func (e *Executor) bind(ctx context.Context, t *podTask, pod *corev1.Pod) (time.Duration, error) {
	if t.fresh.bound || t.stray || !pods.WaitsForComb(pod) {
		return 0, nil
	}
	name := string(t.ts.Place.Node)
	if n := e.node(name); n != nil && pods.KeptFrom(n) {
		why := "node " + name + " takes no pods any more: it was cordoned or tainted before its pod was bound"
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: why})
	}
	err := t.in(e).Bind(ctx, pod, name)
	switch {
	case err == nil:
		t.fresh.bound = true
	case api.Changed(err):
		return bindPause, nil
	case api.NeverAccepts(err):
		t.record.NamespaceFault = true
		return 0, e.giveUp(ctx, t, pod, model.TaskRefused{Reason: "Kubernetes refuses the binding of its pod: " + api.ErrorText(err)})
	default:
		err = fmt.Errorf("bind pod %s to node %s: %w", t.name, name, err)
		return 0, err
	}
	return 0, nil
}

// bindPause is how long to wait before a pod that was changed is bound again.
const bindPause = time.Second

// releases reports whether the kubelet of a node still counts a pod of Comb whose task has ended:
// until it says that the pod has ended, too, it refuses others for want of room.
func (s *podNamespaces) releases(node string) bool {
	s.e.mu.Lock()
	var ended []named
	seen := s.e.seenOf(node)
	for _, t := range seen.tasks { // in any order
		ended = append(ended, named{name: t.name, space: t.space})
	}
	for _, stray := range seen.strays { // likewise
		ended = append(ended, stray)
	}
	s.e.mu.Unlock()
	return slices.ContainsFunc(ended, func(n named) bool {
		pod := s.pod(n.space, n.name)
		return pod != nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
			pods.Look(pod, false).Phase == pods.Ended
	})
}
