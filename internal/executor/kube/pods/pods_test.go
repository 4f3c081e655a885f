package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/podinit"
	"github.com/combsched/comb/internal/test/executortest"
)

var maker = Maker{Cluster: "cluster", Key: []byte("0123456789abcdef0123456789abcdef"), Space: "comb"}

func sample() Task {
	job := &model.Job{Name: "train", User: "ada", VC: "research/vision", Roles: []model.Role{
		{Name: "ps", Tasks: 1, Launch: model.Launch{Image: "i", Command: []string{"true"}}},
		{Name: "worker", Tasks: 2, Launch: model.Launch{Image: "i", Command: []string{"echo $$ $(date)", "exit 3"}, MilliCPU: 1500, MemoryMB: 64, GPU: 2, ShmMB: 16,
			Ports: []model.Port{{Label: "a", Count: 1}, {Label: "b", Count: 2}},
			Env:   []model.EnvVar{{Name: "MODEL", Value: "$(HOME)"}, {Name: "PAI_JOB_NAME", Value: "mine"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}}}}}
	tasks := make([]model.TaskStart, 3)
	for i := range tasks {
		tasks[i] = model.TaskStart{Task: int32(i), Role: int32(min(i, 1)), Index: int32(max(i-1, 0)), SKU: cell.SKU{Name: "A100", GPU: 1, Device: cell.NVIDIA},
			Place: cell.Task{Node: "n1", SKU: "A100", Devices: []int32{int32(2 * i), int32(2*i + 1)}}}
	}
	at := model.AttemptID{Job: 7, Gang: 1, N: 2}
	return Task{Space: "comb", Attempt: at, Start: &model.Start{ID: 7, Job: job, Tasks: tasks}, Task: &tasks[2]}
}

func TestNames(t *testing.T) {
	at := model.AttemptID{Job: 1 << 40, Gang: 3, N: 12}
	name := maker.Name(at, 4095)
	if len(name) > 63 {
		t.Errorf("%s is too long for a host name", name)
	}
	if got, task, ok := maker.Parse(name); !ok || got != at || task != 4095 {
		t.Errorf("%s is read as %v, %d, %v", name, got, task, ok)
	}
	other := Maker{Cluster: "another"}
	for _, bad := range []string{other.Name(at, 1), name + "0x", name + "-1", "comb-1-1-1-1", "", strings.Replace(name, "-12-", "-012-", 1)} {
		if _, _, ok := maker.Parse(bad); ok {
			t.Errorf("%q is read as a name", bad)
		}
	}
}

// A role without commands runs what its image says, where Kubernetes starts it; pull: always
// reaches the kubelet.
func TestOwnProgramOfAPod(t *testing.T) {
	task := sample()
	launch := &task.Start.Job.Roles[1].Launch
	if pod, _, err := maker.Make(task); err != nil || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("%v, %+v", err, pod)
	}
	launch.Command, launch.Pull = nil, "always"
	pod, secrets, err := maker.Make(task)
	if err != nil || len(secrets) != 0 {
		t.Fatalf("%v, %d secrets", err, len(secrets))
	}
	if c := pod.Spec.Containers[0]; c.Command != nil || c.Args != nil || c.ImagePullPolicy != corev1.PullAlways || c.WorkingDir != "" {
		t.Errorf("%+v", c)
	}
	task.ServerLink = &ServerLink{Image: "comb", URL: "https://comb"}
	var cannot *CannotError
	if _, _, err := maker.Make(task); !errors.As(err, &cannot) || !strings.Contains(cannot.Why, "role worker has no commands") {
		t.Errorf("behind Comb's own program: %v", err)
	}
}

