// Package discover proposes a cluster file for the nodes of a Kubernetes cluster, from what their
// labels say. An administrator reads it, and changes what it cannot know: which team owns what.
package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube/api"
)

// level is one level of topology, and the labels that may give it; the first label that is there
// counts.
type level struct {
	name   string // of the type of its cells
	labels []string
}

// levels are from the outside in. That of NVLink stands for machines that share one, such as
// racks of 72.
var levels = []level{
	{"ZONE", []string{corev1.LabelTopologyZone}},
	{"BLOCK", []string{"topology.kubernetes.io/block", "cloud.google.com/gce-topology-block", "topology.k8s.aws/network-node-layer-2"}},
	{"RACK", []string{"topology.kubernetes.io/rack", "cloud.google.com/gce-topology-subblock", "topology.k8s.aws/network-node-layer-3"}},
	{"NVLINK", []string{"nvidia.com/gpu.clique"}},
}

// What a cluster file can say of a node.
const (
	maxLeaves = 4096      // of a node
	maxCPUs   = 1_000_000 // of a leaf, so of a node too
	maxMemory = 1 << 50   // bytes of a node: more is no machine
)

// maxName is how much of a product's name becomes part of a type's name, in bytes.
const maxName = 40

// resources are what device plugins offer, with the labels that name the product, and a default
// name. If a node has several, tasks get the first one.
var resources = []struct {
	name     corev1.ResourceName
	products []string
	plain    string
}{
	{"nvidia.com/gpu", []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"}, "GPU"},
	{"amd.com/gpu", []string{"amd.com/gpu.product-name"}, "AMD-GPU"},
	{"google.com/tpu", []string{"cloud.google.com/gke-tpu-accelerator"}, "TPU"},
}

// kind describes nodes that are interchangeable, unless their CPUs or memory differ much.
type kind struct {
	product string // the full name of its product: two products may begin alike
	gpus    int64  // of a node; 0: it has none
	each    int64  // leaves of a node
	given   string // how its GPUs are given, as keys of the file; "" is by a plugin for whole GPUs
}

// node is a node of the proposal.
type node struct {
	name     string
	kind     kind
	milliCPU int64
	memoryMB int64
	where    []string // a value for each level; "": no label gives it
}

// Proposal is a cluster file, and what was left out of it.
type Proposal struct {
	File     string
	LeftOut  []string // nodes that are left out, each with the reason
	Included int      // number of nodes in it
}

// Propose writes the cluster file of some nodes, whose drivers have published some devices, and on
// which some pods are. What pods ask for that each node runs is not a job's; it does not know how
// much other pods use.
func Propose(list []corev1.Node, published []api.Slice, running []api.Other) Proposal {
	var p Proposal
	devices, taken := byNode(published), onEachNode(running)
	byKind := map[kind][]node{}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b corev1.Node) int { return natural(a.Name, b.Name) })
	for i := range list {
		n, why := read(&list[i], devices[list[i].Name], taken[list[i].Name])
		if why != "" {
			p.LeftOut = append(p.LeftOut, list[i].Name+": "+why)
			continue
		}
		byKind[n.kind] = append(byKind[n.kind], n)
		p.Included++
	}
	kinds := slices.SortedFunc(maps.Keys(byKind), func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), strings.Compare(a.product, b.product), cmp.Compare(b.each, a.each), strings.Compare(a.given, b.given))
	})
	f := file{types: map[string]string{}, skus: map[string]bool{}}
	for _, k := range kinds {
		for _, some := range alike(byKind[k], func(n node) int64 { return n.memoryMB }) {
			for _, nodes := range alike(some, func(n node) int64 { return n.milliCPU }) {
				f.add(k, nodes)
			}
		}
	}
	p.File = f.text()
	return p
}

