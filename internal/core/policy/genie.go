package policy

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// genie serves the shortest waiting allowance first (Chen et al., GENIE, TPDS 31(1), 2020): the
// time that a job may still wait if it is to meet its last deadline by the run time that it
// declares; of an elastic job, with as many GPUs as make it fastest. Jobs without a deadline
// come next, as submitted; those that can meet none any more come last. No job that can meet a
// deadline is preempted. A running job that cannot is preempted by any other: the published
// rule ends it for good, which an order cannot do.
//
// An elastic job gets the fewest GPUs that meet its deadline from now on, by the offline model:
// the throughputs of its model by type and number of GPUs. It waits until so many are free. A
// job has its usual size where the offline model knows nothing of it, or it can meet no
// deadline.
type genie struct{ *order }

// rankHopeless is the rank of gangs that can meet no deadline any more.
const rankHopeless = 1 << 62

func newGenie(a *args) model.Policy {
	return &genie{&order{
		quantum: a.quantum(),
		key: func(g *model.GangView) model.Key {
			if d, ok := lastDeadline(g); ok && remaining(g) != unknown {
				return model.Key{Rank: max(int64(d)-fastest(g), 0)}
			}
			return model.Key{Rank: bestEffort}
		},
		changedKey: func(v model.View, r model.Ranked) (model.Key, bool) {
			return model.Key{Rank: rankHopeless}, r.Key.Rank < int64(v.Now())
		},
	}}
}

// lastDeadline is the last deadline of a gang's job; false when it has none.
func lastDeadline(g *model.GangView) (model.Time, bool) {
	n := len(g.Hints.Deadlines)
	if n == 0 {
		return 0, false
	}
	return g.Submitted.Add(g.Hints.Deadlines[n-1].After), true
}

// fastest is how long a gang still takes with the GPUs that make it fastest. A running gang
// keeps its size.
func fastest(g *model.GangView) int64 {
	left := remaining(g)
	if !sizable(g) {
		return left
	}
	if g.Started > 0 { // earlier attempts had the usual size, for all we know
		ran := int64(g.Ran - g.RanBefore)
		return max(atSize(g, max(duration(g)-int64(g.RanBefore), 1), declaredOn(g), g.Sizes.Now)-ran, 1)
	}
	best := int64(unknown)
	for _, sku := range skusOf(g) {
		for _, n := range candidateSizes(g, sku) {
			best = min(best, atSize(g, left, sku, n))
		}
	}
	return best
}

// fewest is the wish for the fewest members with which a gang meets its deadline, on the first
// type its VC is guaranteed on which so many do. The size is 0 where it meets none or nothing
// is known.
func (p *genie) fewest(v model.View, g *model.GangView) model.Wish {
	w := model.Wish{Gang: g.Ref}
	d, ok := lastDeadline(g)
	left := remaining(g)
	if !ok || left == unknown || !sizable(g) {
		return w
	}
	slack := int64(d) - int64(v.Now())
	if fastest(g) > slack {
		return w
	}
	pools := v.Pools()
	for n := g.Sizes.Least; n <= g.Sizes.Most; n++ {
		for _, pool := range pools {
			if usable(g, pool.SKU) && v.Usable(g.Ref, pool.SKU) && int64(gpusOf(g, n)) <= pool.Leaves && atSize(g, left, pool.SKU, n) <= slack {
				w.Size = n
				if len(pools) > 1 {
					w.SKU = pool.SKU
				}
				return w
			}
		}
	}
	return w
}

// Rank implements model.Policy.
func (p *genie) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		hopeless := p.hopeless(v)
		passes := func(ref model.GangRef) bool {
			g := v.Gang(ref)
			_, late := p.changedKey(v, model.Ranked{Ref: ref, Key: p.key(&g)})
			return late
		}
		from := int64(-1 << 63)
		if len(hopeless) > 0 || p.promisedLate(v) {
			from = rankHopeless
		}
		for r := range p.waiting(v, from) {
			g := v.Gang(r.Ref)
			w := p.fewest(v, &g)
			if from == rankHopeless && r.Key.Rank < rankHopeless {
				w.Preemptible, w.IsBehind = behind(slices.Values(hopeless), r.Key.Rank), passes
			} else if short(v, &g, w.Size) > 0 {
				continue
			}
			if !yield(w) {
				return
			}
		}
	}
}

