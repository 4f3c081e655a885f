package model

import (
	"math/rand/v2"
	"testing"
)

// Two jobs of one GPU, 100 s of work each, in turns of 60 s: the first runs 0-60 and
// 120-160, the second 60-120 and 180-220.
func TestRotationByHand(t *testing.T) {
	a, b := AttemptID{Job: 1, N: 1}, AttemptID{Job: 2, N: 1}
	r := Rotation{Turns: [][]AttemptID{{a}, {b}}, Quantum: Minute, Epoch: 1000}
	at := func(s int) Time { return r.Epoch.Add(Duration(s) * Second) }
	if got := r.RunReachedAt(a, at(0), 100*Second); got != at(160) {
		t.Errorf("the first ends at %d, want 160 s", got)
	}
	if got := r.RunReachedAt(b, at(0), 100*Second); got != at(220) {
		t.Errorf("the second ends at %d, want 220 s", got)
	}
	if got := r.Ran(b, at(30), at(190)); got != 70*Second {
		t.Errorf("the second ran for %d, want 70 s", got)
	}
	if !r.Runs(a, at(59)) || r.Runs(a, at(60)) || !r.Runs(b, at(119)) || r.Change(at(61)) != at(120) {
		t.Error("the turns do not change at 60 and 120 s")
	}
	packed := Rotation{Turns: [][]AttemptID{{a, b}}, Epoch: 1000}
	if packed.RunReachedAt(b, at(5), 10*Second) != at(15) || packed.Ran(a, at(5), at(9)) != 4*Second || packed.Change(at(5)) != 0 {
		t.Error("who is packed does not run all the time")
	}
}

// The arithmetic agrees with a clock that is read tick by tick.
func TestRotationAgreesWithTicks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		r := Rotation{Quantum: Duration(1 + rng.IntN(5)), Epoch: Time(1 + rng.IntN(10))}
		for i := range 1 + rng.IntN(4) {
			r.Turns = append(r.Turns, []AttemptID{{Job: JobID(i + 1), N: 1}})
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		id := AttemptID{Job: JobID(1 + rng.IntN(5)), N: 1} // one too many: it has no turn
		from, to := Time(rng.IntN(30)), Time(rng.IntN(60))
		var want Duration
		for at := from; at < to; at++ {
			if r.Runs(id, at) {
				want++
			}
		}
		if got := r.Ran(id, from, to); got != want {
			t.Fatalf("%+v: %v ran for %d of [%d, %d), want %d", r, id, got, from, to, want)
		}
		ends := int64(0)
		for at := from + 1; at <= to && len(r.Turns) > 1; at++ {
			if at > r.Epoch && r.Runs(id, at-1) && !r.Runs(id, at) {
				ends++
			}
		}
		if got := r.Suspensions(id, from, to); got != ends {
			t.Fatalf("%+v: %v is suspended %d times in (%d, %d], want %d", r, id, got, from, to, ends)
		}
		need := Duration(1 + rng.IntN(20))
		at, had := from, Duration(0)
		for ; had < need && at < 1000; at++ {
			if r.Runs(id, at) {
				had++
			}
		}
		if had < need {
			at = forever
		}
		if got := r.RunReachedAt(id, from, need); got != at {
			t.Fatalf("%+v: %v ran for %d since %d at %d, want %d", r, id, need, from, got, at)
		}
	}
}

func TestRotationCheck(t *testing.T) {
	a, b := AttemptID{Job: 1, N: 1}, AttemptID{Job: 2, N: 1}
	for _, r := range []Rotation{
		{},
		{Turns: [][]AttemptID{{}}},
		{Turns: [][]AttemptID{{a}, {b}}},
		{Turns: [][]AttemptID{{a}, {b}}, Quantum: MaxQuantum + 1},
		{Turns: [][]AttemptID{{a}, {b, a}}, Quantum: Minute},
		{Turns: make([][]AttemptID, MaxTurns+1), Quantum: Minute},
	} {
		if r.Check() == nil {
			t.Errorf("%+v is taken for a rotation", r)
		}
	}
}
