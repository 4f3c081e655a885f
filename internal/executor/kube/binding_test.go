package kube_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/simapi"
)

// A pod costs its making, and nothing is asked about it. One that owns a service is bound, too,
// when that is there, and one with claims is bound by kube-scheduler.
func TestRequestsOfAPod(t *testing.T) {
	d := newDriver(t, 3)
	d.api.Linger()
	d.api.Offer("n2", "nvidia.com/gpu", simGPUs)
	d.api.Taint("n2", "nvidia.com/gpu")
	d.until("the nodes are known", func() bool { return !d.isDown("n0") })
	// The pods of the namespace are watched by then. What is asked besides is the log of each pod.
	asked := d.api.Asked()
	want := func(what string, more int) {
		t.Helper()
		now := d.api.Asked()
		if got := now[what] - asked[what]; got != more {
			t.Errorf("%s was asked for %d times, want %d", what, got, more)
		}
		asked[what] = now[what]
	}
	for _, node := range []cell.NodeName{"n0", claimed, "n2"} {
		d.runsIn("comb", d.of("v", node), 0)
		want("POST pods", 1)
		want("POST services", 0)
	}
	d.until("their logs are read", func() bool { return d.api.Asked()["GET pods/log"] == 3 })
	want("GET pods in comb", 3)
	for n, at := range d.live() { // one ends by itself, the others are stopped
		if n == 0 {
			d.api.EndContainer(d.podOf(at, 0), 0)
		} else {
			d.end(at)
		}
	}
	d.until("all are gone", func() bool { return len(d.api.Objects("pods")) == 0 })
	want("DELETE pods", 3)
	want("PATCH pods", 3)
	want("GET pods in comb", d.api.Asked()["GET pods/log"]-3) // nothing but logs
	d.finish()
}

// What a gang costs grows by one request with each pod that starts, and by two with each that is
// stopped.
func TestRequestsOfAGang(t *testing.T) {
	d := newDriver(t, 7)
	d.api.Linger()
	for i := range simNodes {
		d.api.Simulate(nodeOf(i)) // no log is asked of them
	}
	d.until("the nodes are known", func() bool { return !d.isDown("n0") && !d.isDown("n1") && !d.isDown("n2") })
	asked := d.api.Asked()
	const size = 9
	var on []cell.NodeName
	for i := range size {
		on = append(on, cell.NodeName([]string{"n0", "n2"}[i%2]))
	}
	at := d.of("v", on...)
	for n := range int32(size) {
		d.runsIn("comb", at, n)
	}
	d.end(at)
	d.until("all are gone", func() bool { return len(d.api.Objects("pods")) == 0 })
	now := d.api.Asked()
	for what, want := range map[string]int{"POST pods": size + 1, "DELETE pods": size, "PATCH pods": size,
		"GET pods in comb": 0, "POST services": 1, "POST configmaps": 1} {
		if got := now[what] - asked[what]; got != want {
			t.Errorf("%s was asked for %d times for a gang of %d, want %d", what, got, size, want)
		}
	}
	d.finish()
}

// The service of a gang stays until its last task has ended, also where its first ends earlier, and
// then goes. A task by itself has none.
func TestServiceOfAGang(t *testing.T) {
	d := newDriver(t, 4)
	d.api.Linger()
	at := d.of("v", "n0", "n2", "n2")
	for n := range int32(3) {
		d.runsIn("comb", at, n)
	}
	first := d.podOf(at, 0)
	d.api.EndContainer(first, 0)
	d.until("the end of the first is told", func() bool { d.mu.Lock(); defer d.mu.Unlock(); _, ended := d.ended[at]; return ended })
	d.api.EndContainer(d.podOf(at, 1), 0)
	d.until("the second is gone", func() bool { return d.podOf(at, 1) == "" })
	if got := d.api.Objects("services"); len(got) != 1 || d.podOf(at, 0) != first {
		t.Errorf("while a task runs there are the services %v and the first pod %q, want both", got, d.podOf(at, 0))
	}
	d.restart()
	d.e.Do(model.Action{Attempt: at, Grace: model.Second})
	d.until("all are gone", func() bool { return len(d.api.Objects("pods"))+len(d.api.Objects("services")) == 0 })
	d.finish()
}

