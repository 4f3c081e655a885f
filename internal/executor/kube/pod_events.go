package kube

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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

// Reasons of events on pods, for users with kubectl. A pod that is made, starts and ends as usual
// has none.
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

// podEvents writes events on pods.
type podEvents struct {
	api    *api.Client
	log    *slog.Logger
	server *serverState
	queue  chan podEvent
}

// podSaid is which events there are on a pod.
type podSaid struct {
	events int // how many
	ends   bool
}

// on queues an event on a pod. The text is asked for when it is written.
func (v *podEvents) on(pod *corev1.Pod, had *podSaid, reason string, text func() string) {
	if had.events >= eventsOfPod || reason == eventEnds && had.ends {
		return
	}
	had.events++
	had.ends = had.ends || reason == eventEnds
	select {
	case v.queue <- podEvent{pod.Namespace, pod.Name, pod.UID, reason, text}:
	default: // they are for people, and must hold up nothing
	}
}

// write writes the queued events.
func (v *podEvents) write(ctx context.Context) {
	closed := map[string]time.Time{} // when the right was found to be missing, by namespace
	for n := 0; ; n++ {
		var one podEvent
		select {
		case <-ctx.Done():
			return
		case one = <-v.queue:
		}
		if !v.server.away().IsZero() || time.Since(closed[one.space]) < eventsRefused {
			continue
		}
		text := one.text()
		if text == "" {
			continue
		}
		soon, cancel := context.WithTimeout(ctx, eventWithin)
		err := v.api.In(one.space).MakeEvent(soon, one.object(n, text))
		cancel()
		if err != nil && api.NamespaceRefuses(err) {
			if closed[one.space].IsZero() {
				v.log.Warn("events cannot be written on pods, so kubectl describe does not say why Comb ends them: "+
					"it lacks the right to create events, which deploy/kubernetes/rights.yaml and team.yaml have",
					"namespace", one.space, "error", api.ErrorText(err))
			}
			closed[one.space] = time.Now()
		}
		pause(ctx, eventPause)
	}
}

// object is an event as Kubernetes has it. n is another number for each.
func (one *podEvent) object(n int, text string) *corev1.Event {
	if len(text) > eventLength {
		text = strings.ToValidUTF8(text[:eventLength], "") + "..."
	}
	kind, now := corev1.EventTypeNormal, metav1.Now()
	if one.reason != eventEnds {
		kind = corev1.EventTypeWarning
	}
	name := fmt.Sprintf("%s.%x.%x", one.pod, now.UnixNano(), n)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: one.space, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: one.space, Name: one.pod,
			UID: one.uid},
		Reason: one.reason, Message: text, Type: kind, Source: corev1.EventSource{Component: "comb"},
		ReportingController: "comb.dev/server", FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
