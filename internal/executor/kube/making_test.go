package kube_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/simapi"
)

// shareCPUs lets a pod of others ask for CPUs of a node: kube-scheduler binds what comes there.
func (d *driver) shareCPUs(node string) (drop func()) {
	web := other("tenant", "web", node, 0)
	web.Spec.Containers[0].Resources.Requests = asksFor(corev1.ResourceCPU, 1)
	d.api.Put(web)
	d.restart() // so that it is known
	return func() { d.api.Drop(web) }
}

// exitOf is how a task of an attempt was told to have ended, zero until it was.
func (d *driver) exitOf(at model.AttemptID) model.Exit {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended[at]
}

// The answer to the making of a pod is lost, and somebody takes the seal off before the server asks
// again. The pod may be the task's, so it is ended, and nothing is told before it has.
func TestPodUnsealedBeforeItIsKnown(t *testing.T) {
	d := newDriver(t, 31)
	d.api.Linger()
	drop := d.shareCPUs("n0")
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	at := model.AttemptID{Job: d.next + 1, N: 1}
	d.api.Troubles.Next("POST pods", simapi.Mishap{Then: func() {
		d.until("its container runs", func() bool { return d.api.Runs(d.podOf(at, 0)) })
		d.api.Unmark(d.podOf(at, 0))
	}})
	d.api.Troubles.Hold("pods", true) // else the watch may tell of it while it has its seal
	d.of("v", "n0")
	d.until("it is ended", func() bool { return d.api.Asked()["DELETE pods"] > 0 })
	d.api.Troubles.Hold("pods", false)
	d.until("it is told", func() bool { return d.exitOf(at).Cause != "" }) // free looks whether it runs
	if x := d.exitOf(at); x.Cause != model.NeverStarted || !strings.Contains(x.Message, "may be its own") {
		t.Errorf("it ended with %+v", x)
	}
	if n := d.api.Began(); n != 1 {
		t.Errorf("%d containers were started for one task", n)
	}
	drop()
	d.finish()
}

// A pod of a task's name that was there before is not Comb's: it stays as it is.
func TestPodOfATasksNameBefore(t *testing.T) {
	d := newDriver(t, 32)
	d.api.Linger()
	first := d.of("v", "n0")
	d.runsIn("comb", first, 0)
	at := model.AttemptID{Job: d.next + 1, N: 1}
	squatter := other("comb", strings.Replace(d.podOf(first, 0), "-1-0-1-0", "-2-0-1-0", 1), "n2", 0)
	d.api.Put(squatter)
	d.forged = append(d.forged, squatter.Name)
	d.of("v", "n0")
	d.keptOutBy(squatter, at)
}

// keptOutBy waits until a task is told to have never started, since a pod of others has its name,
// and checks that this pod stays.
func (d *driver) keptOutBy(squatter *corev1.Pod, at model.AttemptID) {
	d.t.Helper()
	d.until("it is told", func() bool { return d.exitOf(at).Cause != "" })
	if x := d.exitOf(at); x.Cause != model.NeverStarted || !strings.Contains(x.Message, "Comb did not make it") {
		d.t.Errorf("it ended with %+v", x)
	}
	if strings.Contains(d.api.Text("pods", squatter.Name), "deletionTimestamp") {
		d.t.Error("a pod that is somebody else's was deleted")
	}
	d.api.Drop(squatter)
	d.finish()
}

