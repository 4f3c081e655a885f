package pods

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

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
	// Added says that Refused, Why or Held is about a container that something in the cluster has
	// added to the pod: neither its job nor its node is to blame.
	Added bool
	// Held says which added container its task waits for, although nothing is wrong with it.
	Held string
	// Silent names the added container that Refused is about and whose end came without a word:
	// its log may say more.
	Silent string
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
			s.Exit = exitOf(pod, c.State.Terminated, asked)
			if pod.Status.Reason == "Evicted" && !asked {
				evicted(&s.Exit, pod.Status.Message)
			}
			// Its kubelet says no more of a container that it never made.
			if asked && c.State.Terminated.Reason == statusUnknown && neverRan(pod) {
				s.Exit = model.Exit{Cause: model.NeverStarted, Message: "it was stopped before its container started"}
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
	} else if s.Why == "" {
		s.Held, s.Added = before.Held, before.Held != ""
		s.beside(pod)
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		s.endUnrun(pod, asked)
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		x := model.Exit{Cause: model.NeverStarted, Message: "its pod was deleted before it had a node"}
		if !asked {
			x = model.Exit{Code: 137, Cause: model.PodDeleted, Message: deletedBy(pod, " before it had a node")}
		}
		s = State{Phase: Ended, Exit: x}
	case s.Refused != "": // its kubelet will say that it has ended
		s = State{Host: s.Host}
	case pod.Spec.NodeName == "":
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				s.Why = "kube-scheduler does not bind its pod: " + c.Message + lacksClaim(pod.Namespace, c.Message)
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
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		GivenGrace(a) == GivenGrace(b) && slices.Equal(a.Finalizers, b.Finalizers) &&
		len(b.Spec.ResourceClaims) == 0
}

// GivenGrace is how long a pod that was asked to end was given for it, also by others; 0 where none
// was.
func GivenGrace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(min(*pod.DeletionGracePeriodSeconds, math.MaxInt32)) * time.Second
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
		if s.Why != "" || s.Refused != "" || s.Held != "" {
			break
		}
	}
	return s
}

// beside notes why a container that something has added beside that of the task does not start:
// some hold up the task.
func (s *State) beside(pod *corev1.Pod) {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name != Container && c.State.Waiting != nil && s.Why == "" {
			s.added(pod, c)
		}
	}
}

// endUnrun notes how a pod ended that its node ended before its program ran, or lost sight of.
func (s *State) endUnrun(pod *corev1.Pod, asked bool) {
	failed := *s // as said by a container that runs before the task
	why, cause := "Kubernetes ended its pod: "+words(pod.Status.Reason, pod.Status.Message), model.NodeLost
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == "" && !asked && neverRan(pod):
		why, cause = deletedBy(pod, " before it ran"), model.PodDeleted
	case failed.Refused != "" && pod.DeletionTimestamp == nil:
		why = failed.Refused
	case pod.Status.Reason == noDisk:
		why = lacksDisk(pod.Status.Message)
	case roomOf[pod.Status.Reason] != nil:
		why = lacksRoom(pod.Status.Reason, pod.Status.Message)
	}
	full := pod.Status.Reason == noDisk || roomOf[pod.Status.Reason] != nil
	*s = State{Phase: Ended, Host: s.Host, Fetch: full, Exit: model.Exit{Code: 137, Cause: cause, Message: why}}
	switch {
	case asked:
		s.Exit.Cause = model.NeverStarted
	case pod.DeletionTimestamp == nil && neverRan(pod):
		s.Refused = why
		if failed.Refused != "" {
			s.JobFault, s.Program, s.Added, s.Silent = failed.JobFault, failed.Program, failed.Added, failed.Silent
		}
	}
}

// Unexplained says that a pod has not started for so long, where nothing says why.
func (s *State) Unexplained(after time.Duration) string {
	if s.Held != "" {
		return fmt.Sprintf("%s, for %v now", s.Held, after)
	}
	return fmt.Sprintf("Kubernetes has not started its pod after %v, and gives no reason", after)
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

// noClaim matches how kube-scheduler names a claim that is missing.
var noClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]*)" not found`)

