package kube_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube"
)

// room is what is set aside for a task's pod, as kube-scheduler counts it.
func (d *driver) room(at model.AttemptID) (milliCPU, memoryMB int64) {
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(d.api.Text("pods", d.podOf(at, 0))), &pod); err != nil || len(pod.Spec.Containers) == 0 {
		return 0, 0
	}
	r := pod.Spec.Containers[0].Resources.Requests
	return r.Cpu().MilliValue(), r.Memory().Value() >> 20
}

// leaves ends a task, and has those that shared its GPU go on among themselves.
func (d *driver) leaves(at model.AttemptID, left ...model.AttemptID) {
	d.end(at)
	d.until("its pod is gone", func() bool { return d.podOf(at, 0) == "" })
	r := &model.Rotation{Quantum: model.Second}
	for _, other := range left {
		r.Turns = append(r.Turns, []model.AttemptID{other})
	}
	for _, other := range left {
		d.e.Do(model.Action{Attempt: other, Rotation: r})
	}
}

// CPUs and memory are set aside once for the tasks that share a GPU: for the first, and when that
// is gone for one of the others. A server that was killed meanwhile goes on with that.
func TestRoomPassesOn(t *testing.T) {
	d := newDriver(t, 11)
	d.api.Linger()
	one := d.onClaimed(1)
	d.until("the first runs", func() bool { return d.told("TaskStarted") == 1 })
	two := d.onClaimed(1, one)
	three := d.onClaimed(1, one, two)
	d.until("all run", func() bool { return d.told("TaskStarted") == 3 })
	is := func(at model.AttemptID, cpu, memory int64) bool {
		haveCPU, haveMemory := d.room(at)
		return haveCPU == cpu && haveMemory == memory
	}
	check := func(when string, held ...model.AttemptID) {
		t.Helper()
		time.Sleep(200 * time.Millisecond) // that no other takes the room: nothing tells when one would have
		for _, at := range []model.AttemptID{one, two, three} {
			want := int64(0)
			for _, h := range held {
				if h == at {
					want = 1000
				}
			}
			if cpu, memory := d.room(at); cpu != want {
				t.Errorf("%s: %d thousandths of a CPU and %d MiB are set aside for %v, want %d", when, cpu, memory, at, want)
			}
		}
	}
	check("with all of them", one)
	d.leaves(one, two, three)
	d.until("one of those left has the room", func() bool { return is(two, 1000, 63) || is(three, 1000, 63) })
	next, last := two, three
	if is(three, 1000, 63) {
		next, last = three, two
	}
	check("without the first", next)
	d.restart()
	check("with another server", next)
	d.leaves(next, last)
	d.until("the last has it", func() bool { return is(last, 1000, 63) })
	d.leaves(last)
	if n := d.api.Asked()["PATCH pods"]; n > 5 {
		t.Errorf("%d patches of pods for 3 ends and 2 rooms", n)
	}
	d.finish()
}

// Room that a right or a quota refuses is had when they allow it.
func TestRoomIsAskedForAgain(t *testing.T) {
	kube.SetRoomPause(100 * time.Millisecond)
	t.Cleanup(func() { kube.SetRoomPause(30 * time.Second) })
	d := newDriver(t, 12)
	d.api.Linger()
	one := d.onClaimed(1)
	d.until("the first runs", func() bool { return d.told("TaskStarted") == 1 })
	two := d.onClaimed(1, one)
	d.until("both run", func() bool { return d.told("TaskStarted") == 2 })
	d.api.Fix(true)
	d.leaves(one, two)
	before := d.api.Asked()["PATCH pods"]
	d.until("it has asked for the room some times", func() bool { return d.api.Asked()["PATCH pods"] >= before+3 })
	if cpu, _ := d.room(two); cpu != 0 {
		t.Errorf("%d thousandths of a CPU are set aside where no pod may be resized", cpu)
	}
	d.api.Fix(false)
	d.until("it has the room", func() bool {
		cpu, memory := d.room(two)
		return cpu == 1000 && memory == 63
	})
	d.finish()
}
