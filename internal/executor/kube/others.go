package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// podsOfOthers are the pods of the whole cluster that are not of this Comb: on a node, and not
// ended. A node on which one has GPUs gets no new work. What a pod asks for is taken from it once
// it has a node, whether or not its kubelet has taken it: that cannot be told in time. It asks
// nothing of the rest of this package but by the functions that it is given.
type podsOfOthers struct {
	label, cluster string // the label by which this Comb knows its own, and its value
	log            *slog.Logger
	ours           func(space, name string) bool // it is a task's, whatever its label says
	look           func(node string)             // what others have of a node has changed
	synced         func() bool
	asked          atomic.Pointer[error] // how the last request for them went
	begun          atomic.Bool           // they were seen once, or refused

	mu    sync.Mutex // ours is called with it held, look is not
	pods  map[otherKey]api.Other
	nodes map[string]*nodeOfOthers // by name, only such as have pods, or had some just before
}

// otherKey is a pod of others. Those that pretend to be this Comb's are looked for by themselves.
type otherKey struct {
	forged bool
	key    string
}

// nodeOfOthers is what pods of others have of a node.
type nodeOfOthers struct {
	pods    int
	devices map[otherKey]bool // the pods that ask a device plugin for something
	each    amount            // of pods that each node of its kind has
	rest    amount            // of all other pods
	told    time.Time         // when it was looked at last
	again   *time.Timer       // the next time
}

// amount is what pods ask for.
type amount struct{ milliCPU, memoryMB int64 }

func (a *amount) add(o *api.Other, sign int64) {
	a.milliCPU += sign * o.MilliCPU
	a.memoryMB += sign * o.MemoryMB
}

// watch watches them with a client. It returns what does so until a context ends.
func (o *podsOfOthers) watch(c *api.Client) (run func(context.Context)) {
	o.pods, o.nodes = map[otherKey]api.Other{}, map[string]*nodeOfOthers{}
	run, o.synced = c.WatchOthers(o.label, o.cluster, o, o.requestDone)
	return run
}

const blindToOthers = "pods of others cannot be seen: jobs may be placed on GPUs that such pods hold, " +
	"and are then refused there; " +
	"give Comb the right to list and watch pods of all namespaces (deploy/kubernetes/rights.yaml)"

// requestDone notes how a request for the pods of others went, and logs when Comb loses or regains
// the right to see them.
func (o *podsOfOthers) requestDone(err error) {
	before := o.refused()
	o.asked.Store(&err)
	switch now := o.refused(); {
	case now != "" && before == "":
		o.log.Warn(blindToOthers, "error", now)
	case err == nil && before != "":
		o.log.Info("pods of others can be seen again")
	}
}

// refused is why the API server does not show them; "" when it does, or is away.
func (o *podsOfOthers) refused() string {
	err := o.asked.Load()
	if err == nil || *err == nil || !api.NeverAccepts(*err) {
		return ""
	}
	return api.ErrorText(*err)
}

// seen reports whether they are known, or may not be seen by Comb: then nothing waits for them.
func (o *podsOfOthers) seen() bool {
	if !o.begun.Load() && (o.synced() || o.refused() != "") {
		o.begun.Store(true)
	}
	return o.begun.Load()
}

// All implements api.Others.
func (o *podsOfOthers) All(list []api.Other) { o.replace(false, list) }

// replace takes all pods of one kind.
func (o *podsOfOthers) replace(forged bool, list []api.Other) {
	all := make(map[otherKey]bool, len(list))
	for i := range list {
		all[otherKey{forged, list[i].Key()}] = true
	}
	nodes := map[string]bool{}
	o.mu.Lock()
	for key := range o.pods { // in any order
		if key.forged == forged && !all[key] {
			o.put(key, nil, nodes)
		}
	}
	for i := range list {
		o.put(otherKey{forged, list[i].Key()}, &list[i], nodes)
	}
	o.mu.Unlock()
	o.changed(nodes)
}

// Changed implements api.Others.
func (o *podsOfOthers) Changed(pod api.Other) { o.set(pod.Key(), &pod) }

// Gone implements api.Others.
func (o *podsOfOthers) Gone(key string) { o.set(key, nil) }

func (o *podsOfOthers) set(key string, pod *api.Other) {
	nodes := map[string]bool{}
	o.mu.Lock()
	o.put(otherKey{key: key}, pod, nodes)
	o.mu.Unlock()
	o.changed(nodes)
}

// put takes a pod in the place of what was known of it; nil is none. It adds the nodes of which
// others have other devices now. o.mu is held.
func (o *podsOfOthers) put(key otherKey, pod *api.Other, nodes map[string]bool) {
	had, known := o.pods[key]
	if known && pod != nil && same(&had, pod) {
		return // most that is told of a pod changes nothing here
	}
	if known {
		o.count(key, &had, -1, nodes)
		delete(o.pods, key)
	}
	if pod != nil && pod.Node != "" {
		o.pods[key] = *pod
		o.count(key, pod, 1, nodes)
	}
}

func same(a, b *api.Other) bool {
	return a.Node == b.Node && a.Ending == b.Ending && maps.Equal(a.Devices, b.Devices) &&
		a.MilliCPU == b.MilliCPU && a.MemoryMB == b.MemoryMB
}

