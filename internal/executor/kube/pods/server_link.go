package pods

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/podinit"
)

const (
	layDir       = "/comb/bin"
	tokenVolume  = "token"
	progressFile = workDir + "/.comb-progress"
	membersFile  = workDir + "/.comb-members.json"
	suspendFile  = workDir + "/.comb-suspended"
	// programMB is the part of a pod's disk that is for this program.
	programMB = 128
	// tokenSeconds is how long a token of a pod is valid. It is long, so that tokens outlive an API
	// server that is away; Comb takes none of a pod whose task has ended. The kubelet renews it
	// before.
	tokenSeconds = 24 * 3600
)

// ServerLink is how pods reach the server.
type ServerLink struct {
	Image string // of Comb: pods take this program from it
	URL   string
	Pin   string // of the server's certificate
	Limit int64  // of a job's code, in bytes
}

// PodToken is the token of the pod of a name that an earlier version made, in a Secret. Only this
// cluster can make it.
func (m *Maker) PodToken(pod string) string {
	mac := hmac.New(sha256.New, m.Key)
	fmt.Fprintf(mac, "line\n%s\n%s", m.Cluster, pod)
	return hex.EncodeToString(mac.Sum(nil))
}

// wrapTask makes this program process 1 of a pod, and the former command its task.
func (m *Maker) wrapTask(pod *corev1.Pod, t Task, role *model.Role) {
	giveToken(pod)
	no := false
	pod.Spec.ShareProcessNamespace = &no // process 1 forwards signals, and reaps
	pod.Spec.Volumes = append(pod.Spec.Volumes, programVolume())
	first := &pod.Spec.Containers[0]
	o := podinit.Order{URL: t.ServerLink.URL, Pin: t.ServerLink.Pin, Pod: pod.Name, Code: t.Start.Job.Upload, Dir: workDir, Limit: t.ServerLink.Limit, From: t.runsIn(role), Progress: progressFile, AwaitAddresses: len(t.Start.Tasks) > 1}
	if t.Start.Job.Varies() {
		o.Members, o.Signal = membersFile, t.Start.Job.Hints.MembersSignal
	}
	o.Turns, o.KeepLog = turnsOf(t), keptLog(first.Resources.Limits.Memory().Value())
	if last := len(first.Command) - 1; !strings.HasPrefix(first.Command[last], scriptDir+"/") {
		first.Command[last] += "\n\nexit $$?" // else its last program replaces the shell
	}
	first.Command = append([]string{layDir + "/comb", "attend", escape(o.Text())}, first.Command...)
	first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: "program", MountPath: layDir, ReadOnly: true})
	if first.WorkingDir != "" {
		first.WorkingDir = workDir // where the task starts, Order.From says
	}
	first.Resources = roomFor(first.Resources)
	lays := layProgram(t.ServerLink.Image, first.SecurityContext, withoutDevices(first.Resources))
	pod.Spec.InitContainers = []corev1.Container{lays}
}

// keptLog is how much of a task's output its pod keeps while the server takes none, in bytes. It
// counts as the task's memory, of which it is a small part. limit is that memory, 0 for none.
func keptLog(limit int64) int {
	const least, most = 1 << 20, 16 << 20
	if limit == 0 {
		return most
	}
	return int(max(min(limit/32, most), least))
}

// giveToken lets the kubelet give a pod a token that says which pod it is, to Comb alone.
func giveToken(pod *corev1.Pod) {
	seconds, mode := int64(tokenSeconds), int32(0o440)
	dir, file := path.Split(link.TokenFile)
	source := corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{{
		ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: link.Audience, ExpirationSeconds: &seconds, Path: file}}}}
	pod.Spec.ServiceAccountName = "default" // what admission would set; a token is made for a named one only
	volume := corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &source}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	first := &pod.Spec.Containers[0]
	mount := corev1.VolumeMount{Name: tokenVolume, MountPath: path.Clean(dir), ReadOnly: true}
	first.VolumeMounts = append(first.VolumeMounts, mount)
}

// HasOwnToken reports whether the kubelet gives a pod its token, and not a Secret, as in earlier
// versions. What it goes by cannot be changed in a pod.
func HasOwnToken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == tokenVolume && v.Projected != nil
	})
}

// turnsOf says how a task takes turns with others; nil when its job cannot be suspended.
func turnsOf(t Task) *podinit.Turns {
	job := t.Start.Job
	if !job.Hints.Suspendable {
		return nil
	}
	turns := &podinit.Turns{Attempt: t.Attempt, Grace: model.Duration(graceSeconds(job.Grace)) * model.Second}
	if t.Start.Rotation != nil {
		turns.Rotation = *t.Start.Rotation
	}
	if c := job.Hints.Suspend; c != nil {
		turns.Signal, turns.Timeout, turns.File = cmp.Or(c.Signal, "USR1"), c.Timeout, suspendFile
	}
	return turns
}

// runsIn is the working directory of a task: a relative one is a folder of its code.
func (t *Task) runsIn(role *model.Role) string {
	if dir := role.Launch.WorkDir; dir == "" || path.IsAbs(dir) {
		return dir
	}
	return path.Join(workDir, role.Launch.WorkDir)
}

// roomFor adds this program's size to what a task may write.
func roomFor(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		if disk := list[corev1.ResourceEphemeralStorage]; !disk.IsZero() {
			disk.Add(*resource.NewQuantity(programMB<<20, resource.BinarySI))
			list[corev1.ResourceEphemeralStorage] = disk
		}
	}
	return r
}

func withoutDevices(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	only := func(from corev1.ResourceList) corev1.ResourceList {
		list := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if n, ok := from[name]; ok {
				list[name] = n
			}
		}
		return list
	}
	return corev1.ResourceRequirements{Limits: only(r.Limits), Requests: only(r.Requests)}
}

// lineVariables say where a task finds its code, and where it reports its progress.
func lineVariables(t Task) (env []model.EnvVar) {
	if t.ServerLink == nil {
		return nil
	}
	env = append(env, model.EnvVar{Name: "COMB_PROGRESS_FILE", Value: progressFile})
	if t.Start.Job.Varies() {
		env = append(env, model.EnvVar{Name: "COMB_MEMBERS_FILE", Value: membersFile})
	}
	if t.Start.Job.Hints.Suspend != nil {
		env = append(env, model.EnvVar{Name: "COMB_SUSPEND_FILE", Value: suspendFile})
	}
	if t.Start.Job.Upload != "" {
		env = append(env, model.EnvVar{Name: "COMB_CODE_DIR", Value: workDir})
	}
	return env
}
