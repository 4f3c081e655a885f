package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/model"
)

// order is a policy that sorts the gangs of a priority by a key. A gang that does not fit is
// passed over. Where it preempts, a waiting gang preempts running gangs whose rank is worse,
// the worst first; gangs of equal rank do not preempt each other.
type order struct {
	// key is the key of a gang that waits, or runs. Rank decides which gangs it may preempt,
	// Then only the order within a rank. The key of a gang does not change while it waits.
	key     func(*model.GangView) model.Key
	preempt bool
	// quantum is how long a gang runs before it is preempted.
	quantum model.Duration
	// changedKey, when set, is the present key of a waiting gang whose own key no longer holds; it
	// is larger than that. false where the own key holds.
	changedKey func(model.View, model.Ranked) (model.Key, bool)
	// where, when set, is how far apart the leaves of a gang may be.
	where func(model.View, model.GangRef) model.Within
}

// Key implements model.Keyed.
func (o *order) Key(g *model.GangView) model.Key { return o.key(g) }

// Quantum implements model.HasQuantum.
func (o *order) Quantum() model.Duration { return o.quantum }

// newPreempting makes an order by a key that preempts.
func newPreempting(a *args, key func(*model.GangView) model.Key) *order {
	return &order{key: key, preempt: true, quantum: a.quantum()}
}

// timed is an order that changes by itself: running gangs get worse.
type timed struct {
	*order
	change func(model.View) model.Time
}

// NextChange implements model.Timed.
func (t *timed) NextChange(v model.View) model.Time { return t.change(v) }

// aging is an order in which running gangs get worse now and then, each by itself.
type aging struct {
	*order
	until func(model.Time, *model.GangView) model.Time
}

// NextKeyChange implements model.StepKeyed.
func (a *aging) NextKeyChange(after model.Time, g *model.GangView) model.Time {
	return a.until(after, g)
}

// falling is an order in which running gangs get better as time goes by.
type falling struct {
	*order
	falls func(*model.GangView) (zero model.Time, rate int64)
}

// Falls implements model.LinearKeyed.
func (f *falling) Falls(g *model.GangView) (zero model.Time, rate int64) { return f.falls(g) }

// Rank implements model.Policy.
func (o *order) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		run, from := o.running(v), int64(-1<<63)
		for g := range run {
			from = g.Key.Rank
			break
		}
		if o.preempt {
			for g := range v.Promised() {
				from = max(from, o.now(v, g).Rank)
			}
			// else a gang that started in their place would be preempted next
			for g := range v.Booked() {
				from = max(from, o.now(v, g).Rank)
			}
		}
		over := newTail(run)
		for g := range o.waiting(v, from) {
			w := model.Wish{Gang: g.Ref}
			if o.where != nil {
				w.Within = o.where(v, g.Ref)
			}
			if rank := g.Key.Rank; from > rank {
				w.Preemptible = over.behind(rank)
				w.IsBehind = func(ref model.GangRef) bool {
					b := v.Gang(ref)
					return o.now(v, model.Ranked{Ref: ref, Key: o.key(&b)}).Rank > rank
				}
			}
			if !yield(w) {
				return
			}
		}
	}
}

// waiting yields the waiting gangs in the order of their present keys.
func (o *order) waiting(v model.View, from int64) iter.Seq[model.Ranked] {
	if o.changedKey == nil {
		return v.WaitingByKey(from)
	}
	return func(yield func(model.Ranked) bool) {
		var late collections.Heap[rekeyed]
		for g := range v.WaitingByKey(from) {
			if k, is := o.changedKey(v, g); is {
				g.Key = k
				late.Push(rekeyed(g))
				continue
			}
			for len(late) > 0 && compare(model.Ranked(late[0]), g) < 0 {
				if !yield(model.Ranked(late.Pop())) {
					return
				}
			}
			if !yield(g) {
				return
			}
		}
		for len(late) > 0 {
			if !yield(model.Ranked(late.Pop())) {
				return
			}
		}
	}
}

// rekeyed is a gang whose present key is not the one by which View.WaitingByKey sorts it.
type rekeyed model.Ranked

// Before implements collections.HeapItem.
func (m rekeyed) Before(o rekeyed) bool { return compare(model.Ranked(m), model.Ranked(o)) < 0 }

// compare orders gangs by key, then by submission.
func compare(a, b model.Ranked) int {
	return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Ref.Gang, b.Ref.Gang))
}

// running yields the running gangs, the last in the order first; none where the policy does not
// preempt.
func (o *order) running(v model.View) iter.Seq[model.Ranked] {
	switch {
	case !o.preempt:
		return func(func(model.Ranked) bool) {}
	case o.changedKey == nil:
		return v.RunningByKey()
	}
	var run []model.Ranked
	for g := range v.Running() {
		k := o.now(v, model.Ranked{Ref: g.Ref, Key: o.key(&g)})
		run = append(run, model.Ranked{Ref: g.Ref, Key: k, Order: g.Order, Leaves: g.Leaves})
	}
	slices.SortFunc(run, func(a, b model.Ranked) int { return compare(b, a) })
	return slices.Values(run)
}

// now is the present key of a gang.
func (o *order) now(v model.View, g model.Ranked) model.Key {
	if o.changedKey != nil {
		if k, moved := o.changedKey(v, g); moved {
			return k
		}
	}
	return g.Key
}

// tail yields the running gangs of a worse rank, for one rank after the other, without
// allocating: a sequence is valid until the next is asked for.
type tail struct {
	run   iter.Seq[model.Ranked]
	rank  int64
	yield func(model.GangRef) bool
	// method values, made once
	all  iter.Seq[model.GangRef]
	each func(model.Ranked) bool
}

func newTail(run iter.Seq[model.Ranked]) *tail {
	t := &tail{run: run}
	t.all, t.each = t.read, t.hear
	return t
}

// behind yields the gangs of a worse rank.
func (t *tail) behind(rank int64) iter.Seq[model.GangRef] {
	t.rank = rank
	return t.all
}

func (t *tail) read(yield func(model.GangRef) bool) {
	t.yield = yield
	t.run(t.each)
}

func (t *tail) hear(g model.Ranked) bool { return g.Key.Rank > t.rank && t.yield(g.Ref) }

// behind yields the gangs of a worse rank.
func behind(run iter.Seq[model.Ranked], rank int64) iter.Seq[model.GangRef] {
	return func(yield func(model.GangRef) bool) {
		for g := range run {
			if g.Key.Rank <= rank || !yield(g.Ref) {
				return
			}
		}
	}
}
