package leases

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
)

// Vector is a set of leases as a bitmap: lease t is bit t%64 of word t/64. Words
// that are missing are empty; nil is the empty set.
type Vector []uint64

// Has reports whether lease t is in the set.
func (v Vector) Has(t int) bool { return t/64 < len(v) && v[t/64]>>(t%64)&1 != 0 }

// Count returns how many leases are in the set.
func (v Vector) Count() int {
	n := 0
	for _, w := range v {
		n += bits.OnesCount64(w)
	}
	return n
}

// End returns one more than the last lease in the set, 0 for the empty set.
func (v Vector) End() int {
	for i := len(v) - 1; i >= 0; i-- {
		if v[i] != 0 {
			return i*64 + bits.Len64(v[i])
		}
	}
	return 0
}

// All yields the leases in the set, the first one first.
func (v Vector) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range v {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// With returns the set with lease t in it; the receiver may be changed.
func (v Vector) With(t int) Vector {
	for t/64 >= len(v) {
		v = append(v, 0)
	}
	v[t/64] |= 1 << (t % 64)
	return v
}

// Next writes the set as it is one lease later into dst and returns it: lease 0
// is dropped, and lease t becomes lease t-1. So a plan becomes the warm start of
// the next one. dst may be the set itself.
func (v Vector) Next(dst Vector) Vector {
	dst = append(dst[:0], v...)
	for i := range dst {
		dst[i] >>= 1
		if i+1 < len(dst) {
			dst[i] |= v[i+1] << 63
		}
	}
	return dst
}

// Option is one deadline of a job.
type Option struct {
	// Leases is how many leases end before the deadline: 0 to Leases-1 may be used.
	Leases int32
	// Reward is what meeting the deadline is worth, in any fixed-point unit; all
	// options of a problem have the same unit.
	Reward int64
}

// Job is what asks for leases.
type Job struct {
	// GPUs is how many GPUs the job is planned with in each of its leases (g').
	GPUs int32
	// Need is how many leases it needs (r), any of those before the deadline.
	Need int32
	// Guaranteed means that exactly one option must be chosen, else at most one.
	Guaranteed bool
	// Options are the deadlines, earliest first, and no later one is worth more.
	// One with fewer leases than Need can never be chosen.
	Options []Option
	// Cached are the leases that the last plan gave the job, moved on to now
	// (Vector.Next). It counts when it has exactly Need leases before a deadline.
	Cached Vector
}

// Problem is one selection: which jobs hold which leases. It is for one chain of
// equal nodes; a caller with several chains makes a problem of each.
type Problem struct {
	// Capacity is how many GPUs each lease has for these jobs, lease 0 first: the
	// chain's GPUs less what is fixed.
	Capacity []int32
	// Jobs are the rows' owners; a plan names them by their index.
	Jobs []Job
	// CurrentWorth is what each GPU used in lease 0 adds to the objective, in the unit of the
	// rewards: above 0 to use the current lease much, below 0 to keep it free, 0 to
	// leave it out. Chronus uses 1/M and -1/M beside rewards of 1 to 10.
	CurrentWorth int64
}

// The bounds of a problem. With them no sum of the solver overflows.
const (
	MaxLeases = 2048
	MaxJobs   = 1 << 15
	MaxGPUs   = 1 << 19 // of a job, and of a lease
	MaxReward = 1 << 30 // of an option, and of CurrentWorth
)

// Validate returns everything that is wrong with a problem, joined, or nil.
func (p *Problem) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(p.Capacity) > MaxLeases {
		bad("there are %d leases, more than %d: choose longer leases or a nearer horizon", len(p.Capacity), MaxLeases)
	}
	if len(p.Jobs) > MaxJobs {
		bad("there are %d jobs, more than %d: fix some to their cached leases", len(p.Jobs), MaxJobs)
	}
	if max(p.CurrentWorth, -p.CurrentWorth) > MaxReward {
		bad("the worth %d of a GPU in the current lease is beyond %d", p.CurrentWorth, int64(MaxReward))
	}
	for t, c := range p.Capacity {
		if c < 0 || c > MaxGPUs {
			bad("lease %d has the capacity %d: it must be 0 to %d GPUs", t, c, MaxGPUs)
		}
	}
	for j := range p.Jobs {
		p.validateJob(j, bad)
	}
	return errors.Join(errs...)
}

