package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// Resources are what device plugins call GPUs.
var Resources = []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu", "google.com/tpu"}

// resourceOf is what a node calls its GPUs; "" is that no device plugin offers any there.
func resourceOf(n *corev1.Node) string {
	for _, name := range Resources {
		if q := n.Status.Allocatable[name]; q.Value() > 0 {
			return string(name)
		}
	}
	return ""
}

func (e *Executor) node(name string) *corev1.Node {
	obj, ok, err := e.nodes.GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*corev1.Node)
}

// nodeChanged tells whether a node can run tasks, where that has changed. A node that was never there is told of when
// something is to start on it.
func (e *Executor) nodeChanged(name string) {
	if e.synced == nil || !e.synced() {
		return // all are looked at when all are known
	}
	n := e.node(name)
	why := "the Kubernetes cluster has no such node any more"
	if n != nil {
		why = notReady(n)
	}
	e.mu.Lock()
	before, seen := e.told[name]
	e.told[name] = why
	if n != nil {
		delete(e.removed, name)
	} else if _, ok := e.removed[name]; !ok {
		e.removed[name] = time.Now()
	}
	e.mu.Unlock()
	if !seen || before != why {
		e.o.Tell(sched.NodeHealth{Node: cell.NodeName(name), Up: why == "", Reason: why})
	}
	if n == nil {
		for _, key := range e.pods.ListKeys() {
			e.queue.Add(baseOf(key))
		}
	}
}

// goneFor is how long ago a node went; 0 is that it is there, or was never seen.
func (e *Executor) goneFor(name string) time.Duration {
	if name == "" || e.node(name) != nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.removed[name]
	if !ok {
		at = time.Now()
		e.removed[name] = at
	}
	return max(time.Since(at), 1)
}

// notReady says why a node cannot run tasks; "" is that it can.
func notReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue:
		case c.Status == corev1.ConditionUnknown:
			return "Kubernetes hears nothing of it"
		default:
			return strings.TrimSpace("Kubernetes says that it is not ready: " + c.Message)
		}
		if c.Type == corev1.NodeReady {
			return ""
		}
	}
	return "Kubernetes does not say that it is ready"
}

// CheckNodes refuses the nodes of a configuration where the cluster lacks some.
func (e *Executor) CheckNodes(nodes []cell.NodeName) error {
	soon, cancel := context.WithTimeout(e.ctx, 20*time.Second)
	defer cancel()
	if !cache.WaitForCacheSync(soon.Done(), e.synced) {
		return nil // it cannot be said now: the API server is away
	}
	var lacks []string
	for _, n := range nodes {
		if e.node(string(n)) == nil {
			lacks = append(lacks, string(n))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	slices.Sort(lacks)
	text := strings.Join(lacks[:min(len(lacks), 10)], ", ")
	if more := len(lacks) - 10; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("the Kubernetes cluster lacks nodes of the cluster file: %s; comb cluster discover prints those that it has", text)
}
