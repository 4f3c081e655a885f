package local

import (
	"github.com/combsched/comb/internal/core/model"
)

// Bounds on a rotation, besides its own checks. A task can write rotations into its folder, and
// they must neither keep its supervisor busy nor overflow. Beyond the bounds it runs all the
// time.
const (
	minQuantum = 10 * model.Millisecond
	maxEpoch   = model.Time(1) << 60
	maxMembers = 256
)

// turns is a rotation from the view of one of its attempts.
type turns struct {
	r      model.Rotation
	own    model.AttemptID
	slices bool // it does not run all the time
}

// turnsOf checks a rotation, for the attempt that follows it.
func turnsOf(r model.Rotation, own model.AttemptID) turns {
	t := turns{r: r, own: own}
	members := 0
	for _, turn := range r.Turns {
		members += len(turn)
	}
	t.slices = len(r.Turns) > 1 && members <= maxMembers && r.Check() == nil && r.Quantum >= minQuantum &&
		r.Epoch >= 0 && r.Epoch <= maxEpoch && r.Turn(own) >= 0
	return t
}

// always reports whether the attempt runs all the time.
func (t *turns) always() bool { return !t.slices }

// at reports whether the attempt has its turn, and until when nothing changes; 0 is for ever.
func (t *turns) at(now model.Time) (runs bool, until model.Time) {
	if t.always() || now > maxEpoch {
		return true, 0
	}
	return t.r.Runs(t.own, now), t.r.Change(now)
}

// others are the attempts that must be suspended while this one runs.
func (t *turns) others() []model.AttemptID {
	var list []model.AttemptID
	mine := t.r.Turn(t.own)
	for i, turn := range t.r.Turns {
		if i != mine {
			list = append(list, turn...)
		}
	}
	return list
}

// shares reports whether a rotation has more than one member.
func shares(r *model.Rotation) bool {
	members := 0
	if r != nil {
		for _, turn := range r.Turns {
			members += len(turn)
		}
	}
	return members > 1
}
