package sim_test

import (
	"context"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/sim"
)

// Two jobs share one device. What each case says was reckoned by hand.
func TestTurns(t *testing.T) {
	one, two := model.AttemptID{Job: 1, N: 1}, model.AttemptID{Job: 2, N: 1}
	sliced := [][]model.AttemptID{{one}, {two}}
	const million = 1_000_000
	for _, test := range []struct {
		name     string
		behavior sim.Behavior
		turns    [][]model.AttemptID
		quantum  model.Duration
		ends     [2]model.Duration
	}{
		{"100 s each in turns of 60 s", sim.Behavior{RunFor: 100 * model.Second}, sliced, model.Minute, [2]model.Duration{160 * model.Second, 220 * model.Second}},
		{"100 s of work and a start-up of 20 s", sim.Behavior{RunFor: 100 * model.Second, StartUp: 20 * model.Second}, sliced, model.Minute, [2]model.Duration{180 * model.Second, 240 * model.Second}},
		{"packed at half speed", sim.Behavior{RunFor: 100 * model.Second, Packed: million / 2}, [][]model.AttemptID{{one, two}}, 0, [2]model.Duration{200 * model.Second, 200 * model.Second}},
		{"a switch costs 6 s of 60", sim.Behavior{RunFor: 108 * model.Second, Switch: 6 * model.Second}, sliced, model.Minute, [2]model.Duration{180 * model.Second, 240 * model.Second}},
		{"a million turns", sim.Behavior{RunFor: million * model.Second}, sliced, model.Second, [2]model.Duration{(2*million - 1) * model.Second, 2 * million * model.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := sim.New(sim.Options{Start: start, Nodes: []cell.NodeName{"a"}, Behave: func(sim.Task) sim.Behavior { return test.behavior }})
			r := &model.Rotation{Turns: test.turns, Quantum: test.quantum, Epoch: start}
			for job := 1; job <= 2; job++ {
				a := action(job, 1, 0)
				a.Start.Rotation = r
				w.Do(a)
			}
			w.Extend(start.Add(10_000 * model.Hour))
			ends := endsOf(t, w)
			if err := w.Err(); err != nil || ends != test.ends {
				t.Fatalf("they ended after %v, want %v; %v", ends, test.ends, err)
			}
		})
	}
}

// endsOf lets a world go on to its end and returns when jobs 1 and 2 ended; that takes
// few events, however many turns there are.
func endsOf(t *testing.T, w *sim.World) (ends [2]model.Duration) {
	t.Helper()
	for range 20 {
		now, in, err := w.Next(context.Background(), 0)
		if err != nil {
			return ends
		}
		for _, i := range in {
			if e, ok := i.Fact.(model.TaskExited); ok {
				ends[e.Attempt.Job-1] = model.Duration(now - start)
			}
		}
	}
	t.Fatal("the cost grows with the number of turns")
	return ends
}

// Whoever is left when the other was stopped runs on by the rotation that it is told.
func TestTurnsChange(t *testing.T) {
	one, two := model.AttemptID{Job: 1, N: 1}, model.AttemptID{Job: 2, N: 1}
	w := sim.New(sim.Options{Start: start, Nodes: []cell.NodeName{"a"}, Behave: func(sim.Task) sim.Behavior { return sim.Behavior{RunFor: 100 * model.Second} }})
	r := &model.Rotation{Turns: [][]model.AttemptID{{one}, {two}}, Quantum: model.Minute, Epoch: start}
	for job := 1; job <= 2; job++ {
		a := action(job, 1, 0)
		a.Start.Rotation = r
		w.Do(a)
	}
	drain(w, 90*model.Second) // one ran 60 s, two 30 s
	w.Do(model.Action{Attempt: two, Rotation: &model.Rotation{Turns: [][]model.AttemptID{{two}}, Epoch: w.Now()}})
	w.Do(model.Action{Attempt: one})
	if got := drain(w, 69*model.Second); len(got) != 1 {
		t.Fatalf("heard %v, want the end of one alone", got)
	}
	if got := drain(w, model.Second); len(got) != 1 || w.Living() != 0 {
		t.Fatalf("heard %v with %d living, want the end of two after 70 s", got, w.Living())
	}
}
