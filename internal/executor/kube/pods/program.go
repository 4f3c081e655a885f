package pods

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// programContainer is the name of the container that copies Comb's program into a pod.
const programContainer = "comb"

// leastMB is the memory with which that container can do its work.
const leastMB = 64

// layProgram is the container that copies Comb's program into a pod. What it prints last comes with
// its exit code, so that its log need not be asked for.
func layProgram(image string, secured *corev1.SecurityContext, room corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{
		Name: programContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:                  []string{"/usr/local/bin/comb", "lay", layDir},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          secured, Resources: room,
		VolumeMounts: []corev1.VolumeMount{{Name: "program", MountPath: layDir}},
	}
}

// programVolume is where that container puts it.
func programVolume() corev1.Volume {
	return corev1.Volume{Name: "program", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// ProgramImage is the image that a pod takes Comb's program from, or that the pod tries; "" for
// none.
func ProgramImage(pod *corev1.Pod) string { return specOf(pod, programContainer).Image }

// TrialName is the name of the pod that tries the image of Comb. It is no task's.
func (m *Maker) TrialName() string { return "comb-" + m.Short() + "-image" }

// Trial is a pod that does nothing but copy Comb's program, on a node with such device plugins. It
// ends by itself, also where its maker is gone.
func (m *Maker) Trial(image, node string, offers []string) *corev1.Pod {
	no, yes, uid, seconds, grace := false, true, int64(user), int64(TrialWithin/time.Second), int64(1)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
		corev1.ResourceMemory: *resource.NewQuantity(leastMB<<20, resource.BinarySI)}
	most := room.DeepCopy()
	most[corev1.ResourceCPU] = resource.MustParse("1")
	c := layProgram(image, restricted(), corev1.ResourceRequirements{Requests: room, Limits: most})
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: m.TrialName(), Namespace: m.Space,
			Labels:      map[string]string{ClusterLabel: m.Short()},
			Annotations: map[string]string{sealNote: m.seal(m.TrialName(), node, m.Space)}},
		Spec: corev1.PodSpec{
			Affinity: &corev1.Affinity{NodeAffinity: onNode(node)}, Tolerations: tolerations(offers...), PriorityClassName: m.Class,
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no, EnableServiceLinks: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &uid,
				FSGroup: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes: []corev1.Volume{programVolume()}, Containers: []corev1.Container{c},
		},
	}
}

// TrialWithin bounds a trial, with the fetching of its image.
const TrialWithin = 5 * time.Minute

// restricted is what the containers of all pods may not do.
func restricted() *corev1.SecurityContext {
	no := false
	return &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Privileged: &no,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// TrialState is what a trial shows.
type TrialState struct {
	Works, Fails bool   // none of both: it is not known yet
	Runs         bool   // its program was started
	Why          string // why it fails, or what it waits for
	// Added says that Why is about a container that something in the cluster has added: nothing is
	// known of the image then.
	Added bool
}

// LookAtTrial reads a trial.
func LookAtTrial(pod *corev1.Pod) (t TrialState) {
	if before := lookBefore(pod); before.Added && before.Held == "" {
		return TrialState{Fails: before.Refused != "", Why: cmp.Or(before.Refused, before.Why), Added: true}
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.Name != programContainer {
			continue
		}
		if t.Runs = c.State.Running != nil; c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
			return TrialState{Works: true}
		}
		var s State
		s.program(pod, c, ProgramImage(pod))
		t.Fails, t.Why = s.Refused != "", cmp.Or(s.Refused, s.Why)
	}
	if t.Why == "" && pod.Status.Phase == corev1.PodFailed {
		return TrialState{Fails: true, Why: "Kubernetes ended the pod that tries the image of Comb: " +
			words(pod.Status.Reason, pod.Status.Message)}
	}
	return t
}

