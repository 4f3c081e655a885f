package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// podsOfOthers are the pods of the whole cluster that are not of this Comb: on a node, and not
// ended. A node on which one has GPUs gets no new work. What a pod asks for is taken from it once
// it has a node, whether or not its kubelet has taken it: that cannot be told in time.
type podsOfOthers struct {
	e      *Executor
	synced func() bool
	asked  atomic.Value // an answer: how the last request for them went
	begun  atomic.Bool  // they were seen once, or refused

	mu    sync.Mutex // taken after Executor.telling and before Executor.mu
	pods  map[otherKey]api.Other
	nodes map[string]*nodeOfOthers // by name, only such as have pods
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
	told    time.Time         // when it was last told who has GPUs
	again   *time.Timer       // the next time
}

// amount is what pods ask for.
type amount struct{ milliCPU, memoryMB int64 }

func (a *amount) add(o *api.Other, sign int64) {
	a.milliCPU += sign * o.MilliCPU
	a.memoryMB += sign * o.MemoryMB
}

// watchOthers begins to watch the pods of others.
func (e *Executor) watchOthers() {
	o := &podsOfOthers{e: e, pods: map[otherKey]api.Other{}, nodes: map[string]*nodeOfOthers{}}
	run, synced := e.o.API.WatchOthers(pods.ClusterLabel, e.maker.Short(), o, o.requestDone)
	o.synced, e.others = synced, o
	e.goes(func() { run(e.ctx) })
}

// requestDone notes how a request for the pods of others went, and logs when Comb loses or regains
// the right to see them.
func (o *podsOfOthers) requestDone(err error) {
	before := o.refused()
	o.asked.Store(answer{err})
	switch now := o.refused(); {
	case now != "" && before == "":
		o.e.o.Log.Warn("pods of others cannot be seen: jobs may be placed on GPUs that such pods hold, and are then refused there; give Comb the right to list and watch pods of all namespaces (deploy/kubernetes/rights.yaml)", "error", now)
	case err == nil && before != "":
		o.e.o.Log.Info("pods of others can be seen again")
	}
}

// refused is why the API server does not show them; "" when it does, or is away.
func (o *podsOfOthers) refused() string {
	a, _ := o.asked.Load().(answer)
	if a.err == nil || !api.NeverAccepts(a.err) {
		return ""
	}
	return api.ErrorText(a.err)
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
	o.tell(nodes)
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
	o.tell(nodes)
}

