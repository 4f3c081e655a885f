package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// watchTime is how long the watch may take to tell what became of a pod by a request. After it the
// API server is asked, or the request is repeated.
const watchTime = 5 * time.Second

// endRequests are the requests by which a task's pod goes. What is seen of the pod may be older
// than the last one, so none is repeated before the watch had time to tell of it.
type endRequests struct {
	asked    time.Time // when its pod was asked last to end
	released time.Time // when Comb's finalizer was removed from it
}

// askToEnd asks a pod to end that was not seen to end yet. It is tried again after the time that
// it returns.
func (r *endRequests) askToEnd(ctx context.Context, in *api.Client, pod *corev1.Pod,
	grace time.Duration) (time.Duration, error) {
	if left := watchTime - time.Since(r.asked); left > 0 {
		return left, nil
	}
	err := in.Delete(ctx, pod.Name, pod.UID, grace)
	if err == nil {
		r.asked = time.Now()
	}
	return 0, err
}

// shorten asks a pod once more that was asked to end already, where it was given longer than
// Comb gives it: a user with the right to delete pods may give any time.
func (r *endRequests) shorten(ctx context.Context, in *api.Client, pod *corev1.Pod,
	grace time.Duration) (time.Duration, error) {
	grace = max(grace, time.Second)
	if pods.GivenGrace(pod) < grace+time.Second {
		return 0, nil
	}
	return r.askToEnd(ctx, in, pod, grace)
}

// release removes Comb's finalizer from a pod that has ended. A pod that has it still after it was
// removed is looked at again after the time that it returns: the watch may be behind, or a user has
// put the finalizer back.
func (r *endRequests) release(ctx context.Context, in *api.Client, pod *corev1.Pod) (time.Duration, error) {
	if !slices.Contains(pod.Finalizers, pods.Finalizer) {
		return 0, nil
	}
	if left := watchTime - time.Since(r.released); left > 0 {
		return left, nil
	}
	err := in.Release(ctx, pod, pods.Finalizer)
	if err == nil {
		r.released = time.Now()
	}
	return 0, err
}
