package pods

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	other := pod.DeepCopy()
	other.Name, other.Spec.NodeName = "other", "n2"
	if Slim(other); &other.Spec.Containers[0] != &slim.Spec.Containers[0] || other.Spec.NodeName != "n2" {
		t.Error("two pods that are alike share nothing")
	}
	long := pod.DeepCopy()
	long.Spec.Containers[0].Image = strings.Repeat("x", 2*longestOne)
	again := long.DeepCopy()
	if Slim(long); len(long.Spec.Containers) != len(pod.Spec.Containers) {
		t.Error("a long one is cut")
	}
	if Slim(again); &again.Spec.Containers[0] == &long.Spec.Containers[0] {
		t.Error("what a user made long is remembered")
	}
	var none corev1.Pod
	Slim(&none)
}

// What pods share is remembered within a bound.
func TestAlikeIsBounded(t *testing.T) {
	a := alikeParts{seen: map[string]*corev1.Pod{}}
	for i := range 4 * mostAlike / longestOne {
		one := &corev1.Pod{Spec: corev1.PodSpec{NodeName: fmt.Sprint(i, strings.Repeat("x", longestOne-100))}}
		a.of(one)
		if got := a.of(one.DeepCopy()); got != one || a.bytes > mostAlike || len(a.seen) > mostAlike/(longestOne/2) {
			t.Fatalf("after %d there are %d, of %d bytes", i, len(a.seen), a.bytes)
		}
	}
}

// What is read of a pod that runs, waits or has ended is the same of its slim copy.
func TestSlimLooksTheSame(t *testing.T) {
	terminated := func(code int32, why string) corev1.ContainerState {
		now := metav1.NewTime(time.Unix(1_800_000_000, 0))
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: why, Message: "words",
			StartedAt: now, FinishedAt: now}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	yes, always := true, corev1.ContainerRestartPolicyAlways
	task := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "mesh", State: running}, {Name: Container, State: s, ContainerID: "containerd://1"}}
	}
	program := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: programContainer, State: s, ContainerID: "containerd://0"}}
	}
	condition := func(kind corev1.PodConditionType, is corev1.ConditionStatus, why string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: kind, Status: is, Reason: why, Message: "words"}}
	}
	for name, s := range map[string]corev1.PodStatus{
		"runs":        {Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: task(running), InitContainerStatuses: program(terminated(0, ""))},
		"has ended":   {Phase: corev1.PodFailed, ContainerStatuses: task(terminated(3, "Error"))},
		"is evicted":  {Phase: corev1.PodFailed, Reason: "Evicted", Message: "Pod ephemeral local storage usage exceeds the total limit of containers 1", ContainerStatuses: task(terminated(137, ""))},
		"is refused":  {Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no room"},
		"was waiting": {Phase: corev1.PodPending, ContainerStatuses: task(waiting)},
		"waits":       {Phase: corev1.PodPending, InitContainerStatuses: program(waiting)},
		"no program":  {Phase: corev1.PodFailed, InitContainerStatuses: program(terminated(1, "Error")), ContainerStatuses: task(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})},
		"is unbound":  {Phase: corev1.PodPending, Conditions: condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable")},
		"was bound":   {Phase: corev1.PodPending, Conditions: condition(corev1.PodScheduled, corev1.ConditionTrue, "")},
		"is lost":     {Phase: corev1.PodFailed, Conditions: condition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC")},
		"has a mesh":  {Phase: corev1.PodPending, InitContainerStatuses: append([]corev1.ContainerStatus{{Name: "side", State: running, Started: &yes}}, program(waiting)...)},
		"nothing":     {},
	} {
		pod, _, err := maker.Make(sample())
		if err != nil {
			t.Fatal(err)
		}
		pod.Spec.InitContainers = append([]corev1.Container{{Name: "side", Image: "side:1", RestartPolicy: &always}}, pod.Spec.InitContainers...)
		pod.Status = s
		slim := pod.DeepCopy()
		Slim(slim)
		for _, asked := range []bool{false, true} {
			if got, want := Look(slim, asked), Look(pod, asked); got != want {
				t.Errorf("one that %s looks like %+v, want %+v", name, got, want)
			}
		}
		if got, want := LookAtTrial(slim), LookAtTrial(pod); got != want {
			t.Errorf("a trial that %s looks like %+v, want %+v", name, got, want)
		}
	}
}
