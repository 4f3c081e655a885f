package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// onClaimed starts a task with one GPU of the node whose GPUs are claimed, beside others that have
// it.
func (d *driver) onClaimed(gpu int32, beside ...model.AttemptID) model.AttemptID {
	d.until("n1 is told to be up", func() bool { return !d.isDown(claimed) })
	d.mu.Lock()
	d.next++
	at := model.AttemptID{Job: d.next, N: 1}
	job := &model.Job{Name: "job", User: "u", VC: "v", Grace: model.Second, Roles: []model.Role{{Name: "main", Tasks: 1, Launch: model.Launch{Image: "image:1", Command: []string{"train"}, MilliCPU: 1000, MemoryMB: 64}}}}
	start := &model.Start{ID: d.next, Job: job, Tasks: []model.TaskStart{{SKU: skuOn(claimed), Place: cell.Task{Node: claimed, SKU: "GPU", Devices: []int32{gpu}}}}}
	job.Hints.Suspendable = true
	d.gangs[at] = &gangOf{start: start, done: map[int32]bool{}}
	if len(beside) > 0 {
		turns := [][]model.AttemptID{}
		for _, other := range append(beside, at) {
			turns = append(turns, []model.AttemptID{other})
		}
		start.Rotation = &model.Rotation{Turns: turns, Quantum: model.Second}
		for _, other := range beside {
			changed := *d.gangs[other].start
			changed.Rotation = start.Rotation
			d.gangs[other].start = &changed
		}
	}
	d.mu.Unlock()
	d.e.Do(model.Action{Attempt: at, Start: start})
	for _, other := range beside {
		d.e.Do(model.Action{Attempt: other, Rotation: start.Rotation})
	}
	return at
}

// Tasks that share a GPU share its claim, which is there until the last of their pods is gone. A
// task to which the core did not give it does not get it, whichever of those that have it still
// live.
func TestSharedClaim(t *testing.T) {
	d := newDriver(t, 3)
	d.api.Linger()
	runs := func(at model.AttemptID) func() bool { return func() bool { return d.api.Runs(d.podOf(at, 0)) } }
	gone := func(at model.AttemptID) func() bool { return func() bool { return d.podOf(at, 0) == "" } }
	first := d.onClaimed(2)
	d.until("the first runs", runs(first))
	claim := d.api.Objects("resourceclaims")
	second := d.onClaimed(2, first)
	d.until("the second runs beside it", runs(second))
	third := d.onClaimed(2)
	d.until("the third, which is to share with none, is refused", func() bool { return strings.Contains(d.whyRefused(third), "is still that of pod comb-") })
	d.until("its pod is gone", gone(third))
	d.end(first)
	d.until("the first is gone", gone(first))
	d.e.Close()
	d.e = d.open() // as after a kill: what it does not know belongs to others
	d.mu.Lock()
	start := d.gangs[second].start
	d.mu.Unlock()
	d.e.Do(model.Action{Attempt: second, Start: start, Known: true})
	d.e.EndStrays(nil)
	fourth := d.onClaimed(2, second)
	d.until("the fourth runs beside the second", runs(fourth))
	d.end(second)
	d.until("the second is gone", gone(second))
	if got := d.api.Objects("resourceclaims"); !slices.Equal(got, claim) || len(claim) != 1 || !d.api.Runs(d.podOf(fourth, 0)) {
		t.Errorf("the claims were %v, and are %v", claim, got)
	}
	d.end(fourth)
	d.until("the claim is gone", func() bool { return len(d.api.Objects("resourceclaims")) == 0 })
	fifth := d.onClaimed(2)
	d.until("the GPU is given to the next", runs(fifth))
	d.finish()
}

// whyRefused is what was said when a task was refused; "" is that it was not.
func (d *driver) whyRefused(at model.AttemptID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[at]
}

// spares reports whether an attempt was refused, and its node is not to blame.
func (d *driver) spares(at model.AttemptID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.spared, at)
}

// A claim that is not given what it asks for within the limit is refused, and one that is given
// something else at once; a device that is not there is never asked for.
func TestClaimsThatAreNotGiven(t *testing.T) {
	d := newDriver(t, 1)
	d.api.Occupy(claimed, "gpu-2")
	began := time.Now()
	at := d.onClaimed(2)
	d.until("it is refused", func() bool { return strings.Contains(d.whyRefused(at), "cannot allocate all claims") })
	if waited := time.Since(began); waited < 2*time.Second { // a busy machine only adds to it
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

// A device plugin gives a GPU to one pod, so nothing can be shared there; CPUs, claimed GPUs and
// those that a variable names can be.
func TestAbilities(t *testing.T) {
	d := newDriver(t, 4)
	d.api.Offer("n2", "nvidia.com/gpu", 8)
	sku := func(kind cell.DeviceKind) cell.SKU { return cell.SKU{Name: "T", Device: kind} }
	d.until("it is seen what n2 offers", func() bool {
		has, why := d.e.Abilities(engine.Leaves{SKU: sku(cell.NVIDIA), Nodes: []cell.NodeName{"n0", "n2"}})
		return len(has) == 0 && strings.Contains(why, "the device plugin of node n2 gives a GPU (nvidia.com/gpu) to one pod alone") && strings.Contains(why, "dra in skuTypes.T")
	})
	for _, l := range []engine.Leaves{{}, {SKU: sku(cell.CPU), Nodes: []cell.NodeName{"n2"}}, {SKU: sku(cell.NVIDIA), Nodes: []cell.NodeName{"n0", "nowhere"}}, {SKU: skuOn(claimed), Nodes: []cell.NodeName{"n2"}}} {
		has, why := d.e.Abilities(l)
		if !slices.Equal(has, []model.Ability{model.CanPack}) || !strings.Contains(why, "--pod-image") { // pods here have no process of Comb's
			t.Errorf("%+v: it can %v: %s", l, has, why)
		}
	}
}
