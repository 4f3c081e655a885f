package kube_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/executor/kube"
)

// goneAfter lets nodes that were removed count as gone after a time.
func (d *driver) goneAfter(limit time.Duration) {
	d.change = func(o *kube.Options) { o.Limits.Gone = limit }
	d.restart()
}

// upSince notes when a node is told to be up from now on.
func (d *driver) upSince(node string) func() (at time.Time, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ups = map[string]time.Time{}
	return func() (time.Time, bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		at, told := d.ups[node]
		return at, told
	}
}

// The watch of nodes is behind that of pods: a node that was removed is back, and runs a pod,
// before the server hears that it is there. The task has not ended.
func TestNodeBackBeforeItIsHeard(t *testing.T) {
	d := newDriver(t, 21)
	d.goneAfter(time.Nanosecond)
	d.api.Linger()
	// A pod of others that asks for CPUs: then kube-scheduler binds the task's pod.
	web := other("tenant", "web", "n0", 0)
	web.Spec.Containers[0].Resources.Requests = asksFor(corev1.ResourceCPU, 1)
	d.api.Put(web)
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.api.Troubles.Hold("nodes", true)
	d.api.Kubelet("n0", false) // until then no scheduler binds a pod there
	at := d.of("v", "n0")
	d.until("its pod is made", func() bool { return d.podOf(at, 0) != "" })
	d.api.RemoveNode("n0")
	d.api.Troubles.Hold("nodes", false)
	d.until("n0 is told to be gone", func() bool { return strings.Contains(d.whyDown("n0"), "no such node") })
	d.api.Troubles.Hold("nodes", true)
	looks := d.api.Asked()["GET nodes"]
	d.addNode("n0")
	d.runsIn("comb", at, 0)
	d.until("the server asks for the node", func() bool { return d.api.Asked()["GET nodes"] > looks })
	d.api.Troubles.Hold("nodes", false)
	d.until("n0 is told to be up", func() bool { return !d.isDown("n0") })
	d.until("its start is told", func() bool { return d.told("TaskStarted") > 0 })
	if !slices.Contains(d.live(), at) || d.told("TaskExited") > 0 {
		t.Error("a task that runs is told to have ended")
	}
	d.api.Drop(web)
	d.finish()
}

// A node that was removed for long is back with a pod that nobody has ended: it is told to be up
// when that pod has.
func TestNodeBackWithItsPod(t *testing.T) {
	d := newDriver(t, 22)
	d.goneAfter(time.Nanosecond)
	d.api.Linger()
	d.api.Troubles.KeepOrphans(true)
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.api.Troubles.Hold("nodes", true)
	d.api.Kubelet("n0", false)
	at := d.of("red", "n0")
	d.until("its pod is bound", func() bool { return strings.Contains(d.api.Text("pods", d.podOf(at, 0)), `"nodeName":"n0"`) })
	pod := d.podOf(at, 0)
	d.api.RemoveNode("n0")
	d.api.Forbid("red", true) // so that it is not deleted
	d.mu.Lock()
	d.lost["n0"] = append(d.lost["n0"], pod) // hear looks at it when n0 is told to be up
	d.mu.Unlock()
	d.api.Troubles.Hold("nodes", false)
	d.until("its end is told", func() bool { return !slices.Contains(d.live(), at) })
	up := d.upSince("n0")
	d.restart() // the next server knows it as well
	d.addNode("n0")
	d.until("its container runs", func() bool { return d.api.Runs(pod) })
	d.until("it is said why n0 is down", func() bool { return strings.Contains(d.whyDown("n0"), "count as lost") })
	if _, told := up(); told {
		t.Error("n0 was told to be up")
	}
	d.api.Forbid("red", false)
	d.until("n0 is told to be up", func() bool { d.e.EndStrays(nil); return !d.isDown("n0") })
	d.until("it is gone", func() bool { return d.podOf(at, 0) == "" })
	d.api.Troubles.KeepOrphans(false)
	d.finish()
}

// Somebody takes a pod of a lost task away, with its finalizers. Its container may run on for a
// while, so its node is told to be up only after it: whether the server saw the pod go, or the next
// one finds it gone.
func TestLostPodTakenAway(t *testing.T) {
	const gone = 700 * time.Millisecond
	for _, server := range []string{"this", "stray", "next"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, 23)
			d.goneAfter(gone)
			d.api.Linger()
			at := d.of("red", "n0")
			d.runsIn("red", at, 0)
			pod := d.podOf(at, 0)
			d.api.Kubelet("n0", false)
			d.until("n0 is told to be down", func() bool { return d.isDown("n0") })
			d.declareDead("n0")
			d.until("it is noted", func() bool {
				text, err := os.ReadFile(filepath.Join(d.dir, "pod-fenced"))
				return err == nil && strings.Contains(string(text), "n0 red/")
			})
			d.mu.Lock()
			d.lost["n0"] = nil // its container runs on: that is what the time is for
			d.mu.Unlock()
			up := d.upSince("n0")
			switch server {
			case "next":
				d.e.Close()
			case "stray":
				d.restart()
			}
			began := time.Now()
			d.api.Troubles.Vanish(pod)
			if server == "next" {
				began = time.Now()
				d.silent["n0"] = false
				d.restart()
			}
			d.api.Kubelet("n0", true)
			d.until("n0 is told to be up", func() bool { d.e.EndStrays(nil); return !d.isDown("n0") })
			if when, told := up(); !told || when.Sub(began) < gone {
				t.Errorf("n0 was told to be up %v after the pod was gone", when.Sub(began))
			}
			d.finish()
		})
	}
}

// What has ended by its kubelet's word frees its node at once.
func TestLostPodEnds(t *testing.T) {
	d := newDriver(t, 24)
	d.goneAfter(time.Hour)
	d.api.Linger()
	at := d.of("red", "n0")
	d.runsIn("red", at, 0)
	d.api.Kubelet("n0", false)
	d.until("n0 is told to be down", func() bool { return d.isDown("n0") })
	d.declareDead("n0")
	d.api.Kubelet("n0", true)
	d.until("n0 is told to be up", func() bool { return !d.isDown("n0") })
	d.until("nothing is noted for the next server", func() bool {
		text, err := os.ReadFile(filepath.Join(d.dir, "pod-fenced"))
		return err == nil && len(text) == 0
	})
	d.restart()
	d.until("n0 is told to be up", func() bool { return !d.isDown("n0") })
	d.finish()
}
