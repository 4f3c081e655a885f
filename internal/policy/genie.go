package policy

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/sched"
)

// genie serves the shortest waiting allowance first (Chen et al., GENIE, TPDS 31(1),
// 2020): the time that a job may still wait if it is to meet its last deadline by the
// run time that it declares. Jobs without a deadline come next, as submitted; those
// that can meet none any more come last. Nobody who can meet a deadline is stopped,
// but a job that runs and can not makes room for anybody else: the published rule
// ends it for good, which an order cannot do.
//
// The fewest GPUs that meet a deadline are not chosen: gangs have one size.
type genie struct{ *order }

// rankHopeless is added to the rank of those that can meet no deadline any more.
const rankHopeless = 1 << 62

func newGenie(*args) sched.Policy {
	return &genie{&order{
		key: func(g *sched.GangView) sched.Key {
			if d, ok := lastDeadline(g); ok && remaining(g) != unknown {
				return sched.Key{Rank: max(int64(d)-remaining(g), 0)}
			}
			return sched.Key{Rank: bestEffort}
		},
		late: func(v sched.View, r sched.Ranked) (sched.Key, bool) {
			return sched.Key{Rank: rankHopeless}, r.Key.Rank < int64(v.Now())
		},
	}}
}

// lastDeadline is the last deadline of a gang's job; false when it has none.
func lastDeadline(g *sched.GangView) (sched.Time, bool) {
	n := len(g.Hints.Deadlines)
	if n == 0 {
		return 0, false
	}
	return g.Submitted.Add(g.Hints.Deadlines[n-1].After), true
}

// Rank implements sched.Policy.
func (p *genie) Rank(v sched.View) iter.Seq[sched.Wish] {
	return func(yield func(sched.Wish) bool) {
		hopeless := p.hopeless(v)
		from := int64(-1 << 63)
		if len(hopeless) > 0 {
			from = rankHopeless
		}
		for g := range p.waiting(v, from) {
			w := sched.Wish{Gang: g.Ref}
			if len(hopeless) > 0 && g.Key.Rank < rankHopeless {
				w.Over = behind(slices.Values(hopeless), g.Key.Rank)
			}
			if !yield(w) {
				return
			}
		}
	}
}

// hopeless lists who runs and can meet no deadline any more, the last submitted first.
func (p *genie) hopeless(v sched.View) []sched.Ranked {
	var out []sched.Ranked
	for g := range v.Running() {
		r := sched.Ranked{Ref: g.Ref, Key: p.key(&g), Order: g.Order, Leaves: g.Leaves}
		if k, late := p.late(v, r); late {
			r.Key = k
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b sched.Ranked) int { return compare(b, a) })
	return out
}

// NextChange implements sched.Timed: who outruns its declaration is hopeless at its
// deadline.
func (p *genie) NextChange(v sched.View) sched.Time {
	var next sched.Time
	for g := range v.Running() {
		if d, ok := lastDeadline(&g); ok && d+1 > v.Now() && (next == 0 || d+1 < next) {
			next = d + 1
		}
	}
	return next
}
