package model

import (
	"fmt"
	"slices"
)

// forever is the end of time.
const forever = Time(1<<63 - 1)

// Rotation says which attempts run when on leaves that several share. Round r is
// (now - Epoch) / Quantum. The attempts of turn r modulo the number of turns run, and the
// others are suspended. With one turn all run at once: they are packed. Executors follow
// it by the clock alone, so a dead server leaves none suspended for ever, and all tasks of
// a gang switch together.
type Rotation struct {
	Turns   [][]AttemptID `json:"turns"`
	Quantum Duration      `json:"quantum,omitempty"` // more than 0 with several turns
	Epoch   Time          `json:"epoch"`
}

// MaxTurns and MaxQuantum bound a rotation, so that its arithmetic cannot overflow.
const (
	MaxTurns   = 64
	MaxQuantum = 24 * Hour
)

// Check says what is wrong with a rotation: no attempt in it, one twice, too many
// turns, or turns without a quantum.
func (r *Rotation) Check() error {
	if n := len(r.Turns); n == 0 || n > MaxTurns {
		return fmt.Errorf("a rotation has %d turns, want 1 to %d", n, MaxTurns)
	}
	if len(r.Turns) > 1 && (r.Quantum <= 0 || r.Quantum > MaxQuantum) {
		return fmt.Errorf("a rotation has a quantum of %d microseconds, want 1 to %d", r.Quantum, MaxQuantum)
	}
	var seen []AttemptID
	for _, turn := range r.Turns {
		if len(turn) == 0 {
			return fmt.Errorf("a rotation has an empty turn")
		}
		for _, id := range turn {
			if slices.Contains(seen, id) {
				return fmt.Errorf("attempt %v stands twice in a rotation", id)
			}
			seen = append(seen, id)
		}
	}
	return nil
}

// Turn returns the number of an attempt's turn; -1 when it has none.
func (r *Rotation) Turn(id AttemptID) int {
	return slices.IndexFunc(r.Turns, func(t []AttemptID) bool { return slices.Contains(t, id) })
}

// Runs reports whether an attempt has its turn at an instant. Before the epoch it is
// as at the epoch. An attempt in no turn never runs.
func (r *Rotation) Runs(id AttemptID, at Time) bool {
	k := r.Turn(id)
	if k < 0 || len(r.Turns) == 1 {
		return k == 0
	}
	return r.turnAt(at) == k
}

// turnAt is the number of the turn at an instant.
func (r *Rotation) turnAt(at Time) int {
	if at < r.Epoch || len(r.Turns) == 1 {
		return 0
	}
	return int(Duration(at-r.Epoch) / r.Quantum % Duration(len(r.Turns)))
}

// Change returns the first instant after another at which another turn begins; 0 is
// never.
func (r *Rotation) Change(after Time) Time {
	if len(r.Turns) < 2 {
		return 0
	}
	if after < r.Epoch {
		return r.Epoch.Add(r.Quantum)
	}
	return after.Add(r.Quantum - Duration(after-r.Epoch)%r.Quantum)
}

// ranSinceEpoch is how long an attempt of turn k ran from the epoch to an instant. Before the epoch
// it is negative for turn 0, and 0 for others.
func (r *Rotation) ranSinceEpoch(k int, at Time) Duration {
	d := Duration(at - r.Epoch)
	switch {
	case len(r.Turns) == 1:
		return d
	case d < 0 && k == 0:
		return d
	case d < 0:
		return 0
	}
	period := r.Quantum * Duration(len(r.Turns))
	return d/period*r.Quantum + min(max(d%period-Duration(k)*r.Quantum, 0), r.Quantum)
}

// Ran returns how long an attempt had its turn between two instants.
func (r *Rotation) Ran(id AttemptID, from, to Time) Duration {
	k := r.Turn(id)
	if k < 0 || to <= from {
		return 0
	}
	return r.ranSinceEpoch(k, to) - r.ranSinceEpoch(k, from)
}

// Suspensions returns how many turns of an attempt end after one instant and not after
// another; with a single turn there are none.
func (r *Rotation) Suspensions(id AttemptID, from, to Time) int64 {
	k := r.Turn(id)
	if k < 0 || len(r.Turns) < 2 || to <= from {
		return 0
	}
	period := r.Quantum * Duration(len(r.Turns))
	ended := func(at Time) int64 {
		d := Duration(at-r.Epoch) - Duration(k+1)*r.Quantum
		if d < 0 {
			return 0
		}
		return int64(d/period) + 1
	}
	return ended(to) - ended(from)
}

// RunReachedAt returns when an attempt will have run for d since an instant; forever if it never
// will.
func (r *Rotation) RunReachedAt(id AttemptID, from Time, d Duration) Time {
	k := r.Turn(id)
	if k < 0 {
		return forever
	}
	if d <= 0 {
		return from
	}
	if len(r.Turns) == 1 {
		return from.Add(d)
	}
	goal := r.ranSinceEpoch(k, from) + d // at least 1, unless the turn is the first and begins before the epoch
	if goal <= 0 {
		return r.Epoch.Add(goal)
	}
	whole := (goal - 1) / r.Quantum
	if whole > Duration(forever)/(r.Quantum*Duration(len(r.Turns)))-2 {
		return forever
	}
	into := Duration(k)*r.Quantum + goal - whole*r.Quantum
	return r.Epoch.Add(whole * r.Quantum * Duration(len(r.Turns))).Add(into)
}

// Equal reports whether two rotations have the same turns in the same order and the
// same quantum, whatever their epochs.
func (r *Rotation) Equal(o *Rotation) bool {
	return r.Quantum == o.Quantum && slices.EqualFunc(r.Turns, o.Turns, slices.Equal[[]AttemptID])
}
