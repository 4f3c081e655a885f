package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/test/executortest"
)

const start = model.Time(1_000_000)

// behave is what the suite's programs do.
func behave(t sim.Task) sim.Behavior {
	switch executortest.Program(t.Job.Roles[0].Launch.Command[0]) {
	case executortest.Succeed:
		return sim.Behavior{RunFor: model.Millisecond}
	case executortest.Fail:
		return sim.Behavior{RunFor: model.Millisecond, Code: 3}
	case executortest.Brief:
		return sim.Behavior{RunFor: model.Second}
	case executortest.Stubborn:
		return sim.Behavior{Stubborn: true}
	}
	return sim.Behavior{}
}

func TestConformance(t *testing.T) {
	executortest.Run(t, func(t *testing.T) *executortest.Harness {
		w := sim.New(sim.Options{Start: start, Behave: behave, Nodes: []cell.NodeName{"a", "b"}})
		t.Cleanup(func() {
			if err := w.Err(); err != nil {
				t.Error(err)
			}
		})
		var queue []model.Fact
		return &executortest.Harness{
			Executor: w,
			Next: func(d time.Duration) model.Fact {
				w.Extend(w.Now().Add(model.Duration(d.Microseconds())))
				for len(queue) == 0 {
					_, in, err := w.Next(context.Background(), 0)
					if err != nil {
						return nil
					}
					queue = append(queue, taskFacts(in)...)
				}
				f := queue[0]
				queue = queue[1:]
				return f
			},
			Restart: func() { w.Reopen(true) },
			Now:     w.Now, Rotates: true,
			Nodes:    []cell.NodeName{"a", "b"},
			SKU:      cell.SKU{Name: "GPU", GPU: 1, Device: cell.NVIDIA},
			Patience: time.Minute,
			Silence:  time.Second / 2,
		}
	})
}

func taskFacts(in []engine.Input) []model.Fact {
	var out []model.Fact
	for _, i := range in {
		switch i.Fact.(type) {
		case model.TaskStarted, model.TaskExited, model.TaskRefused, model.TaskUnknown:
			out = append(out, i.Fact)
		}
	}
	return out
}

// action starts one task of a job on a device of node a.
func action(job, n int, device int32) model.Action {
	id := model.AttemptID{Job: model.JobID(job), N: int32(n)}
	j := &model.Job{Roles: []model.Role{{Tasks: 1, Leaves: 1, Launch: model.Launch{Command: []string{""}}}}}
	return model.Action{Attempt: id, Start: &model.Start{ID: id.Job, Job: j, Tasks: []model.TaskStart{{
		Place: cell.Task{Node: "a", SKU: "GPU", Devices: []int32{device}},
	}}}}
}

// part starts a job's only task on one of so many parts of device 0 of node a.
func part(job int, sku cell.TypeName, n, of int32) model.Action {
	a := action(job, 1, 0)
	t := &a.Start.Tasks[0]
	t.SKU = cell.SKU{Name: sku, GPU: 1, Device: cell.NVIDIA, Part: cell.Share}
	t.Place.SKU, t.Place.Parts, t.Division = sku, []int32{n}, []int32{of}
	return a
}

