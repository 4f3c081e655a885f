package pods

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Scheduler is named by pods that Comb binds: kube-scheduler does not look at them.
const Scheduler = "comb.dev"

// ChooseBinder decides what binds a new pod to its node. kube-scheduler does where it knows what
// Comb does not: claims, volumes, and how much is left on a node whose CPUs others use (shared). A
// pod that is whole once it is made has its node from the beginning, and its kubelet starts it at
// once. One that gets more after that (a service, a ConfigMap, a Secret) is bound by Comb when all
// is there.
func ChooseBinder(pod *corev1.Pod, n *corev1.Node, shared, whole bool) {
	switch {
	case n == nil || shared || KeptFrom(n) || !takesAnyRoom(pod):
	case whole:
		pod.Spec.NodeName = n.Name
	default:
		pod.Spec.SchedulerName = Scheduler
	}
}

// KeptFrom reports whether a node takes no pods of Comb: it is cordoned, or has a taint that they
// do not tolerate.
func KeptFrom(n *corev1.Node) bool {
	foreign := func(t corev1.Taint) bool { return keepsOff(&t) && !Tolerates(&t, Offered(n)...) }
	return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, foreign)
}

// WaitsForComb reports whether a pod waits for Comb to bind it.
func WaitsForComb(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.Spec.SchedulerName == Scheduler && pod.DeletionTimestamp == nil
}

// RunsByItself reports whether a pod that was made may run before Comb does more for it.
func RunsByItself(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" || pod.Spec.SchedulerName != Scheduler
}

// takesAnyRoom reports whether a pod needs nothing of its node but room: no claim, and no volume
// that others provide.
func takesAnyRoom(pod *corev1.Pod) bool {
	provided := func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }
	return len(pod.Spec.ResourceClaims) == 0 && !slices.ContainsFunc(pod.Spec.Volumes, provided)
}

// keepsOff reports whether a taint keeps pods off a node.
func keepsOff(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// Offered returns the resources of a node's device plugins, of any kind.
func Offered(n *corev1.Node) (list []string) {
	for name, q := range n.Status.Capacity {
		if strings.Contains(string(name), "/") && q.Sign() > 0 {
			list = append(list, string(name))
		}
	}
	return list
}