// alike divides nodes into parts, so that in a part none has less than half of what another has.
// The parts with the most come first. A type says the same of all its nodes, so what a node has
// beyond the least of them is unused: this bounds it.
func alike(nodes []node, amount func(node) int64) (parts [][]node) {
	var most []int64 // of each part
	down := slices.SortedFunc(slices.Values(nodes), func(a, b node) int { return cmp.Compare(amount(b), amount(a)) })
	for _, n := range down {
		if len(most) == 0 || amount(n)*2 < most[len(most)-1] {
			most = append(most, amount(n))
		}
	}
	parts = make([][]node, len(most))
	for _, n := range nodes {
		i := len(most) - 1
		for most[i] < amount(n) {
			i--
		}
		parts[i] = append(parts[i], n)
	}
	return parts
}

// amount is of CPUs and memory.
type amount struct{ milliCPU, memoryMB int64 }

// onEachNode adds up, by node, what the pods ask for that each node runs.
func onEachNode(running []api.Other) map[string]amount {
	sums := map[string]amount{}
	for i := range running {
		if o := &running[i]; o.OnEachNode {
			sum := sums[o.Node]
			sums[o.Node] = amount{sum.milliCPU + o.MilliCPU, sum.memoryMB + o.MemoryMB}
		}
	}
	return sums
}

// read says what a node is, or why it is left out. taken is not for jobs.
func read(n *corev1.Node, published []api.Slice, taken amount) (out node, why string) {
	for _, t := range n.Spec.Taints {
		if t.Key == "node-role.kubernetes.io/control-plane" && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return out, "it is for the control plane"
		}
	}
	cpu, memory := n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory()
	switch { // before these become numbers, which could overflow
	case cpu.Sign() <= 0 || memory.Sign() <= 0:
		return out, "its status names no CPU or no memory that pods can have (allocatable): look whether its kubelet runs"
	case cpu.CmpInt64(maxCPUs) > 0:
		return out, fmt.Sprintf("it has more than %d CPUs, which no cluster file can say", maxCPUs)
	case memory.CmpInt64(maxMemory) > 0:
		return out, fmt.Sprintf("it has more than %d bytes of memory, which no machine has", int64(maxMemory))
	}
	out = node{name: n.Name, milliCPU: cpu.MilliValue() - taken.milliCPU, memoryMB: memory.Value()>>20 - taken.memoryMB}
	if out.milliCPU <= 0 || out.memoryMB <= 0 {
		const says = "the pods that it runs as each node does ask for all of its CPUs or memory " +
			"(%dm and %d MiB of %dm and %d MiB)"
		return out, fmt.Sprintf(says, taken.milliCPU, taken.memoryMB, cpu.MilliValue(), memory.Value()>>20)
	}
	for _, l := range levels {
		out.where = append(out.where, firstLabel(n, l.labels))
	}
	gpus, product, given := gpusOf(n, published)
	switch kinds := slices.Sorted(maps.Keys(parts(n))); {
	case gpus > 0:
		out.kind = kind{product: nameOf(product), gpus: gpus, each: gpus, given: given}
	case len(kinds) > 1:
		return out, fmt.Sprintf("its GPUs are divided in %d ways (%s): the leaves of a node in a cluster file are of one type", len(kinds), strings.Join(kinds, ", "))
	case out.milliCPU < 1000:
		return out, fmt.Sprintf("it has no GPU, and less than one CPU (%dm)", out.milliCPU)
	default:
		out.kind = kind{product: "CPU", each: out.milliCPU / 1000}
	}
	switch each := out.kind.each; {
	case gpus > maxLeaves:
		return out, fmt.Sprintf("it has more than %d GPUs, which no node of a cluster file can have", maxLeaves)
	case each > maxLeaves:
		return out, fmt.Sprintf("it has %d CPUs and no GPU: a node of a cluster file has at most %d leaves", each, maxLeaves)
	case out.milliCPU/each < 100: // it would be written as 0, which means no limit
		return out, fmt.Sprintf("it has less than a tenth of a CPU for each GPU (%dm for %d)", out.milliCPU, gpus)
	case out.memoryMB/each < 1:
		return out, fmt.Sprintf("it has less than a MiB of memory for each GPU or CPU (%d MiB for %d)", out.memoryMB, each)
	}
	return out, ""
}