func TestAPod(t *testing.T) {
	pod, _, err := maker.Make(sample())
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	env := environmentOf(t, &c, nil)
	for name, want := range map[string]string{"MODEL": "$(HOME)", "PAI_JOB_NAME": "train", "NVIDIA_VISIBLE_DEVICES": "4,5", "RANK": "2", "WORLD_SIZE": "3",
		"MASTER_ADDR": maker.Name(sample().Attempt, 0) + "." + maker.attempt(sample().Attempt), "PAI_PORT_LIST_worker_1_b": "20001,20002", "COMB_NODE": "n1"} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if got := c.Command[2]; got != escape(setVariables)+`[ "$$PWD" != / ] || cd /comb/work; `+"echo $$$$ $$(date)\nexit 3" {
		t.Errorf("the command is %q", got)
	}
	if c.Resources.Limits.Cpu().MilliValue() != 1500 || c.Resources.Limits.Memory().Value() != 64<<20 {
		t.Errorf("limits are %v", c.Resources.Limits)
	}
	if NodeOf(pod) != "n1" || pod.Spec.NodeName != "" || !maker.Sealed(pod) {
		t.Errorf("it is bound to %q and %q, sealed %v", NodeOf(pod), pod.Spec.NodeName, maker.Sealed(pod))
	}
	if strings.ContainsAny(pod.Labels[VCLabel], "/~") {
		t.Errorf("label %q", pod.Labels[VCLabel])
	}
	if pod.Labels[NameLabel] != "train" || pod.Annotations[NameLabel] != "ada~train" || pod.Spec.PriorityClassName != "" {
		t.Errorf("labels %v, annotations %v, class %q", pod.Labels, pod.Annotations, pod.Spec.PriorityClassName)
	}
	high := maker
	high.Class = PriorityClass
	long := sample()
	long.Start.Job.Name = model.JobName("Größe." + strings.Repeat("x", 100))
	if pod, _, err = high.Make(long); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.PriorityClassName != "comb-jobs" || pod.Labels[NameLabel] != "Gr--e."+strings.Repeat("x", 57) {
		t.Errorf("class %q, label %q", pod.Spec.PriorityClassName, pod.Labels[NameLabel])
	}
	with := sample()
	with.Resource = "nvidia.com/gpu"
	if pod, _, err = maker.Make(with); err != nil {
		t.Fatal(err)
	}
	if n := pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; n.Value() != 2 {
		t.Errorf("it asks for %v GPUs of the device plugin", n.Value())
	}
	with.Resource, with.Offers = "nvidia.com/mig-1g.5gb", []string{"rdma/hca", "nvidia.com/mig-1g.5gb"}
	if pod, _, err = maker.Make(with); err != nil {
		t.Fatal(err)
	}
	if n := pod.Spec.Containers[0].Resources.Limits["nvidia.com/mig-1g.5gb"]; n.Value() != 2 {
		t.Errorf("it asks for %v slices of the device plugin", n.Value())
	}
	for _, key := range []string{"nvidia.com/mig-1g.5gb", "nvidia.com/gpu", "rdma/hca"} {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool { return o.Key == key }) {
			t.Errorf("it does not tolerate the taint %s", key)
		}
	}
}

// The same table holds for a task as a pod, where addresses are names until its process 1 knows
// them.
func TestAPodFindsWhatOpenPAITells(t *testing.T) {
	task := sample()
	task.Start = &model.Start{ID: 7, Job: executortest.OpenPAIJob(), Tasks: task.Start.Tasks[:2]}
	task.Task = &task.Start.Tasks[0]
	for i := range task.Start.Job.Roles {
		task.Start.Job.Roles[i].Launch.Image = "i"
	}
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range executortest.NotAsOpenPAI(environmentOf(t, &pod.Spec.Containers[0], nil)) {
		t.Error(fault)
	}
}

// A task of a user with numbers runs with these. The group of what the kubelet mounts stays the
// same for all.
func TestUserOfAPod(t *testing.T) {
	task := sample()
	task.UID, task.GID = 4001, 4000
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.SecurityContext
	if *c.RunAsUser != 4001 || *c.RunAsGroup != 4000 || *c.FSGroup != user || !*c.RunAsNonRoot {
		t.Errorf("it runs as %d:%d, in %d, not as root: %v", *c.RunAsUser, *c.RunAsGroup, *c.FSGroup, *c.RunAsNonRoot)
	}
}

// What an image says reaches its task in a pod as the table of docs/kubernetes.md has it.
func TestWhatOfAnImageReachesAPod(t *testing.T) {
	made := func(change func(*Task)) corev1.Container {
		task := sample()
		change(&task)
		pod, _, err := maker.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		if by := pod.Spec.SecurityContext.RunAsUser; by == nil || *by != user { // USER: nothing
			t.Errorf("it runs as %v", by)
		}
		return pod.Spec.Containers[0]
	}
	role := func(t *Task) *model.Launch { return &t.Start.Job.Roles[1].Launch }
	line := func(t *Task) {
		t.ServerLink = &ServerLink{Image: "comb", URL: "https://server", Pin: "p", Limit: 1 << 20}
	}
	for name, c := range map[string]struct {
		change func(*Task)
		dir    string // of the container; "" is the image's WORKDIR
		folder bool   // the script goes to the task's own folder from the root
		from   string // where process 1 begins the task; "" is where it is
	}{
		"neither":           {func(*Task) {}, "", true, ""},
		"a workDir":         {func(t *Task) { role(t).WorkDir = "/data" }, "/data", false, ""},
		"Comb is process 1": {line, "", false, ""},
		"and a workDir":     {func(t *Task) { line(t); role(t).WorkDir = "/data" }, workDir, false, "/data"},
		"and code":          {func(t *Task) { line(t); t.Start.Job.Upload = "sha256:1" }, workDir, false, ""},
		"and a folder of it": {func(t *Task) { line(t); t.Start.Job.Upload, role(t).WorkDir = "sha256:1", "src" },
			workDir, false, workDir + "/src"},
		"a script of its own": {func(t *Task) { role(t).Command = []string{strings.Repeat("x", longest+1)} }, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := made(c.change)
			if len(got.Command) == 0 || got.Args != nil { // else ENTRYPOINT or CMD would run
				t.Errorf("it runs %q %q", got.Command, got.Args)
			}
			text := strings.Join(got.Command, "\n")
			if got.WorkingDir != c.dir || strings.Contains(text, escape(inOwnFolder)) != c.folder {
				t.Errorf("it begins in %q, with %q", got.WorkingDir, text)
			}
			var order podinit.Order
			if got.Command[1] == "attend" {
				if err := json.Unmarshal([]byte(strings.ReplaceAll(got.Command[2], "$$", "$")), &order); err != nil {
					t.Fatal(err)
				}
			}
			if order.From != c.from {
				t.Errorf("process 1 begins it in %q: %q", order.From, got.Command)
			}
			env := environmentOf(t, &got, nil)
			for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "OWN"} { // ENV: nothing of the image's is hidden but what the pod sets itself
				if _, has := env[name]; has {
					t.Errorf("the pod sets %s", name)
				}
			}
		})
	}
	long := sample()
	role(&long).Command = []string{strings.Repeat("x", longest+1)}
	long.Task = &long.Start.Tasks[0]
	_, secrets, err := maker.Make(long)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(secrets[0].Data[scriptOf(1)]); !strings.HasPrefix(text, setVariables+inOwnFolder+"xxx") {
		t.Errorf("a script that is a file begins with %.60q", text)
	}
	work, app := t.TempDir(), t.TempDir()
	for from, want := range map[string]string{"/": work, app: app} {
		c := exec.Command("/bin/sh", "-c", strings.ReplaceAll(inOwnFolder, workDir, work)+"pwd\nexit 3")
		c.Dir, c.Env = from, []string{}
		out, err := c.Output()
		var exit *exec.ExitError
		if string(out) != want+"\n" || !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("a shell that is started in %s is in %q: %v", from, out, err)
		}
	}
}

