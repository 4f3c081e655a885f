package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/combsched/comb/internal/executor/kube/line"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/sched"
)

// turn is what was heard of a task that takes turns. It is of one server: the next one hears it again.
type turn struct {
	holds bool      // it uses its devices, or was let in
	heard time.Time // when it said so last; zero is never
	why   string    // it did not let itself be suspended in time, and how
}

const (
	// deaf is after how long a pod that is not heard of goes by the clock: others then do, too.
	deaf = 10 * time.Second
	// leaving is how long a task may take to be held when it is asked for nothing.
	leaving = sched.Second
)

// turn hears how far a task is with its turns, and lets it in when those of the other turns have left.
func (h hears) turn(pod string, ask line.TurnAsk) (says line.TurnSays, err error) {
	t, err := h.task(pod)
	if err != nil {
		return says, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := t.turns
	if r == nil {
		r = &sched.Rotation{}
	}
	if says.Is = digestOf(r); says.Is != ask.Has {
		says.Rotation = r
	}
	t.turn.holds, t.turn.heard = ask.Holds, time.Now()
	if ask.Why != "" && len(r.Turns) > 1 && t.turn.why == "" { // it has turns to keep to
		t.turn.why = clipped(ask.Why)
	}
	free, guard := h.left(t, r)
	says.Guard = guard
	if ask.Wants && says.Rotation == nil && free {
		says.Enter, t.turn.holds = true, true
	}
	return says, nil
}

// left reports whether none of the other turns of a rotation uses the devices of a task any more, and how long they may take to leave.
// h.mu is held.
func (h hears) left(t *task, r *sched.Rotation) (free bool, guard sched.Duration) {
	free, guard = true, leaving
	mine := r.Turn(t.at)
	for i, others := range r.Turns {
		for _, at := range others {
			for _, name := range h.attempts[at] {
				o := h.tasks[name]
				if i == mine || o == nil || o.ts == nil || o.ts.Place.Node != t.ts.Place.Node {
					continue
				}
				if c := o.start.Job.Hints.Suspend; c != nil {
					guard = max(guard, leaving+c.Timeout)
				}
				free = free && !h.uses(o)
			}
		}
	}
	return free, guard
}

// uses reports whether a task may use its devices now. One that was not heard of by this server may, for a while. h.mu is held.
func (h hears) uses(o *task) bool {
	pod, heard := h.pod(o.name), o.turn.heard
	var phase pods.Phase
	if pod != nil {
		phase = pods.Look(pod, false).Phase
	}
	switch {
	case phase == pods.Ended:
		return false
	case !heard.IsZero(): // it may run already, though it is not seen to
		return o.turn.holds && time.Since(heard) < deaf
	case pod != nil && phase != pods.Runs:
		return false // it enters by asking first
	case pod == nil && !o.known && h.synced():
		return false // it is not made yet, or is gone
	}
	return time.Since(h.opened) < deaf
}

func digestOf(r *sched.Rotation) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has numbers alone
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
