package kube_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
)

// podEvents are the events that were written, each as REASON NAMESPACE/POD: TEXT.
func (d *driver) podEvents() (list []string) {
	d.t.Helper()
	for _, key := range d.api.Objects("events") {
		var v corev1.Event
		if err := json.Unmarshal([]byte(d.api.Text("events", key)), &v); err != nil {
			d.t.Fatal(err)
		}
		if v.InvolvedObject.Kind != "Pod" || v.InvolvedObject.UID == "" || v.InvolvedObject.Namespace != v.Namespace || v.FirstTimestamp.IsZero() {
			d.t.Errorf("an event is about %+v", v.InvolvedObject)
		}
		list = append(list, fmt.Sprintf("%s %s %s/%s: %s", v.Type, v.Reason, v.Namespace, v.InvolvedObject.Name, v.Message))
	}
	slices.Sort(list)
	return list
}

// What a user would ask of a pod is an event: why it is ended, and why it was refused. The ordinary
// course costs none, and without the right all goes on.
func TestEventsOnPods(t *testing.T) {
	d := newDriver(t, 33)
	log := &lines{}
	d.log = slog.New(slog.NewTextHandler(log, nil))
	d.whyEnded = func(of kube.Ending) string {
		if of.Cause == model.EndCompleted {
			return ""
		}
		return fmt.Sprintf("%v on %s for job %d", of.Cause, of.Node, of.By.Job)
	}
	d.restart()
	d.runsIn("comb", d.of("v", "n0"), 0) // ends by itself
	d.until("it has ended as usual", func() bool { return len(d.live()) == 0 })
	d.api.Linger()
	usual, victim := d.of("v", "n0"), d.of("red", "n2", "n0")
	for n := range int32(2) {
		d.runsIn("red", victim, n)
	}
	d.runsIn("comb", usual, 0)
	pods := []string{d.podOf(victim, 0), d.podOf(victim, 1)}
	if list := d.podEvents(); len(list) > 0 {
		t.Errorf("the ordinary course has the events %q", list)
	}
	stop := func(at model.AttemptID, a model.Action) {
		d.mu.Lock()
		d.gangs[at].stop = true
		d.mu.Unlock()
		a.Attempt = at
		d.e.Do(a)
	}
	stop(usual, model.Action{Cause: model.EndCompleted})
	stop(victim, model.Action{Cause: model.EndPreempted, By: &model.AttemptID{Job: 99}})
	d.until("all have ended", func() bool { return len(d.live()) == 0 })
	want := []string{"Normal CombEnds " + pods[0] + ": preempted on n2 for job 99", "Normal CombEnds " + pods[1] + ": preempted on n0 for job 99"}
	slices.Sort(want)
	d.until("both pods say so", func() bool { return slices.Equal(d.podEvents(), want) })

	// A server without the right goes on, and says so once for each namespace.
	d.api.Deny("events", true)
	for range 2 {
		at := d.of("red", "n2", "n0")
		d.runsIn("red", at, 0)
		d.runsIn("red", at, 1)
		stop(at, model.Action{Cause: model.EndPreempted, By: &model.AttemptID{Job: 99}})
		d.until("they have ended", func() bool { return len(d.live()) == 0 })
	}
	d.until("it is logged", func() bool { return log.with("lacks the right to create events") == 1 })
	if made := d.api.Asked()["POST events in red"]; made != 3 {
		t.Errorf("%d events were tried in the namespace, want 2 and one without the right", made)
	}
	d.finish()
	if got := log.with("lacks the right to create events"); got != 1 {
		t.Errorf("it is logged %d times", got)
	}
}
