package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PendingRequests is what must be reserved for a pod that started on leaves of others, once these
// are gone. It is nil where the pod has its own requests already. It is the limits less a MiB: with
// all of them the pod would be of another QoS class, which Kubernetes lets no pod change to.
func PendingRequests(pod *corev1.Pod) corev1.ResourceList {
	own := TaskContainer(pod)
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

// TaskContainer is the task's container of a pod; nil when there is none. Others may stand before
// it, since a service mesh puts its own where it likes.
func TaskContainer(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == Container {
			return c
		}
	}
	return nil
}
