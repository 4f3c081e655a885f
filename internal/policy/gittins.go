package policy

import (
	"sort"

	"github.com/combsched/comb/internal/sched"
)

// gittins is what past jobs attained in all: sorted GPU-seconds with their sums.
type gittins struct {
	past  []int64
	sums  []int64 // sums[i] is that of the first i
	delta int64   // the quantum in GPU-seconds
}

// newGittins makes Tiresias' two-dimensional Gittins index (NSDI'19, section 3.3)
// in the queues of least attained service. The index of a gang is how likely it ends
// within the next quantum of service, divided by the service that this is expected
// to take, by the service of past jobs that attained at least as much. As in the
// authors' simulator the expected service is counted from zero, not from what the
// gang attained. Gangs of a better index take cells back within a queue too.
func newGittins(a *args) sched.Policy {
	l := newLevels(a)
	h := gittins{past: a.list("history", doublings(), false), delta: a.number("delta", defaultLimits[0], 1, 1<<40)}
	h.add()
	if a.flag("learn", false) {
		return &learned{l, h}
	}
	return &timed{&order{preempt: true, key: func(g *sched.GangView) sched.Key { return h.key(l, g) }}, l.change}
}

// key is by queue, then by index, the largest first.
func (h *gittins) key(l levels, g *sched.GangView) sched.Key {
	return sched.Key{Rank: l.queue(g)<<gittinsBits + (1<<gittinsBits - 1 - h.index(service(g)/int64(sched.Second)))}
}

// add sums the history up.
func (h *gittins) add() {
	h.sums = make([]int64, len(h.past)+1)
	for i, s := range h.past {
		h.sums[i+1] = plus(h.sums[i], s)
	}
}

// doublings stand for a history that nobody gave: jobs of one GPU-minute to twelve
// GPU-days, every doubling equally likely, as heavy-tailed as real clusters are.
func doublings() []int64 {
	out := []int64{60}
	for len(out) < 15 {
		out = append(out, 2*out[len(out)-1])
	}
	return out
}

// gittinsBits hold an index.
const gittinsBits = 41

// index is the index of a gang that attained so many GPU-seconds, in parts of
// 10^12, below 2^41; 0 when no job of the past attained more.
func (h *gittins) index(attained int64) int64 {
	n := len(h.past)
	from := sort.Search(n, func(i int) bool { return h.past[i] > attained })
	if from == n {
		return 0
	}
	to := sort.Search(n, func(i int) bool { return h.past[i] > attained+h.delta })
	if to == n {
		to = n - 1
	}
	if to <= from {
		return 0
	}
	spent := h.sums[to] - h.sums[from] + h.delta*int64(n-to)
	return min(int64(to-from)*1_000_000_000_000/max(spent, 1), 1<<gittinsBits-1)
}
