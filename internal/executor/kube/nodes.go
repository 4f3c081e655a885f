package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// resourceOf is the resource name of a node's GPUs; "" when no device plugin was ever seen there.
// A plugin that offers none now still counts: the GPUs are its to give.
func resourceOf(n *corev1.Node) string {
	for _, name := range pods.Resources {
		if q := n.Status.Capacity[corev1.ResourceName(name)]; q.Value() > 0 {
			return name
		}
	}
	return ""
}

func (e *Executor) node(name string) *corev1.Node {
	obj, ok, err := e.nodes.GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	return obj.(*corev1.Node)
}

// nodeSeen is what was seen of a node.
type nodeSeen struct {
	told    bool
	why     string              // why it was told to be down; "": it was told to be up
	removed time.Time           // when it was removed, having been there; else zero
	silent  time.Time           // since when Kubernetes has heard nothing of it
	downs   []time.Time         // when it went down lately
	tasks   map[string]*podTask // that are placed there, by the name of the pod
	strays  map[string]named    // pods there that are no task's, by their keys
	lost    map[string]bool     // pods that must be gone before it is up
	again   *time.Timer         // the timer for the next look at it
	fault   *fault              // of its leaves, as told last; nil: never told
	claims  map[string]string   // why devices cannot be claimed, as in fault
	held    map[string]string   // which others have them by claims, likewise
	hidden  string              // a namespace that Comb cannot see and that may hold some of lost
}

// seenOf is what was seen of a node. e.mu is held.
func (e *Executor) seenOf(name string) *nodeSeen {
	s := e.seen[name]
	if s == nil {
		s = &nodeSeen{tasks: map[string]*podTask{}, strays: map[string]named{}, lost: map[string]bool{}}
		e.seen[name] = s
	}
	return s
}

// A node that Kubernetes hears nothing of is down only after a while: after an outage of the API
// server, Kubernetes has heard of none at first. A node that went down often lately must stay
// ready for longer before it is up.
const (
	silence     = 15 * time.Second
	oftenWithin = 10 * time.Minute
	often       = 3
	steady      = time.Minute
)

// stillThere begins the reason why a node is down although Kubernetes says that it is ready.
const stillThere = "pods of tasks that count as lost "

func (s *nodeSeen) stillThere() string {
	if s.hidden != "" {
		return stillThere + "may still be there, in namespace " + s.hidden + ", which Comb cannot see: give it its rights there again"
	}
	return stillThere + "are still there"
}

// health tells which nodes can run tasks.
type health struct{ *Executor }