// A user that deletes a pod with a grace of years keeps no GPU by that: Comb's own grace counts
// once the task is to end.
func TestDeletedWithALongGrace(t *testing.T) {
	d := newDriver(t, 49)
	d.api.Linger()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.api.Troubles.Delete(d.podOf(at, 0), 10*365*24*3600)
	d.of("v", "n2")
	d.until("what happened since is known, too", func() bool { return d.told("TaskStarted") == 2 })
	d.end(at)
	d.until("its pod is gone", func() bool { return d.podOf(at, 0) == "" })
	d.finish()
}

// A binding that is refused for good ends the task, and blames no node.
func TestBindingRefused(t *testing.T) {
	d := newDriver(t, 5)
	d.api.Deny("bindings", true)
	at := d.of("v", "n0", "n2")
	d.until("it is told", func() bool { d.mu.Lock(); defer d.mu.Unlock(); _, ended := d.ended[at]; return ended })
	d.mu.Lock()
	if x := d.ended[at]; x.Cause != model.NeverStarted || !strings.Contains(x.Message, "refuses the binding") {
		t.Errorf("it ended with %+v", x)
	}
	d.mu.Unlock()
	d.api.Deny("bindings", false)
	d.finish()
}

// Where the disk is full once just after a gang's first pod was made, the others are made later.
func TestNoteFailsOnce(t *testing.T) {
	d := newDriver(t, 6)
	d.api.Linger()
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.api.Fail(simapi.Faults{Broken: 1000})
	at := d.of("v", "n0", "n2")
	kept := d.recordOf(at)
	d.until("it is noted that pods may be made", func() bool { _, err := os.Stat(kept); return err == nil })
	if err := errors.Join(os.Rename(kept, kept+".away"), os.Mkdir(kept, 0o700)); err != nil { // no line can be added
		t.Fatal(err)
	}
	d.api.Fail(simapi.Faults{})
	d.until("the first pod is made", func() bool { return len(d.api.Objects("pods")) == 1 })
	if err := errors.Join(os.Remove(kept), os.Rename(kept+".away", kept)); err != nil {
		t.Fatal(err)
	}
	for n := range int32(2) {
		d.runsIn("comb", at, n)
	}
	d.finish()
}

// bodyOf is a pod as it is.
func (d *driver) bodyOf(key string) (pod corev1.Pod) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.api.Text("pods", key)), &pod); err != nil {
		d.t.Fatal(err)
	}
	return pod
}

// Whatever is answered to a binding, the first pod of a gang is bound once, to the node of its
// task, and each task runs once.
func TestBindingAnswers(t *testing.T) {
	pod := schema.GroupResource{Resource: "pods"}
	busy := apierrors.NewTooManyRequests("slow down", 1)
	for name, list := range map[string][]simapi.Mishap{
		"lost":              {{}},
		"lost twice":        {{}, {}},
		"429 with a time":   {{Status: busy}},
		"429 for long":      {{Status: busy}, {Status: apierrors.NewTooManyRequests("slow down", 0)}, {Status: apierrors.NewTooManyRequests("slow down", 0)}},
		"500":               {{Status: apierrors.NewInternalError(errors.New("etcdserver: request timed out"))}},
		"409":               {{Status: apierrors.NewConflict(pod, "p", errors.New("the object has been modified"))}},
		"404":               {{Status: apierrors.NewNotFound(pod, "p")}},
		"409 and then lost": {{Status: apierrors.NewConflict(pod, "p", errors.New("the object has been modified"))}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, 41)
			d.api.Linger()
			d.api.Troubles.Next("POST pods/binding", list...)
			at := d.of("v", "n0", "n0")
			d.runsIn("comb", at, 0)
			d.runsIn("comb", at, 1)
			d.until("their starts are told", func() bool { return d.told("TaskStarted") > 1 })
			if got := d.bodyOf(d.podOf(at, 0)).Spec.NodeName; got != "n0" {
				t.Errorf("it is on node %s", got)
			}
			if n := d.api.Began(); n != 2 || d.exitOf(at).Cause != "" || d.whyRefused(at) != "" {
				t.Errorf("%d containers were started for two tasks; it ended with %+v, or was refused: %s", n, d.exitOf(at), d.whyRefused(at))
			}
			d.finish()
		})
	}
}

