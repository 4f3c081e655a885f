package discover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/config"
	"github.com/combsched/comb/internal/executor/kube/discover"
	"github.com/combsched/comb/internal/policy"
)

// node is one as a cloud or the operator of a device plugin labels it.
func node(name string, gpus int64, labels ...string) corev1.Node {
	n := corev1.Node{}
	n.Name, n.Labels = name, map[string]string{}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("95500m"), corev1.ResourceMemory: resource.MustParse("1000Gi")}
	if gpus > 0 {
		n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	for i := 0; i+1 < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

const (
	product = "nvidia.com/gpu.product"
	rack    = "topology.kubernetes.io/rack"
	zone    = "topology.kubernetes.io/zone"
)

// accepted parses what is proposed: it must be a cluster file without a problem, with all the nodes.
func accepted(t *testing.T, nodes []corev1.Node) (discover.Proposal, *config.Cluster) {
	t.Helper()
	p := discover.Propose(nodes)
	c, _, problems := config.Parse("proposed", []byte(p.File), config.Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		t.Fatalf("the proposal is no cluster file: %v\n%s", problems, p.File)
	}
	if got := config.NodeNames(c.Config); len(got) != p.Seen || p.Seen+len(p.Left) != len(nodes) {
		t.Fatalf("of %d nodes %d are in the file, %d are said to be, %d are left out", len(nodes), len(got), p.Seen, len(p.Left))
	}
	return p, c
}

func TestRacks(t *testing.T) {
	var nodes []corev1.Node
	for i := range 10 { // two racks of 4, and one of 2
		nodes = append(nodes, node(fmt.Sprintf("gpu-%d", i), 8, product, "NVIDIA-A100-SXM4-80GB", zone, "z1", rack, fmt.Sprintf("r%d", i/4)))
	}
	p, _ := accepted(t, nodes)
	for _, want := range []string{
		"A100-SXM4-80GB: {gpu: 1, cpu: 11.9, memory: 128000Mi}",
		"A100-SXM4-80GB-NODE: {childCellType: A100-SXM4-80GB, childCellNumber: 8, isNodeLevel: true}",
		"A100-SXM4-80GB-RACK: {childCellType: A100-SXM4-80GB-NODE, childCellNumber: 4}",
		"A100-SXM4-80GB-RACK-2: {childCellType: A100-SXM4-80GB-NODE, childCellNumber: 2}",
	} {
		if !strings.Contains(p.File, want) {
			t.Errorf("%q is missing in\n%s", want, p.File)
		}
	}
	if !strings.Contains(p.File, "A100-SXM4-80GB-ZONE") {
		t.Error("three racks in a zone are no cell")
	}
	if one, _ := accepted(t, nodes[:4]); strings.Contains(one.File, "ZONE") {
		t.Error("a zone of one rack is a cell of its own")
	}
	if strings.Index(p.File, "gpu-2\n") > strings.Index(p.File, "gpu-3\n") {
		t.Error("nodes are not in the order of their numbers")
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	plane := node("plane", 0)
	plane.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	small := node("small", 0)
	small.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m")
	p, _ := accepted(t, []corev1.Node{plane, small, node("cpu-1", 0), node("123", 2)})
	if len(p.Left) != 2 || !slices.ContainsFunc(p.Left, func(s string) bool { return strings.Contains(s, "control plane") }) {
		t.Errorf("left out: %v", p.Left)
	}
	if !strings.Contains(p.File, `cellAddress: "123"`) || !strings.Contains(p.File, "CPU-NODE") {
		t.Errorf("the file is\n%s", p.File)
	}
}

// Labels that do not nest, that only some have, or that say nothing make no level.
func TestLabelsThatDoNotNest(t *testing.T) {
	for name, labels := range map[string]func(i int) []string{
		"a rack in two zones": func(i int) []string { return []string{zone, fmt.Sprintf("z%d", i%2), rack, fmt.Sprintf("r%d", i/4)} },
		"some have none": func(i int) []string {
			return []string{rack, []string{"", "r1"}[i%2]}
		},
		"each its own": func(i int) []string { return []string{rack, fmt.Sprintf("r%d", i)} },
		"hostile and mixed": func(i int) []string {
			return []string{rack, "r: {x}\n#" + fmt.Sprint(i/2), product, "Weird \"GPU\" \n - x"}
		},
	} {
		var nodes []corev1.Node
		for i := range 8 {
			nodes = append(nodes, node(fmt.Sprintf("n%d", i), int64(1+i%2*7), append(labels(i), product, "T4")...))
		}
		t.Run(name, func(t *testing.T) { accepted(t, nodes) })
	}
}

func TestManyNodes(t *testing.T) {
	var nodes []corev1.Node
	for i := range 5000 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), int64(4+i%7/5*4), product, []string{"NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"}[i%3/2], zone, fmt.Sprintf("z%d", i/2500),
			"topology.kubernetes.io/block", fmt.Sprintf("b%d", i/250), rack, fmt.Sprintf("r%d", i/10), "nvidia.com/gpu.clique", fmt.Sprintf("c%d", i/5)))
	}
	p, _ := accepted(t, nodes)
	if !strings.Contains(p.File, "H100-80GB-HBM3-NVLINK") {
		t.Error("no domains of NVLink")
	}
}