// changed tells whether a node can run tasks, where that has changed. A node that was never there
// is told of when something is to start on it.
func (h health) changed(name string) {
	h.mu.Lock()
	looked := h.looked
	h.seenOf(name)
	h.mu.Unlock()
	if !looked {
		return // once all are known, all are looked at, also missing ones that were asked for
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	left, known := "", true
	if h.o.LeftOn != nil {
		left, known = h.o.LeftOn(name)
	}
	if !known {
		return // LookAtNode is called once it is
	}
	n := h.node(name)
	if why, changed := h.see(name, n, left); changed {
		h.o.Tell(model.NodeHealth{Node: cell.NodeName(name), Up: why == "", Reason: why})
		if why == "" {
			h.tellTasks(name)
			if h.o.CameUp != nil {
				h.o.CameUp(name)
			}
		}
	}
	if n != nil {
		h.leaves(name, n)
		return
	}
	h.spaces.again()
}

// lookIfThere looks at a node of the cluster. Others may name any node: of one that the cluster
// lacks nothing is kept.
func (h health) lookIfThere(name string) {
	if h.ctx.Err() == nil && h.node(name) != nil {
		h.changed(name)
	}
}

// LookAtNode tells whether a node can run tasks, where that has changed; "" is all nodes.
func LookAtNode(e *Executor, name string) {
	if name != "" {
		health{e}.lookIfThere(name)
		return
	}
	for _, name := range e.nodes.ListKeys() {
		health{e}.lookIfThere(name)
	}
}

// see notes the state of a node, and reports whether it must be told. left is a pod that is still
// there; see Options.LeftOn.
func (h health) see(name string, n *corev1.Node, left string) (why string, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.seenOf(name)
	why, wait := s.look(n, time.Now())
	if why == "" && left != "" {
		why = stillThere + "are still there: " + left
	}
	if wait > 0 {
		h.lookAt(s, name, wait)
	}
	changed = !s.told || s.why != why
	if changed && why != "" && !strings.HasPrefix(why, stillThere) {
		s.downs = append(s.downs, time.Now())
	}
	s.told, s.why = true, why
	return why, changed
}

// lookAt schedules another look at a node. h.mu is held.
func (h health) lookAt(s *nodeSeen, name string, wait time.Duration) {
	if s.again != nil {
		s.again.Stop()
	}
	s.again = time.AfterFunc(wait, func() {
		if h.ctx.Err() == nil {
			h.changed(name)
		}
	})
}

// look says why a node is down, "" when it is up, and after what time to look again.
func (s *nodeSeen) look(n *corev1.Node, now time.Time) (why string, wait time.Duration) {
	if n == nil {
		if s.removed.IsZero() {
			s.removed = now
		}
		return "the Kubernetes cluster has no such node any more", 0
	}
	s.removed = time.Time{}
	why, silent := notReady(n)
	switch {
	case !silent:
		s.silent = time.Time{}
	case s.silent.IsZero():
		s.silent = now
	}
	if left := silence - now.Sub(s.silent); silent && s.told && s.why == "" && left > 0 && len(s.lost) == 0 {
		return "", left
	}
	s.downs = slices.DeleteFunc(s.downs, func(at time.Time) bool { return now.Sub(at) > oftenWithin })
	switch {
	case why != "":
		return why, 0
	case len(s.lost) > 0:
		return s.stillThere(), 0
	case s.why == "":
		return "", 0
	case !strings.HasPrefix(s.why, stillThere) && len(s.downs) >= often && now.Sub(s.downs[len(s.downs)-1]) < steady:
		return s.why, steady - now.Sub(s.downs[len(s.downs)-1])
	}
	return "", 0
}

// tellTasks tells again what runs on a node: while it was down its tasks were unknown.
func (h health) tellTasks(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tasks {
		if t.ts != nil && string(t.ts.Place.Node) == node {
			t.repeated = true
			h.queue.Add(t.key)
		}
	}
}

// down returns the nodes that are down, to be told once more.
func (h health) down() (list []model.NodeHealth) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.seen {
		if s.told && s.why != "" {
			list = append(list, model.NodeHealth{Node: cell.NodeName(name), Reason: s.why})
		}
	}
	slices.SortFunc(list, func(a, b model.NodeHealth) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return list
}

// keep saves for the next server what keeps nodes down, where that has changed. A failed write is
// tried again with the next look.
func (h health) keep() {
	err := h.fenced.keep(func() (lines []string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for node, s := range h.seen {
			for key := range s.lost {
				if t := h.tasks[key]; t != nil {
					key = strayKey(t.space, t.name)
				}
				lines = append(lines, node+" "+key+"\n")
			}
		}
		return lines
	})
	if err != nil {
		h.o.Log.Warn("it cannot be noted which pods keep nodes down", "error", err)
	}
}

// before returns the pods from before this server's start that keep nodes down and have not been
// found since.
func (h health) before() (keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		for key := range s.lost {
			if strings.Contains(key, "/") && h.tasks[key] == nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// unseen returns which of these pods cannot be checked, since their namespace cannot be seen now.
// It notes that namespace at their nodes.
func (h health) unseen() map[string]bool {
	ctx, cancel := context.WithTimeout(h.ctx, 10*time.Second)
	defer cancel()
	list, before := map[string]bool{}, h.before()
	if len(before) == 0 {
		return list
	}
	hidden := map[string]string{} // by namespace; "" stands for a pod of unknown namespace
	for _, sp := range h.spaces.all() {
		if (!sp.synced() || sp.refused() != "") && !sp.gone(ctx) {
			hidden[sp.name], hidden[""] = sp.name, sp.name
		}
	}
	for _, key := range before {
		name, _, _ := strings.Cut(key, "/")
		list[key] = hidden[name] != ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		s.hidden = ""
		for key := range s.lost {
			if name, _, _ := strings.Cut(key, "/"); list[key] {
				s.hidden = max(s.hidden, hidden[name])
			}
		}
	}
	return list
}

// free frees nodes from pods of before that are gone: those not in unseen, and not found as
// strays. It returns the nodes. Such a pod may have gone just before this server's start, and its
// container ends after that (see dropVanished): so it waits.
func (h health) free(unseen map[string]bool) (nodes []string) {
	gone := slices.DeleteFunc(h.before(), func(key string) bool { return unseen[key] })
	if left := h.o.Limits.Gone - time.Since(h.opened); left > 0 && len(gone) > 0 {
		time.AfterFunc(left, func() {
			if h.ctx.Err() == nil {
				endStrays(h.Executor)
			}
		})
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for node, s := range h.seen {
		for _, key := range gone {
			if s.lost[key] {
				delete(s.lost, key)
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// goneFor is how long ago a node was removed; 0 when it is there, or was never seen.
func (e *Executor) goneFor(name string) time.Duration {
	if name == "" || e.node(name) != nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.seenOf(name)
	if s.removed.IsZero() {
		s.removed = time.Now()
	}
	return max(time.Since(s.removed), 1)
}

// notReady says why a node cannot run tasks; "" when it can. silent says that the only reason is
// that nothing is heard of it.
func notReady(n *corev1.Node) (why string, silent bool) {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue:
		case c.Status == corev1.ConditionUnknown:
			return "Kubernetes hears nothing of it", true
		default:
			return strings.TrimSpace("Kubernetes says that it is not ready: " + c.Message), false
		}
		if c.Type == corev1.NodeReady {
			return "", false
		}
	}
	return "Kubernetes does not say that it is ready", false
}

// CheckNodes refuses nodes of a configuration that the cluster lacks. away are those that had
// been configured already: they may be missing for a while, so they are not refused.
func (e *Executor) CheckNodes(nodes, had []cell.NodeName) (away []string, err error) {
	if !AwaitNodes(e) {
		return nil, nil // it cannot be checked now
	}
	var lacks []string
	for _, n := range nodes {
		switch {
		case e.node(string(n)) != nil:
		case slices.Contains(had, n):
			away = append(away, string(n))
			health{e}.changed(string(n))
		default:
			lacks = append(lacks, string(n))
		}
	}
	slices.Sort(away)
	if len(lacks) == 0 {
		return away, nil
	}
	slices.Sort(lacks)
	return away, fmt.Errorf("the Kubernetes cluster lacks nodes of the cluster file: %s; comb cluster discover prints those that it has", api.FirstFew(lacks))
}

// AwaitNodes waits until the nodes and what they offer are known; false when the API server is
// away.
func AwaitNodes(e *Executor) bool {
	soon, cancel := context.WithTimeout(e.ctx, 20*time.Second)
	defer cancel()
	return cache.WaitForCacheSync(soon.Done(), e.synced)
}

// freest is the node with the fewest tasks among those that jobs may use; "" where there is none.
// offers are the resources of its device plugins.
func freest(e *Executor) (name string, offers []string) {
	counts := map[string]int{}
	e.mu.Lock()
	for node, s := range e.seen {
		counts[node] = len(s.tasks)
	}
	e.mu.Unlock()
	names := e.nodes.ListKeys()
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b))
	})
	for _, name := range names {
		n := e.node(name)
		if n == nil {
			continue
		}
		why, _ := notReady(n)
		f := faultOf(n)
		if used := e.o.Leaves == nil || len(e.o.Leaves(cell.NodeName(name))) > 0; used && why == "" && f.node == "" {
			return name, pods.Offered(n)
		}
	}
	return "", nil
}

// doubts is what is not certain of a task's pod: whether it was made before it was noted which it
// is, and whether it has ended.
type doubts struct {
	since      time.Time // a pod of its name that is older is not Comb's; zero: none is
	unanswered time.Time // when it was asked last to make one that runs by itself, and not answered
	glimpsed   types.UID // of a pod that runs by itself, as the watch told of it; under Executor.mu
	vanished   time.Time // when it was found that the pod is gone, and its end was not seen
}

// clockSkew is how far the clock of the API server may be behind.
const clockSkew = 10 * time.Second

// asks notes that its pod may be made from now on.
func (m *doubts) asks() {
	if m.since.IsZero() {
		m.since = time.Now().Add(-clockSkew)
	}
}

// untilKnownUnmade is how long it cannot be known yet that no pod of a task is on its way or runs
// on, where none is seen and none was noted. A request for one that was not answered may be done
// later, and a pod that was taken away with its finalizers runs on until its kubelet hears of it.
// The server before may have asked for one until it was killed. This one asks again after a short
// while, since the name lets only one pod be; that the task never ran is told later.
func (e *Executor) untilKnownUnmade(t *podTask, w wanted) (left time.Duration) {
	if w.known {
		left = e.o.Limits.Gone - time.Since(e.opened)
	}
	if t.unanswered.IsZero() {
		return left
	}
	patience := watchTime
	if w.stop || t.refused != nil {
		patience = max(watchTime, e.o.Limits.Gone)
	}
	return max(left, patience-time.Since(t.unanswered))
}

// glimpsedOf is the UID of a pod of a task that the watch told of before it was known.
func glimpsedOf(e *Executor, t *podTask) types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return t.glimpsed
}

// proven reports whether a pod says itself that it has ended.
func proven(pod *corev1.Pod) bool { return pods.Look(pod, false).Phase == pods.Ended }

// fenceUnproven keeps a pod's node down until the pod is gone, or says that it has ended: should
// the node come back, its kubelet may run the pod.
func (h health) fenceUnproven(t *podTask, pod *corev1.Pod) {
	h.mu.Lock()
	h.seenOf(pod.Spec.NodeName).lost[t.key] = true
	h.mu.Unlock()
	h.keep()
	h.changed(pod.Spec.NodeName)
}

// tellUnknown tells, once, that it cannot be proven what became of a task. A task that already
// counts as ended is dropped: its user has said that nothing of it lives.
func (e *Executor) tellUnknown(t *podTask, w wanted, why string) (time.Duration, error) {
	if w.lost {
		return health{e}.dropVanished(t), nil
	}
	if t.vanished.IsZero() {
		t.vanished = time.Now()
	}
	if !t.unknownTold {
		t.unknownTold = true
		e.tell(t, model.TaskUnknown{Attempt: t.at, Task: t.ts.Task, Reason: why + "; look on its node, and say so with comb node declare-dead"})
	}
	return time.Minute, nil
}

// dropVanished drops a task whose pod is gone, and whose end was not seen: it was taken away with
// its finalizers. Its kubelet ends its container after that, which nothing tells. So its
// node stays down for as long as one that comes back after it was removed. It returns what is left
// of that time.
func (h health) dropVanished(t *podTask) time.Duration {
	if t.vanished.IsZero() {
		t.vanished = time.Now()
	}
	if left := h.o.Limits.Gone - time.Since(t.vanished); left > 0 {
		return left
	}
	h.drop(t)
	return 0
}

// isFenced reports whether a node is kept down for a task's pod.
func (h health) isFenced(t *podTask) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.ts != nil && h.seenOf(string(t.ts.Place.Node)).lost[t.key]
}

