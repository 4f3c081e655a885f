package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// strays ends the pods of this cluster that have no task, and returns their names. A node with a
// stray is down until it is gone: else its GPUs could be given to others while it uses them.
func (e *Executor) strays() (ended []string) {
	e.mu.Lock()
	may := e.swept
	e.mu.Unlock()
	if !may || !e.synced() {
		return nil // what was not seen is not ended
	}
	nodes, read, unseen := map[string]bool{}, recordsRead{}, health{e}.unseen()
	for _, sp := range e.spaces.all() {
		for _, key := range sp.pods.ListKeys() {
			pod := sp.pod(baseOf(key))
			if pod == nil || !e.spaces.stray(sp, pod, read) {
				continue
			}
			at, n, _ := e.maker.Parse(pod.Name)
			nodes[pods.NodeOf(pod)] = true
			ended = append(ended, fmt.Sprintf("%v/%d", at, n))
			e.queue.Add(strayKey(sp.name, pod.Name))
		}
	}
	for _, node := range (health{e}).free(unseen) {
		nodes[node] = true
	}
	health{e}.keep()
	e.mu.Lock()
	first := !e.looked
	e.looked = true
	e.mu.Unlock()
	if first {
		for _, key := range e.nodes.ListKeys() {
			nodes[key] = true
		}
		e.mu.Lock()
		for name := range e.seen { // in any order: they are sorted below
			nodes[name] = true
		}
		e.mu.Unlock()
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		health{e}.changed(node)
	}
	return ended
}

// endStrays ends strays that no sweep reported.
func endStrays(e *Executor) {
	for _, name := range e.strays() {
		e.o.Log.Warn("a pod that no task is known of is ended", "task", name)
	}
}

// strayKey is the key of a stray: a task of the same name may be in another namespace.
func strayKey(space, pod string) string { return space + "/" + pod }

// stray takes up a pod that no task is known of, and reports whether it did.
func (s *podNamespaces) stray(sp *podNamespace, pod *corev1.Pod, read recordsRead) bool {
	e := s.e
	at, n, ok := e.maker.Parse(pod.Name)
	if !ok || !e.maker.Sealed(pod) && !s.made(at, n, pod, read) {
		return false
	}
	key := strayKey(sp.name, pod.Name)
	known := func() bool {
		t := e.tasks[pod.Name]
		return e.tasks[key] != nil || t != nil && (t.space == sp.name || t.space == "")
	}
	e.mu.Lock()
	has := known()
	e.mu.Unlock()
	if has || s.forged(at, n, pod, read) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known() {
		return false // it was taken up meanwhile
	}
	records := read.of(e, at)
	e.add(&podTask{named: named{key: key, name: pod.Name, space: sp.name},
		dir: records.taskDir(n), noted: noted{records: records}, at: at, uid: pod.UID, stray: true,
		stopOrder: stopOrder{stop: true, grace: model.Duration(pods.DefaultGrace.Microseconds())}})
	seen := e.seenOf(pods.NodeOf(pod))
	seen.lost[key], seen.strays[key] = true, named{key: key, name: pod.Name, space: sp.name}
	return true
}

// made reports whether a record says that Comb made a pod, or may have: a tenant may have removed
// its seal.
func (s *podNamespaces) made(at model.AttemptID, n int32, pod *corev1.Pod, read recordsRead) bool {
	r, begun, err := read.of(s.e, at).load(n)
	if own := cmp.Or(r.UID, r.Made); own != "" || !begun || err != nil {
		return begun && err == nil && own == pod.UID
	}
	here := cmp.Or(r.Namespace, s.own()) == pod.Namespace && (r.Node == "" || r.Node == pods.NodeOf(pod))
	return here && r.Exit == nil && r.Refused == nil
}

// forged reports whether a pod without a task is not Comb's: Comb's pod of that name was another
// one, or is gone.
func (s *podNamespaces) forged(at model.AttemptID, n int32, pod *corev1.Pod, read recordsRead) bool {
	if s.forgotten.has(at.Job) {
		return true
	}
	was, begun, err := read.of(s.e, at).load(n)
	own := cmp.Or(was.UID, was.Made)
	return begun && err == nil && own != "" && own != pod.UID
}
