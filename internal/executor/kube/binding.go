package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// chooseBinder decides what binds a task's new pod to its node. kube-scheduler does where it knows
// what Comb does not: claims, volumes, and how much is left on a node whose CPUs others use. A node that a taint
// keeps for Comb alone stands in the pod itself. All else Comb binds.
func (e *Executor) chooseBinder(t *podTask, pod *corev1.Pod) {
	node := e.node(pods.NodeOf(pod))
	switch {
	case node == nil || node.Spec.Unschedulable || !pods.TakesAnyRoom(pod):
	case !toleratesAll(node) || e.others.ask(node.Name):
	case keptForComb(node):
		pod.Spec.NodeName = node.Name
	default:
		pod.Spec.SchedulerName = pods.Scheduler
	}
}

// keepsOff reports whether a taint keeps pods off a node.
func keepsOff(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

func toleratesAll(n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; keepsOff(t) && !pods.Tolerates(t, offered(n)...) {
			return false
		}
	}
	return true
}

// keptForComb reports whether a node has a taint, other than those that Kubernetes sets for its
// state, that pods of Comb tolerate.
func keptForComb(n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; keepsOff(t) && !ownTaint(t.Key) && pods.Tolerates(t, offered(n)...) {
			return true
		}
	}
	return false
}

// shared are the variables that all tasks of the attempt have.
func (h *home) shared(e *Executor, t *podTask) map[string]string {
	h.shares.Do(func() { h.vars = e.maker.GangVariables(t.at, t.start) })
	return h.vars
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

// bind binds a pod that waits for Comb to bind it. One whose maker was killed before that is bound
// by the next server. A pod that is gone, ends or is bound is left as it is: the watch tells which.
func (e *Executor) bind(ctx context.Context, t *podTask, pod *corev1.Pod) error {
	if t.bindSent || t.stray || pod.Spec.NodeName != "" || pod.Spec.SchedulerName != pods.Scheduler || pod.DeletionTimestamp != nil {
		return nil
	}
	node := string(t.ts.Place.Node)
	if err := t.in(e).Bind(ctx, pod, node); err != nil && !api.Changed(err) {
		return fmt.Errorf("bind pod %s to node %s: %w", t.name, node, err)
	}
	t.bindSent = true
	return nil
}
