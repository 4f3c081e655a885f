package discover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/discover"
	"github.com/combsched/comb/internal/spec/config"
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

// accepted parses what is proposed: it must be a cluster file without a problem, with all the
// nodes.
func accepted(t *testing.T, nodes []corev1.Node, published ...api.Slice) (discover.Proposal, *config.Cluster) {
	t.Helper()
	p := discover.Propose(nodes, published, nil)
	c, _, problems := config.Parse("proposed", []byte(p.File), config.Policies{Names: policy.Names(), New: policy.New})
	if len(problems) > 0 {
		t.Fatalf("the proposal is no cluster file: %v\n%s", problems, p.File)
	}
	if got := config.NodeNames(c.Config); len(got) != p.Included || p.Included+len(p.LeftOut) != len(nodes) {
		t.Fatalf("of %d nodes %d are in the file, %d are said to be, %d are left out", len(nodes), len(got), p.Included, len(p.LeftOut))
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

// Parts of GPUs that have a name of their own are leaves, where a node has one kind of them.
func TestParts(t *testing.T) {
	divided := func(name string, parts ...string) corev1.Node {
		n := node(name, 0, product, "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-2g.10gb.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb")
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
		for _, part := range parts {
			n.Status.Allocatable[corev1.ResourceName(part)] = resource.MustParse("6")
		}
		return n
	}
	labelled := divided("labelled", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb")
	labelled.Labels["nvidia.com/gpu.count"] = "8"
	delete(labelled.Status.Allocatable, "nvidia.com/gpu")
	p, _ := accepted(t, []corev1.Node{divided("slices", "nvidia.com/mig-2g.10gb"), divided("turns", "nvidia.com/gpu.shared"), labelled, divided("both", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"), divided("none")})
	for _, want := range []string{
		"A100-SXM4-40GB-MIG-2g-10gb: {gpu: 1, cpu: 15.9, memory: 170666Mi, resource: nvidia.com/mig-2g.10gb}",
		"A100-SXM4-40GB-gpu-shared: {gpu: 1, cpu: 15.9, memory: 170666Mi, resource: nvidia.com/gpu.shared}",
		"CPU-NODE",
	} {
		if !strings.Contains(p.File, want) {
			t.Errorf("%q is missing in\n%s", want, p.File)
		}
	}
	if len(p.LeftOut) != 2 || !strings.HasPrefix(p.LeftOut[0], "both: its GPUs are divided in 2 ways (nvidia.com/mig-1g.5gb, nvidia.com/mig-2g.10gb)") {
		t.Errorf("left out: %v", p.LeftOut)
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	plane := node("plane", 0)
	plane.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	small := node("small", 0)
	small.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m")
	p, _ := accepted(t, []corev1.Node{plane, small, node("cpu-1", 0), node("123", 2)})
	if len(p.LeftOut) != 2 || !slices.ContainsFunc(p.LeftOut, func(s string) bool { return strings.Contains(s, "control plane") }) {
		t.Errorf("left out: %v", p.LeftOut)
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

// has changes what a node offers to pods; "" takes it away.
func has(n corev1.Node, what corev1.ResourceName, amount string) corev1.Node {
	n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
	delete(n.Status.Allocatable, what)
	if amount != "" {
		n.Status.Allocatable[what] = resource.MustParse(amount)
	}
	return n
}

// wants looks for lines in the file that is proposed.
func wants(t *testing.T, p discover.Proposal, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(p.File, "    "+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, p.File)
		}
	}
}

// A node with devices of two makers is proposed with those that its tasks get, each time.
func TestTwoMakers(t *testing.T) {
	both := has(node("both", 4, product, "NVIDIA-L4", "amd.com/gpu.product-name", "MI300X"), "amd.com/gpu", "8")
	amd := has(node("amd", 0, product, "NVIDIA-L4", "amd.com/gpu.product-name", "MI300X"), "amd.com/gpu", "8")
	for range 50 {
		p, _ := accepted(t, []corev1.Node{both, amd})
		wants(t, p, "L4-NODE: {childCellType: L4, childCellNumber: 4, isNodeLevel: true}",
			"MI300X-NODE: {childCellType: MI300X, childCellNumber: 8, isNodeLevel: true}")
	}
}

// What no cluster file can say is left out, each node with its own reason, and what it just can is
// not.
func TestBounds(t *testing.T) {
	cpus := func(n corev1.Node, amount string) corev1.Node { return has(n, corev1.ResourceCPU, amount) }
	none := node("none", 0, "nvidia.com/gpu.count", "8")
	none.Status.Allocatable = nil
	for _, c := range []struct {
		node corev1.Node
		why  string // "" is that it is in the file
	}{
		{node("n", config.MaxNodeLeaves), "a tenth of a CPU"},
		{cpus(node("n", config.MaxNodeLeaves), "410"), ""},
		{cpus(node("n", config.MaxNodeLeaves+1), "5000"), "more than 4096 GPUs"},
		{has(node("n", 0), "nvidia.com/gpu", "1e30"), "more than 4096 GPUs"},
		{node("n", 0, "nvidia.com/gpu.count", "5000"), "more than 4096 GPUs"},
		{cpus(node("n", 1), "1000000"), ""},
		{cpus(node("n", 1), "1000001"), "more than 1000000 CPUs"},
		{cpus(node("n", 1), "1e30"), "more than 1000000 CPUs"},
		{cpus(node("n", 0), "4096"), ""},
		{cpus(node("n", 0), "4097"), "at most 4096 leaves"},
		{has(node("n", 1), corev1.ResourceMemory, "1e30"), "bytes of memory"},
		{has(node("n", 8), corev1.ResourceMemory, "8Mi"), ""},
		{has(node("n", 8), corev1.ResourceMemory, "7Mi"), "a MiB of memory"},
		{none, "allocatable"},
		{cpus(node("n", 8), ""), "allocatable"},
		{cpus(node("n", 8), "-1e30"), "allocatable"},
		{has(node("n", 8), corev1.ResourceMemory, ""), "allocatable"},
		{cpus(node("n", 8), "799m"), "a tenth of a CPU"},
		{cpus(node("n", 8), "800m"), ""},
	} {
		p, _ := accepted(t, []corev1.Node{c.node, node("other", 2)})
		if c.why == "" && len(p.LeftOut) > 0 || c.why != "" && (len(p.LeftOut) != 1 || !strings.Contains(p.LeftOut[0], c.why)) {
			t.Errorf("%v: left out are %q, expected %q", c.node.Status.Allocatable, p.LeftOut, c.why)
		}
	}
}

// Products may be called as types of cells are, in whichever order they come.
func TestProductsNamedLikeTypes(t *testing.T) {
	for _, names := range [][]string{{"X", "X-NODE"}, {"X-NODE", "X"}, {"X-NODE-2", "X-NODE", "X"}, {"X-RACK", "X"}, {"X", "X-RACK"}, {"X", "X-2", "X-2-NODE"}, {"CPU", "CPU-NODE"}} {
		var nodes []corev1.Node
		for i, name := range names {
			for j := range 4 { // the first has the most GPUs, so it comes first
				nodes = append(nodes, node(fmt.Sprintf("n%d-%d", i, j), int64(8-i), product, name, rack, fmt.Sprintf("r%d", j/2)))
			}
		}
		nodes = append(nodes, node("more", 1, product, names[0]), node("cpu", 0))
		if p, c := accepted(t, nodes); c != nil && !strings.Contains(p.File, "\n    "+names[0]+": {gpu: 1") {
			t.Errorf("the first of %v has another name in\n%s", names, p.File)
		}
	}
}

func TestProductsThatBeginAlike(t *testing.T) {
	long := strings.Repeat("Long-", 8) // as much as a type is called by
	p, _ := accepted(t, []corev1.Node{node("a", 8, product, long+"80GB"), node("b", 8, product, long+"40GB"), node("c", 8, product, long+"80GB")})
	name := strings.Trim(long, "-")
	wants(t, p, name+": {gpu: 1, cpu: 11.9, memory: 128000Mi} # "+long+"40GB, 8 in a node", name+"-2: {gpu: 1, cpu: 11.9, memory: 128000Mi} # "+long+"80GB, 8 in a node",
		"- {cellType: "+name+"-2-NODE, cellNumber: 2}", "- {cellType: "+name+"-NODE, cellNumber: 1}")
}

// A type says the least of its nodes, so those with less than half of what others have are of a
// type of their own.
func TestNodesFarApart(t *testing.T) {
	sized := func(name string, gpus int64, cpu, memory string) corev1.Node {
		return has(has(node(name, gpus, product, "T4"), corev1.ResourceCPU, cpu), corev1.ResourceMemory, memory)
	}
	p, _ := accepted(t, []corev1.Node{sized("a", 4, "40", "400Gi"), sized("b", 4, "20", "200Gi"), sized("c", 4, "40", "199Gi"), sized("d", 4, "19", "400Gi")})
	wants(t, p, "T4: {gpu: 1, cpu: 5.0, memory: 51200Mi}", "T4-2: {gpu: 1, cpu: 4.7, memory: 102400Mi} # T4, 4 in a node",
		"T4-3: {gpu: 1, cpu: 10.0, memory: 50944Mi} # T4, 4 in a node", "- {cellType: T4-NODE, cellNumber: 2}")
	p, _ = accepted(t, []corev1.Node{sized("a", 0, "40", "400Gi"), sized("b", 0, "40", "100Gi"), sized("c", 0, "40", "300Gi")})
	wants(t, p, "CPU: {cpu: 1.0, memory: 7680Mi}", "CPU-2: {cpu: 1.0, memory: 2560Mi} # CPU, 40 in a node")
}

// The label counts where no device plugin speaks, not against one that offers none.
func TestPluginAgainstLabel(t *testing.T) {
	labels := []string{product, "T4", "nvidia.com/gpu.count", "8"}
	p, _ := accepted(t, []corev1.Node{node("a", 0, labels...)})
	wants(t, p, "T4-NODE: {childCellType: T4, childCellNumber: 8, isNodeLevel: true}")
	p, _ = accepted(t, []corev1.Node{has(node("a", 0, labels...), "nvidia.com/gpu", "0")})
	wants(t, p, "CPU-NODE: {childCellType: CPU, childCellNumber: 95, isNodeLevel: true}")
	if strings.Contains(p.File, "T4") {
		t.Errorf("GPUs that the device plugin does not offer are in\n%s", p.File)
	}
}

// published are devices of a node as a driver names them, each with its own id.
func published(node, driver, attribute string, names ...string) api.Slice {
	s := api.Slice{Spec: api.SliceSpec{Driver: driver, NodeName: node, Pool: api.Pool{Name: node}}}
	for _, name := range names {
		id, product := "id-"+name, "Example GPU"
		s.Spec.Devices = append(s.Spec.Devices, api.Device{Name: name, Attributes: map[string]api.Value{attribute: {String: &id}, "productName": {String: &product}}})
	}
	return s
}

// GPUs that a driver gives to claims are proposed so, but for those that a device plugin gives, and
// what has no names that count.
func TestClaimedGPUs(t *testing.T) {
	p, c := accepted(t, []corev1.Node{node("a", 0), node("b", 4, product, "T4"), node("c", 0, product, "L4", "nvidia.com/gpu.count", "2"), node("d", 0), node("e", 0)},
		published("a", "gpu.nvidia.com", "uuid", "gpu-1", "gpu-0"), published("a", "dra.net", "uuid", "gpu-0"), published("b", "gpu.nvidia.com", "uuid", "gpu-0"),
		published("c", "gpu.example.com", "example.com/serial", "0-card", "1-card"), published("d", "gpu.nvidia.com", "uuid", "gpu-0", "gpu-0-mig-1"), published("e", "gpu.nvidia.com", "uuid", "gpu-1", "gpu-2"))
	wants(t, p, "Example-GPU: {gpu: 1, cpu: 47.7, memory: 512000Mi, dra: {deviceClass: gpu.nvidia.com}}", "T4: {gpu: 1, cpu: 23.8, memory: 256000Mi}",
		`L4: {gpu: 1, cpu: 47.7, memory: 512000Mi, dra: {deviceClass: gpu.example.com, device: "%d-card", attribute: "example.com/serial"}}`, "CPU-NODE: {childCellType: CPU, childCellNumber: 95, isNodeLevel: true}")
	for _, s := range c.Config.Cluster.SKUs {
		if s.Name == "L4" && s.DRA != (cell.DRA{Class: "gpu.example.com", Driver: "gpu.example.com", Device: "%d-card", Attribute: "example.com/serial"}) {
			t.Errorf("L4 is claimed by %+v", s.DRA)
		}
	}
}

// TestPodsOfEachNode: what pods ask for that each node runs is not for jobs. A type says the least
// that its nodes have left.
func TestPodsOfEachNode(t *testing.T) {
	nodes := []corev1.Node{node("a", 8, product, "T4"), node("b", 8, product, "T4"), node("c", 8, product, "L4")}
	running := []api.Other{{Node: "a", MilliCPU: 3500, MemoryMB: 24 << 10, OnEachNode: true},
		{Node: "a", MilliCPU: 4000, OnEachNode: true},
		{Node: "b", MilliCPU: 3500, MemoryMB: 24 << 10, OnEachNode: true},
		{Node: "b", MilliCPU: 64000, MemoryMB: 512 << 10},
		{Node: "c", MilliCPU: 95500, MemoryMB: 1, OnEachNode: true}}
	p := discover.Propose(nodes, nil, running)
	wants(t, p, "T4: {gpu: 1, cpu: 11.0, memory: 124928Mi}")
	want := "c: the pods that it runs as each node does ask for all of its CPUs or memory " +
		"(95500m and 1 MiB of 95500m and 1024000 MiB)"
	if !slices.Equal(p.LeftOut, []string{want}) {
		t.Errorf("left out are %q, want %q", p.LeftOut, want)
	}
}
