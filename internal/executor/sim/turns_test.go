package sim_test

import (
	"context"
	"testing"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/executor/sim"
	"github.com/combsched/comb/internal/sched"
)

// Two jobs share one device. What each case says was reckoned by hand.
func TestTurns(t *testing.T) {
	one, two := sched.AttemptID{Job: 1, N: 1}, sched.AttemptID{Job: 2, N: 1}
	sliced := [][]sched.AttemptID{{one}, {two}}
	const million = 1_000_000
	for _, test := range []struct {
		name     string
		behavior sim.Behavior
		turns    [][]sched.AttemptID
		quantum  sched.Duration
		ends     [2]sched.Duration
	}{
		{"100 s each in turns of 60 s", sim.Behavior{RunFor: 100 * sched.Second}, sliced, sched.Minute, [2]sched.Duration{160 * sched.Second, 220 * sched.Second}},
		{"100 s of work and a start-up of 20 s", sim.Behavior{RunFor: 100 * sched.Second, StartUp: 20 * sched.Second}, sliced, sched.Minute, [2]sched.Duration{180 * sched.Second, 240 * sched.Second}},
		{"packed at half speed", sim.Behavior{RunFor: 100 * sched.Second, Packed: million / 2}, [][]sched.AttemptID{{one, two}}, 0, [2]sched.Duration{200 * sched.Second, 200 * sched.Second}},
		{"a switch costs 6 s of 60", sim.Behavior{RunFor: 108 * sched.Second, Switch: 6 * sched.Second}, sliced, sched.Minute, [2]sched.Duration{180 * sched.Second, 240 * sched.Second}},
		{"a million turns", sim.Behavior{RunFor: million * sched.Second}, sliced, sched.Second, [2]sched.Duration{(2*million - 1) * sched.Second, 2 * million * sched.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := sim.New(sim.Options{Start: start, Nodes: []cell.NodeName{"a"}, Behave: func(sim.Task) sim.Behavior { return test.behavior }})
			r := &sched.Rotation{Turns: test.turns, Quantum: test.quantum, Epoch: start}
			for job := 1; job <= 2; job++ {
				a := action(job, 1, 0)
				a.Start.Rotation = r
				w.Do(a)
			}
			w.Extend(start.Add(10_000 * sched.Hour))
			ends := endsOf(t, w)
			if err := w.Err(); err != nil || ends != test.ends {
				t.Fatalf("they ended after %v, want %v; %v", ends, test.ends, err)
			}
		})
	}
}

// endsOf lets a world go on to its end and returns when jobs 1 and 2 ended; that takes
// few events, however many turns there are.
func endsOf(t *testing.T, w *sim.World) (ends [2]sched.Duration) {
	t.Helper()
	for range 20 {
		now, in, err := w.Next(context.Background(), 0)
		if err != nil {
			return ends
		}
		for _, i := range in {
			if e, ok := i.Fact.(sched.TaskExited); ok {
				ends[e.Attempt.Job-1] = sched.Duration(now - start)
			}
		}
	}
	t.Fatal("the cost grows with the number of turns")
	return ends
}

// Whoever is left when the other was stopped runs on by the rotation that it is told.
func TestTurnsChange(t *testing.T) {
	one, two := sched.AttemptID{Job: 1, N: 1}, sched.AttemptID{Job: 2, N: 1}
	w := sim.New(sim.Options{Start: start, Nodes: []cell.NodeName{"a"}, Behave: func(sim.Task) sim.Behavior { return sim.Behavior{RunFor: 100 * sched.Second} }})
	r := &sched.Rotation{Turns: [][]sched.AttemptID{{one}, {two}}, Quantum: sched.Minute, Epoch: start}
	for job := 1; job <= 2; job++ {
		a := action(job, 1, 0)
		a.Start.Rotation = r
		w.Do(a)
	}
	drain(w, 90*sched.Second) // one ran 60 s, two 30 s
	w.Do(sched.Action{Attempt: two, Rotation: &sched.Rotation{Turns: [][]sched.AttemptID{{two}}, Epoch: w.Now()}})
	w.Do(sched.Action{Attempt: one})
	if got := drain(w, 69*sched.Second); len(got) != 1 {
		t.Fatalf("heard %v, want the end of one alone", got)
	}
	if got := drain(w, sched.Second); len(got) != 1 || w.Living() != 0 {
		t.Fatalf("heard %v with %d living, want the end of two after 70 s", got, w.Living())
	}
}