// A pod of a task's name that was there before stays as it is, also where the server that began
// with the task was killed meanwhile.
func TestPodOfATasksNameBeforeARestart(t *testing.T) {
	d := newDriver(t, 39)
	d.api.Linger()
	first := d.of("v", "n0")
	d.runsIn("comb", first, 0)
	at := model.AttemptID{Job: d.next + 1, N: 1}
	squatter := other("comb", strings.Replace(d.podOf(first, 0), "-1-0-1-0", "-2-0-1-0", 1), "n2", 0)
	squatter.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute))
	d.api.Put(squatter)
	d.forged = append(d.forged, squatter.Name)
	broken := make([]simapi.Mishap, 100)
	for i := range broken {
		broken[i].Status = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	}
	d.api.Troubles.Hold("pods", true) // else the server sees it before it asks
	d.api.Troubles.Next("POST pods", broken...)
	asked := d.api.Asked()["POST pods"]
	d.of("v", "n0")
	d.until("its pod is asked for", func() bool { return d.api.Asked()["POST pods"] > asked })
	d.e.Close()
	d.api.Troubles.Forget("POST pods")
	d.api.Troubles.Hold("pods", false)
	d.restart()
	d.keptOutBy(squatter, at)
}

// Nor is such a pod deleted where the server was killed before it noted anything of the task: then
// it has not asked for a pod.
func TestPodOfATasksNameBeforeItIsNoted(t *testing.T) {
	d := newDriver(t, 41)
	d.api.Linger()
	first := d.of("v", "n0")
	d.runsIn("comb", first, 0)
	at := model.AttemptID{Job: d.next + 1, N: 1}
	squatter := other("comb", strings.Replace(d.podOf(first, 0), "-1-0-1-0", "-2-0-1-0", 1), "n2", 0)
	squatter.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute))
	d.api.Put(squatter)
	d.forged = append(d.forged, squatter.Name)
	d.e.Close()
	d.of("v", "n0")
	d.restart()
	deleted := func() bool { return strings.Contains(d.api.Text("pods", squatter.Name), "deletionTimestamp") }
	d.until("it is told, or the pod is deleted", func() bool { return d.exitOf(at).Cause != "" || deleted() })
	if x := d.exitOf(at); x.Cause != model.NeverStarted || !strings.Contains(x.Message, "Comb did not make it") {
		t.Errorf("it ended with %+v", x)
	}
	if deleted() {
		t.Error("a pod that is somebody else's was deleted")
	}
	d.api.Drop(squatter)
	d.finish()
}

// The answer to the making of a pod is lost, and somebody takes the pod away, with its finalizers,
// before the server asks again. Its container may run on: no other is made in its place, also where
// the watch tells late that it was there.
func TestPodTakenAwayBeforeItIsKnown(t *testing.T) {
	for name, late := range map[string]int{"watched": 0, "watched while it is asked for": 1, "watched later": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, 33)
			d.api.Linger()
			drop := d.shareCPUs("n0")
			d.until("n0 is up", func() bool { return !d.isDown("n0") })
			at := model.AttemptID{Job: d.next + 1, N: 1}
			marker := other("comb", "marker", "n2", 0)
			d.api.Troubles.Next("POST pods", simapi.Mishap{Then: func() { d.takeAway(at, late == 1, marker) }})
			d.api.Troubles.Hold("pods", late > 0)
			d.of("v", "n0")
			if late == 2 {
				d.until("it is taken away", func() bool { return d.wasTaken(at) })
				asked := d.api.Asked()["GET pods"]
				d.until("it is asked for", func() bool {
					return d.api.Asked()["GET pods"] > asked || d.told("TaskUnknown") > 0 || d.api.Began() > 1
				})
				d.api.Troubles.Hold("pods", false)
			}
			d.until("it is told that nothing is known of it", func() bool { return d.told("TaskUnknown") > 0 || d.api.Began() > 1 })
			if n := d.api.Began(); n != 1 {
				t.Errorf("%d containers were started for one task", n)
			}
			d.api.PowerCycle("n0")
			d.api.Drop(marker)
			drop()
			d.finish()
		})
	}
}