func (p *Problem) validateJob(j int, bad func(string, ...any)) {
	job := &p.Jobs[j]
	if job.GPUs < 1 || job.GPUs > MaxGPUs {
		bad("job %d is planned with %d GPUs: it must be 1 to %d", j, job.GPUs, MaxGPUs)
	}
	if job.Need < 1 {
		bad("job %d needs %d leases: it must be at least 1", j, job.Need)
	}
	for i, o := range job.Options {
		if o.Leases < 0 || int(o.Leases) > len(p.Capacity) {
			bad("job %d, option %d: %d leases before the deadline, but the problem has 0 to %d", j, i, o.Leases, len(p.Capacity))
		}
		if o.Reward < 0 || o.Reward > MaxReward {
			bad("job %d, option %d: the reward %d must be 0 to %d", j, i, o.Reward, int64(MaxReward))
		}
		if i == 0 {
			continue
		}
		if last := job.Options[i-1]; o.Leases < last.Leases || o.Reward > last.Reward {
			bad("job %d, option %d: a later option must have no earlier deadline and no larger reward", j, i)
		}
	}
}

// Plan is what Solve found. Its slices are used again by the next Solve into it.
type Plan struct {
	// Chosen is the index of each job's chosen option, -1 for none.
	Chosen []int32
	// Reward is the sum of the chosen options' rewards.
	Reward int64
	// Used is how many GPUs of lease 0 are used.
	Used int64
	// Bound is a proven upper bound of the objective of any complete plan.
	Bound int64
	// Unplaced counts the guaranteed jobs without an option: 0 in a complete plan.
	Unplaced int

	words int
	bits  []uint64
}

// Complete reports whether every guaranteed job has an option.
func (p *Plan) Complete() bool { return p.Unplaced == 0 }

// Objective is the reward and what the GPUs used in lease 0 are worth.
func (p *Plan) Objective(of *Problem) int64 { return p.Reward + of.CurrentWorth*p.Used }

// Leases returns the leases of job j, empty when no option is chosen. It is the
// plan's own memory, valid until the plan is solved into again.
func (p *Plan) Leases(j int) Vector { return p.bits[j*p.words : (j+1)*p.words] }

// Check verifies a plan against the constraints of its problem, from the
// definitions alone, and returns all that is wrong, joined, or nil: that each
// chosen option has exactly the leases needed, all before its deadline; that no
// lease is given beyond its capacity; that the sums and Unplaced are right.
func Check(p *Problem, plan *Plan) error {
	if len(plan.Chosen) != len(p.Jobs) || len(plan.bits) < len(p.Jobs)*plan.words {
		return fmt.Errorf("the plan is for %d jobs, the problem has %d", len(plan.Chosen), len(p.Jobs))
	}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	used := make([]int64, len(p.Capacity))
	reward, unplaced := int64(0), 0
	for j := range p.Jobs {
		job, has, c := &p.Jobs[j], plan.Leases(j), int(plan.Chosen[j])
		need, before := 0, 0
		if c >= len(job.Options) {
			bad("job %d has the option %d of %d", j, c, len(job.Options))
		} else if c >= 0 {
			need, before = int(job.Need), int(job.Options[c].Leases)
			reward += job.Options[c].Reward
		} else if job.Guaranteed {
			unplaced++
		}
		if has.Count() != need || has.End() > before {
			bad("job %d has %d leases, the last before %d: it needs %d before %d", j, has.Count(), has.End(), need, before)
		}
		for t := range used {
			if has.Has(t) {
				used[t] += int64(job.GPUs)
			}
		}
	}
	for t, u := range used {
		if u > int64(p.Capacity[t]) {
			bad("lease %d is given %d GPUs and has %d", t, u, p.Capacity[t])
		}
	}
	now := int64(0)
	if len(used) > 0 {
		now = used[0]
	}
	if reward != plan.Reward || now != plan.Used || unplaced != plan.Unplaced {
		bad("the plan says reward %d, %d GPUs now, %d unplaced; it is %d, %d, %d", plan.Reward, plan.Used, plan.Unplaced, reward, now, unplaced)
	}
	return errors.Join(errs...)
}
