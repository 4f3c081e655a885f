package policy

import (
	"math"
	"math/bits"

	"github.com/combsched/comb/internal/core/model"
)

// unknown stands for a run time that was not declared: such a gang comes last.
const unknown = math.MaxInt64

// duration is the declared run time of a gang's job.
func duration(g *model.GangView) int64 {
	if g.Hints.Duration <= 0 {
		return unknown
	}
	return int64(g.Hints.Duration)
}

// remaining is the declared run time less what has run; at least 1 where it is
// known: a job that outruns its declaration is about to end, for all we know.
func remaining(g *model.GangView) int64 {
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

// plus adds two times, saturating.
func plus(a, b int64) int64 {
	if a > unknown-b {
		return unknown
	}
	return a + b
}

// scale is a * b / c, rounded down, saturating; none is negative, c is not 0.
func scale(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return unknown
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	if q > unknown {
		return unknown
	}
	return int64(q)
}

// startCost is 1 + log2 of a number of GPUs, rounded up: how much longer a large job
// takes to start (Chronus' artifact).
func startCost(leaves int32) int64 { return 1 + int64(bits.Len32(uint32(max(leaves, 1)-1))) }

// firstfit serves in order of submission and passes over what does not fit.
func firstfit() *order {
	return &order{key: func(*model.GangView) model.Key { return model.Key{} }}
}

// sjf serves the shortest declared run time first and does not preempt.
func sjf() *order {
	return &order{key: func(g *model.GangView) model.Key { return model.Key{Rank: duration(g)} }}
}

// srtf serves the shortest remaining run time first, and preempts.
func srtf(a *args) model.Policy {
	return shortest(a, func(g *model.GangView) model.Key { return model.Key{Rank: remaining(g)} }, func(*model.GangView) int64 { return 1 })
}

// srsf serves the shortest remaining service first, which is the remaining run
// time times the GPUs, and preempts (Tiresias, NSDI'19, section 2).
func srsf(a *args) model.Policy {
	return shortest(a, func(g *model.GangView) model.Key { return model.Key{Rank: times(remaining(g), g.Leaves)} },
		func(g *model.GangView) int64 { return int64(max(g.Leaves, 1)) })
}

// shortest preempts by what is left, which falls at a rate while a gang runs.
func shortest(a *args, key func(*model.GangView) model.Key, rate func(*model.GangView) int64) model.Policy {
	return &falling{newPreempting(a, key), func(g *model.GangView) (model.Time, int64) {
		if g.Started == 0 || duration(g) == unknown {
			return 0, 0
		}
		return g.Started.Add(g.Hints.Duration - g.RanBefore), rate(g)
	}}
}
