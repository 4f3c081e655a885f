package local

import (
	"slices"

	"github.com/combsched/comb/internal/sched"
)

// The bounds of a rotation that is followed: what a task wrote into its own folder
// must neither keep its supervisor busy nor overflow. Beyond them it runs always.
const (
	minQuantum = 10 * sched.Millisecond
	maxQuantum = 1000 * 24 * sched.Hour
	maxEpoch   = sched.Time(1) << 60
)

// turns is a rotation as one of its attempts sees it. The zero value has no end.
type turns struct {
	r    sched.Rotation
	mine int // the number of its turn; -1 when it always runs
}

// turnsOf holds a rotation against the attempt that follows it.
func turnsOf(r sched.Rotation, own sched.AttemptID) turns {
	t := turns{r: r, mine: -1}
	if len(r.Turns) < 2 || r.Quantum < minQuantum || r.Quantum > maxQuantum || r.Epoch < 0 || r.Epoch > maxEpoch {
		return t
	}
	t.mine = slices.IndexFunc(r.Turns, func(turn []sched.AttemptID) bool { return slices.Contains(turn, own) })
	return t
}

// always reports whether the attempt runs all the time.
func (t *turns) always() bool { return len(t.r.Turns) < 2 || t.mine < 0 }

// at says whether the attempt has its turn, and when that changes; a rotation under
// which it always runs never changes that, and says 0.
func (t *turns) at(now sched.Time) (runs bool, until sched.Time) {
	if t.always() {
		return true, 0
	}
	n, q := int64(len(t.r.Turns)), int64(t.r.Quantum)
	round := floorDiv(int64(now-t.r.Epoch), q)
	ahead := floorMod(int64(t.mine)-round, n)
	if ahead == 0 {
		ahead, runs = 1, true
	}
	return runs, t.r.Epoch + sched.Time((round+ahead)*q)
}

// others are the attempts that must be suspended while this one runs.
func (t *turns) others() []sched.AttemptID {
	var list []sched.AttemptID
	for i, turn := range t.r.Turns {
		if i != t.mine {
			list = append(list, turn...)
		}
	}
	return list
}

// shares reports whether a rotation has more than one member.
func shares(r *sched.Rotation) bool {
	members := 0
	if r != nil {
		for _, turn := range r.Turns {
			members += len(turn)
		}
	}
	return members > 1
}

// floorDiv rounds down, also below 0: before the epoch the rounds go on backwards.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
