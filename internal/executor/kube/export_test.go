package kube

import "time"

// NamespaceNext says what to do where a namespace refuses something.
var NamespaceNext = namespaceNext

// CloseSpaces looks which namespaces are needed no more, as is done each half minute.
func CloseSpaces(e *Executor) { e.spaces.close() }

// Notes reports whether it is being noted in which namespaces pods are.
func Notes(e *Executor) bool {
	if e.spaces.saving.TryLock() {
		e.spaces.saving.Unlock()
		return false
	}
	return true
}

// Watches reports whether the pods of a namespace are watched.
func Watches(e *Executor, space string) bool { return e.spaces.watched(space) != nil }

// AllAdopted reports whether something is known of each task of the server before.
func AllAdopted(e *Executor) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.adopted:
		return true
	default:
		return false
	}
}

// SetRoomPause sets after how long it is tried again to set CPUs and memory aside. No executor may
// be open.
func SetRoomPause(d time.Duration) { reservePause = d }

// SeenNodes is of how many nodes something is kept.
func SeenNodes(e *Executor) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen)
}

// LookForForged looks for pods with a forged label, as is done each half minute.
func LookForForged(e *Executor) { e.spaces.lookForForged() }

// LookAt tells whether a node is up, if that has changed. What was being told of it before is told
// when this returns.
func LookAt(e *Executor, node string) { health{e}.changed(node) }

// NodeOfPod is where a pod is bound, as it was watched last; "" where it is not.
func NodeOfPod(e *Executor, space, name string) string {
	if pod := e.spaces.pod(space, name); pod != nil {
		return pod.Spec.NodeName
	}
	return ""
}
