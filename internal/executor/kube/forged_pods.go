package kube

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// lookForForged looks for pods that have the label of this Comb, and are not its own. It is done
// now and then: until it is, what such a pod has is refused to jobs by kube-scheduler or the node.
func (s *podNamespaces) lookForForged() {
	var list []api.Other
	var names []string
	read := recordsRead{}
	for _, sp := range s.all() {
		names = append(names, sp.name)
		for _, key := range sp.pods.ListKeys() {
			if pod := sp.pod(baseOf(key)); pod != nil && s.isForged(pod, read) {
				list = append(list, api.OtherOf(pod))
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.e.ctx, 20*time.Second)
	defer cancel()
	elsewhere, err := s.e.o.API.Labelled(ctx, pods.ClusterLabel, s.e.maker.Short(), names)
	if err != nil {
		return // it is said elsewhere that they cannot be seen, or that the API server is away
	}
	s.e.others.setForged(append(list, elsewhere...))
}

// isForged reports whether a pod on a node that has not ended has the label of this Comb, and is
// not its own.
func (s *podNamespaces) isForged(pod *corev1.Pod, read recordsRead) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && !ended && pod.Labels[pods.ClusterLabel] == s.e.maker.Short() &&
		!s.ours(pod.Namespace, pod.Name) && (!s.e.maker.Sealed(pod) || s.copied(pod, read))
}

// copied reports whether a sealed pod is a user's copy of one that has ended.
func (s *podNamespaces) copied(pod *corev1.Pod, read recordsRead) bool {
	at, n, ok := s.e.maker.Parse(pod.Name)
	return ok && s.forged(at, n, pod, read)
}