// A pod that somebody else has bound to another node is not the task's where it was to run: its
// GPUs are not the ones that Comb gave it. It is ended, and its task has not started.
func TestBoundElsewhere(t *testing.T) {
	d := newDriver(t, 42)
	d.api.Linger()
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	at := model.AttemptID{Job: d.next + 1, N: 1}
	d.api.Troubles.Next("POST pods/binding", simapi.Mishap{Status: apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("it is bound already")),
		Then: func() { d.api.Troubles.Bind(d.podOf(at, 0), "n2") }})
	d.of("v", "n0", "n0")
	d.until("it is told", func() bool { return d.whyRefused(at) != "" || d.exitOf(at).Cause != "" })
	if why := d.whyRefused(at) + d.exitOf(at).Message; !strings.Contains(why, "bound to node n2") {
		t.Errorf("it is said: %q", why)
	}
	d.finish()
}

// A node that is gone when its pod is to be bound, and comes back, or does not.
func TestNodeGoneBeforeTheBinding(t *testing.T) {
	for name, back := range map[string]bool{"it stays away": false, "it comes back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, 43)
			d.api.Linger()
			d.until("n0 is up", func() bool { return !d.isDown("n0") })
			removed := func(is bool) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.removed["n0"] = is
			}
			answers := make(chan struct{})
			d.api.Troubles.Next("POST pods", simapi.Mishap{Then: func() { <-answers }})
			at := d.of("v", "n0", "n0")
			d.until("its pod is made", func() bool { return d.podOf(at, 0) != "" })
			removed(true)
			d.api.RemoveNode("n0")
			d.until("n0 is told to be gone", func() bool { return d.isDown("n0") })
			if back {
				d.addNode("n0")
				removed(false)
			}
			close(answers)
			d.until("it runs, or has ended", func() bool { return d.api.Runs(d.podOf(at, 0)) || !slices.Contains(d.live(), at) })
			if !back && d.api.Began() > 0 {
				t.Error("a container was started on a node that is gone")
			}
			d.finish()
		})
	}
}

// A server that is killed between the making of a pod and its binding: the next one binds it.
func TestKilledBeforeTheBinding(t *testing.T) {
	d := newDriver(t, 44)
	d.api.Linger()
	away := make([]simapi.Mishap, 100)
	for i := range away {
		away[i].Status = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	}
	d.api.Troubles.Next("POST pods/binding", away...)
	at := d.of("v", "n0", "n0")
	d.until("its binding is asked for", func() bool { return d.api.Asked()["POST pods/binding"] > 0 })
	if pod := d.bodyOf(d.podOf(at, 0)); pod.Spec.NodeName != "" {
		t.Fatalf("it is bound to %s already", pod.Spec.NodeName)
	}
	d.e.Close()
	d.api.Troubles.Forget("POST pods/binding")
	d.restart()
	d.runsIn("comb", at, 0)
	d.runsIn("comb", at, 1)
	if n := d.api.Began(); n != 2 {
		t.Errorf("%d containers were started for two tasks", n)
	}
	d.finish()
}

// A pod that its kubelet refuses never ran, and its cell is free. For want of room its node is not
// to blame.
func TestKubeletRefuses(t *testing.T) {
	for _, reason := range []string{"OutOfcpu", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError", "NodeAffinity"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, 45)
			d.api.Linger()
			d.api.Troubles.Refuse("n0", reason)
			at := d.of("v", "n0")
			d.until("it is refused", func() bool { return d.whyRefused(at) != "" })
			if spared := d.spares(at); spared != strings.HasPrefix(reason, "OutOf") {
				t.Errorf("its node is told not to be to blame: %v", spared)
			}
			if why := d.whyRefused(at); !strings.Contains(why, reason) || d.api.Began() > 0 {
				t.Errorf("it is refused: %s; %d containers were started", why, d.api.Began())
			}
			d.until("its pod is gone", func() bool { return d.podOf(at, 0) == "" })
			d.api.Troubles.Refuse("n0", "")
			d.runsIn("comb", d.of("v", "n0"), 0)
			d.finish()
		})
	}
}

