package policy

import (
	"sort"

	"github.com/combsched/comb/internal/core/model"
)

// Tiresias (Gu et al., NSDI'19): the gang with the least attained service first,
// which is GPUs times the time that it ran, in a few queues so that gangs of about
// equal service do not chase each other. A gang sinks to the next queue when its
// service reaches the queue's limit. Gangs of a better queue take cells back from
// those of a worse one.

// defaultLimits are two limits in GPU-seconds, as in the authors' simulator.
var defaultLimits = [...]int64{3250, 7200}

// levels are the limits of the queues in GPU-microseconds.
type levels []int64

func newLevels(a *args) levels {
	seconds := a.list("limits", defaultLimits[:], true)
	out := make(levels, len(seconds))
	for i, s := range seconds {
		out[i] = times(s, 1) * int64(model.Second)
	}
	return out
}

// service is what a gang attained, in GPU-microseconds.
func service(g *model.GangView) int64 { return times(int64(g.Ran), g.Leaves) }

// queue is a gang's queue, from 0.
func (l levels) queue(g *model.GangView) int64 {
	s := service(g)
	return int64(sort.Search(len(l), func(i int) bool { return s < l[i] }))
}

// until is when a running gang sinks for the first time after an instant.
func (l levels) until(after model.Time, g *model.GangView) model.Time {
	if g.Started == 0 {
		return 0
	}
	for _, limit := range l {
		need := (limit + int64(g.Leaves) - 1) / int64(g.Leaves) // of running time
		if t := g.Started.Add(model.Duration(need) - g.RanBefore); t > after {
			return t
		}
	}
	return 0
}

// newLAS makes discretised two-dimensional least attained service (2D-LAS). Within a queue
// running gangs come first; of the waiting ones in the first queue the earliest submitted, in
// the others the last stopped: that is the order of the authors' simulator, which moves waiting
// gangs behind running ones after each pass. With order=submission each queue is strictly by
// submission, and earlier gangs preempt later ones: fairer to long jobs, and dearer.
func newLAS(a *args) model.Policy {
	l := newLevels(a)
	if a.choice("order", "stopped", "submission") == "submission" {
		return newServed(a, l, func(g *model.GangView) model.Key {
			return model.Key{Rank: min(l.queue(g), mostQueues)<<queueBits + min(int64(g.Submitted), 1<<queueBits-1)}
		}, l.until)
	}
	return newServed(a, l, func(g *model.GangView) model.Key {
		k := model.Key{Rank: l.queue(g), Then: int64(g.Since)}
		if g.Started == 0 && g.Ran > 0 {
			k.Then = -int64(g.Since)
		}
		return k
	}, l.until)
}

// queueBits leaves room below a queue's number for an instant in microseconds. Beyond
// mostQueues queues the others count as one.
const (
	queueBits  = 56
	mostQueues = 126
)
