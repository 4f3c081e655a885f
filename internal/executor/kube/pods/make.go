// Package pods makes a task's pod, and reads from a pod what became of its task. It asks nothing
// of an API server.
package pods

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// What is on each pod. Labels and annotations are for people and selectors; nothing is decided by
// them.
const (
	LabelPrefix  = "comb.dev/"        // what begins with it is Comb's to write
	ClusterLabel = "comb.dev/cluster" // which Comb made it
	NameLabel    = "comb.dev/name"    // of the job; what a label cannot hold is "-" in it
	JobLabel     = "comb.dev/job"
	VCLabel      = "comb.dev/virtual-cluster"
	TaskLabel    = "comb.dev/task"
	OpenedLabel  = "comb.dev/opened-for" // the attempt for which Comb opened a pod of others
	gangLabel    = "comb.dev/gang"       // the attempt: its service selects by it
	sealNote     = "comb.dev/seal"
	// Finalizer keeps a pod, even one deleted by force, until its end is known and its log is
	// read.
	Finalizer = "comb.dev/until-its-end-is-known"
)

const (
	// Container is the name of the container of the task.
	Container = "task"

	workDir   = "/comb/work"
	scriptDir = "/comb/script"
	scriptKey = "script" // the file of a script that is hidden
	user      = 1000     // the user and group of tasks whose user has no number
	firstPort = 20000
	// DefaultGrace is the grace of a job that sets none.
	DefaultGrace = 30 * time.Second
)

// PriorityClass is the class of the pods of jobs, and Priority its value: the highest that a class
// of users may have.
const (
	PriorityClass = "comb-jobs"
	Priority      = 1_000_000_000
)

// Maker makes the pods of one cluster.
type Maker struct {
	Cluster string // the cluster's own name among those that share a namespace
	Key     []byte // for seals; secret
	Space   string // the server's own namespace
	Class   string // the PriorityClass of pods; "": none
}

// Name is the name of a task's pod. It is unique to this cluster, job, attempt and task.
func (m *Maker) Name(at model.AttemptID, task int32) string {
	return fmt.Sprintf("comb-%s-%s-%d", m.Short(), gang(at), task)
}

// DevicesName is the name of what belongs to some devices of a node, whichever tasks have them.
// It is unique to this cluster and these devices.
func (m *Maker) DevicesName(node, driver string, devices []string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{node, driver}, devices...), "\n")))
	return "comb-" + m.Short() + "-at-" + hex.EncodeToString(sum[:8])
}

// Short is a short form of the cluster's name that keeps two clusters apart in one namespace. It
// is the value of ClusterLabel.
func (m *Maker) Short() string {
	sum := sha256.Sum256([]byte(m.Cluster))
	return hex.EncodeToString(sum[:4])
}

// gang is the name of an attempt of a gang among all jobs of this cluster.
func gang(at model.AttemptID) string {
	return fmt.Sprintf("%d-%d-%d", int64(at.Job), at.Gang, at.N)
}

// attempt is the name of what belongs to all tasks of an attempt of a gang.
func (m *Maker) attempt(at model.AttemptID) string { return "comb-" + m.Short() + "-" + gang(at) }

// Service is the headless service by which the tasks of a gang find each other. One that selected
// the pods of all gangs would be written anew with each pod of any of them.
func (m *Maker) Service(at model.AttemptID) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: m.attempt(at), Labels: map[string]string{ClusterLabel: m.Short()}},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{ClusterLabel: m.Short(), gangLabel: gang(at)}},
	}
}

// Parse reads a name that Name made for this cluster.
func (m *Maker) Parse(name string) (at model.AttemptID, task int32, ok bool) {
	rest, found := strings.CutPrefix(name, "comb-"+m.Short()+"-")
	if !found {
		return at, 0, false
	}
	if _, err := fmt.Sscanf(rest, "%d-%d-%d-%d", &at.Job, &at.Gang, &at.N, &task); err != nil {
		return at, 0, false
	}
	return at, task, m.Name(at, task) == name
}