// The watch of pods is told again and again that it is too old: what is bound meanwhile runs once.
func TestBindingWhileWatchesAreTooOld(t *testing.T) {
	d := newDriver(t, 46)
	d.api.Linger()
	d.api.Fail(simapi.Faults{Gone: 300, Cut: 200})
	var list []model.AttemptID
	for range simGPUs - 1 {
		list = append(list, d.of("v", "n0"))
	}
	for _, at := range list {
		d.runsIn("comb", at, 0)
	}
	d.until("their starts are told", func() bool { return d.told("TaskStarted") >= len(list) })
	if n := d.api.Began(); n != len(list) {
		t.Errorf("%d containers were started for %d tasks", n, len(list))
	}
	d.finish()
}

// A kubelet counts a pod until it says that the pod has ended, some time after its container has:
// until then it refuses another for want of room. So kube-scheduler binds that one, which waits.
func TestBindingWhileAnotherEnds(t *testing.T) {
	d := newDriver(t, 47)
	d.api.Linger()
	first := d.of("v", "n0")
	d.runsIn("comb", first, 0)
	d.api.Troubles.Slow(true)
	d.api.EndContainer(d.podOf(first, 0), 0)
	d.until("its end is told", func() bool { return !slices.Contains(d.live(), first) })
	second := d.of("v", "n0", "n0")
	d.until("its pod is made", func() bool { return d.podOf(second, 0) != "" })
	if got := d.bodyOf(d.podOf(second, 0)).Spec.SchedulerName; got != "" {
		t.Errorf("%s binds it while the pod before is not over", got)
	}
	d.api.Troubles.Slow(false)
	d.runsIn("comb", second, 0)
	d.until("the pod before is gone", func() bool { return d.e.Forget(first.Job) == nil })
	third := d.of("v", "n0", "n0")
	d.runsIn("comb", third, 0)
	if got := d.bodyOf(d.podOf(third, 0)).Spec.SchedulerName; got != "comb.dev" {
		t.Errorf("%q binds one when the pod before is over", got)
	}
	d.finish()
}

// A node that is cordoned between the making of a pod and its binding gets no pod.
func TestCordonedBeforeTheBinding(t *testing.T) {
	d, told := withLeaves(t, 48)
	d.api.Linger()
	answers := make(chan struct{})
	d.api.Troubles.Next("POST pods", simapi.Mishap{Then: func() { <-answers }})
	at := d.of("v", "n0", "n2")
	d.until("its pod is made", func() bool { return d.podOf(at, 0) != "" })
	d.api.Taint("n0", "maintenance")
	d.until("that is told", func() bool { return strings.Contains(told.says("n0"), "maintenance") })
	close(answers)
	d.until("it is refused", func() bool { return d.whyRefused(at) != "" })
	if why := d.whyRefused(at); !strings.Contains(why, "cordoned or tainted before its pod was bound") || d.api.Asked()["POST pods/binding"] > 0 {
		t.Errorf("it is refused: %s; its binding was asked for %d times", why, d.api.Asked()["POST pods/binding"])
	}
	d.finish()
}

// A pod that a user deletes ends its task as that, and its node is not blamed.
func TestDeletedByAUser(t *testing.T) {
	d := newDriver(t, 50)
	d.api.Linger()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.api.DeletePod(d.podOf(at, 0))
	d.until("its end is told", func() bool { d.mu.Lock(); defer d.mu.Unlock(); _, ended := d.ended[at]; return ended })
	d.mu.Lock()
	x := d.ended[at]
	d.mu.Unlock()
	if x.Cause != model.PodDeleted || !strings.Contains(x.Message, "its pod was deleted, and not by Comb") {
		t.Errorf("it ended with %+v", x)
	}
	if d.isDown("n0") {
		t.Errorf("its node is down: %s", d.whyDown("n0"))
	}
	d.finish()
}
