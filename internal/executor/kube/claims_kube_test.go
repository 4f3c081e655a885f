package kube_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// claimable are two devices of a simulated node, and a class of such devices.
func claimable(node string) string {
	const objects = `{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "comb-conformance"}, "spec": {"driver": "gpu.claims.test", "nodeName": "NODE",
			"pool": {"name": "NODE", "generation": 1, "resourceSliceCount": 1}, "devices": [
				{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-a"}}}, {"name": "gpu-1", "attributes": {"uuid": {"string": "GPU-b"}}}]}},
		{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "comb-conformance"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.claims.test'"}}]}}]}`
	return strings.ReplaceAll(objects, "NODE", node)
}

// kubectl runs it on the cluster, which must succeed.
func kubectl(t *testing.T, in string, argv ...string) {
	t.Helper()
	c := exec.Command("kubectl", append([]string{"--kubeconfig", *kubeconfig}, argv...)...)
	c.Stdin = strings.NewReader(in)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", argv, err, out)
	}
}

// TestClaimedTwice: kube-scheduler gives a device to one claim alone. A task that asks for a device
// that another has is refused with its words, and one that asks for the other device, or for the
// first when it is free, runs.
func TestClaimedTwice(t *testing.T) {
	if !testkit.Live(t, "kube") {
		return
	}
	node := strings.Split(*fakeNodes, ",")[0]
	kubectl(t, claimable(node), "apply", "-f", "-")
	t.Cleanup(func() { kubectl(t, claimable(node), "delete", "-f", "-") })
	h := harness(t, []cell.NodeName{cell.NodeName(node)})
	sku := cell.SKU{Name: "GPU", GPU: 1, Device: cell.NVIDIA, DRA: cell.DRA{Class: "comb-conformance", Driver: "gpu.claims.test", Device: "gpu-%d", Attribute: "uuid"}}
	job := &model.Job{Name: "claims", User: "ada", VC: "default", Roles: []model.Role{{Name: "main", Tasks: 1, Launch: model.Launch{MilliCPU: 100, Command: []string{"sleep 1000"}}}}}
	start := func(n int32, gpu int32) model.Fact {
		h.Executor.Do(model.Action{Attempt: model.AttemptID{Job: 1, N: n}, Start: &model.Start{ID: 1, Job: job, Tasks: []model.TaskStart{{SKU: sku, Place: cell.Task{Node: cell.NodeName(node), SKU: "GPU", Devices: []int32{gpu}}}}}})
		return h.Next(h.Patience)
	}
	stop := func(n int32) {
		h.Executor.Do(model.Action{Attempt: model.AttemptID{Job: 1, N: n}, Grace: model.Second})
		if f, ok := h.Next(h.Patience).(model.TaskExited); !ok {
			t.Fatalf("attempt %d was stopped, and %#v came", n, f)
		}
	}
	if f, ok := start(1, 0).(model.TaskStarted); !ok {
		t.Fatalf("gpu-0 is free, and %#v came", f)
	}
	if f, ok := start(2, 0).(model.TaskRefused); !ok || f.Job || !strings.Contains(f.Reason, "cannot allocate all claims") {
		t.Fatalf("another has gpu-0, and %#v came", f)
	}
	if f, ok := start(3, 1).(model.TaskStarted); !ok {
		t.Fatalf("gpu-1 is free, and %#v came", f)
	}
	stop(1)
	if f, ok := start(4, 0).(model.TaskStarted); !ok {
		t.Fatalf("gpu-0 is free again, and %#v came", f)
	}
	stop(3)
	stop(4)
}
