package policy

import (
	"sort"

	"github.com/combsched/comb/internal/core/model"
)

// gittins is the history of the index: what past jobs attained in all, in sorted GPU-seconds
// with their sums.
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
//
// The service is taken in steps of a fifth of a quantum. So it is known when the order
// changes by itself, and gangs of about equal service do not stop each other at every
// job of a long history. The authors' simulator reads the exact service, but only when
// a gang comes, ends or sinks: as many preemptions, and an order that depends on what
// else happens.
func newGittins(a *args) model.Policy {
	l := newLevels(a)
	h := gittins{past: a.list("history", doublings(), false), delta: a.number("delta", defaultLimits[0], 1, 1<<40)}
	h.add()
	if a.flag("learn", false) {
		return &learned{l, h, newTiresias(a), a.quantum()}
	}
	return newServed(a, l, func(g *model.GangView) model.Key { return h.key(l, g) },
		func(after model.Time, g *model.GangView) model.Time { return h.until(l, after, g) })
}

// key is by queue, then by index, the largest first.
func (h *gittins) key(l levels, g *model.GangView) model.Key {
	return model.Key{Rank: l.queue(g)<<gittinsBits + (1<<gittinsBits - 1 - h.index(h.stepped(service(g))))}
}

// stepsPerQuantum are the steps of service in which the index is read.
const stepsPerQuantum = 5

// step is one of them, in GPU-seconds.
func (h *gittins) step() int64 { return max(h.delta/stepsPerQuantum, 1) }

// stepped is a service of GPU-microseconds in GPU-seconds, by whole steps.
func (h *gittins) stepped(service int64) int64 {
	seconds := service / int64(model.Second)
	return seconds - seconds%h.step()
}

// until is when the key of a running gang changes for the first time after an instant:
// it sinks to the next queue, or comes to the step at which it has attained as much as
// some job of the past, or will have with another quantum.
func (h *gittins) until(l levels, after model.Time, g *model.GangView) model.Time {
	next := l.until(after, g)
	if g.Started == 0 {
		return next
	}
	at := h.stepped(times(int64(g.RanBefore)+int64(max(after-g.Started, 0)), g.Leaves))
	for _, ahead := range [...]int64{0, h.delta} {
		i := sort.Search(len(h.past), func(i int) bool { return h.past[i] > at+ahead })
		if i == len(h.past) {
			continue
		}
		steps := (h.past[i]-ahead-1)/h.step() + 1
		need := (times(steps*h.step(), int32(model.Second))-1)/int64(g.Leaves) + 1 // of running time
		if t := g.Started.Add(model.Duration(need) - g.RanBefore); next == 0 || t < next {
			next = t
		}
	}
	return next
}

// add sums the history up.
func (h *gittins) add() {
	h.sums = make([]int64, len(h.past)+1)
	for i, s := range h.past {
		h.sums[i+1] = plus(h.sums[i], s)
	}
}

// doublings stand for a history that was not given: jobs of one GPU-minute to twelve GPU-days,
// every doubling equally likely, as heavy-tailed as real clusters are.
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