// Different parts of one division have one owner each, so have devices of two kinds with
// one index.
func TestNoBreach(t *testing.T) {
	w := sim.New(sim.Options{Start: start})
	w.Do(part(1, "HALF", 0, 2))
	w.Do(part(2, "OTHER-HALF", 1, 2))
	slot := action(3, 1, 0)
	slot.Start.Tasks[0].SKU.Device, slot.Start.Tasks[0].Place.SKU = cell.CPU, "SLOT"
	w.Do(slot)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// The world is a check of its own: it notices what the core must never do.
func TestBreaches(t *testing.T) {
	tests := []struct {
		name, want string
		do         func(w *sim.World)
	}{
		{"two owners", "has two owners", func(w *sim.World) {
			w.Do(action(1, 1, 0))
			w.Do(action(2, 1, 0))
		}},
		{"an owner of a part", "has two owners", func(w *sim.World) {
			part := action(2, 1, 0)
			part.Start.Tasks[0].Place.Parts = []int32{3}
			w.Do(action(1, 1, 0))
			w.Do(part)
		}},
		{"an owner of a part under another SKU", "has two owners", func(w *sim.World) {
			w.Do(part(1, "HALF", 0, 2))
			whole := action(2, 1, 0)
			whole.Start.Tasks[0].SKU.Device = cell.NVIDIA
			w.Do(whole)
		}},
		{"an owner of a part of another division", "has two owners", func(w *sim.World) {
			w.Do(part(1, "HALF", 0, 2))
			w.Do(part(2, "THIRD", 1, 3))
		}},
		{"task twice", "runs twice", func(w *sim.World) {
			w.Do(action(1, 1, 0))
			w.Do(action(1, 2, 1))
		}},
		{"new action in recovery", "while an engine recovers", func(w *sim.World) {
			w.Reopen(false)
			w.Do(action(1, 1, 0))
		}},
		{"no settling", "at one instant", func(w *sim.World) {
			for range 20000 {
				if _, _, err := w.Next(context.Background(), start); err != nil {
					return
				}
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := sim.New(sim.Options{Start: start})
			test.do(w)
			if err := w.Err(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want a breach with %q", err, test.want)
			}
		})
	}
}

// drain returns the facts up to a later instant.
func drain(w *sim.World, d model.Duration) []model.Fact {
	w.Extend(w.Now().Add(d))
	var out []model.Fact
	for {
		_, in, err := w.Next(context.Background(), 0)
		if err != nil {
			return out
		}
		for _, i := range in {
			out = append(out, i.Fact)
		}
	}
}

// What happens on a node that cannot be reached is heard when it is back.
func TestUnreachableNode(t *testing.T) {
	w := sim.New(sim.Options{Start: start, Behave: func(sim.Task) sim.Behavior {
		return sim.Behavior{RunFor: 10 * model.Second}
	}})
	w.Do(action(1, 1, 0))
	drain(w, model.Second)
	w.Down("a", "cable")
	if got := drain(w, model.Minute); len(got) != 1 {
		t.Fatalf("heard %v, want the node's health alone", got)
	}
	w.Up("a")
	got := drain(w, model.Second)
	if len(got) != 2 {
		t.Fatalf("heard %v, want health and exit", got)
	}
	if e, ok := got[1].(model.TaskExited); !ok || e.Exit.Code != 0 {
		t.Fatalf("heard %v, want exit 0", got[1])
	}
}

func TestRebootEndsTasks(t *testing.T) {
	w := sim.New(sim.Options{Start: start})
	w.Do(action(1, 1, 0))
	drain(w, model.Second)
	w.Down("a", "power")
	w.Reboot("a")
	got := drain(w, model.Second)
	e, ok := got[len(got)-1].(model.TaskExited)
	if !ok || e.Exit.Cause != model.NodeRebooted || w.Living() != 0 {
		t.Fatalf("heard %v with %d living tasks, want a proof of death", got, w.Living())
	}
}

// A task whose speed changes twice: 100 s of work, 10 s of start-up. 20 s at full
// speed do 10 s of it, 60 s at half speed 30, and the 60 that are left take 240 s at a
// quarter. The last change comes while it works, the first end that was planned (at
// 110 s) and the second (at 200 s) must not happen.
func TestSpeedChanges(t *testing.T) {
	w := sim.New(sim.Options{Start: start, Behave: func(sim.Task) sim.Behavior {
		return sim.Behavior{RunFor: 100 * model.Second, StartUp: 10 * model.Second}
	}})
	w.Do(action(1, 1, 0))
	drain(w, 20*model.Second)
	w.SetSpeed(model.AttemptID{Job: 1, N: 1}, 500_000)
	drain(w, 60*model.Second)
	w.SetSpeed(model.AttemptID{Job: 1, N: 1}, 250_000)
	if got := drain(w, 240*model.Second-1); len(got) != 0 {
		t.Fatalf("too early: %v", got)
	}
	got := drain(w, 1)
	if e, ok := got[0].(model.TaskExited); !ok || e.Exit.Code != 0 || w.Now() != start.Add(320*model.Second) {
		t.Fatalf("at %d heard %v, want its end at 320 s", w.Now(), got)
	}
}

// A change during start-up: what is left of it passes, whatever the speed. The work of
// 7 s at 300,000 millionths takes 23.333334 s, rounded up.
func TestSpeedChangesInStartUp(t *testing.T) {
	w := sim.New(sim.Options{Start: start, Behave: func(sim.Task) sim.Behavior {
		return sim.Behavior{RunFor: 7 * model.Second, StartUp: 10 * model.Second, Speed: 600_000}
	}})
	w.Do(action(1, 1, 0))
	drain(w, 4*model.Second)
	w.SetSpeed(model.AttemptID{Job: 1, N: 1}, 300_000)
	if got := drain(w, 29_333_333); len(got) != 0 {
		t.Fatalf("too early: %v", got)
	}
	if got := drain(w, 1); len(got) != 1 {
		t.Fatalf("at %d heard %v, want its end", w.Now(), got)
	}
}

// A speed that never ends the work neither overflows nor holds the world up.
func TestSlowestSpeed(t *testing.T) {
	w := sim.New(sim.Options{Start: start, Behave: func(sim.Task) sim.Behavior {
		return sim.Behavior{RunFor: 1 << 55, Speed: 1}
	}})
	w.Do(action(1, 1, 0))
	if got := drain(w, 1<<50); len(got) != 1 {
		t.Fatalf("heard %v, want its start alone", got)
	}
}