// seal proves that this cluster made a pod of that name, on that node and in that namespace. It
// is needed where a pod has no record, since its maker was killed in between. The server's own
// namespace is left out of it, as in versions that had no other.
func (m *Maker) seal(name, node, space string) string {
	mac := hmac.New(sha256.New, m.Key)
	fmt.Fprintf(mac, "%s\n%s\n%s", m.Cluster, name, node)
	if space != m.Space {
		fmt.Fprintf(mac, "\n%s", space)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// Sealed reports whether this cluster made a pod, in its namespace and on its node.
func (m *Maker) Sealed(pod *corev1.Pod) bool {
	return hmac.Equal([]byte(pod.Annotations[sealNote]), []byte(m.seal(pod.Name, NodeOf(pod), pod.Namespace)))
}

// NodeOf is the node that a pod asks for, "" for none.
func NodeOf(pod *corev1.Pod) string {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// Task is one task to be made a pod.
type Task struct {
	Attempt  model.AttemptID
	Start    *model.Start
	Task     *model.TaskStart
	Space    string            // the namespace
	Secrets  map[string]string // of the job, by path
	Resource string            // the resource of the node's device plugin that the task gets; "": none
	Claims   []string          // the claims that give its GPUs
	Offers   []string          // of the node's device plugins: taints of these names are tolerated
	// Shared are the variables that all tasks of the gang have: see GangVariables. nil: none are
	// shared.
	Shared  *Shared
	Network string // resource of RDMA network devices; "": the task gets none
	// Storages are those that the job names. Work is the claim that keeps checkpoints; "": there
	// is none.
	Storages   []model.Storage
	Work       string
	DiskMB     int64       // what it may write where it asks for nothing; 0 is no limit
	MostMB     int64       // the most that it may ask for; 0 is no limit
	UID, GID   int64       // of its user; 0: those of all tasks
	ServerLink *ServerLink // nil: process 1 of the pod is the task's shell, and the pod reports nothing
}

// CannotError says, in words for its user, why a task cannot be a pod. The job itself is at
// fault.
type CannotError struct{ Why string }

// Error implements error.
func (e *CannotError) Error() string { return e.Why }

// beginsIn is the directory in which a task's container starts; "" is the WORKDIR of its image.
func (t *Task) beginsIn(role *model.Role) string {
	if role.Launch.WorkDir == "" && t.Start.Job.Upload != "" {
		return workDir
	}
	return role.Launch.WorkDir
}

// inOwnFolder, in front of a script, starts the task in its own folder where its image has no
// WORKDIR, and the container would start in the root.
const inOwnFolder = `[ "$PWD" != / ] || cd ` + workDir + "; "

// Beside is a command that runs beside a pod's task, made to start in the task's directory with
// the task's variables.
func Beside(pod *corev1.Pod, argv []string) []string {
	own := TaskContainer(pod)
	if own == nil {
		return argv
	}
	first := ""
	if slices.ContainsFunc(own.Env, func(v corev1.EnvVar) bool { return v.Name == ownVariables }) {
		first = setVariables
	}
	if own.WorkingDir == "" {
		first += inOwnFolder
	}
	if first == "" {
		return argv
	}
	return append([]string{"/bin/sh", "-c", first + `exec "$@"`, "sh"}, argv...)
}

// longest is the longest script that is passed as a command, in bytes; a longer one becomes a
// file.
const longest = 100_000

// Make returns the pod of a task. With the first task of a gang, see First, it returns the secrets
// of the gang as well, which all its pods need before they start. A *CannotError says what the job
// asks for that a pod cannot have.
func (m *Maker) Make(t Task) (*corev1.Pod, []*corev1.Secret, error) {
	job := t.Start.Job
	role := &job.Roles[t.Task.Role]
	if err := unsupported(t, role); err != nil {
		return nil, nil, err
	}
	script, own, err := t.script(role)
	if err != nil {
		return nil, nil, err
	}
	name, node := m.Name(t.Attempt, t.Task.Task), string(t.Task.Place.Node)
	no, yes, seconds, once := false, true, graceSeconds(job.Grace), corev1.FSGroupChangeOnRootMismatch
	uid, gid, shared := cmp.Or(t.UID, user), cmp.Or(t.GID, user), int64(user) // a new fsGroup makes kubelets walk all files
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: t.Space,
			Labels:      m.labels(t, role),
			Annotations: map[string]string{sealNote: m.seal(name, node, t.Space), NameLabel: string(job.User) + "~" + string(job.Name)},
			Finalizers:  []string{Finalizer},
		},
		Spec: corev1.PodSpec{
			Affinity:                      &corev1.Affinity{NodeAffinity: onNode(node)},
			PriorityClassName:             m.Class,
			Tolerations:                   tolerations(append(t.Offers, t.Resource)...),
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &seconds,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			ShareProcessNamespace:         &yes, // no task is process 1, which ignores SIGTERM; orphans are reaped
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &gid,
				FSGroup: &shared, FSGroupChangePolicy: &once,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if len(t.Start.Tasks) > 1 {
		pod.Labels[gangLabel], pod.Spec.Hostname, pod.Spec.Subdomain = gang(t.Attempt), name, m.attempt(t.Attempt)
	}
	c := corev1.Container{
		Name: Container, Image: role.Launch.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/bin/sh", "-c", escape(script)},
		WorkingDir:      t.beginsIn(role),
		Env:             m.spec(m.environment(t, role), t),
		SecurityContext: restricted(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "work", MountPath: workDir}},
		Resources:       limits(role, t),
	}
	pod.Spec.Containers = []corev1.Container{asImage(c, role)}
	useClaims(pod, t.Claims)
	asked := role.Launch.Asks().WithDefaults(t.Task.SKU, len(t.Task.Place.Devices))
	shareMemory(pod, cmp.Or(role.Launch.ShmMB, asked.MemoryMB))
	if err := m.mountClaims(pod, t); err != nil {
		return nil, nil, err
	}
	if own {
		showScript(pod, m.attempt(t.Attempt), t.Task.Role)
	}
	if t.ServerLink != nil {
		m.wrapTask(pod, t, role)
	}
	if err := m.usePull(pod, t); err != nil {
		return nil, nil, err
	}
	if t.Task.Task != First(t.Start) {
		return pod, nil, nil
	}
	secrets, err := m.secrets(t)
	return pod, secrets, err
}

// labels are those of a task's pod.
func (m *Maker) labels(t Task, role *model.Role) map[string]string {
	job := t.Start.Job
	return map[string]string{ClusterLabel: m.Short(), JobLabel: fmt.Sprint(int64(t.Start.ID)), NameLabel: labelOf(string(job.Name)),
		VCLabel: labelOf(string(job.VC)), TaskLabel: labelOf(role.Name + "-" + fmt.Sprint(t.Task.Index))}
}

// asImage leaves to the image what a role leaves to it.
func asImage(c corev1.Container, role *model.Role) corev1.Container {
	if len(role.Launch.Command) == 0 {
		c.Command = nil
	}
	if role.Launch.Pull == "always" {
		c.ImagePullPolicy = corev1.PullAlways
	}
	return c
}

// shareMemory gives a pod a /dev/shm of some MiB, which count as its memory. 0 is as much as the
// kubelet allows: no more than the node has for pods.
func shareMemory(pod *corev1.Pod, mb int64) {
	var size *resource.Quantity
	if mb > 0 {
		size = resource.NewQuantity(mb<<20, resource.BinarySI)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size}}})
	first := &pod.Spec.Containers[0]
	first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: "shm", MountPath: "/dev/shm"})
}

