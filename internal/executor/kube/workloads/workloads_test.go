package workloads

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// jobWith is a Job with a spec and a status.
func jobWith(spec, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
}

func TestPodsOfAJob(t *testing.T) {
	for _, c := range []struct {
		spec, status map[string]any
		want         int64
	}{
		{nil, nil, 1},
		{map[string]any{"parallelism": int64(4)}, nil, 4},
		{map[string]any{"parallelism": int64(4), "completions": int64(2)}, nil, 2},
		{map[string]any{"parallelism": int64(4), "completions": int64(6)}, map[string]any{"succeeded": int64(3)}, 3},
		{map[string]any{"parallelism": int64(4), "completions": int64(6)}, map[string]any{"succeeded": int64(6)}, 0},
		{map[string]any{"parallelism": int64(0)}, nil, 0},
		{map[string]any{"parallelism": "many"}, nil, 1},
		{map[string]any{"parallelism": int64(4)}, map[string]any{"succeeded": int64(1), "active": int64(2)}, 2},
	} {
		if got := podsOfJob(jobWith(c.spec, c.status)); got != c.want {
			t.Errorf("a Job of %v with %v has %d pods at once, want %d", c.spec, c.status, got, c.want)
		}
	}
}

func TestEndOfAJob(t *testing.T) {
	told := func(name, status string) map[string]any {
		one := map[string]any{"type": name, "status": status, "message": "it is " + name}
		return map[string]any{"conditions": []any{one}}
	}
	for _, c := range []struct {
		status     map[string]any
		over, good bool
		why        string
	}{
		{nil, false, false, ""},
		{told("Complete", "True"), true, true, ""},
		{told("Complete", "False"), false, false, ""},
		{told("Failed", "True"), true, false, "it is Failed"},
		{told("Suspended", "True"), false, false, ""},
		{map[string]any{"conditions": "none"}, false, false, ""},
	} {
		if over, good, why := endOfJob(jobWith(nil, c.status)); over != c.over || good != c.good || why != c.why {
			t.Errorf("of a Job with %v is told %v, %v, %q", c.status, over, good, why)
		}
	}
}

// podAsking is a pod at its gate that asks for a number of devices.
func podAsking(name string, devices map[corev1.ResourceName]int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: Gate}}
	c := corev1.Container{Name: "main", Image: "train:1"}
	c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
	for resourceName, n := range devices {
		c.Resources.Limits[resourceName] = *resource.NewQuantity(n, resource.DecimalSI)
		c.Resources.Requests[resourceName] = c.Resources.Limits[resourceName]
	}
	p.Spec.Containers = []corev1.Container{c}
	return p
}

func TestRoleOfPods(t *testing.T) {
	skus := []cell.SKU{{Name: "H", GPU: 1, Device: cell.NVIDIA}, {Name: "PAIR", GPU: 2, Device: cell.NVIDIA},
		{Name: "MIG", GPU: 1, Device: cell.NVIDIA, Resource: "nvidia.com/mig-1g.5gb"}, {Name: "C", Device: cell.CPU}}
	e := &Executor{o: Options{Resource: func(s cell.SKU) string {
		if s.Resource != "" {
			return s.Resource
		}
		return "nvidia.com/gpu"
	}}}
	gpus := func(n int64) map[corev1.ResourceName]int64 { return map[corev1.ResourceName]int64{"nvidia.com/gpu": n} }
	role, why := e.roleOf(skus, []*corev1.Pod{podAsking("a", gpus(1)), podAsking("b", gpus(1))})
	if why != "" || role.Tasks != 2 || role.Leaves != 1 || len(role.SKUs) != 2 || role.MinSucceeded != 2 ||
		role.Launch.GPU != 1 {
		t.Errorf("two pods of a GPU are %+v: %s", role, why)
	}
	role, why = e.roleOf(skus, []*corev1.Pod{podAsking("a", gpus(4))})
	if why != "" || role.Leaves != 4 || len(role.SKUs) != 1 || role.SKUs[0] != "H" {
		t.Errorf("a pod of four GPUs is %+v: %s", role, why)
	}
	role, why = e.roleOf(skus, []*corev1.Pod{podAsking("a", map[corev1.ResourceName]int64{"nvidia.com/mig-1g.5gb": 1})})
	if why != "" || len(role.SKUs) != 1 || role.SKUs[0] != "MIG" {
		t.Errorf("a pod of a part is %+v: %s", role, why)
	}
	both := podAsking("a", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1})
	amd := podAsking("a", map[corev1.ResourceName]int64{"amd.com/gpu": 1})
	for want, list := range map[string][]*corev1.Pod{
		"its pods a and b ask for different devices":                                  {podAsking("a", gpus(1)), podAsking("b", gpus(2))},
		"no nodes of the cluster file have amd.com/gpu":                               {amd},
		"its pods ask for devices of 2 kinds (nvidia.com/gpu, nvidia.com/mig-1g.5gb)": {both},
	} {
		if _, why := e.roleOf(skus, list); !strings.HasPrefix(why, want) {
			t.Errorf("got %q, want %q", why, want)
		}
	}
}

