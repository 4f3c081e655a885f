package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Room is what is to be set aside for a pod's task that started on the leaves of others, once these
// are gone; nil where its own is set aside already. It is its limits but for a MiB: with all of
// them the pod would be of another class, and Kubernetes lets none change that.
func Room(pod *corev1.Pod) corev1.ResourceList {
	own := Own(pod)
	if own == nil {
		return nil
	}
	r, list := &own.Resources, corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, asked := r.Limits[name], r.Requests[name]
		if !asked.IsZero() {
			return nil
		}
		if name == corev1.ResourceMemory {
			limit = *resource.NewQuantity(max(limit.Value()-1<<20, 0), resource.BinarySI)
		}
		if !limit.IsZero() {
			list[name] = limit
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// Own is the task's container of a pod; nil is that there is none. Others may stand before it: a
// mesh puts its own where it likes.
func Own(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == Container {
			return c
		}
	}
	return nil
}
