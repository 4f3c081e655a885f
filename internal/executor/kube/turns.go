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

// turn is what a pod reported of its turns. It is not kept over a restart: the pod reports it
// again.
type turn struct {
	holds bool      // it uses its devices, or was allowed to
	heard time.Time // when it reported last; zero is never
	why   string    // why it is being stopped: it was not suspended in time
}

const (
	// deaf is how long a pod may be silent. After it the pod goes by the clock, and so do the
	// others.
	deaf = 10 * time.Second
	// leaving is how long the suspension of a task may take that needs no acknowledgement.
	leaving = model.Second
)

// rota is a rotation in the form in which the pods of an attempt are told of it.
type rota struct {
	rotation *model.Rotation // without turns where nothing is shared
	once     sync.Once
	is       string // its digest
	turn     map[model.AttemptID]int
}

func rotaOf(r *model.Rotation) *rota {
	if r == nil {
		r = &model.Rotation{}
	}
	return &rota{rotation: r}
}

// read computes, once, the digest and each attempt's turn. A long rotation takes a while, so no
// lock is held meanwhile.
func (r *rota) read() {
	r.once.Do(func() {
		r.is, r.turn = digestOf(r.rotation), map[model.AttemptID]int{}
		for i, turn := range r.rotation.Turns {
			for _, at := range turn {
				r.turn[at] = i
			}
		}
	})
}

// mate is a task on the same node with another turn.
type mate struct {
	*podTask
	known bool   // podTask.known at the time of the look
	space string // podTask.space likewise
}

// turn takes how far a task is with its turns, and lets it run when the tasks of the other turns
// have left. Executor.mu is held only to look at the tasks of one node.
func (h hears) turn(pod string, ask link.TurnAsk) (says link.TurnSays, err error) {
	t, err := h.task(pod)
	if err != nil {
		return says, err
	}
	h.mu.Lock()
	r := t.turns
	h.mu.Unlock()
	r.read()
	if says.Is = r.is; says.Is != ask.Has {
		says.Rotation = r.rotation
	}
	mates := h.mates(t, r)
	h.turning.Lock()
	defer h.turning.Unlock()
	t.turn.holds, t.turn.heard = ask.Holds, time.Now()
	if ask.Why != "" && len(r.rotation.Turns) > 1 && t.turn.why == "" { // it has turns to keep to
		t.turn.why = clipped(ask.Why)
	}
	free, guard := h.left(mates)
	says.Guard = guard
	if ask.Wants && says.Rotation == nil && free {
		says.Enter, t.turn.holds = true, true
	}
	return says, nil
}

// mates returns the tasks on a task's node that have another turn of its rotation.
func (h hears) mates(t *podTask, r *rota) (list []mate) {
	if len(r.turn) == 0 {
		return nil
	}
	mine, has := r.turn[t.at]
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.seenOf(string(t.ts.Place.Node)).tasks { // in any order
		if i, shares := r.turn[o.at]; shares && (!has || i != mine) {
			list = append(list, mate{o, o.known, o.space})
		}
	}
	return list
}

// left reports whether no task of another turn uses the devices any more, and how long these
// tasks may take to leave. h.turning is held.
func (h hears) left(mates []mate) (free bool, guard model.Duration) {
	free, guard = true, leaving
	for _, o := range mates {
		if c := o.start.Job.Hints.Suspend; c != nil {
			guard = max(guard, leaving+c.Timeout)
		}
		free = free && !h.uses(o)
	}
	return free, guard
}

// uses reports whether a task may be using its devices now. For a while after the start, a task
// that this server has not heard from counts as using them. h.turning is held.
func (h hears) uses(o mate) bool {
	pod, heard := h.spaces.pod(o.space, o.name), o.turn.heard
	var phase pods.Phase
	if pod != nil {
		phase = pods.Look(pod, false).Phase
	}
	switch {
	case phase == pods.Ended:
		return false
	case !heard.IsZero(): // it may run already, though its pod is not seen to
		return o.turn.holds && time.Since(heard) < deaf
	case pod != nil && phase != pods.Runs:
		return false // it asks before it runs
	case pod == nil && !o.known && h.synced():
		return false // it is not made yet, or is gone
	}
	return time.Since(h.opened) < deaf
}

func digestOf(r *model.Rotation) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // numbers always encode
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