// short is how many of the GPUs that a size needs are not free.
func short(v model.View, g *model.GangView, size int32) int64 {
	if size == 0 {
		return 0
	}
	return max(int64(gpusOf(g, size))-v.Free(), 0)
}

// WhyHeldBack implements model.HoldsBack.
func (p *genie) WhyHeldBack(v model.View, ref model.GangRef) (string, model.Time) {
	g := v.Gang(ref)
	w := p.fewest(v, &g)
	switch {
	case w.SKU != "" && !v.FindsFree(ref, w.SKU):
		return fmt.Sprintf("it needs %s to meet its deadline, and there is no room on these", w.SKU), model.Time(p.key(&g).Rank) + 1
	case short(v, &g, w.Size) == 0:
		return "", 0
	}
	return fmt.Sprintf("it needs %d of its %d members at once to meet its deadline, on %d GPUs, and %d are free",
		w.Size, g.Sizes.Most, gpusOf(&g, w.Size), max(v.Free(), 0)), model.Time(p.key(&g).Rank) + 1
}

// hopeless lists the running gangs that can meet no deadline any more, the last submitted
// first.
func (p *genie) hopeless(v model.View) []model.Ranked {
	var out []model.Ranked
	for g := range v.Running() {
		r := model.Ranked{Ref: g.Ref, Key: p.key(&g), Order: g.Order, Leaves: g.Leaves}
		if k, late := p.changedKey(v, r); late {
			r.Key = k
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b model.Ranked) int { return compare(b, a) })
	return out
}

// promisedLate reports whether cells are promised to, or booked for, a gang that can meet no
// deadline any more: it would be preempted once it has them.
func (p *genie) promisedLate(v model.View) bool {
	for _, waiting := range []iter.Seq[model.Ranked]{v.Promised(), v.Booked()} {
		for r := range waiting {
			if _, late := p.changedKey(v, r); late {
				return true
			}
		}
	}
	return false
}

// NextChange implements model.Timed: when the next gang becomes hopeless. One that outruns its
// declaration does at its deadline, one that waits, or has cells but does not run yet, when it
// can meet that with no size any more.
func (p *genie) NextChange(v model.View) model.Time {
	var next model.Time
	sinks := func(d model.Time) {
		if d+1 > v.Now() && (next == 0 || d+1 < next) {
			next = d + 1
		}
	}
	for g := range v.Running() {
		d, ok := lastDeadline(&g)
		if g.Started == 0 && remaining(&g) != unknown { // it has cells, but does not run yet
			d = model.Time(p.key(&g).Rank)
		}
		if ok {
			sinks(d)
		}
	}
	for r := range v.Promised() {
		if r.Key.Rank >= bestEffort {
			continue
		}
		d := model.Time(r.Key.Rank)
		if g := v.Gang(r.Ref); g.Started > 0 { // it is to move, and runs until then
			d, _ = lastDeadline(&g)
		}
		sinks(d)
	}
	if !v.HasThroughputs() && !v.Backfills() {
		return next
	}
	for r := range v.WaitingByKey(math.MaxInt64) {
		at := model.Time(r.Key.Rank) + 1
		if r.Key.Rank >= bestEffort || next > 0 && at >= next {
			break
		}
		g := v.Gang(r.Ref)
		if g.Started > 0 { // an upgrade: it runs, so it comes nearer to its end
			d, _ := lastDeadline(&g)
			sinks(d)
		} else if at > v.Now() && (sizable(&g) || v.Backfills()) {
			return at
		}
	}
	return next
}