// escape escapes a text for Kubernetes, which expands "$(NAME)" as a variable and "$$" as one "$".
func escape(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// unsupported says what a job asks for that a pod cannot have yet.
func unsupported(t Task, role *model.Role) error {
	job := t.Start.Job
	switch {
	case role.Launch.Image == "":
		return &CannotError{fmt.Sprintf("role %s names no image: on Kubernetes each task is a container; give it one", role.Name)}
	case len(role.Launch.Command) == 0 && t.ServerLink != nil:
		return &CannotError{fmt.Sprintf("role %s has no commands, and what an image runs by itself is not known where "+
			"Comb's own program starts the task (--pod-image): write its commands", role.Name)}
	case t.MostMB > 0 && role.Launch.DiskMB > t.MostMB:
		return &CannotError{fmt.Sprintf("role %s asks for %d MiB of disk, more than the %d MiB that a container may have here: ask for less, or an administrator gives more with comb serve --container-disk", role.Name, role.Launch.DiskMB, t.MostMB)}
	case role.Launch.InfiniBand && t.Network == "":
		return &CannotError{fmt.Sprintf("role %s asks for InfiniBand, and virtual cluster %s may not use it, or the type %s names none: an administrator writes infiniband into both in the cluster file; or submit the job without it", role.Name, job.VC, t.Task.Place.SKU)}
	case job.Upload != "" && t.ServerLink == nil:
		return &CannotError{"the job brings code of its own, and pods cannot fetch it from this server: an administrator starts it with --pod-image and --pod-url; or put the code into the image"}
	case job.Hints.Checkpoint && t.Work == "":
		return &CannotError{"the job keeps checkpoints, and this server has no claim for them: an administrator starts it with --checkpoint-claim NAME; or submit the job without checkpoint"}
	}
	return nil
}

// onNode keeps a pod to a node, whatever binds it: see ChooseBinder. What binds it elsewhere is
// found by it.
func onNode(node string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
}

// tolerations keep Kubernetes from evicting pods of a node that is unreachable or not ready,
// since Comb decides what becomes of them. They also let pods on nodes that are tainted for the
// devices that they offer.
func tolerations(resources ...string) []corev1.Toleration {
	list := []corev1.Toleration{
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	var keys []string
	for _, resource := range resources {
		keys = append(keys, taintsOf(resource)...)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		list = append(list, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return list
}

// Resources are the names by which device plugins offer whole GPUs.
var Resources = []string{"nvidia.com/gpu", "amd.com/gpu", "google.com/tpu"}

// taintsOf are the taints that keep nodes with such devices free of pods without: those of the
// resource's own name, and those of its maker's whole GPUs.
func taintsOf(resource string) (keys []string) {
	if resource != "" {
		keys = append(keys, resource)
	}
	maker, _, _ := strings.Cut(resource, "/")
	for _, whole := range Resources {
		if of, _, _ := strings.Cut(whole, "/"); of == maker && whole != resource {
			keys = append(keys, whole)
		}
	}
	return keys
}

// Tolerates reports whether pods go on a node with a taint. resources are those of its device
// plugins.
func Tolerates(t *corev1.Taint, resources ...string) bool {
	return slices.ContainsFunc(tolerations(resources...), func(o corev1.Toleration) bool {
		return o.Key == t.Key && (o.Effect == "" || o.Effect == t.Effect)
	})
}

// limits are the limits and requests of a task. They are equal, except for the disk of a task
// that asks for none.
func limits(role *model.Role, t Task) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	if n := role.Launch.MilliCPU; n > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	if n := role.Launch.MemoryMB; n > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(n<<20, resource.BinarySI)
	}
	if n := cmp.Or(role.Launch.DiskMB, t.DiskMB); n > 0 {
		list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(n<<20, resource.BinarySI)
	}
	if role.Launch.InfiniBand {
		list[corev1.ResourceName(t.Network)] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if n := len(devices(t)); n > 0 && t.byDevicePlugin() {
		list[corev1.ResourceName(t.Resource)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	asked := maps.Clone(list)
	if _, limited := list[corev1.ResourceEphemeralStorage]; limited && role.Launch.DiskMB == 0 {
		asked[corev1.ResourceEphemeralStorage] = resource.Quantity{}
	}
	if t.startsShared() {
		asked[corev1.ResourceCPU], asked[corev1.ResourceMemory] = resource.Quantity{}, resource.Quantity{}
	}
	return corev1.ResourceRequirements{Limits: list, Requests: asked}
}

// startsShared reports whether a task starts on leaves that others hold. What is set aside for
// these serves it too.
func (t *Task) startsShared() bool {
	r := t.Start.Rotation
	return r != nil && (len(r.Turns) > 1 || len(r.Turns) == 1 && len(r.Turns[0]) > 1)
}

// byDevicePlugin reports whether a device plugin gives a task its GPUs, by their number.
func (t *Task) byDevicePlugin() bool { return t.Resource != "" && len(t.Claims) == 0 }

// useClaims gives a pod's task the devices of some claims.
func useClaims(pod *corev1.Pod, claims []string) {
	first := &pod.Spec.Containers[0]
	for i, name := range claims {
		own := fmt.Sprintf("gpus-%d", i)
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: own, ResourceClaimName: &name})
		first.Resources.Claims = append(first.Resources.Claims, corev1.ResourceClaim{Name: own})
	}
}

// Devices are the indices of the GPUs that a task has on its node.
func Devices(ts *model.TaskStart) []int32 { return devices(Task{Task: ts}) }

// devices are the indices of the GPUs that a task has on its node.
func devices(t Task) (list []int32) {
	if t.Task.SKU.Device == cell.CPU {
		return nil
	}
	each := int32(max(t.Task.SKU.GPU, 1))
	for _, l := range t.Task.Place.Devices {
		for i := range each {
			list = append(list, l*each+i)
		}
	}
	return list
}

// deviceVariables tell container runtimes which devices a container gets. Only Comb and device
// plugins may set them, and no job.
var deviceVariables = map[string]bool{"NVIDIA_VISIBLE_DEVICES": true, "AMD_VISIBLE_DEVICES": true, "HABANA_VISIBLE_DEVICES": true, "ASCEND_VISIBLE_DEVICES": true, "MTHREADS_VISIBLE_DEVICES": true, "NVIDIA_IMEX_CHANNELS": true}

// DeviceVariables are the names of these variables, sorted.
func DeviceVariables() []string { return slices.Sorted(maps.Keys(deviceVariables)) }

// platformVariables are the platform's variables.
func (m *Maker) platformVariables(t Task) []model.EnvVar {
	job := t.Start.Job
	indices := strings.Trim(strings.ReplaceAll(fmt.Sprint(devices(t)), " ", ","), "[]")
	env := []model.EnvVar{
		{Name: "COMB_JOB_ID", Value: fmt.Sprint(int64(t.Start.ID))},
		{Name: "COMB_JOB_NAME", Value: string(job.Name)},
		{Name: "COMB_ATTEMPT", Value: t.Attempt.String()},
		{Name: "COMB_RETRY", Value: fmt.Sprint(t.Start.Retry)},
		{Name: "COMB_VC", Value: string(job.VC)},
		{Name: "COMB_NODE", Value: string(t.Task.Place.Node)},
		{Name: "COMB_SKU", Value: string(t.Task.Place.SKU)},
		{Name: "COMB_LEAVES", Value: strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Task.Place.Devices), " ", ","),
			"[]")},
	}
	env = append(env, claimVariables(t)...)
	env = append(env, lineVariables(t)...)
	switch {
	case t.byDevicePlugin() && indices != "": // the device plugin sets it
	case indices == "" || t.Task.SKU.Device != cell.NVIDIA || len(t.Claims) > 0: // claimed ones come otherwise, and no others may
		env = append(env, model.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"})
	default:
		env = append(env, model.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: indices})
	}
	if t.Task.SKU.EnvVar != "" && t.Resource == "" && len(t.Claims) == 0 { // else a container counts its own devices from 0
		env = append(env, model.EnvVar{Name: t.Task.SKU.EnvVar, Value: indices})
	}
	return env
}