// program notes why the container with Comb's program does not start, or did not do its work.
func (s *State) program(pod *corev1.Pod, c *corev1.ContainerStatus, image string) {
	what, node := "the container with Comb's program, image "+image+",", pod.Spec.NodeName
	switch {
	case c.State.Waiting != nil:
		if s.wait(c.State.Waiting); s.Why != "" {
			s.Why = fmt.Sprintf("%s waits on node %s: %s", what, node, s.Why)
		}
		s.JobFault, s.Fetch = false, false
	case c.State.Terminated == nil || c.State.Terminated.ExitCode == 0:
	case pod.Status.Reason != "": // an eviction says more
	default:
		s.Refused = what + " " + programEnd(c.State.Terminated, node)
		limits := specOf(pod, programContainer).Resources.Limits
		limit := limits.Memory().Value()
		if s.JobFault = c.State.Terminated.Reason == "OOMKilled" && limit > 0 && limit < leastMB<<20; s.JobFault {
			s.Refused = fmt.Sprintf("the memory of its task, %d MiB, is too small for Comb's program beside it: "+
				"ask for %d MiB or more (--memory)", limit>>20, leastMB)
		}
	}
	s.Program = (s.Why != "" || s.Refused != "") && !s.JobFault
}

// programEnd says how a container with Comb's program ended that did not do its work.
func programEnd(t *corev1.ContainerStateTerminated, node string) string {
	said := LastLine(t.Message)
	hint := ""
	if strings.Contains(t.Message, "exec format error") {
		hint = " (it is made for processors of another kind)"
	}
	switch {
	case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
		return fmt.Sprintf("cannot be started on node %s%s: %s", node, hint, words(t.Reason, t.Message))
	case t.Reason == "OOMKilled":
		return "was out of memory on node " + node
	case said == "":
		return fmt.Sprintf("ended with code %d on node %s, and printed nothing", t.ExitCode, node)
	}
	return fmt.Sprintf("ended with code %d on node %s%s: %s", t.ExitCode, node, hint, said)
}

// added notes why a container that is not Comb's keeps a pod from starting. What adds it, such as
// the webhook of a mesh, is no job's and no node's.
func (s *State) added(pod *corev1.Pod, c *corev1.ContainerStatus) {
	node, spec := pod.Spec.NodeName, specOf(pod, c.Name)
	what := fmt.Sprintf("the container %s, image %s, which something in the cluster has added to its pod,", c.Name,
		cmp.Or(spec.Image, c.Image))
	sidecar := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
	end := c.State.Terminated
	switch {
	case c.State.Waiting != nil:
		if s.wait(c.State.Waiting); s.Why != "" {
			if end := c.LastTerminationState.Terminated; end != nil {
				s.Why += "; before that it " + addedEnd(end, node)
			}
			s.Why = fmt.Sprintf("%s waits on node %s: %s", what, node, s.Why)
		}
		s.JobFault, s.Fetch = false, false
	case c.State.Running != nil && (!sidecar || c.Started == nil || !*c.Started):
		s.Held = fmt.Sprintf("%s runs on node %s, and its task begins after it", what, node)
	case end != nil && end.ExitCode != 0 && pod.Status.Reason == "":
		s.Refused = what + " " + addedEnd(end, node)
		if strings.TrimSpace(end.Message) == "" {
			s.Silent = c.Name
		}
	}
	s.Added = s.Why != "" || s.Refused != "" || s.Held != ""
}

// addedEnd says how a container that is not Comb's ended. What it printed may not come with its
// end.
func addedEnd(t *corev1.ContainerStateTerminated, node string) string {
	return strings.TrimSuffix(programEnd(t, node), ", and printed nothing")
}

// specOf is the container of a pod of that name; an empty one where there is none.
func specOf(pod *corev1.Pod, name string) (c corev1.Container) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return list[i]
			}
		}
	}
	return c
}

// LastLine is the last line with text of what a program printed, bounded and without control
// characters.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return text
}
