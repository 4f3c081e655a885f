package kube_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/simapi"
	"github.com/combsched/comb/internal/test/testkit"
)

// lines is a log that a test reads while it is written.
type lines struct{ testkit.Output }

// with counts the lines that have a word.
func (l *lines) with(word string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// condition reports whether the conditions are those that begin so, for administrators or not.
func (d *driver) condition(admin bool, begins ...string) bool {
	list := d.e.Conditions()
	if len(list) != len(begins) {
		return false
	}
	for i, c := range list {
		if c.Admin != admin || !strings.HasPrefix(c.Text, begins[i]) {
			return false
		}
	}
	return true
}

// An API server that does not answer is told once, and so that it is back, however many requests
// fail meanwhile.
func TestAPIServerAway(t *testing.T) {
	d := newDriver(t, 31)
	log := &lines{}
	d.log = slog.New(slog.NewTextHandler(log, nil))
	d.restart()
	d.api.Linger()
	first := d.of("v", "n0")
	d.runsIn("comb", first, 0)
	if list := d.e.Conditions(); len(list) > 0 {
		t.Errorf("while it answers: %+v", list)
	}
	for n := range 2 {
		d.api.Away(true)
		d.e.Do(model.Action{Attempt: model.AttemptID{Job: 900 + model.JobID(n), N: 1}, Start: d.startOf(first)})
		d.until("it is told to be away", func() bool {
			return d.condition(false, "the API server of Kubernetes has not answered since 20")
		})
		if got := log.with("does not answer"); got != n+1 {
			t.Errorf("its going is logged %d times", got)
		}
		before := log.with("level=WARN")
		requests := func() (n int) {
			for what, times := range d.api.Asked() {
				if strings.HasPrefix(what, "GET") || strings.HasPrefix(what, "POST") {
					n += times
				}
			}
			return n
		}
		asked := requests()
		d.until("many requests fail", func() bool { return requests() > asked+10 })
		if after := log.with("level=WARN"); after > before {
			t.Errorf("%d lines more while it is away:\n%s", after-before, log.String())
		}
		d.api.Away(false)
		d.until("it is told to be back", func() bool { return d.condition(false) })
		if got := log.with("answers again"); got != n+1 {
			t.Errorf("its return is logged %d times", got)
		}
		d.e.Do(model.Action{Attempt: model.AttemptID{Job: 900 + model.JobID(n), N: 1}})
	}
	// One request that is not answered is no outage: nothing is told.
	d.api.Fail(simapi.Faults{Lost: 300})
	d.runsIn("comb", d.of("v", "n2"), 0)
	d.api.Fail(simapi.Faults{})
	if got := log.with("does not answer"); got != 2 {
		t.Errorf("an answer that was lost is logged as an outage (%d)", got)
	}
	d.finish()
}

// An image of Comb that starts on one node and not on another is that node's fault. One that starts
// nowhere is no job's and no node's: administrators are told before jobs meet it, and when it is
// mended.
func TestImageOfComb(t *testing.T) {
	d := newDriver(t, 32)
	log := &lines{}
	d.log, d.link = slog.New(slog.NewTextHandler(log, nil)), &pods.ServerLink{Image: "comb:1", URL: "https://x", Pin: "p"}
	d.api.Linger()
	for i := range simNodes {
		d.api.Spoil(nodeOf(i), "no room")
	}
	d.restart()
	const broken = "the container with Comb's program, image comb:1, ended with code 3 on node n0: no room"
	d.until("the trial is told", func() bool { return d.condition(true, "no pod of a job starts: "+broken+"; see that") })
	if d.began["v"] > 0 || len(d.refused) > 0 {
		t.Error("a job met it before")
	}
	d.until("the trial is gone", func() bool { return len(d.api.Objects("pods")) == 0 })

	at := d.of("v", "n0")
	d.until("a job meets it", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ended[at].Cause != "" })
	if x := d.ended[at]; x.Cause != model.NeverStarted || x.Message != broken+"; no node is known where it starts, so an administrator has to see to it" {
		t.Errorf("the job's task ended with %+v", x)
	}
	if got := log.with("no pod of a job starts"); got != 1 {
		t.Errorf("it is logged %d times", got)
	}

	d.api.Spoil("n2", "")
	good := d.of("v", "n2")
	d.runsIn("comb", good, 0)
	d.until("it is a node's fault now", func() bool {
		return d.condition(true, "pods of jobs do not start on n0, and do on other nodes: "+broken)
	})
	at = d.of("v", "n0")
	d.until("the node is blamed", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.refused[at] != "" })
	if why := d.refused[at]; why != broken {
		t.Errorf("it is refused since %s", why)
	}
	if slices.Contains(d.jobFaults, at) {
		t.Error("the job is blamed")
	}
	d.api.Spoil("n0", "")
	d.runsIn("comb", d.of("v", "n0"), 0)
	d.until("nothing is wrong any more", func() bool { return d.condition(true) })

	// So it is with an image that does not come.
	d.api.Spoil("n0", simapi.Gone)
	at = d.of("v", "n0")
	d.until("the node is blamed again", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.refused[at] != "" })
	const gone = "the container with Comb's program, image comb:1, waits on node n0: its image does not come: ErrImagePull: not found"
	if why := d.refused[at]; why != gone || !d.condition(true, "pods of jobs do not start on n0, and do on other nodes: "+gone) {
		t.Errorf("it is refused since %s, and the conditions are %+v", why, d.e.Conditions())
	}
	d.api.Spoil("n0", "")
	d.runsIn("comb", d.of("v", "n0"), 0)
	d.until("nothing is wrong once more", func() bool { return d.condition(true) })

	// The next server sees by what runs that it starts, and tries nothing.
	d.api.Spoil("n1", "no room")
	made := d.api.Asked()["POST pods"]
	d.restart()
	d.runsIn("comb", good, 0)
	d.finish()
	if now := d.api.Asked()["POST pods"]; now > made {
		t.Errorf("%d pods were made", now-made)
	}
}

// A pod that starts while the API server is away for longer than a pod may take runs on: that
// nothing was heard of it is not its fault.
func TestPodStartsWhileTheServerIsAway(t *testing.T) {
	d := newDriver(t, 35)
	const limit = 6 * time.Second
	d.change = func(o *kube.Options) { o.Limits.Binding, o.Limits.Image = limit, limit }
	d.restart()
	d.api.Linger()
	d.until("n0 is up", func() bool { return !d.isDown("n0") })
	d.api.Troubles.Hold("nodes", true)
	d.api.Kubelet("n0", false)
	at := d.of("v", "n0")
	began := time.Now()
	d.until("it is known to be bound", func() bool { return kube.NodeOfPod(d.e, simapi.Home, d.podOf(at, 0)) == "n0" })
	d.api.Away(true)
	d.api.Kubelet("n0", true)
	d.api.Troubles.Hold("nodes", false)
	d.runsIn("comb", at, 0)
	d.until("it is told to be away", func() bool { return len(d.e.Conditions()) > 0 })
	d.until("the pod would have had to start", func() bool { return time.Since(began) > limit+time.Second })
	d.api.Away(false)
	d.until("its start is told, or its end", func() bool { return d.told("TaskStarted") > 0 || !slices.Contains(d.live(), at) })
	if why := d.whyRefused(at); why != "" || !slices.Contains(d.live(), at) {
		t.Errorf("it is refused: %s", why)
	}
	d.finish()
}