// parts are the parts of GPUs that a node's device plugin offers under names of their own: MIG
// slices, by their size, and time-shared whole ones.
func parts(n *corev1.Node) map[string]int64 {
	list := map[string]int64{}
	for name, q := range n.Status.Allocatable {
		if (name == sharedGPU || strings.HasPrefix(string(name), slicePrefix)) && q.Sign() > 0 {
			list[string(name)] = maxLeaves + 1
			if q.CmpInt64(maxLeaves) <= 0 {
				list[string(name)] = q.Value()
			}
		}
	}
	return list
}

// Resource names of NVIDIA's device plugin for parts of GPUs.
const (
	sharedGPU   = "nvidia.com/gpu.shared"
	slicePrefix = "nvidia.com/mig-"
)

// gpusOf is how many GPUs a node has, and their product: by its device plugin, by the driver that
// claims are given by, or else by its labels. A count beyond what a cluster file can say is
// returned as some larger number. Where a plugin offers parts of GPUs, of one size, the parts are
// counted. A plugin that offers none overrules a label: its GPUs may be broken.
func gpusOf(n *corev1.Node, published []api.Slice) (count int64, product, given string) {
	for _, r := range resources {
		q := n.Status.Allocatable[r.name]
		if q.CmpInt64(maxLeaves) > 0 {
			return maxLeaves + 1, r.plain, ""
		}
		if count := q.Value(); count > 0 {
			return count, cmp.Or(firstLabel(n, r.products), r.plain), ""
		}
	}
	if found := claimedOf(n.Name, published); found.count > 0 {
		return found.count, cmp.Or(firstLabel(n, resources[0].products), found.product, resources[0].plain), ", dra: " + found.text
	}
	if list := parts(n); len(list) == 1 {
		for name, count := range list {
			size := strings.TrimPrefix(name, "nvidia.com/")
			return count, cmp.Or(firstLabel(n, []string{name + ".product"}), firstLabel(n, resources[0].products)+"-"+size), ", resource: " + name
		}
	}
	if _, offered := n.Status.Allocatable[resources[0].name]; offered || len(parts(n)) > 0 {
		return 0, "", ""
	}
	if count, err := strconv.ParseInt(n.Labels["nvidia.com/gpu.count"], 10, 64); err == nil && count > 0 {
		return count, cmp.Or(firstLabel(n, resources[0].products), resources[0].plain), ""
	}
	return 0, "", ""
}

func firstLabel(n *corev1.Node, names []string) string {
	for _, name := range names {
		if v := n.Labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// nameOf makes a type's name from a product's name of any length.
func nameOf(product string) string {
	product = strings.TrimPrefix(strings.TrimPrefix(product, "NVIDIA-"), "nvidia-")
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, product), "-")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "GPU-" + name
	}
	return strings.Trim(name, "-")
}

// natural compares names with numbers as people do: node-2 before node-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, restA := piece(a)
		y, restB := piece(b)
		if x != y {
			if digits(x) && digits(y) {
				return cmp.Or(cmp.Compare(len(strings.TrimLeft(x, "0")), len(strings.TrimLeft(y, "0"))), strings.Compare(strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")), strings.Compare(x, y))
			}
			return strings.Compare(x, y)
		}
		a, b = restA, restB
	}
	return strings.Compare(a, b)
}

// piece is the digits, or the text without digits, at the beginning of a text.
func piece(s string) (head, rest string) {
	i := 1
	for i < len(s) && digits(s[i:i+1]) == digits(s[:1]) {
		i++
	}
	return s[:i], s[i:]
}

func digits(s string) bool { return s[0] >= '0' && s[0] <= '9' }
