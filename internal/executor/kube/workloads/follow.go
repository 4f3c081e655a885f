package workloads

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// Reasons of events on objects and their pods.
const (
	eventWaits   = "CombWaits"
	eventStarts  = "CombStarts"
	eventEnds    = "CombEnds"
	eventRefused = "CombRefused"
)

// explainMost is how many jobs that wait are explained in one round, in turn. podsTold is on how
// many pods of an object an event is written, beside the object itself.
const (
	explainMost = 20
	podsTold    = 4
	eventLength = 900 // bytes of a text
)

// follow asks now and then what became of the jobs: which have ended, and why others wait.
func (e *Executor) follow() {
	last := model.JobID(0)
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if e.adopt() {
			last = e.followOnce(last)
		}
	}
}

// adopt takes up, once, the jobs of before that have not ended. It reports whether they are known.
func (e *Executor) adopt() bool {
	e.mu.Lock()
	known := e.adopted
	e.mu.Unlock()
	if known {
		return true
	}
	found := map[model.JobID]model.Foreign{}
	if !e.o.Read(func(s *core.State) {
		known = s.Config() != nil
		for _, j := range s.Jobs() {
			if spec, ok := s.Spec(j.ID); ok && spec.Foreign != nil {
				found[j.ID] = *spec.Foreign
			}
		}
	}) || !known {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopted = true
	for id, of := range found { // in any order
		e.workloadOf(of).job = id
		e.queue.Add(types.UID(of.UID))
	}
	for _, sp := range e.spaces { // what was seen before they were known
		for _, obj := range sp.pods.List() {
			e.queue.Add(ownerUID(obj.(*corev1.Pod)))
		}
	}
	return true
}

// waitsEvery is how often, at most, it is said of one object why it waits.
const waitsEvery = 10 * time.Second

// lastEvent is what was said of an object last.
type lastEvent struct {
	kind string
	at   time.Time
}

// waits is why a job waits.
type waits struct {
	w    *workload
	kind string // two of one kind say the same
	text string
}

// followOnce looks at all jobs. Of those that wait it asks about some after a job, and returns the
// last of these.
func (e *Executor) followOnce(after model.JobID) (last model.JobID) {
	e.mu.Lock()
	mine := map[model.JobID]*workload{}
	var waiting []model.JobID
	for _, w := range e.all { // in any order
		if w.job != 0 {
			mine[w.job] = w
			if w.at == nil {
				waiting = append(waiting, w.job)
			}
		}
	}
	e.mu.Unlock()
	if len(mine) == 0 {
		return 0
	}
	slices.Sort(waiting)
	if at, _ := slices.BinarySearch(waiting, after+1); at < len(waiting) {
		waiting = append(waiting[at:], waiting[:at]...)
	}
	waiting = waiting[:min(len(waiting), explainMost)]
	var ended []model.JobID
	var say []waits
	e.o.Read(func(s *core.State) {
		for id := range mine { // in any order
			if _, lives := s.Spec(id); !lives {
				ended = append(ended, id)
			}
		}
		for _, id := range waiting {
			if r := reasonOf(s, id); r.Code != "" {
				say = append(say, waits{mine[id], fmt.Sprint(r.Code, r.Jobs, r.Nodes), r.Message})
			}
		}
	})
	for _, id := range ended {
		e.jobEnded(mine[id], id)
	}
	for _, one := range say {
		e.say(one.w.of, eventWaits, one.kind, "job "+one.w.of.Name+" waits: "+one.text)
	}
	if len(waiting) > 0 {
		last = waiting[len(waiting)-1]
	}
	return last
}

// reasonOf is why a job waits: the first of its gangs that does.
func reasonOf(s *core.State, id model.JobID) model.Reason {
	ex, _ := s.Explain(id)
	for i := range ex.Gangs {
		if r := ex.Gangs[i].Reason; r.Code != "" {
			return r
		}
	}
	return model.Reason{}
}

// jobEnded notes that a workload's job has ended. Unless all its pods ended by themselves, the
// object is to make no more of them.
func (e *Executor) jobEnded(w *workload, id model.JobID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.job != id {
		return
	}
	if w.at != nil {
		delete(e.attempts, w.at.id)
	}
	w.over = w.at == nil || slices.ContainsFunc(w.at.slots, func(s slot) bool { return !s.ended })
	w.job, w.at, w.told = 0, nil, false
	e.queue.Add(types.UID(w.of.UID))
}

// say writes an event on an object and on its first pods, unless one of that kind was written last.
// It is for people, and holds up nothing.
func (e *Executor) say(of model.Foreign, reason, kind, text string) {
	e.mu.Lock()
	last, now := e.events[of.UID], time.Now()
	same := last.kind == reason+kind || reason == eventWaits && now.Sub(last.at) < waitsEvery
	if !same {
		e.events[of.UID] = lastEvent{reason + kind, now}
	}
	s, ok := e.find(types.UID(of.UID))
	e.mu.Unlock()
	if same || !ok {
		return
	}
	if len(text) > eventLength {
		text = strings.ToValidUTF8(text[:eventLength], "") + "..."
	}
	ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
	defer cancel()
	var on []corev1.ObjectReference
	if s.owner != nil {
		on = append(on, corev1.ObjectReference{APIVersion: s.owner.GetAPIVersion(), Kind: s.owner.GetKind(),
			Namespace: of.Namespace, Name: of.Name, UID: s.owner.GetUID()})
	}
	for _, p := range s.pods {
		if !over(p) && s.kind != &podKind && len(on) <= podsTold {
			on = append(on, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: of.Namespace, Name: p.Name,
				UID: p.UID})
		}
	}
	for i := range on {
		now, how := metav1.Now(), corev1.EventTypeNormal
		if reason == eventRefused {
			how = corev1.EventTypeWarning
		}
		err := s.sp.api.MakeEvent(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace,
				Name: fmt.Sprintf("%s.%x", on[i].Name, now.UnixNano())},
			InvolvedObject: on[i], Reason: reason, Message: text, Type: how,
			Source:              corev1.EventSource{Component: "comb"},
			ReportingController: "comb.dev/server", FirstTimestamp: now, LastTimestamp: now, Count: 1})
		if err != nil {
			e.o.Log.Debug("an event was not written", "on", of.String(), "error", err)
			return
		}
	}
}
