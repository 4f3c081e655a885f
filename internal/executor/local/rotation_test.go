package local

import (
	"math"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

func at(job int) model.AttemptID { return model.AttemptID{Job: model.JobID(job), N: 1} }

// turn is a rotation whose turns have one attempt each, of jobs 1, 2, ...
func turn(quantum model.Duration, epoch model.Time, n int) model.Rotation {
	r := model.Rotation{Quantum: quantum, Epoch: epoch}
	for i := range n {
		r.Turns = append(r.Turns, []model.AttemptID{at(i + 1)})
	}
	return r
}

func TestTurnsByTheClock(t *testing.T) {
	r := turn(10*model.Second, 100_000_000, 3)
	for _, tt := range []struct {
		job   int
		now   model.Time // seconds
		runs  bool
		until model.Time
	}{
		{1, 100, true, 110}, {1, 109, true, 110}, {1, 110, false, 120}, {1, 129, false, 130}, {1, 130, true, 140},
		{2, 100, false, 110}, {2, 110, true, 120}, {2, 120, false, 130}, {3, 100, false, 110}, {3, 120, true, 130},
		{3, 99, false, 110}, {1, 99, true, 110}, // before the epoch it is as at the epoch
	} {
		turns := turnsOf(r, at(tt.job))
		if runs, until := turns.at(tt.now * 1_000_000); runs != tt.runs || until != tt.until*1_000_000 {
			t.Errorf("job %d at %d s: %v until %d, want %v until %d s", tt.job, tt.now, runs, until, tt.runs, tt.until)
		}
	}
	two := turnsOf(model.Rotation{Turns: [][]model.AttemptID{{at(1), at(2)}, {at(3)}, {at(4)}}, Quantum: model.Second}, at(2))
	if got := two.others(); len(got) != 2 || got[0] != at(3) || got[1] != at(4) {
		t.Errorf("the others are %v", got)
	}
}

func TestRotationsThatSuspendNobody(t *testing.T) {
	good := turn(model.Second, 0, 2)
	for name, r := range map[string]model.Rotation{
		"none": {}, "one turn": turn(0, 0, 1), "a stranger's": {Turns: [][]model.AttemptID{{at(8)}, {at(9)}}, Quantum: model.Second},
		"no quantum":      {Turns: good.Turns},
		"tiny quantum":    {Turns: good.Turns, Quantum: 1},
		"huge quantum":    {Turns: good.Turns, Quantum: math.MaxInt64},
		"negative epoch":  {Turns: good.Turns, Quantum: model.Second, Epoch: math.MinInt64},
		"epoch of no end": {Turns: good.Turns, Quantum: model.Second, Epoch: math.MaxInt64},
	} {
		turns := turnsOf(r, at(1))
		for _, now := range []model.Time{0, 1, 1_700_000_000_000_000, math.MaxInt64} {
			if runs, until := turns.at(now); !runs || until != 0 {
				t.Errorf("%s: at %d it runs: %v, until %d", name, now, runs, until)
			}
		}
	}
	if shares(nil) || shares(&model.Rotation{Turns: [][]model.AttemptID{{at(1)}}}) {
		t.Error("one member shares with nobody")
	}
	if !shares(&good) || !shares(&model.Rotation{Turns: [][]model.AttemptID{{at(1), at(2)}}}) {
		t.Error("two members share")
	}
}
