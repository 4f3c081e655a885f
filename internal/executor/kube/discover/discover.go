// Package discover proposes a cluster file for the nodes of a Kubernetes cluster, from what their labels say. An administrator
// reads it, and changes what it cannot know: which team owns what.
package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// level is one way in which nodes sit together, and the labels that may say it, the first that is there.
type level struct {
	name   string // of the type of cells
	labels []string
}

// levels are from the outside in. That of NVLink is of machines that share one, such as racks of 72.
var levels = []level{
	{"ZONE", []string{corev1.LabelTopologyZone}},
	{"BLOCK", []string{"topology.kubernetes.io/block", "cloud.google.com/gce-topology-block", "topology.k8s.aws/network-node-layer-2"}},
	{"RACK", []string{"topology.kubernetes.io/rack", "cloud.google.com/gce-topology-subblock", "topology.k8s.aws/network-node-layer-3"}},
	{"NVLINK", []string{"nvidia.com/gpu.clique"}},
}

// kind is what nodes are that can stand for each other.
type kind struct {
	sku  string
	gpus int64 // of a node; 0 is a node without
	each int64 // leaves of a node
}

// node is one that is proposed.
type node struct {
	name     string
	kind     kind
	milliCPU int64
	memoryMB int64
	where    []string // a value for each level; "" is that no label says it
}

// Proposal is a cluster file, and what was left out of it.
type Proposal struct {
	File string
	Left []string // nodes that are not in it, each with the reason
	Seen int      // nodes that are
}

// Propose writes the cluster file of some nodes. What of their CPUs and memory pods of others have is not known to it.
func Propose(list []corev1.Node) Proposal {
	var p Proposal
	byKind := map[kind][]node{}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b corev1.Node) int { return natural(a.Name, b.Name) })
	for i := range list {
		n, why := read(&list[i])
		if why != "" {
			p.Left = append(p.Left, list[i].Name+": "+why)
			continue
		}
		byKind[n.kind] = append(byKind[n.kind], n)
		p.Seen++
	}
	kinds := slices.SortedFunc(maps.Keys(byKind), func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), strings.Compare(a.sku, b.sku), cmp.Compare(b.each, a.each))
	})
	f := file{types: map[string]string{}, skus: map[string]bool{}}
	for _, k := range kinds {
		f.add(k, byKind[k])
	}
	p.File = f.text()
	return p
}

// read says what a node is, or why it is left out.
func read(n *corev1.Node) (out node, why string) {
	for _, t := range n.Spec.Taints {
		if t.Key == "node-role.kubernetes.io/control-plane" && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return out, "it is for the control plane"
		}
	}
	out = node{name: n.Name, milliCPU: n.Status.Allocatable.Cpu().MilliValue(), memoryMB: n.Status.Allocatable.Memory().Value() >> 20}
	for _, l := range levels {
		out.where = append(out.where, firstLabel(n, l.labels))
	}
	gpus, product := gpusOf(n)
	switch {
	case gpus > 0:
		out.kind = kind{sku: nameOf(product), gpus: gpus, each: gpus}
	case out.milliCPU < 1000:
		return out, fmt.Sprintf("it has no GPU, and less than one CPU (%dm)", out.milliCPU)
	default:
		out.kind = kind{sku: "CPU", each: out.milliCPU / 1000}
	}
	return out, ""
}

// gpusOf is how many GPUs a node has, by its device plugin or else by its labels, and what they are called.
func gpusOf(n *corev1.Node) (count int64, product string) {
	product = cmp.Or(n.Labels["nvidia.com/gpu.product"], n.Labels["amd.com/gpu.product-name"], n.Labels["cloud.google.com/gke-tpu-accelerator"], n.Labels["cloud.google.com/gke-accelerator"])
	for name, kind := range map[corev1.ResourceName]string{"nvidia.com/gpu": "GPU", "amd.com/gpu": "AMD-GPU", "google.com/tpu": "TPU"} {
		if q := n.Status.Allocatable[name]; q.Value() > 0 {
			return q.Value(), cmp.Or(product, kind)
		}
	}
	if _, err := fmt.Sscanf(n.Labels["nvidia.com/gpu.count"], "%d", &count); err == nil && count > 0 && count <= 1024 {
		return count, cmp.Or(product, "GPU")
	}
	return 0, ""
}

func firstLabel(n *corev1.Node, names []string) string {
	for _, name := range names {
		if v := n.Labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// nameOf makes a type's name of what a product is called.
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
	return strings.Trim(name[:min(len(name), 40)], "-")
}

// natural orders names with numbers as people do: node-2 before node-10.
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

// piece is the digits, or the text without any, that a text begins with.
func piece(s string) (head, rest string) {
	i := 1
	for i < len(s) && digits(s[i:i+1]) == digits(s[:1]) {
		i++
	}
	return s[:i], s[i:]
}

func digits(s string) bool { return s[0] >= '0' && s[0] <= '9' }