// A task that asks for InfiniBand gets a device where it may have one, and its program's helper
// none.
func TestInfiniBand(t *testing.T) {
	asks := sample()
	asks.Start.Job.Roles[asks.Task.Role].Launch.InfiniBand = true
	if _, _, err := maker.Make(asks); err == nil || !strings.Contains(err.Error(), "may not use it, or the type") {
		t.Errorf("one that may not have it: %v", err)
	}
	asks.Network = "rdma/hca"
	asks.ServerLink = &ServerLink{Image: "comb:1", URL: "https://a:1", Pin: "p"}
	pod, _, err := maker.Make(asks)
	if err != nil {
		t.Fatal(err)
	}
	if n := pod.Spec.Containers[0].Resources.Limits["rdma/hca"]; n.Value() != 1 {
		t.Errorf("it asks for %v devices", n.Value())
	}
	if n := pod.Spec.InitContainers[0].Resources.Limits["rdma/hca"]; !n.IsZero() {
		t.Errorf("the container before it asks for %v devices", n.Value())
	}
}

// A task may write so much to its node at most, also where it asks for nothing: then nothing is set
// aside for it. Comb's own program is not counted.
func TestDisk(t *testing.T) {
	for _, tt := range []struct {
		asked, most, limit, set int64
		line                    bool
	}{{0, 0, 0, 0, true}, {0, 100, 100, 0, false}, {0, 100, 100 + programMB, 0, true}, {40, 100, 40, 40, false}, {40, 0, 40 + programMB, 40 + programMB, true}, {400, 100, 400, 400, false}} {
		task := sample()
		task.DiskMB = tt.most
		if tt.line {
			task.ServerLink = &ServerLink{}
		}
		role := &task.Start.Job.Roles[task.Task.Role]
		role.Launch.DiskMB = tt.asked
		pod, _, err := maker.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		r := pod.Spec.Containers[0].Resources
		set, said := r.Requests["ephemeral-storage"]
		if limit := r.Limits["ephemeral-storage"]; limit.Value() != tt.limit<<20 || set.Value() != tt.set<<20 || said != (tt.limit > 0) { // what is not said is the limit
			t.Errorf("%+v: its limit is %v, and %v are set aside", tt, limit.Value()>>20, set.Value()>>20)
		}
	}
	task := sample()
	task.DiskMB, task.MostMB = 50, 100
	task.Start.Job.Roles[task.Task.Role].Launch.DiskMB = 101
	if _, _, err := maker.Make(task); err == nil || !strings.Contains(err.Error(), "asks for 101 MiB of disk, more than the 100 MiB") {
		t.Errorf("more than that is answered with %v", err)
	}
}

// A task that its kubelet evicts has written too much, however it took that, or its node is to
// blame.
func TestEvicted(t *testing.T) {
	for message, own := range map[string]bool{
		"Pod ephemeral local storage usage exceeds the total limit of containers 50Mi. ": true,
		`Container task exceeded its local ephemeral storage limit "50Mi". `:             true,
		`Usage of EmptyDir volume "work" exceeds the limit "50Mi". `:                     true,
		"The node was low on resource: memory. Threshold quantity: 100Mi.":               false,
		"The node had condition: [DiskPressure]. ":                                       false,
		"": false,
	} {
		for _, end := range []corev1.ContainerStateTerminated{{ExitCode: 137}, {ExitCode: 0, Reason: "Completed"}, {ExitCode: 3}, {ExitCode: 137, Reason: "ContainerStatusUnknown"}} {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message,
				ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: &end}}}}}
			x := Look(pod, false).Exit
			if x.Own != own || (x.Cause == "") != own || own && x.Code == 0 || !strings.Contains(x.Message, strings.TrimSpace(message)) || strings.Contains(x.Message, "..") {
				t.Errorf("%s: with code %d and reason %q it is %+v", message, end.ExitCode, end.Reason, x)
			}
			if x := Look(pod, true).Exit; strings.Contains(x.Message, "disk") {
				t.Errorf("it was told to end, and is %+v", x)
			}
		}
	}
}