// TestFilledAfterRestart: the pods of an attempt say which of its slots they fill; those of another
// attempt, of none, or at their gate fill none.
func TestFilledAfterRestart(t *testing.T) {
	id := model.AttemptID{Job: 7, N: 2}
	at := &attempt{id: id, slots: []slot{{task: 0, node: "n0"}, {task: 1, node: "n1"}}}
	pod := func(name, task, attempt string) *corev1.Pod {
		p := podAsking(name, nil)
		p.Spec.SchedulingGates = nil
		p.Labels = map[string]string{pods.TaskLabel: task, pods.OpenedLabel: attempt}
		return p
	}
	none := []*corev1.Pod{pod("old", "1", "7.0.1"), pod("odd", "x", id.String()), pod("more", "2", id.String()),
		podAsking("gated", nil)}
	for _, p := range none {
		if sl := at.filledBy(p); sl != nil {
			t.Errorf("pod %s fills the slot of task %d", p.Name, sl.task)
		}
	}
	if sl := at.filledBy(pod("one", "1", id.String())); sl == nil || sl.node != "n1" || sl.pod != "one" {
		t.Fatalf("the pod of task 1 fills %+v", sl)
	}
	if sl := at.filledBy(pod("two", "1", id.String())); sl != nil {
		t.Error("two pods fill one slot")
	}
	if sl := at.filledBy(pod("one", "", "")); sl == nil || sl.task != 1 {
		t.Error("the pod of a slot is not known again")
	}
}

func TestEndOfAPod(t *testing.T) {
	for _, c := range []struct {
		status     corev1.PodStatus
		over, good bool
		why        string
	}{
		{corev1.PodStatus{Phase: corev1.PodRunning}, false, false, ""},
		{corev1.PodStatus{Phase: corev1.PodSucceeded}, true, true, ""},
		{corev1.PodStatus{Phase: corev1.PodFailed}, true, false, "its pod failed"},
		{corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "too much"}, true, false, "too much"},
	} {
		p := podAsking("alone", nil)
		p.Status = c.status
		u := asObject(p)
		if over, good, why := endOfPod(u); over != c.over || good != c.good || why != c.why || u.GetName() != "alone" {
			t.Errorf("of pod %s with %+v is told %v, %v, %q", u.GetName(), c.status, over, good, why)
		}
	}
}

func TestKindsThatAreKnown(t *testing.T) {
	yes := true
	kinds := map[string]bool{"": true, "batch/v1 Job": true, "apps/v1 ReplicaSet": false, "other.io/v1 Job": false}
	for of, want := range kinds {
		p := podAsking("p", nil)
		if version, kind, ok := strings.Cut(of, " "); ok {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, UID: "u", Controller: &yes}}
		}
		if knows(p) != want {
			t.Errorf("a pod of %q is known: %v", of, !want)
		}
	}
}

