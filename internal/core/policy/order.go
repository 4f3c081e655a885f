package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/sched"
)

// order is a policy that sorts the gangs of a priority by a key. Whoever does not
// fit is passed over. Where it preempts, a gang that waits takes cells back from
// running gangs whose rank is worse, the worst first; equal ranks leave each other
// alone.
type order struct {
	// key is that of a gang that waits, or runs; Then says only who is served first
	// among those of one rank. A gang that waits keeps its key.
	key     func(*sched.GangView) sched.Key
	preempt bool
	// quantum is how long a gang runs before it is preempted.
	quantum model.Duration
	// late, when set, is the key of a gang that waits and whose own key no longer
	// holds, which is then larger; false where it holds.
	late func(sched.View, sched.Ranked) (sched.Key, bool)
	// where, when set, is how far apart the leaves of a gang may be.
	where func(sched.View, sched.GangRef) sched.Within
}

// Key implements sched.Keyed.
func (o *order) Key(g *sched.GangView) sched.Key { return o.key(g) }

// Quantum implements sched.Sparing.
func (o *order) Quantum() model.Duration { return o.quantum }

// newPreempting makes an order by a key that preempts.
func newPreempting(a *args, key func(*sched.GangView) sched.Key) *order {
	return &order{key: key, preempt: true, quantum: a.quantum()}
}

// timed is an order that changes by itself: those that run get worse.
type timed struct {
	*order
	change func(sched.View) model.Time
}

// NextChange implements sched.Timed.
func (t *timed) NextChange(v sched.View) model.Time { return t.change(v) }

// aging is an order in which those that run get worse now and then, each by itself.
type aging struct {
	*order
	until func(model.Time, *sched.GangView) model.Time
}

// Until implements sched.Aging.
func (a *aging) Until(after model.Time, g *sched.GangView) model.Time { return a.until(after, g) }

// falling is an order in which those that run get better as time goes by.
type falling struct {
	*order
	falls func(*sched.GangView) (zero model.Time, rate int64)
}

// Falls implements sched.Falling.
func (f *falling) Falls(g *sched.GangView) (zero model.Time, rate int64) { return f.falls(g) }

// Rank implements sched.Policy.
func (o *order) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		run, from := o.running(v), int64(-1<<63)
		for g := range run {
			from = g.Key.Rank
			break
		}
		if o.preempt {
			for g := range v.Promised() {
				from = max(from, o.now(v, g).Rank)
			}
			for g := range v.Booked() { // or who is let start in their place would be stopped next
				from = max(from, o.now(v, g).Rank)
			}
		}
		over := newTail(run)
		for g := range o.waiting(v, from) {
			w := sched.Wish{Gang: g.Ref}
			if o.where != nil {
				w.Within = o.where(v, g.Ref)
			}
			if rank := g.Key.Rank; from > rank {
				w.Over = over.behind(rank)
				w.Passes = func(ref sched.GangRef) bool {
					b := v.Gang(ref)
					return o.now(v, sched.Ranked{Ref: ref, Key: o.key(&b)}).Rank > rank
				}
			}
			if !yield(w) {
				return
			}
		}
	}
}

// waiting yields those who wait, each in the place of the key that holds now.
func (o *order) waiting(v sched.View, from int64) iter.Seq[sched.Ranked] {
	if o.late == nil {
		return v.Ordered(from)
	}
	return func(yield func(sched.Ranked) bool) {
		var late collections.Heap[moved]
		for g := range v.Ordered(from) {
			if k, is := o.late(v, g); is {
				g.Key = k
				late.Push(moved(g))
				continue
			}
			for len(late) > 0 && compare(sched.Ranked(late[0]), g) < 0 {
				if !yield(sched.Ranked(late.Pop())) {
					return
				}
			}
			if !yield(g) {
				return
			}
		}
		for len(late) > 0 {
			if !yield(sched.Ranked(late.Pop())) {
				return
			}
		}
	}
}

// moved is a gang with a key that no longer is the one by which it waits.
type moved sched.Ranked

// Before implements collections.HeapItem.
func (m moved) Before(o moved) bool { return compare(sched.Ranked(m), sched.Ranked(o)) < 0 }

// compare orders gangs by key, then by submission.
func compare(a, b sched.Ranked) int {
	return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang))
}

// running yields who runs, the last in the order first; nobody where the policy
// does not preempt.
func (o *order) running(v sched.View) iter.Seq[sched.Ranked] {
	switch {
	case !o.preempt:
		return func(func(sched.Ranked) bool) {}
	case o.late == nil:
		return v.Standing()
	}
	var run []sched.Ranked
	for g := range v.Running() {
		k := o.now(v, sched.Ranked{Ref: g.Ref, Key: o.key(&g)})
		run = append(run, sched.Ranked{Ref: g.Ref, Key: k, Order: g.Order, Leaves: g.Leaves})
	}
	slices.SortFunc(run, func(a, b sched.Ranked) int { return compare(b, a) })
	return slices.Values(run)
}

// now is the key of a gang that holds now.
func (o *order) now(v sched.View, g sched.Ranked) sched.Key {
	if o.late != nil {
		if k, moved := o.late(v, g); moved {
			return k
		}
	}
	return g.Key
}

// tail yields who runs behind one rank after the other, in the same memory: a sequence
// is good until the next is asked for.
type tail struct {
	run   iter.Seq[sched.Ranked]
	rank  int64
	yield func(sched.GangRef) bool
	// its methods, made once
	all  iter.Seq[sched.GangRef]
	each func(sched.Ranked) bool
}

func newTail(run iter.Seq[sched.Ranked]) *tail {
	t := &tail{run: run}
	t.all, t.each = t.read, t.hear
	return t
}

// behind yields the gangs of a worse rank.
func (t *tail) behind(rank int64) iter.Seq[sched.GangRef] {
	t.rank = rank
	return t.all
}

func (t *tail) read(yield func(sched.GangRef) bool) {
	t.yield = yield
	t.run(t.each)
}

func (t *tail) hear(g sched.Ranked) bool { return g.Key.Rank > t.rank && t.yield(g.Ref) }

// behind yields the gangs of a worse rank.
func behind(run iter.Seq[sched.Ranked], rank int64) iter.Seq[sched.GangRef] {
	return func(yield func(sched.GangRef) bool) {
		for g := range run {
			if g.Key.Rank <= rank || !yield(g.Ref) {
				return
			}
		}
	}
}
