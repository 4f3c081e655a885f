package judge

import (
	"math/bits"

	"github.com/combsched/comb/internal/core/policy/leases"
)

// Optimum is the best that there is.
type Optimum struct {
	// Complete is whether a plan places every guaranteed job.
	Complete bool
	// Reward is the largest reward of a complete plan, Objective the largest objective
	// of a complete plan with that reward.
	Reward, Objective int64
}

// Exhaustive tries every plan of a tiny problem: some 5 jobs and 6 leases. It
// shares no code with the solver.
func Exhaustive(p *leases.Problem) Optimum {
	e := exhaustive{p: p, left: append([]int32(nil), p.Capacity...)}
	e.job(0, 0, 0)
	return e.best
}

type exhaustive struct {
	p    *leases.Problem
	left []int32
	best Optimum
}

func (e *exhaustive) job(j int, reward, now int64) {
	if j == len(e.p.Jobs) {
		better := !e.best.Complete || reward > e.best.Reward || reward == e.best.Reward && reward+now > e.best.Objective
		if better {
			e.best = Optimum{true, reward, reward + now}
		}
		return
	}
	job := &e.p.Jobs[j]
	if !job.Guaranteed {
		e.job(j+1, reward, now)
	}
	for _, o := range job.Options {
		for set := range uint32(1) << o.Leases {
			if bits.OnesCount32(set) != int(job.Need) || !e.change(set, job.GPUs) {
				continue
			}
			e.job(j+1, reward+o.Reward, now+int64(set&1)*e.p.CurrentWorth*int64(job.GPUs))
			e.change(set, -job.GPUs)
		}
	}
}

// change takes GPUs from a set of leases, or nothing when one has not enough.
func (e *exhaustive) change(set uint32, gpus int32) bool {
	for t, left := range e.left {
		if set>>t&1 != 0 && left < gpus {
			return false
		}
	}
	for t := range e.left {
		if set>>t&1 != 0 {
			e.left[t] -= gpus
		}
	}
	return true
}
