package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/sched"
)

// onClaimed starts a task with one GPU of the node whose GPUs are claimed.
func (d *driver) onClaimed(gpu int32) sched.AttemptID {
	d.until("n1 is told to be up", func() bool { return !d.isDown(claimed) })
	d.mu.Lock()
	d.next++
	at := sched.AttemptID{Job: d.next, N: 1}
	job := &sched.Job{Name: "job", User: "u", VC: "v", Grace: sched.Second, Roles: []sched.Role{{Name: "main", Tasks: 1, Launch: sched.Launch{Image: "image:1", Command: []string{"train"}}}}}
	start := &sched.Start{ID: d.next, Job: job, Tasks: []sched.TaskStart{{SKU: skuOn(claimed), Place: cell.Task{Node: claimed, SKU: "GPU", Devices: []int32{gpu}}}}}
	d.gangs[at] = &gangOf{start: start, done: map[int32]bool{}}
	d.mu.Unlock()
	d.e.Do(sched.Action{Attempt: at, Start: start})
	return at
}

// why is what was said when a task was refused; "" is that it was not.
func (d *driver) whyRefused(at sched.AttemptID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[at]
}

// A claim that is not given what it asks for within the limit is refused, and one that is given something else at once; a device that is not
// there is never asked for.
func TestClaimsThatAreNotGiven(t *testing.T) {
	d := newDriver(t, 1)
	d.api.Occupy(claimed, "gpu-2")
	began := time.Now()
	at := d.onClaimed(2)
	d.until("it is refused", func() bool { return strings.Contains(d.whyRefused(at), "cannot allocate all claims") })
	if waited := time.Since(began); waited < 2*time.Second {
		t.Errorf("it was refused after %v, and the limit is 3 s", waited)
	}
	at = d.onClaimed(simGPUs)
	d.until("a device that is not there is refused", func() bool { return strings.Contains(d.whyRefused(at), "publishes no device gpu-4 there") })
	d.api.GiveOthers(true)
	at = d.onClaimed(0)
	d.until("it was given another device", func() bool { return strings.Contains(d.whyRefused(at), "Kubernetes gave it device gpu-1") })
	d.api.GiveOthers(false)
	d.finish()
}