// A task that was told to end while its image did not come never started: of its container its
// kubelet says only that it does not find it. That holds neither for one that ran, nor for one that
// was not told to end.
func TestStoppedBeforeItsContainer(t *testing.T) {
	pod := func(id string) *corev1.Pod {
		end := corev1.ContainerStateTerminated{ExitCode: 137, Reason: statusUnknown, Message: "The container could not be located when the pod was terminated"}
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{Name: Container, ContainerID: id, State: corev1.ContainerState{Terminated: &end}}}}}
	}
	if x := Look(pod(""), true).Exit; x.Cause != model.NeverStarted || x.Code != 0 || x.Message != "it was stopped before its container started" {
		t.Errorf("one without a container is %+v", x)
	}
	if x := Look(pod("containerd://1"), true).Exit; x.Cause != model.NodeLost || !strings.Contains(x.Message, "could not be located") {
		t.Errorf("one that had a container is %+v", x)
	}
	if x := Look(pod(""), false).Exit; x.Cause != model.NodeLost {
		t.Errorf("one that was not told to end is %+v", x)
	}
}

// How much disk a pod asks for its job says: a node without it refuses the task, and is not to
// blame.
func TestRefusedForDisk(t *testing.T) {
	for message, want := range map[string]string{
		"Pod was rejected: Node didn't have enough resource: ephemeral-storage, requested: 107374182400, used: 53687091200, capacity: 134217728000": "it asks for 100.0 GiB of disk, and pods that are there have 50.0 GiB of the 125.0 GiB of its node: ask for less (--disk)",
		"requested: 99999999999999999999999, used: 0, capacity: 1":                                                                                  "its node has too little disk left: OutOfephemeral-storage; ask for less (--disk)",
		"other words": "its node has too little disk left: OutOfephemeral-storage: other words; ask for less (--disk)",
	} {
		s := Look(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfephemeral-storage", Message: message}}, false)
		if s.Refused != want || !s.Fetch || s.JobFault {
			t.Errorf("%q: %+v", message, s)
		}
	}
}

// Pods of others may take the room of a node between Comb's decision and the kubelet's: the node is
// not to blame, and is as good for others. A node whose device is bad is.
func TestRefusedForRoom(t *testing.T) {
	const next = "; it starts elsewhere, or when they have ended"
	for reason, c := range map[string]struct{ message, want string }{
		"OutOfcpu": {"Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 6500, capacity: 8000",
			"it asks for 4.0 CPUs, and pods of others have left too little on its node: 6.5 CPUs of 8.0 CPUs are taken" + next},
		"OutOfmemory": {"Node didn't have enough resource: memory, requested: 2147483648, used: 1073741824, capacity: 2684354560",
			"it asks for 2.0 GiB of memory, and pods of others have left too little on its node: " +
				"1.0 GiB of memory of 2.5 GiB of memory are taken" + next},
		"OutOfpods": {"Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
			"it asks for 1 pods, and pods of others have left too little on its node: 110 pods of 110 pods are taken" + next},
	} {
		s := Look(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: c.message}}, false)
		if s.Refused != c.want || !s.Fetch || s.JobFault {
			t.Errorf("%s is %+v", reason, s)
		}
		s = Look(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "no room"}}, false)
		if s.Refused != "pods of others have left too little room on its node: "+reason+": no room"+next || !s.Fetch {
			t.Errorf("%s in other words is %+v", reason, s)
		}
	}
	for _, reason := range []string{"UnexpectedAdmissionError", "OutOfnvidia.com/gpu"} {
		if s := Look(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "unhealthy"}}, false); s.Fetch || s.Refused == "" {
			t.Errorf("%s is %+v", reason, s)
		}
	}
}

// A claim that is missing is named, with who makes it where.
func TestWaitsForAClaim(t *testing.T) {
	look := func(says string) string {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: says}}}}
		pod.Namespace = "team-a"
		return Look(pod, false).Why
	}
	if got := look(`0/3 nodes are available: persistentvolumeclaim "data" not found. not found`); !strings.HasSuffix(got, "; an administrator makes the PersistentVolumeClaim data in namespace team-a") {
		t.Errorf("a missing claim is %q", got)
	}
	if got := look("0/3 nodes are available: 1 Insufficient cpu."); got != "kube-scheduler does not bind its pod: 0/3 nodes are available: 1 Insufficient cpu." {
		t.Errorf("a full node is %q", got)
	}
}

