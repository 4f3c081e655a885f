package kube_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/test/simapi"
)

// leafTold are what was told last of the leaves of each node, in the order of their devices.
type leafTold struct {
	mu    sync.Mutex
	of    map[cell.NodeName][simGPUs]model.LeafHealth
	times int
}

// heard notes leaves; all else goes on.
func (l *leafTold) heard(next func(model.Fact)) func(model.Fact) {
	return func(f model.Fact) {
		if h, ok := f.(model.LeafHealth); ok {
			l.mu.Lock()
			list := l.of[h.Node]
			list[h.Device] = h
			l.of[h.Node] = list
			l.times++
			l.mu.Unlock()
			return
		}
		next(f)
	}
}

// says is what all leaves of a node were told to be, in one text.
func (l *leafTold) says(node string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.of[cell.NodeName(node)]
	for _, h := range list {
		if h.Good != list[0].Good || h.Reason != list[0].Reason || h.HeldByOthers != list[0].HeldByOthers {
			return fmt.Sprintf("they differ: %+v", list)
		}
	}
	switch h := list[0]; {
	case h.Node == "":
		return "nothing"
	case h.Good:
		return "good"
	case h.HeldByOthers:
		return h.Reason
	default:
		return "bad: " + h.Reason
	}
}

// leavesOf are the leaves of a node.
func leavesOf(n cell.NodeName) (list []kube.Leaf) {
	for i := range int32(simGPUs) {
		list = append(list, kube.Leaf{LeafHealth: model.LeafHealth{Node: n, SKU: "GPU", Device: i}, GPUs: 1})
	}
	return list
}

// withLeaves is a driver whose nodes have leaves of GPUs that a device plugin gives.
func withLeaves(t *testing.T, seed uint64) (*driver, *leafTold) {
	told := &leafTold{of: map[cell.NodeName][simGPUs]model.LeafHealth{}}
	d := newDriver(t, seed)
	d.e.Close()
	d.change = func(o *kube.Options) {
		o.Tell = told.heard(o.Tell)
		o.Leaves = leavesOf
	}
	d.e = d.open()
	d.e.EndStrays(nil)
	d.until("all nodes are good", func() bool {
		return told.says("n0") == "good" && told.says("n1") == "good" && told.says("n2") == "good"
	})
	return d, told
}

// other is a pod of somebody else that asks for GPUs; "" is a pod that no node has.
func other(space, name, node string, gpus int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Requests = asksFor("nvidia.com/gpu", gpus)
	}
	return p
}

func asksFor(name corev1.ResourceName, n int64) corev1.ResourceList {
	return corev1.ResourceList{name: *resource.NewQuantity(n, resource.DecimalSI)}
}

// TestOthersHoldANode: a node on which somebody else's pod has GPUs gets no new work while that
// pod is there, whatever becomes of it, and however it came.
func TestOthersHoldANode(t *testing.T) {
	d, told := withLeaves(t, 7)
	is := func(node, want string) {
		t.Helper()
		d.until(node+" is "+want, func() bool { return told.says(node) == want })
	}
	thief := other("tenant", "thief", "", 2)
	d.api.Put(thief)
	thief.Spec.NodeName = "n0"
	d.api.Put(thief)
	is("n0", "2 GPUs held by tenant/thief")
	thief.Status.Phase = corev1.PodRunning
	d.api.Put(thief)
	for i, gpus := range []int64{1, 1, 1, 1} {
		d.api.Put(other("tenant", fmt.Sprint("small-", i), "n0", gpus))
	}
	is("n0", "6 GPUs held by tenant/thief, tenant/small-0, tenant/small-1 and 2 more")
	for i := range 4 {
		d.api.Drop(other("tenant", fmt.Sprint("small-", i), "n0", 1))
	}
	now := metav1.Now()
	thief.DeletionTimestamp = &now
	d.api.Put(thief)
	is("n0", "2 GPUs held by tenant/thief (which is ending)")
	thief.Status.Phase = corev1.PodFailed
	d.api.Put(thief)
	is("n0", "good")

	// One that asks for no GPU holds none, another Comb's pod does; parts are devices.
	d.api.Put(other("tenant", "web", "n1", 0))
	comb := other("combs", "comb-ffffffff-1-0-1-0", "n2", 4)
	comb.Labels = map[string]string{"comb.dev/cluster": "ffffffff"}
	d.api.Put(comb)
	is("n2", "4 GPUs held by combs/comb-ffffffff-1-0-1-0")
	part := other("tenant", "part", "n0", 0)
	part.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	part.Spec.InitContainers[0].Resources.Requests = asksFor("nvidia.com/mig-1g.5gb", 1)
	d.api.Put(part)
	is("n0", "1 device held by tenant/part")
	if got := told.says("n1"); got != "good" {
		t.Errorf("n1, on which nobody has a GPU, is %s", got)
	}
}

