package pods

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
)

// Phase is how far a pod is.
type Phase uint8

// A pod waits, runs, or has provably ended.
const (
	Waits Phase = iota
	Runs
	Ended
)

// State is what a pod tells of its task.
type State struct {
	Phase Phase
	Ran   bool   // its program has been started
	Host  string // its address, where it has one
	Exit  model.Exit
	// Refused says why a pod that has ended never ran; "" when it ran, or was asked to end.
	Refused string
	// Why says what a waiting pod waits for, where that is unusual.
	Why string
	// JobFault says that its job is to blame for Refused or Why, Fetch that its image does not
	// come, and Program that it is the container with Comb's program, which no job chooses.
	JobFault, Fetch, Program bool
}

// Slim drops from a pod what Comb does not read once the pod is made: a server keeps a copy of
// each.
func Slim(pod *corev1.Pod) {
	keep := corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, Affinity: pod.Spec.Affinity,
		ResourceClaims: pod.Spec.ResourceClaims, Resources: pod.Spec.Resources, Overhead: pod.Spec.Overhead}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		slim := corev1.Container{Name: c.Name, Image: c.Image, WorkingDir: c.WorkingDir, Resources: c.Resources}
		for j := range c.Env {
			if c.Env[j].Name == ownVariables {
				slim.Env = []corev1.EnvVar{{Name: ownVariables}}
			}
		}
		keep.Containers = append(keep.Containers, slim)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		keep.InitContainers = append(keep.InitContainers,
			corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy, Resources: c.Resources})
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == tokenVolume {
			keep.Volumes = []corev1.Volume{*v}
		}
	}
	pod.Spec = keep
	if of, has := pod.Labels[ClusterLabel]; has {
		pod.Labels = map[string]string{ClusterLabel: of}
	} else {
		pod.Labels = nil
	}
	pod.Status.HostIP, pod.Status.HostIPs, pod.Status.PodIPs = "", nil, nil
}

// Look reads a pod. asked says that Comb has told it to end.
func Look(pod *corev1.Pod, asked bool) State {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByPodGC" && c.Status == corev1.ConditionTrue {
			x := model.Exit{Code: 137, Cause: model.NodeLost}
			x.Message = "its node was taken out of service in Kubernetes"
			return State{Phase: Ended, Host: pod.Status.PodIP, Exit: x}
		}
	}
	s := State{Host: pod.Status.PodIP}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		switch {
		case c.Name != Container:
		case c.State.Terminated != nil:
			s.Phase, s.Ran = Ended, !c.State.Terminated.StartedAt.IsZero()
			if s.Exit = exitOf(c.State.Terminated, asked, pod.DeletionTimestamp != nil); pod.Status.Reason == "Evicted" && !asked {
				evicted(&s.Exit, pod.Status.Message)
			}
			return s
		case c.State.Running != nil:
			s.Phase, s.Ran = Runs, true
			return s
		case c.State.Waiting != nil:
			s.wait(c.State.Waiting)
		}
	}
	if before := lookBefore(pod); before.Why != "" || before.Refused != "" {
		before.Host, s = s.Host, before
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		s.endUnrun(pod, asked)
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		x := model.Exit{Cause: model.NeverStarted, Message: "its pod was deleted before it had a node"}
		s = State{Phase: Ended, Exit: x}
	case s.Refused != "": // its kubelet will say that it has ended
		s = State{Host: s.Host}
	case pod.Spec.NodeName == "":
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				s.Why = "kube-scheduler does not bind its pod: " + c.Message
			}
		}
	}
	return s
}

// Alike reports whether two versions of a pod that has not ended tell the same of it. Of one with
// claims none are: they may have been given meanwhile.
func Alike(a, b *corev1.Pod) bool {
	is := Look(b, false)
	return is.Phase != Ended && is == Look(a, false) && a.UID == b.UID && a.Spec.NodeName == b.Spec.NodeName &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && slices.Equal(a.Finalizers, b.Finalizers) &&
		len(b.Spec.ResourceClaims) == 0
}

// lookBefore is what the containers say that run before that of the task: why one of them waits, or
// has failed. They run one after the other.
func lookBefore(pod *corev1.Pod) (s State) {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if c.Name == programContainer {
			s.program(pod, c, ProgramImage(pod))
		} else {
			s.added(pod, c)
		}
		if s.Why != "" || s.Refused != "" {
			break
		}
	}
	return s
}

// endUnrun notes how a pod ended that its node ended before its program ran, or lost sight of.
func (s *State) endUnrun(pod *corev1.Pod, asked bool) {
	failed := *s // as said by a container that runs before the task
	why := "Kubernetes ended its pod: " + words(pod.Status.Reason, pod.Status.Message)
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == "" && !asked && neverRan(pod):
		why = "its pod was deleted before it ran, and not by Comb"
	case failed.Refused != "" && pod.DeletionTimestamp == nil:
		why = failed.Refused
	}
	*s = State{Phase: Ended, Host: s.Host, Exit: model.Exit{Code: 137, Cause: model.NodeLost, Message: why}}
	switch {
	case asked:
		s.Exit.Cause = model.NeverStarted
	case pod.DeletionTimestamp == nil && neverRan(pod):
		s.Refused = why
		s.JobFault, s.Program = failed.Refused != "" && failed.JobFault, failed.Refused != "" && failed.Program
	}
}

