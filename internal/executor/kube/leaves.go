package kube

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/sched"
)

// fault is what keeps GPUs, or CPU slots, of a node from new work while the node itself is up.
type fault struct {
	all     string           // all of them, and why; "" is not all
	devices map[int32]string // single ones by their index
}

// faultOf looks at a node as Kubernetes has it: cordoned, tainted, or with GPUs that a watcher found broken. What runs there goes on.
func faultOf(n *corev1.Node) (f fault) {
	if n == nil {
		return f
	}
	if n.Spec.Unschedulable {
		f.all = "its node is cordoned in Kubernetes, until kubectl uncordon " + n.Name
		return f
	}
	resource := resourceOf(n)
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !ownTaint(t.Key) && !pods.Tolerates(t, resource) {
			f.all = fmt.Sprintf("its node has the taint %s in Kubernetes, which pods of Comb do not tolerate", t.ToString())
			return f
		}
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Status == corev1.ConditionTrue && c.Reason == string(c.Type)+"IsNotHealthy" {
			f.add(c)
		}
	}
	return f
}

// ownTaint reports whether Kubernetes sets a taint itself, for what is told otherwise.
func ownTaint(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable || key == corev1.TaintNodeUnschedulable
}

// gpuNamed is a GPU in the message of a condition of NVSentinel.
var gpuNamed = regexp.MustCompile(`(?:^|[\s;])GPU:([0-9]{1,4})(?:$|[\s;])`)

// add notes a condition as NVSentinel sets them: its type is the name of a check, its reason says IsNotHealthy behind that, and its message
// has a part for each error, ended by ";", most with the GPU as GPU:0. An error that names none is of all.
func (f *fault) add(c *corev1.NodeCondition) {
	why := clipped(fmt.Sprintf("Kubernetes says %s: %s", c.Type, c.Message))
	for part := range strings.SplitSeq(strings.Trim(c.Message, "; "), ";") {
		named := gpuNamed.FindAllStringSubmatch(part, -1)
		if len(named) == 0 {
			f.all = why
			return
		}
		for _, m := range named {
			device, _ := strconv.ParseInt(m[1], 10, 32)
			if f.devices == nil {
				f.devices = map[int32]string{}
			}
			f.devices[int32(device)] = why
		}
	}
}

func clipped(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// of says why a leaf is bad; "" is that it is not.
func (f *fault) of(l *sched.LeafHealth) string {
	if f.all != "" {
		return f.all
	}
	return f.devices[l.Device]
}

func (f *fault) same(g *fault) bool {
	return f.all == g.all && len(f.devices) == len(g.devices) && !slices.ContainsFunc(keys(f.devices), func(d int32) bool { return f.devices[d] != g.devices[d] })
}

func keys(m map[int32]string) (list []int32) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// leaves tells which leaves of a node are bad: all of them when that has changed or was never told, else those that are, once more, since a
// configuration may have named them meanwhile. h.telling is held.
func (h health) leaves(name string, n *corev1.Node) {
	if h.o.Leaves == nil {
		return
	}
	f := faultOf(n)
	h.mu.Lock()
	s := h.seenOf(name)
	had := s.fault
	h.mu.Unlock()
	changed := had == nil || !had.same(&f)
	if !changed && f.all == "" && len(f.devices) == 0 {
		return
	}
	list := h.o.Leaves(cell.NodeName(name))
	for i := range list {
		l := list[i]
		l.Reason = f.of(&l)
		if l.Good = l.Reason == ""; changed || !l.Good {
			h.o.Tell(l)
		}
	}
	if len(list) > 0 {
		h.mu.Lock()
		s.fault = &f
		h.mu.Unlock()
	}
}

// LookAtLeaves tells which leaves are bad, once a configuration is known that has them: what was seen of nodes before named none.
func LookAtLeaves(e *Executor) {
	if e.synced() { // else all nodes are looked at when they are known
		health{e}.leavesAgain()
	}
}

// leavesAgain tells once more which leaves are bad.
func (h health) leavesAgain() {
	h.telling.Lock()
	defer h.telling.Unlock()
	for _, name := range h.nodes.ListKeys() {
		h.leaves(name, h.node(name))
	}
}
