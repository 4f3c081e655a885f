package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
)

// TestFaultsOfLeaves: what keeps GPUs of a node that is up from new work.
func TestFaultsOfLeaves(t *testing.T) {
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
	}
	condition := func(kind, reason, message string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionTrue, Reason: reason, Message: message})
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   [2]string // of GPU 0 and of GPU 1
	}{
		"nothing":          {func(*corev1.Node) {}, [2]string{}},
		"a cordon":         {func(n *corev1.Node) { n.Spec.Unschedulable = true }, [2]string{"it is cordoned in Kubernetes, until kubectl uncordon n1", "it is cordoned in Kubernetes, until kubectl uncordon n1"}},
		"a taint":          {tainted("dedicated", corev1.TaintEffectNoSchedule), [2]string{"it has the taint dedicated:NoSchedule in Kubernetes, which pods of Comb do not tolerate, until kubectl taint node n1 dedicated-", "it has the taint dedicated:NoSchedule in Kubernetes, which pods of Comb do not tolerate, until kubectl taint node n1 dedicated-"}},
		"a wish":           {tainted("dedicated", corev1.TaintEffectPreferNoSchedule), [2]string{}},
		"a taint of GPUs":  {tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule), [2]string{}},
		"what is told":     {tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), [2]string{}},
		"one GPU":          {condition("GpuMemWatch", "GpuMemWatchIsNotHealthy", "ErrorCode:DCGM_FR_UNCONTAINED_ERROR GPU:1 PCI:0002:00:00 XID 95 Recommended Action=COMPONENT_RESET;"), [2]string{"", "Kubernetes says GpuMemWatch: ErrorCode:DCGM_FR_UNCONTAINED_ERROR GPU:1 PCI:0002:00:00 XID 95 Recommended Action=COMPONENT_RESET;"}},
		"two GPUs":         {condition("GpuMemWatch", "GpuMemWatchIsNotHealthy", "ErrorCode:A GPU:0 GPU:1;"), [2]string{"Kubernetes says GpuMemWatch: ErrorCode:A GPU:0 GPU:1;", "Kubernetes says GpuMemWatch: ErrorCode:A GPU:0 GPU:1;"}},
		"none named":       {condition("SysLogsXIDError", "SysLogsXIDErrorIsNotHealthy", "ErrorCode:79 PCI:0002:00:00;"), [2]string{"Kubernetes says SysLogsXIDError: ErrorCode:79 PCI:0002:00:00;", "Kubernetes says SysLogsXIDError: ErrorCode:79 PCI:0002:00:00;"}},
		"another's":        {condition("MemoryPressure", "KubeletHasInsufficientMemory", "kubelet has insufficient memory"), [2]string{}},
		"a healthy check":  {condition("GpuMemWatch", "GpuMemWatchIsHealthy", "No Health Failures"), [2]string{}},
		"a forged long id": {condition("GpuMemWatch", "GpuMemWatchIsNotHealthy", "GPU:99999999999999999999"), [2]string{"Kubernetes says GpuMemWatch: GPU:99999999999999999999", "Kubernetes says GpuMemWatch: GPU:99999999999999999999"}},
	} {
		n := node(corev1.ConditionTrue)
		n.Name = "n1"
		n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
		c.change(n)
		f := faultOf(n)
		for device, want := range c.want {
			if got := f.of(&Leaf{LeafHealth: model.LeafHealth{Device: int32(device)}, GPUs: 1}); got != want {
				t.Errorf("%s: GPU %d is %q, not %q", name, device, got, want)
			}
		}
		if slot := (&Leaf{}); f.of(slot) != f.node {
			t.Errorf("%s: a slot of CPUs is %q", name, f.of(slot))
		}
		if again := faultOf(n); !f.same(&again) {
			t.Errorf("%s: it is not the same as itself", name)
		}
	}
}

// TestFaultsOfParts: which parts are of a broken GPU is not known, so all of its node are bad. A
// taint of the plugin's maker keeps pods that ask for parts from no node.
func TestFaultsOfParts(t *testing.T) {
	n := node(corev1.ConditionTrue)
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0"), "nvidia.com/mig-1g.5gb": resource.MustParse("14")}
	n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	leaf := &Leaf{LeafHealth: model.LeafHealth{Device: 9}, GPUs: 1, Resource: "nvidia.com/mig-1g.5gb"}
	if f := faultOf(n); f.of(leaf) != "" {
		t.Errorf("a slice is bad: %s", f.of(leaf))
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "GpuMemWatch", Status: corev1.ConditionTrue, Reason: "GpuMemWatchIsNotHealthy", Message: "ErrorCode:A GPU:1;"})
	if f := faultOf(n); f.of(leaf) != "Kubernetes says GpuMemWatch: ErrorCode:A GPU:1;" {
		t.Errorf("a slice of a node with a broken GPU is %q", f.of(leaf))
	}
}