// A server is killed before it hears that a pod was made, and somebody takes the pod away, with its
// finalizers. Its container may run on: the next server makes no other at once.
func TestPodTakenAwayWhileNoServerWasThere(t *testing.T) {
	d := newDriver(t, 37)
	d.api.Linger()
	drop := d.shareCPUs("n0")
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	at := model.AttemptID{Job: d.next + 1, N: 1}
	d.api.Troubles.Hold("pods", true)
	d.api.Troubles.Next("POST pods", simapi.Mishap{Then: func() {
		d.takeAway(at, false, nil)
		d.e.Close()
	}})
	d.of("v", "n0")
	d.until("it is taken away", func() bool { return d.wasTaken(at) })
	d.e.Close()
	d.api.Troubles.Hold("pods", false)
	d.change = func(o *kube.Options) { o.Limits.Gone = time.Minute }
	asked := d.api.Asked()["POST pods"]
	d.restart()
	d.until("the start waits for it no more", func() bool { return kube.AllAdopted(d.e) })
	if d.api.Asked()["POST pods"] > asked {
		t.Error("another pod was made in its place at once")
	}
	d.api.PowerCycle("n0") // what ran there has ended
	d.change = nil         // a server that waits only shortly
	d.restart()
	d.runsIn("comb", at, 0)
	if n := d.told("TaskExited"); n > 0 {
		t.Errorf("%d ends were told", n)
	}
	drop()
	d.finish()
}

// The making of a pod is not answered, and may be done later: that its task never ran is told late.
func TestEndedWhileItsPodMayStillCome(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 38)
	d.api.Linger()
	drop := d.shareCPUs("n0")
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.change = func(o *kube.Options) { o.Limits.Gone = time.Minute }
	d.restart()
	at := model.AttemptID{Job: d.next + 1, N: 1}
	slow := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	var before atomic.Int64
	d.api.Troubles.Next("POST pods", simapi.Mishap{Status: slow, Then: func() {
		before.Store(int64(d.api.Asked()["GET pods"]))
		d.end(at)
	}})
	d.of("v", "n0")
	d.until("its pod is asked for", func() bool { return before.Load() > 0 })
	looks := 0
	d.until("it is asked for three times, or told to have ended", func() bool {
		looks = d.api.Asked()["GET pods"] - int(before.Load())
		return looks > 2 || d.exitOf(at).Cause != ""
	})
	if x := d.exitOf(at); x.Cause != "" {
		t.Errorf("it was told to have ended with %+v after %d looks for its pod", x, looks)
	}
	d.change = nil // a server that waits only shortly
	d.restart()
	d.until("it is told", func() bool { return d.exitOf(at).Cause == model.NeverStarted })
	drop()
	d.finish()
}