// host is the name at which a task of the same gang is reached. The only task of a gang reaches
// itself at 127.0.0.1.
func (m *Maker) host(t Task, task int32) string {
	if task == t.Task.Task && len(t.Start.Tasks) == 1 {
		return "127.0.0.1"
	}
	return m.Host(t.Attempt, task)
}

// Host is the DNS name of a task's pod, within its namespace.
func (m *Maker) Host(at model.AttemptID, task int32) string {
	return m.Name(at, task) + "." + m.attempt(at)
}

// portsOf are the ports of a label of a task. Each pod has an address of its own, so all tasks of
// a role have the same ones: first those that the role asks for, then those that each task has
// beside.
func portsOf(job *model.Job, task int32, label string) (list []int32) {
	for i := range job.Roles {
		r := &job.Roles[i]
		if task >= r.Tasks {
			task -= r.Tasks
			continue
		}
		next := int32(firstPort)
		for _, p := range r.Launch.Ports {
			for range p.Count {
				if p.Label == label {
					list = append(list, next)
				}
				next++
			}
		}
		for _, given := range jobspec.GivenPorts(job, r) {
			if given == label {
				list = append(list, next)
			}
			next++
		}
		return list
	}
	return nil
}

// Ports are the ports of a task, by label; nil when it has none.
func Ports(job *model.Job, ts *model.TaskStart) map[string][]int32 {
	var out map[string][]int32
	for _, p := range job.Roles[ts.Role].Launch.Ports {
		if out == nil {
			out = map[string][]int32{}
		}
		out[p.Label] = portsOf(job, ts.Task, p.Label)
	}
	return out
}

func graceSeconds(d model.Duration) int64 {
	if d <= 0 {
		return int64(DefaultGrace / time.Second)
	}
	return int64((d + model.Second - 1) / model.Second)
}

// labelOf makes a label's value of a text: characters that a label cannot hold become "-".
func labelOf(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 63)], "-_.")
}
