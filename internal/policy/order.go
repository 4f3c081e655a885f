package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/sched"
)

// order is a policy that sorts the gangs of a priority by a key. Whoever does not
// fit is passed over. Where it preempts, a gang that waits takes cells back from
// running gangs whose key is worse, the worst first; equal keys leave each other
// alone.
type order struct {
	// key is made at View.Now; the smaller is served first. Ties go by order of
	// submission.
	key     func(v sched.View, g *sched.GangView) key
	preempt bool
	// change says when the order of running gangs changes by itself; nil is never.
	change func(v sched.View) sched.Time
}

// key is compared part by part. Rank decides who may preempt whom; then only says
// who is served first among those of one rank.
type key struct{ rank, then int64 }

func (a key) compare(b key) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.then, b.then))
}

// keyed is one gang with its key.
type keyed struct {
	key    key
	order  int64
	leaves int32
	ref    sched.GangRef
}

func (a *keyed) before(b *keyed) bool {
	return cmp.Or(a.key.compare(b.key), cmp.Compare(a.order, b.order), cmp.Compare(a.ref.Gang, b.ref.Gang)) < 0
}

// Rank implements sched.Policy.
func (o *order) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		wait := o.keyed(v, v.Waiting())
		wait.init()
		run := o.running(v)
		for len(wait) > 0 {
			g := wait.pop()
			w := sched.Wish{Gang: g.ref}
			if len(run) > 0 && run[0].key.rank > g.key.rank {
				w.Over = behind(run, g.key.rank)
			} else if free := v.Free(); free == 0 {
				return // and whoever comes later cannot preempt either
			} else if int64(g.leaves) > free {
				continue
			}
			if !yield(w) {
				return
			}
		}
	}
}

// running returns who runs, the last in the order first; nobody where the policy
// does not preempt.
func (o *order) running(v sched.View) []keyed {
	if !o.preempt {
		return nil
	}
	run := o.keyed(v, v.Running())
	slices.SortFunc(run, func(a, b keyed) int {
		return cmp.Or(b.key.compare(a.key), cmp.Compare(b.order, a.order), cmp.Compare(b.ref.Gang, a.ref.Gang))
	})
	return run
}

// behind yields the gangs of a worse rank.
func behind(run []keyed, rank int64) iter.Seq[sched.GangRef] {
	return func(yield func(sched.GangRef) bool) {
		for i := range run {
			if run[i].key.rank <= rank || !yield(run[i].ref) {
				return
			}
		}
	}
}

func (o *order) keyed(v sched.View, gangs iter.Seq[sched.GangView]) queue {
	var out queue
	for g := range gangs {
		out = append(out, keyed{o.key(v, &g), g.Order, g.Leaves, g.Ref})
	}
	return out
}

// NextChange implements sched.Policy.
func (o *order) NextChange(v sched.View) sched.Time {
	if o.change == nil {
		return 0
	}
	return o.change(v)
}

// queue is a heap, best first: few of many who wait are ever looked at.
type queue []keyed

func (q queue) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) pop() keyed {
	h := *q
	best, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	h.down(0)
	*q = h
	return best
}

func (q queue) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(q) {
			return
		}
		if k+1 < len(q) && q[k+1].before(&q[k]) {
			k++
		}
		if !q[k].before(&q[i]) {
			return
		}
		q[i], q[k] = q[k], q[i]
		i = k
	}
}