// TestFaultsOfPairs: a leaf of two GPUs is bad when one of them is.
func TestFaultsOfPairs(t *testing.T) {
	f := fault{devices: map[int64]string{3: "broken"}}
	for device, want := range []string{"", "broken", ""} {
		if got := f.of(&Leaf{LeafHealth: model.LeafHealth{Device: int32(device)}, GPUs: 2}); got != want {
			t.Errorf("leaf %d is %q", device, got)
		}
	}
}

// TestClaimedLeaves: a leaf is bad when one of its devices is not published, or has a taint that
// keeps claims away.
func TestClaimedLeaves(t *testing.T) {
	sku := cell.DRA{Class: "c", Driver: "gpu.d", Device: "gpu-%d", Attribute: "uuid"}
	leaf := func(device int32, gpus int64) Leaf {
		return Leaf{LeafHealth: model.LeafHealth{Device: device}, GPUs: gpus, DRA: sku}
	}
	leaves := []Leaf{leaf(0, 2), leaf(1, 2), leaf(2, 2), leaf(3, 2)}
	s := api.Slice{Spec: api.SliceSpec{Driver: "gpu.d", NodeName: "n1", Devices: []api.Device{{Name: "gpu-0"}, {Name: "gpu-1", Taints: []api.Taint{{Key: "seen", Effect: "None"}}},
		{Name: "gpu-2"}, {Name: "gpu-3", Taints: []api.Taint{{Key: "d/broken", Value: "yes", Effect: "NoExecute"}}}, {Name: "gpu-5"}, {Name: "gpu-6"}, {Name: "gpu-7"}}}}
	f := fault{claims: cannotBeClaimed("n1", leaves, []api.Slice{s})}
	for i, want := range []string{"", "its device gpu-3 has the taint d/broken=yes:NoExecute in Kubernetes", "its driver gpu.d publishes no device gpu-4 there", ""} {
		if got := f.of(&leaves[i]); got != want {
			t.Errorf("leaf %d is %q, not %q", i, got, want)
		}
	}
	if other := (&Leaf{LeafHealth: model.LeafHealth{Device: 1}, GPUs: 2}); f.of(other) != "" || f.none() || f.same(&fault{}) {
		t.Errorf("a leaf that is not claimed is %q", f.of(other))
	}
	if none := cannotBeClaimed("n1", nil, []api.Slice{s}); none != nil {
		t.Errorf("of no leaves %v cannot be claimed", none)
	}
	if all := cannotBeClaimed("n2", leaves, []api.Slice{s}); len(all) != 8 {
		t.Errorf("of 8 devices of a node without a slice %d cannot be claimed", len(all))
	}
}

// TestLeavesOfClaimsOfOthers: a leaf of which others have a device by a claim is held by them; one
// that cannot be claimed at all is bad.
func TestLeavesOfClaimsOfOthers(t *testing.T) {
	sku := cell.DRA{Class: "c", Driver: "gpu.d", Device: "gpu-%d", Attribute: "uuid"}
	var leaves []Leaf
	for device := range int32(4) {
		leaves = append(leaves, Leaf{LeafHealth: model.LeafHealth{Device: device}, GPUs: 2, DRA: sku})
	}
	s := api.Slice{Spec: api.SliceSpec{Driver: "gpu.d", NodeName: "n1", Pool: api.Pool{Name: "pool-1"}}}
	for _, name := range []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"} {
		s.Spec.Devices = append(s.Spec.Devices, api.Device{Name: name})
	}
	have := map[deviceOf]string{
		{"gpu.d", "pool-1", "gpu-1"}: "tenant/thief", {"gpu.d", "pool-1", "gpu-6"}: "tenant/thief",
		{"gpu.d", "pool-2", "gpu-2"}: "tenant/elsewhere", {"net.d", "pool-1", "gpu-4"}: "tenant/network",
	}
	published := []api.Slice{s}
	f := fault{claims: cannotBeClaimed("n1", leaves, published), heldBy: heldByClaims(leaves, published, have)}
	for i, want := range []model.LeafHealth{
		{Device: 0, HeldByOthers: true, Reason: "gpu-1 held by tenant/thief"}, {Device: 1, Good: true},
		{Device: 2, Good: true}, {Device: 3, Reason: "its driver gpu.d publishes no device gpu-7 there"},
	} {
		if f.note(&leaves[i]); leaves[i].LeafHealth != want {
			t.Errorf("leaf %d is told as %+v, want %+v", i, leaves[i].LeafHealth, want)
		}
	}
	if f.same(&fault{claims: f.claims}) || f.none() || (&fault{heldBy: f.heldBy}).none() {
		t.Error("what others have by claims is not told apart")
	}
	f.held = "2 GPUs held by tenant/other"
	slot := Leaf{}
	if f.note(&leaves[1]); leaves[1].Reason != f.held || !leaves[1].HeldByOthers {
		t.Errorf("with a pod that a plugin gave GPUs leaf 1 is %+v", leaves[1].LeafHealth)
	}
	if f.note(&slot); !slot.Good {
		t.Errorf("a slot of CPUs is %+v", slot.LeafHealth)
	}
}