// unfence lets nodes up that waited for a pod to be gone.
func (e *Executor) unfence(t *podTask) {
	e.mu.Lock()
	among := e.seen // a stray is at one of them
	if t.ts != nil {
		node := string(t.ts.Place.Node)
		among = map[string]*nodeSeen{node: e.seenOf(node)}
	}
	var free []string
	for node, s := range among {
		if s.lost[t.key] {
			delete(s.lost, t.key)
			free = append(free, node)
		}
	}
	e.mu.Unlock()
	if len(free) == 0 {
		return
	}
	health{e}.keep()
	for _, node := range free {
		health{e}.changed(node)
	}
}

// releases reports whether the kubelet of a node still counts a pod of Comb whose task has ended:
// until it says that the pod has ended, too, it refuses others for want of room.
func (s *podNamespaces) releases(node string) bool {
	s.e.mu.Lock()
	var ended []named
	seen := s.e.seenOf(node)
	for _, t := range seen.tasks { // in any order
		ended = append(ended, named{name: t.name, space: t.space})
	}
	for _, stray := range seen.strays { // likewise
		ended = append(ended, stray)
	}
	s.e.mu.Unlock()
	return slices.ContainsFunc(ended, func(n named) bool {
		pod := s.pod(n.space, n.name)
		return pod != nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
			pods.Look(pod, false).Phase == pods.Ended
	})
}