// A container that a webhook put before the task's is not taken for it.
func TestRoomBesideASidecar(t *testing.T) {
	task := sample()
	role := &task.Start.Job.Roles[task.Task.Role]
	role.Launch.MilliCPU, role.Launch.MemoryMB = 1000, 64
	task.Start.Rotation = &model.Rotation{Turns: [][]model.AttemptID{{task.Attempt}, {{Job: 99, N: 1}}}}
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	want := PendingRequests(pod)
	pod.Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, pod.Spec.Containers...)
	if got := PendingRequests(pod); len(want) != 2 || len(got) != 2 || got.Cpu().MilliValue() != 1000 || got.Memory().Value() != 63<<20 {
		t.Errorf("with a sidecar before it %v are set aside, alone %v", got, want)
	}
}

// A seal is of one name on one node in one namespace: it is of no use on another pod.
func TestForgedSeal(t *testing.T) {
	for _, space := range []string{"comb", "red"} {
		forge(t, space)
	}
}

func forge(t *testing.T, space string) {
	task := sample()
	task.Space = space
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	if !maker.Sealed(pod) || pod.Namespace != space {
		t.Errorf("a pod in namespace %s, %q, does not count as ours", space, pod.Namespace)
	}
	for what, change := range map[string]func(*corev1.Pod){
		"another namespace":         func(p *corev1.Pod) { p.Namespace = "blue" },
		"another namespace of ours": func(p *corev1.Pod) { p.Namespace = map[string]string{"comb": "red", "red": "comb"}[p.Namespace] },
		"another name":              func(p *corev1.Pod) { p.Name += "1" },
		"another node":              func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{NodeAffinity: onNode("n2")} },
		"no affinity":               func(p *corev1.Pod) { p.Spec.Affinity = nil },
		"no annotation":             func(p *corev1.Pod) { p.Annotations = nil },
	} {
		forged := pod.DeepCopy()
		change(forged)
		if maker.Sealed(forged) {
			t.Errorf("a pod with %s counts as ours", what)
		}
	}
}

func TestSecretsAreInNoPod(t *testing.T) {
	task := sample()
	task.Start.Job.Roles[1].Launch.Image = "registry.example/team/image:1"
	task.Start.Job.Roles[1].Launch.Command = []string{"curl -H 'token: <% $secrets.token %>' x"}
	task.Secrets = map[string]string{"token": "canary-1", "\x00login registry.example/team/image:1": `{"user":"ada","password":"canary-2"}`}
	pod, secrets, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pod)
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("the pod is %s, %v", text, err)
	}
	if len(secrets) != 0 {
		t.Errorf("with a task that is not the first come the secrets %v", secrets)
	}
	task.Task = &task.Start.Tasks[0]
	first, secrets, err := maker.Make(task)
	if err != nil || len(secrets) != 2 || len(first.Spec.ImagePullSecrets) != 0 {
		t.Fatalf("with the first task come %v, %v; it has %v", secrets, err, first.Spec.ImagePullSecrets)
	}
	pull, scripts := secrets[0], secrets[1]
	if !strings.Contains(string(scripts.Data["script-1"]), "token: canary-1") || len(scripts.Data) != 1 ||
		!strings.Contains(string(pull.Data[corev1.DockerConfigJsonKey]), `"registry.example":{"username":"ada","password":"canary-2"}`) {
		t.Errorf("the secrets are %v", secrets)
	}
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })
	if at < 0 || pod.Spec.Volumes[at].Secret.SecretName != scripts.Name || pod.Spec.Volumes[at].Secret.Items[0] != (corev1.KeyToPath{Key: "script-1", Path: "script"}) {
		t.Errorf("it has the volumes %+v", pod.Spec.Volumes)
	}
	if len(pod.Spec.ImagePullSecrets) != 1 || pod.Spec.ImagePullSecrets[0].Name != pull.Name {
		t.Errorf("its image comes by %v", pod.Spec.ImagePullSecrets)
	}
	task.Task = &task.Start.Tasks[2]
	task.Secrets = nil
	var cannot *CannotError
	if _, _, err := maker.Make(task); !errors.As(err, &cannot) || !strings.Contains(cannot.Why, `no secret "token"`) {
		t.Errorf("without the secret: %v", err)
	}
}