// put takes a pod in the place of what was known of it; nil is none. It adds the nodes of which
// others have other devices now. o.mu is held.
func (o *podsOfOthers) put(key otherKey, pod *api.Other, nodes map[string]bool) {
	had, known := o.pods[key]
	if known && pod != nil && had.Node == pod.Node && had.Ending == pod.Ending && maps.Equal(had.Devices, pod.Devices) &&
		had.MilliCPU == pod.MilliCPU && had.MemoryMB == pod.MemoryMB {
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

// tellPause is the shortest time between two times that it is told who has GPUs of a node: pods
// may come and go faster than is worth a line in the journal.
const tellPause = time.Second

// tell looks at nodes anew whose devices others have taken or given back, at once where that was
// not done just before. Of a node that is not in the cluster nothing is kept.
func (o *podsOfOthers) tell(nodes map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if o.due(name) && o.e.node(name) != nil {
			health{o.e}.changed(name)
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
	wait := tellPause - time.Since(n.told)
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
		return n.pods == 0 && n.again == nil && time.Since(n.told) > tellPause
	})
}

// late looks at a node that was not looked at before, since it had just been.
func (o *podsOfOthers) late(name string) {
	o.mu.Lock()
	if n := o.nodes[name]; n != nil {
		n.again, n.told = nil, time.Now()
	}
	o.mu.Unlock()
	if o.e.ctx.Err() == nil && o.e.node(name) != nil {
		health{o.e}.changed(name)
	}
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

// heldBy says which pods of others have devices of a node of the kinds of its leaves, such as "8
// GPUs held by tenant/thief"; "" when none has. resources are names of devices beside those by
// which GPUs are usually offered.
func (o *podsOfOthers) heldBy(node string, resources map[string]bool) string {
	type holder struct {
		name string
		n    int64
	}
	var list []holder
	what := "GPUs"
	o.mu.Lock()
	seen := map[string]bool{}
	if n := o.nodes[node]; n != nil {
		for key := range n.devices { // in any order: they are sorted below
			pod := o.pods[key]
			h := holder{name: key.key}
			for resource, count := range pod.Devices {
				switch {
				case slices.Contains(pods.Resources, resource):
					h.n += count
				case isPart(resource) || resources[resource]:
					h.n += count
					what = "devices"
				}
			}
			if h.n > 0 && !seen[h.name] && !o.ours(pod.Namespace, pod.Name) {
				seen[h.name] = true
				h.name = shortened(h.name)
				if pod.Ending {
					h.name += " (which is ending)"
				}
				list = append(list, h)
			}
		}
	}
	o.mu.Unlock()
	if len(list) == 0 {
		return ""
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var total int64
	var names []string
	for i, h := range list {
		if total += h.n; i < few {
			names = append(names, h.name)
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
	return slices.ContainsFunc(pods.Resources, func(whole string) bool { return strings.HasPrefix(resource, whole+".") })
}

// ours reports whether a pod is a task's: its label may have been taken off.
func (o *podsOfOthers) ours(space, name string) bool {
	if _, _, ok := o.e.maker.Parse(name); !ok {
		return false
	}
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	t := o.e.tasks[name]
	return t != nil && t.space == space || o.e.tasks[strayKey(space, name)] != nil
}

// lookForForged looks for pods that have the label of this Comb, and are not its own: the watch
// leaves them out. It is done now and then: until it is, what such a pod has is refused to jobs by
// kube-scheduler or by the node.
func (o *podsOfOthers) lookForForged() {
	o.drop()
	var list []api.Other
	var spaces []string
	for _, sp := range o.e.spaces.all() {
		spaces = append(spaces, sp.name)
		for _, key := range sp.pods.ListKeys() {
			pod := sp.pod(baseOf(key))
			if pod != nil && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
				pod.Labels[pods.ClusterLabel] == o.e.maker.Short() && !o.ours(pod.Namespace, pod.Name) && !o.e.maker.Sealed(pod) {
				list = append(list, api.OtherOf(pod))
			}
		}
	}
	ctx, cancel := context.WithTimeout(o.e.ctx, 20*time.Second)
	defer cancel()
	elsewhere, err := o.e.o.API.Labelled(ctx, pods.ClusterLabel, o.e.maker.Short(), spaces)
	if err != nil {
		return // it is said elsewhere that they cannot be seen, or that the API server is away
	}
	o.replace(true, append(list, elsewhere...))
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

// Room is what the leaves of a node have together by the cluster file.
type Room struct {
	Node               cell.NodeName
	MilliCPU, MemoryMB int64
}

// LessRoom says which nodes have less for jobs than that, because of the pods that each node runs,
// in one sentence; "" when none has, or it is not known.
func LessRoom(e *Executor, rooms []Room) string {
	if !e.synced() {
		return ""
	}
	var short []string
	for _, r := range rooms {
		n, taken := e.node(string(r.Node)), e.others.eachNode(string(r.Node))
		if n == nil || taken == (amount{}) {
			continue
		}
		cpu, memory := n.Status.Allocatable.Cpu().MilliValue()-taken.milliCPU, n.Status.Allocatable.Memory().Value()>>20-taken.memoryMB
		var lacks []string
		if r.MilliCPU > cpu {
			lacks = append(lacks, fmt.Sprintf("%s CPUs of %s", cores(cpu), cores(r.MilliCPU)))
		}
		if r.MemoryMB > memory {
			lacks = append(lacks, fmt.Sprintf("%d MiB of memory of %d MiB", memory, r.MemoryMB))
		}
		if len(lacks) > 0 {
			short = append(short, fmt.Sprintf("%s (%s)", r.Node, strings.Join(lacks, " and ")))
		}
	}
	if len(short) == 0 {
		return ""
	}
	return fmt.Sprintf("nodes have less for jobs than the cluster file says, since pods of DaemonSets ask for the rest: %s; lower cpu and memory in skuTypes, else jobs that ask for all of such a node are refused there", FirstFew(short))
}

// cores writes thousandths of a core as cores.
func cores(milli int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0"), ".")
}
