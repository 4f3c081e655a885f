package pods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is read of a watched pod is the same of its slim copy, which takes a fraction of the memory.
func TestSlim(t *testing.T) {
	task := sample()
	task.Claims, task.ServerLink = []string{"gpus"}, &ServerLink{Image: "comb:1", URL: "https://a:1", Pin: "p"}
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.NodeName, pod.Spec.SchedulerName = "n1", Scheduler
	slim := pod.DeepCopy()
	Slim(slim)
	argv := []string{"ls"}
	switch {
	case NodeOf(slim) != "n1" || !maker.Sealed(slim) || slim.Spec.NodeName != "n1" || slim.Spec.SchedulerName != Scheduler:
		t.Errorf("its node is %q and %q, its scheduler %q, sealed %v", NodeOf(slim), slim.Spec.NodeName, slim.Spec.SchedulerName, maker.Sealed(slim))
	case !slices.Equal(Beside(slim, argv), Beside(pod, argv)) || len(Beside(slim, argv)) == 1:
		t.Errorf("beside it runs %q, want %q", Beside(slim, argv), Beside(pod, argv))
	case !HasOwnToken(slim) || !HasOwnToken(pod):
		t.Errorf("it has a token of its own: %v, want %v", HasOwnToken(slim), HasOwnToken(pod))
	case len(slim.Spec.ResourceClaims) != 1 || !slices.Equal(slim.Finalizers, pod.Finalizers):
		t.Errorf("it has the claims %v and the finalizers %v", slim.Spec.ResourceClaims, slim.Finalizers)
	case slim.Size() > pod.Size()/3:
		t.Errorf("it has %d of %d bytes", slim.Size(), pod.Size())
	}
	var none corev1.Pod
	Slim(&none)
}
