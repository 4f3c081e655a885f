package kube_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/test/testkit"
)

// A task is let in when those of the other turns say that they hold their devices no more, or have
// none; one of which a new server has not heard may hold them. What it did not do in time is why it
// ended.
func TestTurns(t *testing.T) {
	d := newDriver(t, 5)
	d.api.Linger()
	one := d.onClaimed(1)
	two := d.onClaimed(1, one)
	pod := func(at model.AttemptID) string { return d.podOf(at, 0) }
	d.until("both run", func() bool { return d.api.Runs(pod(one)) && d.api.Runs(pod(two)) && d.told("TaskStarted") == 2 })
	ask := func(at model.AttemptID, a link.TurnReport) link.TurnAnswer {
		t.Helper()
		says, err := d.e.PodHandler().Turn(pod(at), a)
		if err != nil {
			t.Fatal(err)
		}
		return says
	}
	says := ask(one, link.TurnReport{Holds: true})
	if says.Rotation == nil || len(says.Rotation.Turns) != 2 || says.Enter || says.Guard != model.Second {
		t.Fatalf("it is told %+v", says)
	}
	has := says.Is
	if says := ask(one, link.TurnReport{Has: has, Holds: true}); says.Rotation != nil || says.Is != has {
		t.Errorf("it is told %+v again", says)
	}
	if says := ask(two, link.TurnReport{Wants: true}); says.Enter || says.Rotation == nil {
		t.Errorf("it is let in by a rotation that it does not follow yet, beside one that holds its devices: %+v", says)
	}
	wants := link.TurnReport{Has: has, Wants: true}
	if ask(two, wants).Enter {
		t.Error("it is let in beside one that holds its devices")
	}
	ask(one, link.TurnReport{Has: has})
	if !ask(two, wants).Enter {
		t.Error("it is not let in when the other has left")
	}
	if ask(one, wants).Enter {
		t.Error("the other is let in beside it, which has just been")
	}

	// A new server has heard of none, until it has.
	d.restart()
	if ask(one, wants).Enter {
		t.Error("it is let in beside one of which nothing is known")
	}
	ask(two, link.TurnReport{Has: has})
	if !ask(one, wants).Enter {
		t.Error("it is not let in when the other is known to have left")
	}
	ask(two, link.TurnReport{Has: has, Why: "it was too slow"})
	d.end(two)
	d.until("the other is gone", func() bool { return pod(two) == "" })
	if why := d.ended[two]; why.Cause != model.SuspendTimeout || why.Message != "it was too slow" || why.Own {
		t.Errorf("it ended with %+v", why)
	}
	if _, err := d.e.PodHandler().Turn(d.podOf(one, 0)+"0", wants); err == nil {
		t.Error("a pod that is none is answered")
	}
	d.finish()
}

// told is how many facts of a kind were told.
func (d *driver) told(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.facts[kind]
}

// What one pod asks, however often and however long its rotation is, does not keep the executor
// from what it is to do for others.
func TestAPodThatAsksAndAsks(t *testing.T) {
	d := newDriver(t, 5)
	d.api.Linger()
	one := d.onClaimed(1)
	two := d.onClaimed(2)
	d.until("both run", func() bool { return d.told("TaskStarted") == 2 })
	long := &model.Rotation{Turns: [][]model.AttemptID{{one}}, Quantum: model.Second}
	for i := range model.JobID(20_000) {
		long.Turns[0] = append(long.Turns[0], model.AttemptID{Job: 1000 + i, N: 1})
	}
	pod, asks := d.podOf(one, 0), d.e.PodHandler().Turn
	d.e.Do(model.Action{Attempt: one, Rotation: long})
	stop := make(chan struct{})
	var asked atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := asks(pod, link.TurnReport{Wants: true, Holds: true}); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	began, used, times := time.Now(), cpuTime(t), []time.Duration{}
	for (asked.Load() < 10_000 || len(times) < 100) && time.Since(began) < testkit.Patience {
		at := time.Now()
		d.e.Do(model.Action{Attempt: two, Rotation: &model.Rotation{Turns: [][]model.AttemptID{{two}}}})
		times = append(times, time.Since(at))
		time.Sleep(100 * time.Microsecond) // the pace of what is done for another
	}
	close(stop)
	all.Wait()
	took := cpuTime(t) - used
	slices.Sort(times)
	middle := times[len(times)/2]
	t.Logf("%d asks; %d things done meanwhile, each in %v, the longest in %v", asked.Load(), len(times), middle, times[len(times)-1])
	// The time of the processor does not grow with what else runs on the machine, and of many
	// times the middle one hardly.
	if each := took / time.Duration(max(asked.Load(), 1)); asked.Load() < 10_000 || each > time.Millisecond || middle > time.Millisecond {
		t.Errorf("a pod is answered %d times for %v of the processor each, and what is to be done for another takes %v meanwhile", asked.Load(), each, middle)
	}
	d.end(one)
	d.end(two)
	d.finish()
}

// cpuTime is how long this process has run on processors.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
