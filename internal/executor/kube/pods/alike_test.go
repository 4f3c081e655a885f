package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a kubelet tells of a pod besides is no news, and what became of it is.
func TestAlike(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	creates := &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1", Finalizers: []string{Finalizer, "other/one"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: Container, State: corev1.ContainerState{Waiting: creates}}}}}
	ends := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	own := func(p *corev1.Pod) *corev1.ContainerState { return &p.Status.ContainerStatuses[0].State }
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		alike  bool
	}{
		"nothing": {func(*corev1.Pod) {}, true},
		"a version, a label and a condition": {func(p *corev1.Pod) {
			p.ResourceVersion, p.Labels = "2", map[string]string{"a": "b"}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}, true},
		"it initializes": {func(p *corev1.Pod) {
			own(p).Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		}, true},
		"its image does not come": {func(p *corev1.Pod) {
			own(p).Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}
		}, false},
		"it runs": {func(p *corev1.Pod) {
			*own(p) = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, false},
		"it has ended":         {func(p *corev1.Pod) { *own(p) = ends }, false},
		"it has an address":    {func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, false},
		"it is to end":         {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, false},
		"it has another node":  {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, false},
		"a finalizer is off":   {func(p *corev1.Pod) { p.Finalizers = p.Finalizers[:1] }, false},
		"it is another one":    {func(p *corev1.Pod) { p.UID = "b" }, false},
		"its node has lost it": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"it may have been given GPUs": {func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus"}}
		}, false},
	} {
		other := pod.DeepCopy()
		c.change(other)
		if Alike(pod, other) != c.alike {
			t.Errorf("%s: alike %v, want %v", what, !c.alike, c.alike)
		}
	}
	ended := pod.DeepCopy()
	*own(ended) = ends
	if Alike(ended, ended.DeepCopy()) {
		t.Error("what is told of one that has ended is no news")
	}
}