// The pod that tried the image of Comb goes also where its removal failed at first, and where the
// server was killed before it.
func TestTrialIsRemoved(t *testing.T) {
	d := newDriver(t, 34)
	d.api.Linger()
	maker := pods.Maker{Cluster: "c"}
	there := func() bool { return slices.Contains(d.api.Objects("pods"), maker.TrialName()) }
	d.link = &pods.ServerLink{Image: "comb:1", URL: "https://comb:1", Pin: "p"}
	broken := simapi.Mishap{Status: apierrors.NewInternalError(errors.New("etcdserver: request timed out"))}
	d.api.Troubles.Next("DELETE pods", broken, broken, broken)
	d.restart()
	d.until("the image is tried", func() bool { return d.api.Asked()["DELETE pods"] > 0 })
	d.until("its pod is gone", func() bool { return !there() })
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.until("its start is told", func() bool { return d.told("TaskStarted") > 0 })
	d.e.Close()
	key, err := os.ReadFile(filepath.Join(d.dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	maker.Key, maker.Space = key, simapi.Home
	old := maker.Trial("comb:1", "n2", nil)
	d.api.Put(old)
	d.restart()
	d.until("the pod of the earlier server is removed", func() bool { return d.bodyOf(old.Name).DeletionTimestamp != nil })
	d.api.Drop(old)
	d.finish()
}

// A pod that a user made in the place of a task's, under its name, is not deleted with the task's.
func TestCopyInItsPlaceIsNotDeleted(t *testing.T) {
	d := newDriver(t, 36)
	d.api.Linger()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.until("its start is told", func() bool { return d.told("TaskStarted") > 0 })
	d.api.Troubles.Hold("pods", true) // so that the server does not hear of it
	pod := d.podOf(at, 0)
	d.mu.Lock()
	d.stripped[taskOf{at, 0}] = pod
	d.mu.Unlock()
	d.forge(pod, simapi.Home)
	d.end(at)
	d.until("the task's is ended", func() bool { return d.api.Asked()["DELETE pods"] > 0 })
	d.api.Troubles.Hold("pods", false)
	d.until("it is told that nothing is known of it", func() bool { return d.told("TaskUnknown") > 0 })
	if d.bodyOf(pod).DeletionTimestamp != nil {
		t.Error("the user's pod was deleted")
	}
	d.api.Strip(pod)
	d.until("nothing runs", func() bool { d.api.PowerCycle("n0"); return !d.api.Runs(pod) })
	d.finish()
}

// A user puts Comb's finalizer back on a pod just after Comb removed it: it is removed again,
// though nothing is heard of the pod after that.
func TestFinalizerIsPutBack(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 40)
	d.api.Linger()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	pod := d.podOf(at, 0)
	d.until("its start is told", func() bool { return d.told("TaskStarted") > 0 })
	broken := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	d.api.Troubles.Next("DELETE pods", simapi.Mishap{Status: broken, Then: func() {
		if !slices.Contains(d.bodyOf(pod).Finalizers, pods.Finalizer) {
			d.api.Troubles.Hinder(pod, pods.Finalizer)
		}
	}})
	d.api.EndContainer(pod, 0)
	d.until("its pod is gone", func() bool { return d.podOf(at, 0) == "" })
	if n := d.api.Asked()["PATCH pods"]; n < 2 {
		t.Errorf("its finalizer was removed %d times: none was put back", n)
	}
	d.finish()
}

// A task is declared lost when its pod has said that it ended, and before the watch tells that the
// pod is gone: its node is up at once.
func TestLostAfterItsPodHasEnded(t *testing.T) {
	t.Parallel()
	d := newDriver(t, 41)
	d.api.Linger()
	d.change = func(o *kube.Options) { o.Limits.Gone = time.Hour }
	d.restart()
	at := d.of("v", "n0")
	d.runsIn("comb", at, 0)
	d.until("its start is told", func() bool { return d.told("TaskStarted") > 0 })
	broken := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	hold := func() { d.api.Troubles.Hold("pods", true) }
	d.api.Troubles.Next("PATCH pods", simapi.Mishap{Status: broken, Then: hold})
	pod := d.podOf(at, 0)
	d.end(at)
	d.until("its pod is gone", func() bool { return !slices.Contains(d.api.Objects("pods"), pod) })
	d.e.Do(model.Action{Attempt: at, Lost: []int32{0}})
	d.api.Troubles.Hold("pods", false)
	d.until("its task is gone", func() bool { return d.e.Forget(at.Job) == nil })
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.finish()
}

// wasTaken reports whether takeAway has taken the pod of an attempt's only task away.
func (d *driver) wasTaken(at model.AttemptID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stripped[taskOf{at, 0}] != "" && d.podOf(at, 0) == ""
}

// takeAway takes the pod of an attempt's only task away when its container runs, with its
// finalizers. Where the watch is late, it tells of both when the server asks for the pod, and
// before it tells of a marker.
func (d *driver) takeAway(at model.AttemptID, late bool, marker *corev1.Pod) {
	d.until("its container runs", func() bool { return d.api.Runs(d.podOf(at, 0)) })
	pod := d.podOf(at, 0)
	d.mu.Lock()
	d.stripped[taskOf{at, 0}] = pod
	d.mu.Unlock()
	d.api.Troubles.Vanish(pod)
	if !late {
		return
	}
	none := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, pod)
	d.api.Troubles.Next("GET pods", simapi.Mishap{Status: none, Then: func() {
		d.api.Put(marker)
		d.api.Troubles.Hold("pods", false)
		d.until("it is watched", func() bool {
			return kube.NodeOfPod(d.e, simapi.Home, marker.Name) != ""
		})
	}})
}
