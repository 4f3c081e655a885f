package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/sched"
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
		"a cordon":         {func(n *corev1.Node) { n.Spec.Unschedulable = true }, [2]string{"its node is cordoned in Kubernetes, until kubectl uncordon n1", "its node is cordoned in Kubernetes, until kubectl uncordon n1"}},
		"a taint":          {tainted("dedicated", corev1.TaintEffectNoSchedule), [2]string{"its node has the taint dedicated:NoSchedule in Kubernetes, which pods of Comb do not tolerate", "its node has the taint dedicated:NoSchedule in Kubernetes, which pods of Comb do not tolerate"}},
		"a wish":           {tainted("dedicated", corev1.TaintEffectPreferNoSchedule), [2]string{}},
		"a taint of GPUs":  {tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule), [2]string{}},
		"what is told":     {tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), [2]string{}},
		"one GPU":          {condition("GpuMemWatch", "GpuMemWatchIsNotHealthy", "ErrorCode:DCGM_FR_UNCONTAINED_ERROR GPU:1 PCI:0002:00:00 XID 95 Recommended Action=COMPONENT_RESET;"), [2]string{"", "Kubernetes says GpuMemWatch: ErrorCode:DCGM_FR_UNCONTAINED_ERROR GPU:1 PCI:0002:00:00 XID 95 Recommended Action=COMPONENT_RESET;"}},
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
			if got := f.of(&sched.LeafHealth{Device: int32(device)}); got != want {
				t.Errorf("%s: GPU %d is %q, not %q", name, device, got, want)
			}
		}
		if again := faultOf(n); !f.same(&again) {
			t.Errorf("%s: it is not the same as itself", name)
		}
	}
}