func TestWhatAPodCannotHave(t *testing.T) {
	for want, change := range map[string]func(*model.Job){
		"names no image":    func(j *model.Job) { j.Roles[1].Launch.Image = "" },
		"code of its own":   func(j *model.Job) { j.Upload = "x" },
		"no claim for them": func(j *model.Job) { j.Hints.Checkpoint = true },
	} {
		task := sample()
		change(task.Start.Job)
		var cannot *CannotError
		if _, _, err := maker.Make(task); !errors.As(err, &cannot) || !strings.Contains(cannot.Why, want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestClaimsOfAPod(t *testing.T) {
	task := sample()
	task.Start.Job.User, task.Start.Job.Hints.Checkpoint = "ada", true
	task.Storages = []model.Storage{{Name: "sets", Claim: "team", Folder: "sets", ReadOnly: true}, {Name: "homes", Claim: "team", Folder: "homes", PerUser: true}, {Name: "all", Claim: "other"}}
	task.Work = "work"
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			claims[v.Name] = c.ClaimName
		}
	}
	if len(claims) != 3 {
		t.Errorf("the claims are %v", claims)
	}
	got := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if claims[m.Name] != "" {
			got[m.MountPath] = fmt.Sprintf("%s %s %v", claims[m.Name], m.SubPath, m.ReadOnly)
		}
	}
	want := map[string]string{"/mnt/sets": "team sets true", "/mnt/homes": "team homes/ada false", "/mnt/all": "other  false",
		"/comb/checkpoint": "work " + maker.WorkFolder(task.Start.ID) + " false"}
	if !maps.Equal(got, want) {
		t.Errorf("mounted is %v", got)
	}
	env := environmentOf(t, &pod.Spec.Containers[0], nil)
	if env["COMB_STORAGE_HOMES"] != "/mnt/homes" || env["COMB_CHECKPOINT_DIR"] != "/comb/checkpoint" {
		t.Errorf("the environment is %v", env)
	}
	var cannot *CannotError
	for _, user := range []model.Subject{"..", "a/b", "", "-x"} {
		task.Start.Job.User = user
		if _, _, err := maker.Make(task); !errors.As(err, &cannot) || !strings.Contains(cannot.Why, "homes") {
			t.Errorf("the user %q: %v", user, err)
		}
	}
}