// lacksClaim says what to do where a pod is not bound since a claim is missing; "" for other
// reasons.
func lacksClaim(space, message string) string {
	if m := noClaim.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("; an administrator makes the PersistentVolumeClaim %s in namespace %s", m[1], space)
	}
	return ""
}

// noDisk is the reason of a kubelet that has less disk left than a pod asks for. How much that is
// its job says: another node may have it, and this one is as good for others.
const noDisk = "OutOfephemeral-storage"

// roomOf are the reasons of a kubelet without room for a pod, each with how an amount of what is
// lacking reads. Pods of others took it before the kubelet heard of this one. When they go, the
// node is as good as before.
var roomOf = map[string]func(n uint64) string{
	"OutOfcpu":    func(n uint64) string { return fmt.Sprintf("%.1f CPUs", float64(n)/1000) },
	"OutOfmemory": func(n uint64) string { return fmt.Sprintf("%.1f GiB of memory", float64(n)/(1<<30)) },
	"OutOfpods":   func(n uint64) string { return fmt.Sprintf("%d pods", n) },
}

// lacksRoom says what a kubelet without room for a pod has of what is lacking.
func lacksRoom(reason, message string) string {
	m, amount := ofRoom.FindStringSubmatch(message), roomOf[reason]
	var n [3]uint64
	for i := range n {
		if m == nil {
			break
		}
		if _, err := fmt.Sscan(m[i+1], &n[i]); err != nil {
			m = nil
		}
	}
	if m == nil {
		return "pods of others have left too little room on its node: " + words(reason, message) +
			"; it starts elsewhere, or when they have ended"
	}
	return fmt.Sprintf("it asks for %s, and pods of others have left too little on its node: %s of %s are taken; "+
		"it starts elsewhere, or when they have ended", amount(n[0]), amount(n[1]), amount(n[2]))
}

// ofRoom matches what a kubelet without room says: disk and memory in bytes, CPUs in thousandths.
var ofRoom = regexp.MustCompile(`requested: (\d+), used: (\d+), capacity: (\d+)`)

// lacksDisk says what a kubelet has of the disk that a task asks for.
func lacksDisk(message string) string {
	m := ofRoom.FindStringSubmatch(message)
	if m == nil {
		return "its node has too little disk left: " + words(noDisk, message) + "; ask for less (--disk)"
	}
	var gib [3]float64
	for i := range gib {
		n := uint64(0)
		if _, err := fmt.Sscan(m[i+1], &n); err != nil {
			return lacksDisk("")
		}
		gib[i] = float64(n) / (1 << 30)
	}
	return fmt.Sprintf("it asks for %.1f GiB of disk, and pods that are there have %.1f GiB of the %.1f GiB of its "+
		"node: ask for less (--disk)", gib[0], gib[1], gib[2])
}

// statusUnknown is the reason that kubelets give for the end of a container that they do not find.
const statusUnknown = "ContainerStatusUnknown"

// deleters are what deletes pods in a cluster, by the reason that it writes into the pod before.
var deleters = map[string]string{
	"EvictionByEvictionAPI":  "by the eviction API, as kubectl drain uses it",
	"PreemptionByScheduler":  "by kube-scheduler, for a pod of a higher priority",
	"DeletionByTaintManager": "by Kubernetes, for a taint of its node that it does not tolerate",
	"TerminationByKubelet":   "by the kubelet of its node",
}

// deletedBy says of a pod that Comb did not delete it, and what did, where Kubernetes tells. Of a
// delete by hand it does not.
func deletedBy(pod *corev1.Pod, when string) string {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		by := deleters[c.Reason]
		if by != "" && c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return "its pod was deleted" + when + ", " + by
		}
	}
	return "its pod was deleted" + when + ", and not by Comb: by a user or a program, as kubectl delete does it"
}

// exitOf is the exit of a container of a pod that ended.
func exitOf(pod *corev1.Pod, t *corev1.ContainerStateTerminated, asked bool) model.Exit {
	deleted := pod.DeletionTimestamp != nil
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
	case t.Reason == statusUnknown:
		e.Cause, e.Message, e.Own = model.NodeLost, "its node has lost sight of its container: "+t.Message, false
	case deleted && !asked:
		e.Cause, e.Message = model.PodDeleted, deletedBy(pod, "")
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
