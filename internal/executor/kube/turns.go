package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/pods"
)

// turnReport is what a pod reported of its turns. It is not kept over a restart: the pod reports it
// again.
type turnReport struct {
	holds bool      // it uses its devices, or was allowed to
	heard time.Time // when it reported last; zero is never
	why   string    // why it is being stopped: it was not suspended in time
}

const (
	// silentAfter is how long a pod may be silent. After it the pod goes by the clock, and so do
	// the others.
	silentAfter = 10 * time.Second
	// suspendTime is how long the suspension of a task may take that needs no acknowledgement.
	suspendTime = model.Second
)

// podRotation is a rotation in the form in which the pods of an attempt are told of it.
type podRotation struct {
	rotation *model.Rotation // without turns where nothing is shared
	once     sync.Once
	digest   string // its digest
	turn     map[model.AttemptID]int
}

func podRotationOf(r *model.Rotation) *podRotation {
	if r == nil {
		r = &model.Rotation{}
	}
	return &podRotation{rotation: r}
}

// read computes, once, the digest and each attempt's turn. A long rotation takes a while, so no
// lock is held meanwhile.
func (r *podRotation) read() {
	r.once.Do(func() {
		r.digest, r.turn = digestOf(r.rotation), map[model.AttemptID]int{}
		for i, turn := range r.rotation.Turns {
			for _, at := range turn {
				r.turn[at] = i
			}
		}
	})
}

// otherTurn is a task on the same node with another turn.
type otherTurn struct {
	*podTask
	known bool   // podTask.known at the time of the look
	space string // podTask.space likewise
}

// turn takes how far a task is with its turns, and lets it run when the tasks of the other turns
// have left. Executor.mu is held only to look at the tasks of one node.
func (h podRequests) turn(pod string, ask link.TurnReport) (says link.TurnAnswer, err error) {
	t, err := h.task(pod)
	if err != nil {
		return says, err
	}
	h.mu.Lock()
	r := t.turns
	h.mu.Unlock()
	r.read()
	if says.Is = r.digest; says.Is != ask.Has {
		says.Rotation = r.rotation
	}
	mates := h.mates(t, r)
	h.turning.Lock()
	defer h.turning.Unlock()
	t.lastReport.holds, t.lastReport.heard = ask.Holds, time.Now()
	if ask.Why != "" && len(r.rotation.Turns) > 1 && t.lastReport.why == "" { // it has turns to keep to
		t.lastReport.why = clipped(ask.Why)
	}
	free, guard := h.othersSuspended(mates)
	says.Guard = guard
	if ask.Wants && says.Rotation == nil && free {
		says.Enter, t.lastReport.holds = true, true
	}
	return says, nil
}

// mates returns the tasks on a task's node that have another turn of its rotation.
func (h podRequests) mates(t *podTask, r *podRotation) (list []otherTurn) {
	if len(r.turn) == 0 {
		return nil
	}
	mine, has := r.turn[t.at]
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.seenOf(string(t.ts.Place.Node)).tasks { // in any order
		if i, shares := r.turn[o.at]; shares && (!has || i != mine) {
			list = append(list, otherTurn{o, o.known, o.space})
		}
	}
	return list
}

// othersSuspended reports whether no task of another turn uses the devices any more, and how long
// these tasks may take to leave. h.turning is held.
func (h podRequests) othersSuspended(mates []otherTurn) (free bool, guard model.Duration) {
	free, guard = true, suspendTime
	for _, o := range mates {
		if c := o.start.Job.Hints.Suspend; c != nil {
			guard = max(guard, suspendTime+c.Timeout)
		}
		free = free && !h.mayUseDevices(o)
	}
	return free, guard
}

// mayUseDevices reports whether a task may be using its devices now. For a while after the start, a
// task that this server has not heard from counts as using them. h.turning is held.
func (h podRequests) mayUseDevices(o otherTurn) bool {
	pod, heard := h.spaces.pod(o.space, o.name), o.lastReport.heard
	var phase pods.Phase
	if pod != nil {
		phase = pods.Look(pod, false).Phase
	}
	switch {
	case phase == pods.Ended:
		return false
	case !heard.IsZero(): // it may run already, though its pod is not seen to
		return o.lastReport.holds && time.Since(heard) < silentAfter
	case pod != nil && phase != pods.Runs:
		return false // it asks before it runs
	case pod == nil && !o.known && h.synced():
		return false // it is not made yet, or is gone
	}
	return time.Since(h.opened) < silentAfter
}

func digestOf(r *model.Rotation) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
