package kube_test

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/pods"
	"github.com/combsched/comb/internal/test/simapi"
)

// A container that a webhook adds to each pod, and that fails, is no job's fault and no node's: the
// attempt never started, however often it happens, and nothing is said of the image of Comb.
func TestAddedContainerFails(t *testing.T) {
	d := newDriver(t, 33)
	log := &lines{}
	d.log, d.link = slog.New(slog.NewTextHandler(log, nil)), &pods.ServerLink{Image: "comb:1", URL: "https://x", Pin: "p"}
	d.api.Linger()
	d.api.Webhook(func(pod *corev1.Pod) {
		mesh := corev1.Container{Name: "mesh", Image: "mesh:1"}
		pod.Spec.InitContainers = append([]corev1.Container{mesh}, pod.Spec.InitContainers...)
	})
	d.api.FailAdded("mesh", "no control plane")
	d.restart()
	const why = "the container mesh, image mesh:1, which something in the cluster has added to its pod, ended with code 4 on node n0: no control plane"
	d.until("the trial says so", func() bool {
		return log.with("cannot be tried before jobs need it") == 1 && log.with(why[:40]) == 1
	})
	for range 4 {
		at := d.of("v", "n0")
		d.until("its attempt never started", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ended[at].Cause != "" })
		if x := d.ended[at]; x.Cause != model.NeverStarted || x.Own || !strings.HasPrefix(x.Message, why+"; neither its job nor the node is to blame") {
			t.Errorf("it ended with %+v", x)
		}
	}
	d.api.FailAdded("mesh", simapi.Gone)
	at := d.of("v", "n0")
	d.until("it was waited for", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ended[at].Cause != "" })
	if x := d.ended[at]; x.Cause != model.NeverStarted || !strings.HasSuffix(x.Message, "added to its pod, waits on node n0: its image does not come: ErrImagePull: not found") {
		t.Errorf("an image that does not come ends it with %+v", x)
	}
	if len(d.refused) > 0 || len(d.jobFaults) > 0 || !d.condition(true) {
		t.Errorf("nodes are blamed for %v, jobs for %v; %+v is said", d.refused, d.jobFaults, d.e.Conditions())
	}
	d.api.FailAdded("mesh", "")
	d.runsIn("comb", d.of("v", "n0"), 0)
	d.finish()
}

// Where a webhook writes another name for the image of Comb, such as that of a mirror, its failures
// are the node's or the image's all the same.
func TestImageOfCombFromAMirror(t *testing.T) {
	d := newDriver(t, 34)
	d.link = &pods.ServerLink{Image: "comb:1", URL: "https://x", Pin: "p"}
	d.api.Linger()
	d.api.Webhook(func(pod *corev1.Pod) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				list[i].Image = "mirror.local/" + list[i].Image
			}
		}
	})
	d.api.Spoil("n0", "no room")
	d.restart()
	const broken = "the container with Comb's program, image mirror.local/comb:1, ended with code 3 on node n0: no room"
	d.runsIn("comb", d.of("v", "n2"), 0)
	at := d.of("v", "n0")
	d.until("the node is blamed", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.refused[at] != "" })
	if why := d.refused[at]; why != broken || !d.condition(true, "pods of jobs do not start on n0, and do on other nodes: "+broken) {
		t.Errorf("it is refused since %s, and the conditions are %+v", why, d.e.Conditions())
	}
	d.finish()
}
