package policy

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// fifo serves strictly in order of submission: a gang that cannot start holds up those behind
// it on the chains that it could use. With the parameter preempt a waiting gang also preempts
// gangs submitted later, the last first: that serves one that was preempted, or hit by a fault,
// and whose cells are in use.
type fifo struct {
	preempt bool
	quantum model.Duration
}

func newFIFO(a *args) fifo {
	p := fifo{preempt: a.flag("preempt", false), quantum: a.quantum()}
	if !p.preempt {
		p.quantum = 0
	}
	return p
}

// Quantum implements model.HasQuantum.
func (p fifo) Quantum() model.Duration { return p.quantum }

// Rank implements model.Policy.
func (p fifo) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		v.Waiting()(func(g model.GangView) bool {
			w := model.Wish{Gang: g.Ref, Strict: true}
			if order := g.Order; p.preempt {
				w.Preemptible = later(v, order)
				w.IsBehind = func(ref model.GangRef) bool { return v.Gang(ref).Order > order }
			}
			return yield(w)
		})
	}
}

// StrictFIFO implements model.StrictFIFO.
func (fifo) StrictFIFO() {}

// later yields the running gangs of jobs submitted later, the last first.
func later(v model.View, order int64) iter.Seq[model.GangRef] {
	return func(yield func(model.GangRef) bool) {
		var run []model.Ranked
		for g := range v.Running() {
			if g.Order > order {
				run = append(run, model.Ranked{Ref: g.Ref, Order: g.Order})
			}
		}
		slices.SortFunc(run, func(a, b model.Ranked) int { return compare(b, a) })
		for _, g := range run {
			if !yield(g.Ref) {
				return
			}
		}
	}
}