// neverRan reports whether a pod's task was never started, as when its kubelet refused the pod.
func neverRan(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.Name == Container && (c.ContainerID != "" || c.LastTerminationState.Terminated != nil) {
			return false
		}
	}
	return true
}

// wait says why a container does not start.
func (s *State) wait(w *corev1.ContainerStateWaiting) {
	switch w.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
		s.Why, s.JobFault = "its image does not come: "+words(w.Reason, w.Message), w.Reason != "RegistryUnavailable"
		s.Fetch = true
	default:
		s.Why, s.JobFault = "its container does not start: "+words(w.Reason, w.Message), strings.HasPrefix(w.Reason, "CreateContainerConfig")
	}
}

// exitOf is the exit of a container that ended.
func exitOf(t *corev1.ContainerStateTerminated, asked, deleted bool) model.Exit {
	e := model.Exit{Code: t.ExitCode, Signal: t.Signal, Own: !deleted}
	if !t.FinishedAt.IsZero() {
		e.At = model.Time(t.FinishedAt.UnixMicro())
	}
	if e.Signal == 0 && e.Code > 128 && e.Code <= 128+64 {
		e.Signal = e.Code - 128 // runtimes tell the signal by the code alone
	}
	switch {
	case t.Reason == "OOMKilled":
		e.Cause = model.OutOfMemory
	case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
		e.Cause, e.Message = model.StartRefused, words(t.Reason, t.Message)
		if own := ownFault(t.Message); own != "" {
			e.Code, e.Cause, e.Message = 126, "", own+"; "+e.Message
		}
	case t.Reason == "ContainerStatusUnknown":
		e.Cause, e.Message, e.Own = model.NodeLost, "its node has lost sight of its container: "+t.Message, false
	case deleted && !asked:
		e.Cause, e.Message = model.NodeLost, "its pod was deleted, and not by Comb"
	case asked && e.Signal == 9 && deleted:
		e.Cause = model.GraceOver
	}
	return e
}

// noProgram matches how runc and crun name a program that they cannot start. lacking matches what
// a node may lack then, ofRuntime a program of the node's own.
var (
	noProgram = regexp.MustCompile("exec: \"([^\"]*)\": |executable file `([^`]*)`")
	lacking   = regexp.MustCompile(`(?i)resource temporarily unavailable|cannot allocate memory|too many open files|` +
		`input/output error|no space left|read-only file system|hook`)
	ofRuntime = regexp.MustCompile(`(^|/)(nvidia-|containerd|runc|crun|conmon)`)
)

// ownFault says what is wrong with a task that no node could start, and what to do about it; ""
// when its node may be to blame.
func ownFault(message string) string {
	switch {
	case strings.Contains(message, "chdir to cwd"): // as runc says it
		return "its working directory cannot be entered by its user: name another one " +
			"(extras.comb.taskRoles.NAME.workDir, such as " + workDir + ")"
	case lacking.MatchString(message):
		return ""
	}
	if m := noProgram.FindStringSubmatch(message); m != nil && !ofRuntime.MatchString(m[1]+m[2]) {
		return "what is to be run cannot be started in its image: " +
			"where its role has commands, use an image with /bin/sh; else write its commands"
	}
	return ""
}

// overuse matches how kubelets say that a pod, a container of it or a volume has written more
// than it may.
var overuse = regexp.MustCompile(`^(Pod ephemeral local storage usage exceeds the total limit of containers |Container \S+ exceeded its local ephemeral storage limit |Usage of EmptyDir volume \S+ exceeds the limit )`)

// evicted sets why a task ended that its kubelet evicted. It may have written more than it may:
// then that is its own fault, however it exited. Anything else is its node's fault.
func evicted(e *model.Exit, message string) {
	message = strings.TrimSpace(message)
	if !overuse.MatchString(message) {
		e.Cause, e.Message, e.Own = model.NodeLost, "its node ended it: "+words("", message), false
		return
	}
	if e.Code == 0 {
		e.Code, e.Signal = 137, 9
	}
	e.Cause, e.Own = "", true
	e.Message = strings.TrimSuffix(words("", message), ".") + ". What it prints counts, too: write to a storage, or ask for more (--disk, extras.comb.taskRoles.NAME.disk)"
}

// words joins a reason of Kubernetes with its message, bounded.
func words(reason, message string) string {
	text := strings.TrimSpace(message)
	if reason != "" && !strings.Contains(text, reason) {
		text = strings.TrimSuffix(fmt.Sprintf("%s: %s", reason, text), ": ")
	}
	if len(text) > 600 {
		text = strings.ToValidUTF8(text[:600], "") + "..."
	}
	if text == "" {
		return "it gives no reason"
	}
	return text
}
