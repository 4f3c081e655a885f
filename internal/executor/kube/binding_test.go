package kube_test

import (
	"errors"
	"os"
	"strings"
	"testing"

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