// TestOthersWhileTheWatchIsCut: what came and went while nothing could be heard is known after.
func TestOthersWhileTheWatchIsCut(t *testing.T) {
	d, told := withLeaves(t, 8)
	d.api.Put(other("tenant", "goes", "n0", 4))
	d.until("n0 is held", func() bool { return told.says("n0") == "4 GPUs held by tenant/goes" })
	d.api.Away(true)
	d.api.Drop(other("tenant", "goes", "n0", 4))
	d.api.Put(other("tenant", "comes", "n2", 1))
	d.api.Away(false)
	d.until("n2 is held, and n0 is not", func() bool {
		return told.says("n2") == "1 GPU held by tenant/comes" && told.says("n0") == "good"
	})
	d.api.Fail(simapi.Faults{Cut: 300, Gone: 100, Twice: 200, Broken: 100})
	for i := range 40 {
		d.api.Put(other("tenant", fmt.Sprint("many-", i), "n1", 1))
	}
	d.until("all are known", func() bool { return strings.HasPrefix(told.says("n1"), "40 GPUs held by ") })
	for i := range 40 {
		d.api.Drop(other("tenant", fmt.Sprint("many-", i), "n1", 1))
	}
	d.until("all are gone", func() bool { return told.says("n1") == "good" })
}

// TestOthersAtARestart: a server that starts anew knows who has GPUs before it tells that a node
// is good.
func TestOthersAtARestart(t *testing.T) {
	d, told := withLeaves(t, 9)
	d.api.Put(other("tenant", "stays", "n0", 4))
	d.api.Put(other("tenant", "goes", "n2", 4))
	d.until("both are held", func() bool {
		return strings.Contains(told.says("n0"), "stays") && strings.Contains(told.says("n2"), "goes")
	})
	d.e.Close()
	d.api.Drop(other("tenant", "goes", "n2", 4))
	told.mu.Lock()
	told.of = map[cell.NodeName][simGPUs]model.LeafHealth{}
	told.mu.Unlock()
	d.e = d.open()
	d.e.EndStrays(nil)
	d.until("it is known", func() bool { return told.says("n2") == "good" && told.says("n0") != "nothing" })
	if got := told.says("n0"); got != "4 GPUs held by tenant/stays" {
		t.Errorf("n0 is %s", got)
	}
}

// TestManyOthers: 10,000 pods of others, and nodes that are not in the cluster, cost a look each,
// and no line for each pod.
func TestManyOthers(t *testing.T) {
	d, told := withLeaves(t, 10)
	const many = 10_000
	for i := range many {
		node := "n0"
		if i%2 == 1 {
			node = fmt.Sprint("no-such-", i) // a tenant may name any
		}
		d.api.Put(other("tenant", fmt.Sprint("pod-", i), node, int64(i%4/2)))
	}
	want := fmt.Sprintf("%d GPUs held by tenant/pod-10, tenant/pod-1002, tenant/pod-1006 and %d more",
		many/4, many/4-3)
	d.until("all are counted", func() bool { return told.says("n0") == want })
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.times > 400 {
		t.Errorf("leaves were told %d times", told.times)
	}
	for node := range told.of {
		if strings.HasPrefix(string(node), "no-such") {
			t.Errorf("leaves of %s were told", node)
		}
	}
	if n := kube.SeenNodes(d.e); n > simNodes {
		t.Errorf("%d nodes are kept", n)
	}
}

// TestForgedOthers: a pod that has this Comb's label, and is not its own, is found; its own pod
// that has lost the label is none of others.
func TestForgedOthers(t *testing.T) {
	d, told := withLeaves(t, 11)
	d.api.Linger()
	d.begin()
	d.until("a task runs", func() bool { return d.told("TaskStarted") > 0 })
	pods := d.api.Objects("pods")
	label := d.api.Label(pods[0], "comb.dev/cluster")
	for _, name := range pods {
		d.api.Unlabel(name)
	}
	for _, space := range []string{"comb", "tenant"} {
		p := other(space, "forged-in-"+space, "n2", 2)
		p.Labels = map[string]string{"comb.dev/cluster": label}
		d.api.Put(p)
	}
	d.until("both are found", func() bool {
		kube.LookForForged(d.e)
		return told.says("n2") == "4 GPUs held by comb/forged-in-comb, tenant/forged-in-tenant"
	})
	for _, node := range []string{"n0", "n1"} {
		if got := told.says(node); got != "good" {
			t.Errorf("%s, which only tasks use, is %s", node, got)
		}
	}
	for _, space := range []string{"comb", "tenant"} {
		d.api.Drop(other(space, "forged-in-"+space, "n2", 2))
	}
	d.until("both are gone", func() bool {
		kube.LookForForged(d.e)
		return told.says("n2") == "good"
	})
}

// TestOthersThatCannotBeSeen: without the right to see pods of others the server works, and says
// so; what it has known stays known until it may see them again.
func TestOthersThatCannotBeSeen(t *testing.T) {
	d, told := withLeaves(t, 12)
	d.api.Put(other("tenant", "thief", "n0", 4))
	d.until("n0 is held", func() bool { return told.says("n0") == "4 GPUs held by tenant/thief" })
	d.api.ForbidAll("pods", true)
	d.api.Drop(other("tenant", "thief", "n0", 4))
	d.until("it is refused", func() bool { return d.api.Asked()["GET pods refused in "] > 0 })
	d.begin()
	d.until("a task runs", func() bool { return d.told("TaskStarted") > 0 })
	if got := told.says("n0"); got != "4 GPUs held by tenant/thief" {
		t.Errorf("n0 is %s", got)
	}
	d.api.ForbidAll("pods", false)
	d.until("it is seen that it is gone", func() bool { return told.says("n0") == "good" })
}
