package pods

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Slim drops from a pod what Comb does not read once the pod is made: a server keeps a copy of
// each. What is alike in many pods they share: it is never changed.
func Slim(pod *corev1.Pod) {
	keep := corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, ResourceClaims: pod.Spec.ResourceClaims,
		Resources: pod.Spec.Resources, Overhead: pod.Spec.Overhead}
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
	same, place := &corev1.Pod{Spec: keep}, &corev1.Pod{Spec: corev1.PodSpec{Affinity: pod.Spec.Affinity}}
	if of, has := pod.Labels[ClusterLabel]; has {
		same.Labels = map[string]string{ClusterLabel: of}
	}
	same, place = alike.of(same), alike.of(place)
	node := pod.Spec.NodeName
	pod.Labels, pod.Spec = same.Labels, same.Spec
	pod.Spec.NodeName, pod.Spec.Affinity = node, place.Spec.Affinity
	slimNotes(pod)
	slimStatus(pod)
}

// slimNotes keeps of the annotations what is read.
func slimNotes(pod *corev1.Pod) {
	notes := pod.Annotations
	pod.Annotations = nil
	for _, name := range []string{sealNote, corev1.MirrorPodAnnotationKey} {
		if text, has := notes[name]; has {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[name] = text
		}
	}
}

// slimStatus keeps what Look and LookAtTrial read.
func slimStatus(pod *corev1.Pod) {
	s := &pod.Status
	keep := corev1.PodStatus{Phase: s.Phase, Reason: s.Reason, Message: s.Message, PodIP: s.PodIP}
	for _, c := range s.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue ||
			c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			keep.Conditions = append(keep.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason,
				Message: c.Message})
		}
	}
	began := false // then what ran before it does not matter
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		keep.ContainerStatuses = append(keep.ContainerStatuses, slimContainer(c))
		began = began || c.Name == Container && (c.State.Running != nil || c.State.Terminated != nil)
	}
	for i := range s.InitContainerStatuses {
		if !began {
			keep.InitContainerStatuses = append(keep.InitContainerStatuses, slimContainer(&s.InitContainerStatuses[i]))
		}
	}
	*s = keep
}

func slimContainer(c *corev1.ContainerStatus) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState,
		ContainerID: c.ContainerID, Started: c.Started}
}

// Parts are remembered up to so many bytes, as they are sent. Beyond it all are forgotten: pods
// that share one go on to. A long one is not remembered: a user may make as many as they like.
const (
	mostAlike  = 4 << 20
	longestOne = 8 << 10
)

// alikeParts are parts of pods that many share, by what they say. Most pods of a job, and of jobs
// of one shape, have the same, and the maps in it take more than the rest of a pod.
type alikeParts struct {
	mu    sync.Mutex
	seen  map[string]*corev1.Pod
	bytes int
}

var alike = alikeParts{seen: map[string]*corev1.Pod{}}

// of is a part that says the same.
func (a *alikeParts) of(part *corev1.Pod) *corev1.Pod {
	text, err := part.Marshal()
	if err != nil || len(text) > longestOne {
		return part
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if had, ok := a.seen[string(text)]; ok {
		return had
	}
	if a.bytes += len(text); a.bytes > mostAlike {
		clear(a.seen)
		a.bytes = len(text)
	}
	a.seen[string(text)] = part
	return part
}
