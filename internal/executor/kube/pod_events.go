package kube

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/api"
)

// Ending is a task that is being ended, and why.
type Ending struct {
	Attempt model.AttemptID
	Node    cell.NodeName // on which it is
	Cause   model.EndCause
	By      *model.AttemptID // for which it makes room; nil: for none
}

// Reasons of events on pods, for those who look at pods with kubectl. A pod that is made, starts
// and ends as usual has none.
const (
	eventWaits   = "CombWaits"
	eventEnds    = "CombEnds"
	eventRefused = "CombRefused"
)

// Events are written one after the other, with a pause, so that they take no more than a small part
// of what the API server can do. What does not fit into the queue is dropped, and so is what cannot
// be written. A pod gets at most eventsOfPod.
const (
	eventQueue    = 256
	eventPause    = 40 * time.Millisecond
	eventsOfPod   = 4
	eventWithin   = 5 * time.Second
	eventLength   = 900              // bytes of a text
	eventsRefused = 10 * time.Minute // without the right, until it is tried again
)

// podEvent is one that is to be written.
type podEvent struct {
	space, pod string
	uid        types.UID
	reason     string
	text       func() string // asked for when it is written; "" writes nothing
}

// podEvents is the queue of events.
type podEvents struct {
	queue  chan podEvent
	number atomic.Uint64 // of events that were named
}

// eventOn queues an event on a task's pod.
func (e *Executor) eventOn(t *podTask, pod *corev1.Pod, reason string, text func() string) {
	if t.events >= eventsOfPod {
		return
	}
	t.events++
	select {
	case e.events.queue <- podEvent{pod.Namespace, pod.Name, pod.UID, reason, text}:
	default: // they are for people, and must hold up nothing
	}
}

// sayEnds queues the event that a pod is being ended, once.
func (e *Executor) sayEnds(t *podTask, pod *corev1.Pod, w wanted) {
	if t.endSaid {
		return
	}
	t.endSaid = true
	switch {
	case t.stray:
		e.eventOn(t, pod, eventEnds, func() string { return "no task of Comb is known that this pod belongs to" })
	case w.lost:
		e.eventOn(t, pod, eventEnds, func() string { return "its task counts as lost, with its node" })
	case e.o.WhyEnded != nil:
		of := Ending{t.at, t.ts.Place.Node, w.cause, w.by}
		e.eventOn(t, pod, eventEnds, func() string { return e.o.WhyEnded(of) })
	}
}

// writeEvents writes the queued events.
func (e *Executor) writeEvents() {
	closed := map[string]time.Time{} // namespaces without the right, since when
	for {
		var v podEvent
		select {
		case <-e.ctx.Done():
			return
		case v = <-e.events.queue:
		}
		if !e.server.away().IsZero() || time.Since(closed[v.space]) < eventsRefused {
			continue
		}
		text := v.text()
		if text == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(e.ctx, eventWithin)
		err := e.o.API.In(v.space).MakeEvent(ctx, e.eventOf(&v, text))
		cancel()
		if err != nil && api.NamespaceRefuses(err) {
			if closed[v.space].IsZero() {
				e.o.Log.Warn("events cannot be written on pods, so kubectl describe does not say why Comb ends them: it lacks the right to create events, which deploy/kubernetes/rights.yaml and team.yaml have", "namespace", v.space, "error", api.ErrorText(err))
			}
			closed[v.space] = time.Now()
		}
		e.pause(eventPause)
	}
}

// eventOf is an event as Kubernetes has it.
func (e *Executor) eventOf(v *podEvent, text string) *corev1.Event {
	if len(text) > eventLength {
		text = strings.ToValidUTF8(text[:eventLength], "") + "..."
	}
	kind, now := corev1.EventTypeNormal, metav1.Now()
	if v.reason != eventEnds {
		kind = corev1.EventTypeWarning
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: v.space, Name: fmt.Sprintf("%s.%x.%x", v.pod, now.UnixNano(), e.events.number.Add(1))},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: v.space, Name: v.pod, UID: v.uid},
		Reason:         v.reason, Message: text, Type: kind, Source: corev1.EventSource{Component: "comb"}, ReportingController: "comb.dev/server",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
