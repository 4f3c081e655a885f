package sched

import (
	"github.com/combsched/comb/internal/core/cell"
)

// upgrade guarantees a lazily preempted attempt again, if there is room.
func (w *walker) upgrade(a *attempt) {
	defer w.s.blaming(a.id.Job)
	s := w.s
	if !s.mayUpgrade(a) || w.leavesBlocked(a) || !s.hasTurn(GangRef{Job: a.id.Job, Gang: a.id.Gang}) {
		return
	}
	if o := w.outlook; o != nil {
		o.yieldTo(a)
		defer o.yielded()
	}
	binds, sh, ok := s.planUpgrade(a)
	if !ok {
		return
	}
	if o := w.outlook; o != nil {
		o.release()
	}
	s.shiftCharges(sh)
	s.grew.all = s.grew.all || len(sh.Spared) > 0 || s.bindsIll(s.jobs[a.job].space, binds)
	s.emit(Upgraded{Attempt: a.id, With: s.with(a), Binds: binds})
}

// leavesBlocked reports whether somebody earlier in the order waits for the
// chain of an attempt's leaves, or booked some of them before: an upgrade would take the
// room that he waits for.
func (w *walker) leavesBlocked(a *attempt) bool {
	s := w.s
	var kept cell.LeafSet
	if o := w.outlook; o != nil {
		j := &s.jobs[a.job]
		o.enter(j.spec.Priority)
		for i := range o.books {
			if b := &o.books[i]; o.precedes(b, a) {
				kept = kept.With(b.set)
			}
		}
	}
	f := s.cl.Forest()
	for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			if by := w.blocked[f.Cells[f.Leaves[l]].Chain]; by != 0 && by != a.id.Job || kept.Has(l) {
				return true
			}
		}
	}
	return false
}
