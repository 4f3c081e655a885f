package policy

import (
	"math"

	"github.com/combsched/comb/internal/sched"
)

// unknown stands for a run time that nobody declared: such a gang comes last.
const unknown = math.MaxInt64

// duration is the declared run time of a gang's job.
func duration(g *sched.GangView) int64 {
	if g.Hints.Duration <= 0 {
		return unknown
	}
	return int64(g.Hints.Duration)
}

// remaining is the declared run time less what has run; at least 1 where it is
// known: a job that outruns its declaration is about to end, for all we know.
func remaining(g *sched.GangView) int64 {
	d := duration(g)
	if d == unknown {
		return unknown
	}
	return max(d-int64(g.Ran), 1)
}

// times multiplies a time with a number of GPUs, saturating.
func times(t int64, leaves int32) int64 {
	if t > unknown/int64(max(leaves, 1)) {
		return unknown
	}
	return t * int64(leaves)
}

// firstfit serves in order of submission and passes over what does not fit.
func firstfit() *order {
	return &order{key: func(*sched.GangView) sched.Key { return sched.Key{} }}
}

// sjf serves the shortest declared run time first and preempts nobody.
func sjf() *order {
	return &order{key: func(g *sched.GangView) sched.Key { return sched.Key{Rank: duration(g)} }}
}

// srtf serves the shortest remaining run time first, and preempts.
func srtf() *order {
	return &order{preempt: true, key: func(g *sched.GangView) sched.Key { return sched.Key{Rank: remaining(g)} }}
}

// srsf serves the shortest remaining service first, which is the remaining run
// time times the GPUs, and preempts (Tiresias, NSDI'19, section 2).
func srsf() *order {
	return &order{preempt: true, key: func(g *sched.GangView) sched.Key { return sched.Key{Rank: times(remaining(g), g.Leaves)} }}
}
