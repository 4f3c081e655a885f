package pods

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/model"
)

// before is a pod on node n1 whose task has not begun: a container before it is in a state.
func before(name string, state corev1.ContainerState) corev1.Pod {
	p := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", InitContainers: []corev1.Container{{Name: "mesh", Image: "mesh:1"}, {Name: "comb", Image: "comb:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: name, State: state}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}}}
	if state.Terminated != nil && state.Terminated.ExitCode != 0 {
		p.Status.Phase = corev1.PodFailed
	}
	return p
}

// Why Comb's own program does not come into a pod is told in full, and is never its job's fault.
func TestProgramOfAPod(t *testing.T) {
	waits := func(reason, message string) corev1.Pod {
		return before("comb", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	}
	ended := func(x corev1.ContainerStateTerminated) corev1.Pod {
		return before("comb", corev1.ContainerState{Terminated: &x})
	}
	with := func(p corev1.Pod, change func(*corev1.Pod)) corev1.Pod { change(&p); return p }
	now := metav1.NewTime(time.Unix(1000, 0))
	const it, noFile = "the container with Comb's program, image comb:1, ", `unable to start container process: exec: "/usr/local/bin/comb": stat /usr/local/bin/comb: no such file or directory`
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &now }
	const mesh = "the container mesh, image mesh:1, which something in the cluster has added to its pod, "
	always := func(p *corev1.Pod) {
		policy := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[0].RestartPolicy = &policy
	}
	for _, c := range []struct {
		name         string
		pod          corev1.Pod
		asked        bool
		phase        Phase
		refused, why string
		job, program bool
		held         string
		added        bool
		silent       bool
	}{
		{name: "as usual", pod: waits("PodInitializing", "")},
		{name: "it is running", pod: before("comb", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})},
		{name: "it has done its work", pod: ended(corev1.ContainerStateTerminated{})},
		{name: "no image", pod: waits("ErrImagePull", "not found"), why: it + "waits on node n1: its image does not come: ErrImagePull: not found", program: true},
		{name: "still no image", pod: waits("ImagePullBackOff", `Back-off pulling image "comb:1"`), why: it + `waits on node n1: its image does not come: ImagePullBackOff: Back-off pulling image "comb:1"`, program: true},
		{name: "no name of an image", pod: waits("InvalidImageName", "x"), why: it + "waits on node n1: its image does not come: InvalidImageName: x", program: true},
		{name: "an image of root's", pod: waits("CreateContainerConfigError", "image will run as root"), why: it + "waits on node n1: its container does not start: CreateContainerConfigError: image will run as root", program: true},
		{name: "no container", pod: waits("CreateContainerError", "x"), why: it + "waits on node n1: its container does not start: CreateContainerError: x", program: true},
		{name: "no run", pod: waits("RunContainerError", "x"), why: it + "waits on node n1: its container does not start: RunContainerError: x", program: true},
		{name: "its own code and words", pod: ended(corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "begins\nno room\x1b[31m in /comb/bin\n\n"}), phase: Ended,
			refused: it + "ended with code 3 on node n1: no room [31m in /comb/bin", program: true},
		{name: "not a word", pod: ended(corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}), phase: Ended, refused: it + "ended with code 1 on node n1, and printed nothing", program: true},
		{name: "its program is missing", pod: ended(corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: noFile}), phase: Ended,
			refused: it + "cannot be started on node n1: StartError: " + noFile, program: true},
		{name: "another architecture, as runc says it", pod: ended(corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "exec /usr/local/bin/comb: exec format error"}), phase: Ended,
			refused: it + "cannot be started on node n1 (it is made for processors of another kind): StartError: exec /usr/local/bin/comb: exec format error", program: true},
		{name: "another architecture, as older runtimes say it", pod: ended(corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "exec format error"}), phase: Ended,
			refused: it + "ended with code 1 on node n1 (it is made for processors of another kind): exec format error", program: true},
		{name: "out of its node's memory", pod: ended(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), phase: Ended, refused: it + "was out of memory on node n1", program: true},
		{name: "out of a task's tiny memory", phase: Ended, refused: "the memory of its task, 8 MiB, is too small for Comb's program beside it: ask for 64 MiB or more (--memory)", job: true,
			pod: with(ended(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), func(p *corev1.Pod) {
				p.Spec.InitContainers[1].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Mi")}
			})},
		{name: "evicted", pod: with(ended(corev1.ContainerStateTerminated{ExitCode: 137}), func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "low on disk" }), phase: Ended,
			refused: "Kubernetes ended its pod: Evicted: low on disk"},
		{name: "told to end", pod: with(ended(corev1.ContainerStateTerminated{ExitCode: 143}), deleted), asked: true, phase: Ended},
		{name: "deleted by hand", pod: with(ended(corev1.ContainerStateTerminated{ExitCode: 143}), deleted), phase: Ended},
		{name: "not told to have ended yet", pod: with(ended(corev1.ContainerStateTerminated{ExitCode: 1}), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })},
		{name: "a container of others", pod: before("mesh", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no mesh"}}), phase: Ended,
			refused: mesh + "ended with code 2 on node n1: no mesh", added: true},
		{name: "a container of others without a word", pod: before("mesh", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}), phase: Ended,
			refused: mesh + "ended with code 2 on node n1", added: true, silent: true},
		{name: "a container of others without an image", pod: before("mesh", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "gone"}}),
			why: mesh + "waits on node n1: its image does not come: ErrImagePull: gone", added: true},
		{name: "a container of others that has done its work", pod: before("mesh", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})},
		{name: "a container of others that takes its time", pod: before("mesh", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			held: mesh + "runs on node n1, and its task begins after it", added: true},
		{name: "a sidecar that is not ready", pod: with(before("mesh", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), always),
			held: mesh + "runs on node n1, and its task begins after it", added: true},
		{name: "a sidecar that is ready", pod: with(before("mesh", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), func(p *corev1.Pod) {
			always(p)
			yes := true
			p.Status.InitContainerStatuses[0].Started = &yes
		})},
		{name: "a sidecar that fails again and again", pod: with(before("mesh", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}), func(p *corev1.Pod) {
			always(p)
			p.Status.InitContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 7, Message: "no control plane"}
		}), why: mesh + "waits on node n1: its container does not start: CrashLoopBackOff: back-off 10s; before that it ended with code 7 on node n1: no control plane", added: true},
		{name: "a container of others beside the task", pod: with(before("comb", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: Container, Image: "job:1"}, {Name: "mesh", Image: "mesh:1"}}
			waits := &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "gone"}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Waiting: waits}})
		}), why: mesh + "waits on node n1: its image does not come: ErrImagePull: gone", added: true},
	} {
		got := Look(&c.pod, c.asked)
		if got.Phase != c.phase || got.Refused != c.refused || got.Why != c.why || got.JobFault != c.job || got.Program != c.program || got.Fetch || got.Ran ||
			got.Added != c.added || got.Held != c.held || got.Silent != map[bool]string{true: "mesh"}[c.silent] {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	byHand := with(ended(corev1.ContainerStateTerminated{ExitCode: 143}), deleted)
	if x := Look(&byHand, false).Exit; x.Cause != model.PodDeleted || x.Message != "its pod was deleted before it ran, and not by Comb: by a user or a program, as kubectl delete does it" {
		t.Errorf("deleted by hand: %+v", x)
	}
	loud := ended(corev1.ContainerStateTerminated{ExitCode: 1, Message: strings.Repeat("ä\xff", 4000)})
	if got := Look(&loud, false); len(got.Refused) > 500 || !strings.HasSuffix(got.Refused, "...") {
		t.Errorf("a long line: %d bytes, %q", len(got.Refused), got.Refused)
	}
}

// The pod that tries the image is as restricted as those of tasks, runs what they run, and is no
// task's.
func TestTrial(t *testing.T) {
	task := sample()
	task.ServerLink = &ServerLink{Image: "comb:1", URL: "https://x", Pin: "p"}
	of, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	pod := maker.Trial("comb:1", "n1", []string{"nvidia.com/gpu"})
	first, laid := pod.Spec.Containers[0], of.Spec.InitContainers[0]
	if !slices.Equal(first.Command, laid.Command) || first.Image != laid.Image || first.TerminationMessagePolicy != laid.TerminationMessagePolicy ||
		*first.SecurityContext.AllowPrivilegeEscalation || !*pod.Spec.SecurityContext.RunAsNonRoot || *pod.Spec.SecurityContext.RunAsUser != *of.Spec.SecurityContext.RunAsUser {
		t.Errorf("it runs %+v, a task %+v", first, laid)
	}
	if ProgramImage(of) != "comb:1" || ProgramImage(pod) != "comb:1" {
		t.Errorf("the images are %q and %q", ProgramImage(of), ProgramImage(pod))
	}
	if _, _, ok := maker.Parse(pod.Name); ok || !maker.Sealed(pod) || NodeOf(pod) != "n1" || len(pod.Finalizers) > 0 || *pod.Spec.ActiveDeadlineSeconds <= 0 {
		t.Errorf("it is %+v", pod)
	}
	says := func(phase corev1.PodPhase, state corev1.ContainerState) TrialState {
		p := pod.DeepCopy()
		p.Spec.NodeName, p.Status.Phase = "n1", phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "comb", State: state}}
		return LookAtTrial(p)
	}
	for _, c := range []struct {
		name string
		got  TrialState
		want TrialState
	}{
		{"nothing yet", LookAtTrial(pod), TrialState{}},
		{"it runs", says(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), TrialState{Runs: true}},
		{"it works", says(corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}), TrialState{Works: true}},
		{"no image", says(corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "gone"}}),
			TrialState{Why: "the container with Comb's program, image comb:1, waits on node n1: its image does not come: ErrImagePull: gone"}},
		{"its own code", says(corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "no"}}),
			TrialState{Fails: true, Why: "the container with Comb's program, image comb:1, ended with code 3 on node n1: no"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	beside := pod.DeepCopy()
	beside.Spec.NodeName, beside.Status.Phase = "n1", corev1.PodFailed
	beside.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "mesh:1"}}
	end := &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no mesh"}
	beside.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: corev1.ContainerState{Terminated: end}}}
	if got := LookAtTrial(beside); !got.Fails || !got.Added || !strings.Contains(got.Why, "the container mesh, image mesh:1, which something") {
		t.Errorf("with a container of others: %+v", got)
	}
	beside.Status.Phase = corev1.PodPending
	beside.Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if got := LookAtTrial(beside); got != (TrialState{}) {
		t.Errorf("with one that takes its time: %+v", got)
	}
	late := pod.DeepCopy()
	late.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}
	if got := LookAtTrial(late); !got.Fails || got.Why != "Kubernetes ended the pod that tries the image of Comb: DeadlineExceeded" {
		t.Errorf("past its deadline: %+v", got)
	}
}