// count adds a pod to its node, or takes it off. o.mu is held.
func (o *podsOfOthers) count(key otherKey, pod *api.Other, sign int64, nodes map[string]bool) {
	n := o.nodes[pod.Node]
	if n == nil {
		n = &nodeOfOthers{devices: map[otherKey]bool{}}
		o.nodes[pod.Node] = n
	}
	n.pods += int(sign)
	if pod.OnEachNode {
		n.each.add(pod, sign)
	} else {
		n.rest.add(pod, sign)
	}
	if len(pod.Devices) == 0 {
		return
	}
	nodes[pod.Node] = true
	if sign > 0 {
		n.devices[key] = true
	} else {
		delete(n.devices, key)
	}
}

// lookPause is the shortest time between two looks at a node: pods may come and go faster than is
// worth a line in the journal.
const lookPause = time.Second

// changed has nodes looked at of which others have taken or given back devices, at once where that
// was not done just before.
func (o *podsOfOthers) changed(nodes map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if o.due(name) {
			o.look(name)
		}
	}
}

// due reports whether a node is to be looked at now, and sees to it that it is later if not.
func (o *podsOfOthers) due(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[name]
	if n == nil {
		return true // nothing of others is there any more
	}
	wait := lookPause - time.Since(n.told)
	switch {
	case n.again != nil:
		return false
	case wait > 0:
		n.again = time.AfterFunc(wait, func() { o.late(name) })
		return false
	}
	n.told = time.Now()
	return true
}

// drop forgets nodes on which nothing of others is any more.
func (o *podsOfOthers) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.nodes, func(_ string, n *nodeOfOthers) bool {
		return n.pods == 0 && n.again == nil && time.Since(n.told) > lookPause
	})
}

// late looks at a node at which was not looked before, since that had just been done.
func (o *podsOfOthers) late(name string) {
	o.mu.Lock()
	if n := o.nodes[name]; n != nil {
		n.again, n.told = nil, time.Now()
	}
	o.mu.Unlock()
	o.look(name)
}

// onNode reports whether pods of others have devices of a node.
func (o *podsOfOthers) onNode(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[node]
	return n != nil && len(n.devices) > 0
}

// few is how many pods are named that hold GPUs of a node.
const few = 3

// holder is a pod with devices of a node.
type holder struct {
	name    string
	devices int64
	parts   bool // some are no whole GPUs
}

// heldBy says which pods of others have devices of a node of the kinds of its leaves, such as "8
// GPUs held by tenant/thief"; "" when none has. resources are names of devices beside those by
// which GPUs are usually offered.
func (o *podsOfOthers) heldBy(node string, resources map[string]bool) string {
	list := o.holders(node, resources)
	if len(list) == 0 {
		return ""
	}
	var total int64
	var names []string
	what := "GPUs"
	for i, h := range list {
		if total += h.devices; i < few {
			names = append(names, h.name)
		}
		if h.parts {
			what = "devices"
		}
	}
	if total == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	text := fmt.Sprintf("%d %s held by %s", total, what, strings.Join(names, ", "))
	if more := len(list) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// holders are the pods of others with devices of a node, those with the most first.
func (o *podsOfOthers) holders(node string, resources map[string]bool) (list []holder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, seen := o.nodes[node], map[string]bool{}
	if n == nil {
		return nil
	}
	for key := range n.devices { // in any order: they are sorted below
		pod, h := o.pods[key], holder{}
		for resource, count := range pod.Devices {
			whole := slices.Contains(pods.Resources, resource)
			if whole || isPart(resource) || resources[resource] {
				h.devices += count
				h.parts = h.parts || !whole
			}
		}
		if h.devices == 0 || seen[key.key] || o.ours(pod.Namespace, pod.Name) {
			continue
		}
		seen[key.key] = true
		if h.name = shortened(key.key); pod.Ending {
			h.name += " (which is ending)"
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b holder) int {
		return cmp.Or(cmp.Compare(b.devices, a.devices), strings.Compare(a.name, b.name))
	})
	return list
}

// shortened bounds the name of a pod, which a tenant chose.
func shortened(name string) string {
	const most = 90
	if len(name) <= most {
		return name
	}
	return name[:most] + "..."
}

// isPart reports whether a resource is parts of GPUs, by the name that their maker's device plugin
// gives them.
func isPart(resource string) bool {
	if strings.HasPrefix(resource, "nvidia.com/mig-") {
		return true
	}
	return slices.ContainsFunc(pods.Resources, func(whole string) bool {
		return strings.HasPrefix(resource, whole+".")
	})
}

// setForged takes the pods that have the label of this Comb and are not its own: the watch leaves
// them out.
func (o *podsOfOthers) setForged(list []api.Other) {
	o.drop()
	o.replace(true, list)
}

// eachNode is what the pods ask for that each node of a kind has.
func (o *podsOfOthers) eachNode(node string) amount {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.nodes[node]; n != nil {
		return n.each
	}
	return amount{}
}

// ask reports whether pods of others ask for CPUs or memory of a node, besides those that each node
// of its kind has.
func (o *podsOfOthers) ask(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[node]
	return n != nil && n.rest != amount{}
}