func TestWhatAPodSays(t *testing.T) {
	const (
		noDir   = `chdir to cwd ("/root") set in config.json failed: permission denied`
		noFile  = `unable to start container process: exec: "/app/train": stat /app/train: no such file or directory`
		noShim  = `failed to start shim: exec: "containerd-shim-runc-v2": executable file not found in $PATH`
		inTask  = `failed to create containerd task: failed to create shim task: ` + noFile
		noName  = "crun: executable file `train` not found in $PATH: No such file or directory"
		runtime = `OCI runtime create failed: exec: "nvidia-container-runtime": executable file not found in $PATH`
		hook    = `error running prestart hook #0: exec: "/usr/bin/prepare": no such file or directory`
		disk    = `unable to start container process: exec: "/bin/sh": stat /bin/sh: input/output error`
		full    = `runc create failed: unable to start container process: exec: "/bin/sh": cannot allocate memory`
		noRun   = "what is to be run cannot be started in its image: " +
			"where its role has commands, use an image with /bin/sh; else write its commands; "
	)
	then := metav1.NewTime(time.Unix(1000, 0))
	ended := func(x corev1.ContainerStateTerminated) corev1.Pod {
		x.StartedAt, x.FinishedAt = then, then
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar"}, {Name: Container, State: corev1.ContainerState{Terminated: &x}}}}}
	}
	deleted := func(p corev1.Pod) corev1.Pod {
		p.DeletionTimestamp = &then
		return p
	}
	disrupted := func(p corev1.Pod, reason string) corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
		return p
	}
	waits := func(reason, message string) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}}
		p.Spec.NodeName = "n1"
		return p
	}
	unstarted := func(reason, message string) corev1.Pod {
		return ended(corev1.ContainerStateTerminated{ExitCode: 128, Reason: reason, Message: message})
	}
	unbound := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/5 nodes"}}}}
	evicted := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}}
	evicted.Spec.NodeName = "n1"
	for _, test := range []struct {
		name  string
		pod   corev1.Pod
		asked bool
		phase Phase
		exit  model.Exit
		why   string
		job   bool
		fetch bool
	}{
		{name: "its own code", pod: ended(corev1.ContainerStateTerminated{ExitCode: 3}), phase: Ended, exit: model.Exit{Code: 3, Own: true}},
		{name: "out of memory", pod: ended(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), phase: Ended, exit: model.Exit{Code: 137, Signal: 9, Own: true, Cause: model.OutOfMemory}},
		{name: "its node cannot", pod: unstarted("StartError", "no cgroup"), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: no cgroup"}},
		{name: "its node lacks memory", pod: unstarted("StartError", full), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: " + full}},
		{name: "its node lacks a runtime", pod: unstarted("StartError", runtime), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: " + runtime}},
		{name: "its node lacks a hook", pod: unstarted("StartError", hook), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: " + hook}},
		{name: "its node cannot read", pod: unstarted("StartError", disk), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: " + disk}},
		{name: "no such program, as runc says it", pod: unstarted("ContainerCannotRun", noFile), phase: Ended,
			exit: model.Exit{Code: 126, Own: true, Message: noRun + "ContainerCannotRun: " + noFile}},
		{name: "no such program, as containerd says it", pod: unstarted("StartError", inTask), phase: Ended,
			exit: model.Exit{Code: 126, Own: true, Message: noRun + "StartError: " + inTask}},
		{name: "its node lacks a shim", pod: unstarted("StartError", noShim), phase: Ended,
			exit: model.Exit{Code: 128, Own: true, Cause: model.StartRefused, Message: "StartError: " + noShim}},
		{name: "no such program, as crun says it", pod: unstarted("StartError", noName), phase: Ended,
			exit: model.Exit{Code: 126, Own: true, Message: noRun + "StartError: " + noName}},
		{name: "a WORKDIR of root's", phase: Ended,
			pod: ended(corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: noDir}),
			exit: model.Exit{Code: 126, Own: true,
				Message: "its working directory cannot be entered by its user: name another one " +
					"(extras.comb.taskRoles.NAME.workDir, such as /comb/work); StartError: " + noDir}},
		{name: "told to end", pod: deleted(ended(corev1.ContainerStateTerminated{ExitCode: 143})), asked: true, phase: Ended, exit: model.Exit{Code: 143, Signal: 15}},
		{name: "killed", pod: deleted(ended(corev1.ContainerStateTerminated{ExitCode: 137})), asked: true, phase: Ended, exit: model.Exit{Code: 137, Signal: 9, Cause: model.GraceOver}},
		{name: "deleted by hand", pod: deleted(ended(corev1.ContainerStateTerminated{ExitCode: 143})), phase: Ended, exit: model.Exit{Code: 143, Signal: 15, Cause: model.PodDeleted, Message: "its pod was deleted, and not by Comb: by a user or a program, as kubectl delete does it"}},
		{name: "evicted by another", pod: disrupted(deleted(ended(corev1.ContainerStateTerminated{ExitCode: 143})), "EvictionByEvictionAPI"), phase: Ended,
			exit: model.Exit{Code: 143, Signal: 15, Cause: model.PodDeleted, Message: "its pod was deleted, by the eviction API, as kubectl drain uses it"}},
		{name: "preempted by kube-scheduler", pod: disrupted(deleted(ended(corev1.ContainerStateTerminated{ExitCode: 137})), "PreemptionByScheduler"), phase: Ended,
			exit: model.Exit{Code: 137, Signal: 9, Cause: model.PodDeleted, Message: "its pod was deleted, by kube-scheduler, for a pod of a higher priority"}},
		{name: "deleted by hand before it had a node", pod: deleted(unbound), phase: Ended,
			exit: model.Exit{Code: 137, Cause: model.PodDeleted, Message: "its pod was deleted before it had a node, and not by Comb: by a user or a program, as kubectl delete does it"}},
		{name: "evicted", pod: evicted, phase: Ended, exit: model.Exit{Code: 137, Cause: model.NodeLost, Message: "Kubernetes ended its pod: Evicted: low on memory"}},
		{name: "told before it had a node", pod: deleted(unbound), asked: true, phase: Ended, exit: model.Exit{Cause: model.NeverStarted, Message: "its pod was deleted before it had a node"}},
		{name: "told before it ran", pod: deleted(waits("ContainerCreating", "")), asked: true},
		{name: "not bound", pod: unbound, why: "kube-scheduler does not bind its pod: 0/5 nodes"},
		{name: "no image", pod: waits("ErrImagePull", "not found"), why: "its image does not come: ErrImagePull: not found", job: true, fetch: true},
		{name: "no registry", pod: waits("RegistryUnavailable", "503"), fetch: true,
			why: "its image does not come: RegistryUnavailable: 503"},
		{name: "no runtime", pod: waits("CreateContainerError", "x"),
			why: "its container does not start: CreateContainerError: x"},
		{name: "as usual", pod: waits("ContainerCreating", "")},
	} {
		got := Look(&test.pod, test.asked)
		got.Exit.At = 0
		if got.Phase != test.phase || got.Exit != test.exit || got.Why != test.why || got.JobFault != test.job ||
			got.Fetch != test.fetch {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

// GPUs that are claimed are neither counted nor named by a variable, and the container that copies
// Comb's program there has none.
func TestClaimedGPUs(t *testing.T) {
	task := sample()
	task.Task.SKU.EnvVar, task.Resource, task.Claims = "CUDA_VISIBLE_DEVICES", "nvidia.com/gpu", []string{"pod-0", "pod-1"}
	task.ServerLink = &ServerLink{Image: "comb:1", URL: "https://x", Pin: "p"}
	pod, _, err := maker.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	c, first := pod.Spec.Containers[0], pod.Spec.InitContainers[0]
	if len(pod.Spec.ResourceClaims) != 2 || *pod.Spec.ResourceClaims[1].ResourceClaimName != "pod-1" || len(c.Resources.Claims) != 2 || c.Resources.Claims[1].Name != pod.Spec.ResourceClaims[1].Name {
		t.Errorf("the pod has the claims %v, its task %v", pod.Spec.ResourceClaims, c.Resources.Claims)
	}
	if n := c.Resources.Limits["nvidia.com/gpu"]; !n.IsZero() || len(first.Resources.Claims) > 0 {
		t.Errorf("it also counts %v GPUs, and the first container has the claims %v", n, first.Resources.Claims)
	}
	for _, v := range c.Env {
		if v.Name == "CUDA_VISIBLE_DEVICES" || v.Name == "NVIDIA_VISIBLE_DEVICES" && v.Value != "void" {
			t.Errorf("%s is %q", v.Name, v.Value)
		}
	}
}

// What is set aside for those that have the leaves is set aside for a task that starts beside them,
// too: it asks for no CPU and no memory of its own, and its limits are as ever.
func TestBesideOthers(t *testing.T) {
	task := sample()
	other := model.AttemptID{Job: task.Attempt.Job + 1, N: 1}
	for _, turns := range [][][]model.AttemptID{nil, {{task.Attempt}}, {{other}, {task.Attempt}}, {{other, task.Attempt}}} {
		start := *task.Start
		start.Rotation = &model.Rotation{Turns: turns}
		task.Start = &start
		pod, _, err := maker.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		r := pod.Spec.Containers[0].Resources
		_, asks := r.Requests["cpu"]
		alone := len(turns) < 2 && (len(turns) == 0 || len(turns[0]) < 2)
		if !asks || r.Limits.Cpu().IsZero() || r.Limits.Memory().IsZero() || r.Requests.Cpu().IsZero() == alone || r.Requests.Memory().IsZero() == alone {
			t.Errorf("%v: it asks for %v of %v", turns, r.Requests, r.Limits)
		}
	}
	if a, b := maker.DevicesName("n1", "d", []string{"gpu-0", "gpu-1"}), maker.DevicesName("n1", "d", []string{"gpu-0"}); a == b || a != maker.DevicesName("n1", "d", []string{"gpu-0", "gpu-1"}) || len(a) > 60 {
		t.Errorf("the devices are called %s and %s", a, b)
	}
}

// TestSharedMemory: /dev/shm of a pod is what its job asks for, else as much as its memory, or as
// the share of its leaves.
func TestSharedMemory(t *testing.T) {
	type sizes struct{ shm, memory, leaf, want int64 }
	for _, c := range []sizes{{16, 64, 50, 16}, {0, 64, 50, 64}, {0, 0, 50, 100}, {0, 0, 0, 0}} {
		in := sample()
		l := &in.Start.Job.Roles[1].Launch
		l.ShmMB, l.MemoryMB, in.Task.SKU.MemoryMB = c.shm, c.memory, c.leaf
		pod, _, err := maker.Make(in)
		if err != nil {
			t.Fatal(err)
		}
		got := int64(-1)
		for _, v := range pod.Spec.Volumes {
			if v.Name == "shm" && v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
				got = 0
				if v.EmptyDir.SizeLimit != nil {
					got = v.EmptyDir.SizeLimit.Value() >> 20
				}
			}
		}
		mounted := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "shm" && m.MountPath == "/dev/shm"
		})
		if got != c.want || !mounted {
			t.Errorf("%+v: %d MiB, mounted: %v", c, got, mounted)
		}
	}
}

// A pod whose process 1 is Comb needs no secret: its kubelet gives it a token for Comb alone. One
// of an earlier version has its token in a Secret.
func TestTheTokenOfAPod(t *testing.T) {
	task := sample()
	task.ServerLink = &ServerLink{Image: "comb:1", URL: "https://a:1", Pin: "p"}
	pod, secrets, err := maker.Make(task)
	if err != nil || len(secrets) != 0 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Projected != nil })
	if at < 0 || !HasOwnToken(pod) || pod.Spec.ServiceAccountName != "default" || *pod.Spec.AutomountServiceAccountToken {
		t.Fatalf("%+v", pod.Spec)
	}
	token := pod.Spec.Volumes[at].Projected.Sources[0].ServiceAccountToken
	if token.Audience != "comb" || *token.ExpirationSeconds < 600 || *token.ExpirationSeconds > 24*3600 || token.Path != "token" {
		t.Errorf("it is %+v", token)
	}
	mounted := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == pod.Spec.Volumes[at].Name && m.MountPath == "/comb/line" && m.ReadOnly
	})
	if !mounted {
		t.Errorf("it is not mounted: %+v", pod.Spec.Containers[0].VolumeMounts)
	}
	pod.Spec.Volumes[at].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: pod.Name}}
	if HasOwnToken(pod) {
		t.Error("one of an earlier version counts as one with a token of its own")
	}
	if plain, _, err := maker.Make(sample()); err != nil || HasOwnToken(plain) || plain.Spec.ServiceAccountName != "" {
		t.Errorf("one without Comb's program: %v", err)
	}
}

// What a pod keeps of its log is a small part of its task's memory, and bounded.
func TestHowMuchOfALogAPodKeeps(t *testing.T) {
	for limit, want := range map[int64]int{0: 16 << 20, 1 << 20: 1 << 20, 64 << 20: 2 << 20, 256 << 20: 8 << 20, 1 << 40: 16 << 20} {
		if got := keptLog(limit); got != want {
			t.Errorf("of %d bytes of memory it keeps %d, want %d", limit, got, want)
		}
	}
}
