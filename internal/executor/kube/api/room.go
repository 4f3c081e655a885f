package api

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/combsched/comb/internal/core/cell"
)

// Room is what the leaves of a node have together by the cluster file.
type Room struct {
	Node               cell.NodeName
	MilliCPU, MemoryMB int64
}

// Lacks says how much less a node has for jobs, in words, where pods that each node runs ask for so
// much of it; "": it has enough.
func (r *Room) Lacks(n *corev1.Node, milliCPU, memoryMB int64) string {
	cpu := n.Status.Allocatable.Cpu().MilliValue() - milliCPU
	memory := n.Status.Allocatable.Memory().Value()>>20 - memoryMB
	var lacks []string
	if r.MilliCPU > cpu {
		lacks = append(lacks, fmt.Sprintf("%s CPUs of %s", cores(cpu), cores(r.MilliCPU)))
	}
	if r.MemoryMB > memory {
		lacks = append(lacks, fmt.Sprintf("%d MiB of memory of %d MiB", memory, r.MemoryMB))
	}
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s)", r.Node, strings.Join(lacks, " and "))
}

// cores writes thousandths of a core as cores.
func cores(milli int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0"), ".")
}

// LessRoom says in one sentence which nodes have less for jobs than the cluster file says, and what
// to do; short has the words of Lacks for each of them, and is not empty.
func LessRoom(short []string) string {
	return "nodes have less for jobs than " + lessThanFile(short) + "; " + lessRoomNext
}

func lessThanFile(short []string) string {
	return "the cluster file says, since pods of DaemonSets ask for the rest: " + FirstFew(short)
}

const lessRoomNext = "lower cpu and memory in skuTypes, else jobs that ask for all of such a node are refused there"

// checkRooms looks whether the nodes of a cluster file are there, and have for jobs what it says.
func (c checker) checkRooms(ctx context.Context, rooms []Room) (list Checks, err error) {
	if len(rooms) == 0 {
		return nil, nil
	}
	nodes, err := c.Nodes(ctx)
	if apierrors.IsForbidden(err) {
		return nil, nil // the right is named
	}
	if err != nil {
		return nil, err
	}
	running, err := c.Others(ctx, "", "")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	there, taken := map[string]*corev1.Node{}, map[string][2]int64{}
	for i := range nodes {
		there[nodes[i].Name] = &nodes[i]
	}
	for i := range running {
		if p := &running[i]; p.OnEachNode {
			t := taken[p.Node]
			taken[p.Node] = [2]int64{t[0] + p.MilliCPU, t[1] + p.MemoryMB}
		}
	}
	var missing, short []string
	for i := range rooms {
		r := &rooms[i]
		n, t := there[string(r.Node)], taken[string(r.Node)]
		if n == nil {
			missing = append(missing, string(r.Node))
		} else if why := r.Lacks(n, t[0], t[1]); why != "" {
			short = append(short, why)
		}
	}
	if len(missing) > 0 {
		list = append(list, Check{Kind: "nodes", Name: "of the cluster file",
			Problem: "the Kubernetes cluster has none named " + FirstFew(missing),
			Next:    "take them out of the file, or let them join"})
	}
	if len(short) > 0 {
		list = append(list, Check{Kind: "nodes", Name: "with less room", Optional: true,
			Problem: "for jobs they have less than " + lessThanFile(short),
			Next:    lessRoomNext})
	}
	return list, nil
}
