package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// fault is what keeps leaves of a node from new work while the node itself is up.
type fault struct {
	node    string            // what keeps new work from the whole node; "": nothing
	gpus    string            // why all GPUs are bad
	devices map[int64]string  // why single GPUs are bad, by their index on the node
	claims  map[string]string // the same for claimed devices, by driver and device
	held    string            // which pods of others have GPUs; "": none
	heldBy  map[string]string // which pods of others have claimed devices, as claims
}

// Leaf is a leaf of a node: a number of GPUs with consecutive indices; 0 is a slot of CPUs.
type Leaf struct {
	model.LeafHealth
	GPUs int64
	DRA  cell.DRA // how they are claimed
	// Resource is the name of its device plugin's resource, where the cluster file names one.
	// Which GPU such a device is a part of is not known.
	Resource string
}

// faultOf reads a node's faults from Kubernetes: it is cordoned, tainted, or has GPUs that a
// watcher found broken. What runs there goes on.
func faultOf(n *corev1.Node) (f fault) {
	if n.Spec.Unschedulable {
		f.node = "it is cordoned in Kubernetes, until kubectl uncordon " + n.Name
		return f
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !ownTaint(t.Key) && !pods.Tolerates(t, pods.Offered(n)...) {
			f.node = fmt.Sprintf("it has the taint %s in Kubernetes, which pods of Comb do not tolerate, "+
				"until kubectl taint node %s %s-",
				t.ToString(), n.Name, t.Key)
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

// add notes a condition as NVSentinel sets it. Its type is the name of a check, and its reason is
// that name followed by IsNotHealthy. Its message has a part for each error, ended by ";", most
// of them with the GPU as GPU:0. An error without a GPU counts for all.
func (f *fault) add(c *corev1.NodeCondition) {
	why := clipped(fmt.Sprintf("Kubernetes says %s: %s", c.Type, c.Message))
	for part := range strings.SplitSeq(strings.Trim(c.Message, "; "), ";") {
		named := false
		for _, word := range strings.Fields(part) {
			index, of := strings.CutPrefix(word, "GPU:")
			gpu, err := strconv.ParseUint(index, 10, 16)
			if !of || err != nil {
				continue
			}
			if f.devices == nil {
				f.devices = map[int64]string{}
			}
			named, f.devices[int64(gpu)] = true, why
		}
		if !named {
			f.gpus = why
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

// note says of a leaf whether it is good, and if not, why.
func (f *fault) note(l *Leaf) {
	if l.Reason, l.Cordoned = f.of(l), f.node != ""; l.Reason == "" {
		l.Reason = f.holder(l)
		l.HeldByOthers = l.Reason != ""
	}
	l.Good = l.Reason == ""
}

// holder says which pods of others keep a leaf from new work; "" when none does.
func (f *fault) holder(l *Leaf) string {
	if l.GPUs == 0 {
		return ""
	}
	if f.held != "" {
		return f.held
	}
	first := int64(l.Device) * l.GPUs
	for gpu := first; len(f.heldBy) > 0 && gpu < first+min(l.GPUs, maxGPUs); gpu++ {
		if by := f.heldBy[claimKey(l.DRA, int32(gpu))]; by != "" {
			return by
		}
	}
	return ""
}

// of says why a leaf is bad; "" when it is not.
func (f *fault) of(l *Leaf) string {
	if f.node != "" || l.GPUs == 0 {
		return f.node
	}
	if l.Resource != "" && !slices.Contains(pods.Resources, l.Resource) {
		for _, gpu := range slices.Sorted(maps.Keys(f.devices)) {
			return f.devices[gpu]
		}
		return f.gpus
	}
	first := int64(l.Device) * l.GPUs
	for gpu := first; gpu < first+min(l.GPUs, maxGPUs); gpu++ {
		if why := f.devices[gpu]; why != "" {
			return why
		}
		if why := f.claims[claimKey(l.DRA, int32(gpu))]; why != "" {
			return why
		}
	}
	return f.gpus
}

// networkOf is the device plugin's resource for RDMA network devices, where a task asks for one
// and may have it; "" when it gets none.
func networkOf(e *Executor, t *podTask) (string, error) {
	if !t.start.Job.Roles[t.ts.Role].Launch.InfiniBand || e.o.InfiniBand == nil {
		return "", nil
	}
	may, known := e.o.InfiniBand(t.start.Job.VC)
	switch {
	case !known:
		return "", errors.New("it is not known yet whether its virtual cluster may have InfiniBand")
	case !may:
		return "", nil
	}
	return t.ts.SKU.InfiniBand, nil
}

const maxGPUs = 1 << 10 // of a leaf; more are not looked at

func (f *fault) same(g *fault) bool {
	return f.node == g.node && f.gpus == g.gpus && f.held == g.held &&
		maps.Equal(f.devices, g.devices) && maps.Equal(f.claims, g.claims) &&
		maps.Equal(f.heldBy, g.heldBy)
}

func (f *fault) none() bool {
	return f.node == "" && f.gpus == "" && f.held == "" &&
		len(f.devices) == 0 && len(f.claims) == 0 && len(f.heldBy) == 0
}

// leaves tells which leaves of a node are bad. It tells all leaves when that has changed or was
// never told. Else it repeats the bad ones, since a configuration may have named them only
// meanwhile. h.telling is held.
func (h health) leaves(name string, n *corev1.Node) {
	if h.o.Leaves == nil {
		return
	}
	f := faultOf(n)
	h.mu.Lock()
	s := h.seenOf(name)
	had := s.fault
	f.claims, f.heldBy = s.claims, s.held
	h.mu.Unlock()
	var list []Leaf
	if h.others.onNode(name) {
		list = h.o.Leaves(cell.NodeName(name))
		f.held = h.others.heldBy(name, resourcesOf(list))
	}
	changed := had == nil || !had.same(&f)
	if !changed && f.none() {
		return
	}
	if list == nil {
		list = h.o.Leaves(cell.NodeName(name))
	}
	for i := range list {
		l := list[i]
		if f.note(&l); changed || !l.Good {
			h.o.Tell(l.LeafHealth)
		}
	}
	if len(list) > 0 {
		h.mu.Lock()
		s.fault = &f
		h.mu.Unlock()
	}
}

// resourcesOf are the resources that a cluster file names for leaves.
func resourcesOf(leaves []Leaf) map[string]bool {
	names := map[string]bool{}
	for i := range leaves {
		names[leaves[i].Resource] = true
	}
	return names
}

// LookAtLeaves tells which leaves are bad, once a configuration is known that has them: what was
// seen of nodes earlier named none.
func LookAtLeaves(e *Executor) {
	if e.synced() { // else all nodes are looked at once they are known
		health{e}.leavesAgain()
		e.goes(claims{e}.look)
	}
}

// leavesAgain tells once more which leaves are bad.
func (h health) leavesAgain() {
	h.telling.Lock()
	defer h.telling.Unlock()
	for _, name := range h.nodes.ListKeys() {
		if n := h.node(name); n != nil {
			h.leaves(name, n)
		}
	}
}

// storagesOf returns the storages that a job names, or why it cannot have one.
func (e *Executor) storagesOf(job *model.Job) (list []model.Storage, why string) {
	for _, name := range job.Storages {
		var s model.Storage
		ok := false
		if e.o.Storage != nil {
			s, ok = e.o.Storage(job.VC, name)
		}
		if !ok || s.Claim == "" {
			return nil, fmt.Sprintf("VC %s has no storage %s any more: an administrator adds it to the cluster file again, or submit the job without it", job.VC, name)
		}
		list = append(list, s)
	}
	return list, ""
}

// ownTaint reports whether a taint is one that Kubernetes sets itself, for a state that is told
// otherwise.
func ownTaint(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable || key == corev1.TaintNodeUnschedulable
}

// secretsOf returns the secrets of a task's job, by path.
func (e *Executor) secretsOf(t *podTask) (map[string]string, error) {
	if e.o.Secrets == nil {
		return nil, nil
	}
	known, err := e.o.Secrets(t.at.Job)
	if err != nil {
		return nil, fmt.Errorf("read the secrets of job %d: %w", t.at.Job, err)
	}
	return known, nil
}