// TestToldAgain: what runs on a node that was down is told to have started once more, and counts as
// started meanwhile.
func TestToldAgain(t *testing.T) {
	var told []model.Fact
	e := &Executor{o: Options{Tell: func(f model.Fact) { told = append(told, f) }},
		attempts: map[model.AttemptID]*workload{}, queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[types.UID]())}
	p := podAsking("p", nil)
	p.Spec.SchedulingGates, p.Status.Phase = nil, corev1.PodRunning
	at := &attempt{id: model.AttemptID{Job: 1, N: 1}, slots: []slot{{node: "n0", pod: p.UID}}}
	e.attempts[at.id] = &workload{job: 1, at: at}
	s := seen{pods: []*corev1.Pod{p}}
	for _, step := range []struct {
		up   string
		want int
	}{{"", 1}, {"", 1}, {"n1", 1}, {"n0", 2}, {"", 2}} {
		if step.up != "" {
			e.CameUp(step.up)
		}
		if e.tell(s, at); len(told) != step.want || !at.slots[0].started {
			t.Fatalf("after %q came up %d facts were told, want %d; started: %v", step.up, len(told), step.want,
				at.slots[0].started)
		}
	}
	p.DeletionTimestamp = &metav1.Time{}
	if e.tell(s, at) || at.slots[0].pod != p.UID {
		t.Error("a pod that is asked to end has given its slot back")
	}
	p.Status.Phase = corev1.PodFailed
	if !e.tell(s, at) || at.slots[0].pod != "" {
		t.Error("a pod that has failed keeps its slot")
	}
}

// TestSurplusSlots: slots for which a Job makes no pods any more end well; those that it will fill
// stay, and so do all of a Job that is told to make none for now.
func TestSurplusSlots(t *testing.T) {
	for _, c := range []struct {
		spec, status map[string]any
		filled       int
		want         int // facts
	}{
		{map[string]any{"parallelism": int64(3), "completions": int64(3)}, nil, 3, 0},
		{map[string]any{"parallelism": int64(3), "completions": int64(3)}, nil, 1, 0},
		{map[string]any{"parallelism": int64(3), "completions": int64(3)}, map[string]any{"succeeded": int64(1)}, 2, 1},
		{map[string]any{"parallelism": int64(3), "completions": int64(9)}, map[string]any{"succeeded": int64(1)}, 2, 0},
		{map[string]any{"parallelism": int64(1), "completions": int64(3)}, nil, 0, 2},
		{map[string]any{"parallelism": int64(0)}, nil, 0, 0},
	} {
		var told []model.Fact
		e := &Executor{o: Options{Tell: func(f model.Fact) { told = append(told, f) }}}
		at := &attempt{id: model.AttemptID{Job: 1, N: 1}, slots: make([]slot, 3)}
		for i := range c.filled {
			at.slots[i].pod = types.UID(rune('a' + i))
		}
		e.endSurplus(seen{kind: &kinds[0], owner: jobWith(c.spec, c.status)}, at)
		if len(told) != c.want {
			t.Errorf("of a Job of %v with %v and %d pods %d tasks end, want %d", c.spec, c.status, c.filled, len(told), c.want)
		}
	}
}

// TestLeftPods: a pod is left on its node when its attempt is over, its task counts as lost, or it
// is on another node than Comb gave it.
func TestLeftPods(t *testing.T) {
	id := model.AttemptID{Job: 7, N: 1}
	at := &attempt{id: id, slots: []slot{{task: 0, node: "n0"}, {task: 1, node: "n1", lost: true}}}
	e := &Executor{attempts: map[model.AttemptID]*workload{id: {job: 7, at: at}}}
	pod := func(name, task, attempt, node string) *corev1.Pod {
		p := podAsking(name, nil)
		p.Spec.SchedulingGates, p.Spec.NodeName = nil, node
		p.Labels = map[string]string{pods.TaskLabel: task, pods.OpenedLabel: attempt}
		return p
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want bool
	}{
		{pod("runs", "0", "7.0.1", "n0"), false},
		{pod("waits", "0", "7.0.1", ""), true}, // its slot is filled by the first
		{pod("lost", "1", "7.0.1", "n1"), true},
		{pod("old", "0", "7.0.2", "n0"), true},
		{pod("odd", "0", "", "n0"), true},
	} {
		if got := e.isLeft(c.pod); got != c.want {
			t.Errorf("pod %s is left: %v", c.pod.Name, got)
		}
	}
	elsewhere := pod("runs", "0", "7.0.1", "n2")
	if !e.isLeft(elsewhere) {
		t.Error("a pod on another node than its slot's is not left")
	}
}
