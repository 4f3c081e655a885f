package decide

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// upgrade guarantees a lazily preempted attempt again, if there is room.
func (w *walker) upgrade(a *tables.Attempt) {
	defer w.s.Blaming(a.ID.Job)
	s := w.s
	if !s.MayUpgrade(a) || w.leavesBlocked(a) || !s.HasTurn(model.GangRef{Job: a.ID.Job, Gang: a.ID.Gang}) {
		return
	}
	if o := w.outlook; o != nil {
		o.yieldTo(a)
		defer o.yielded()
	}
	binds, sh, ok := s.PlanUpgrade(a)
	if !ok {
		return
	}
	if o := w.outlook; o != nil {
		o.release()
	}
	s.shiftCharges(sh)
	s.LookAgain.All = s.LookAgain.All || len(sh.Spared) > 0 || s.bindsIll(s.Jobs[a.Job].Space, binds)
	s.emit(model.Upgraded{Attempt: a.ID, With: s.With(a), Binds: binds})
}

// leavesBlocked reports whether somebody earlier in the order waits for the
// chain of an attempt's leaves, or booked some of them before: an upgrade would take the
// room that he waits for.
func (w *walker) leavesBlocked(a *tables.Attempt) bool {
	s := w.s
	var kept cell.LeafSet
	if o := w.outlook; o != nil {
		j := &s.Jobs[a.Job]
		o.enter(j.Spec.Priority)
		for i := range o.books {
			if b := &o.books[i]; o.precedes(b, a) {
				kept = kept.With(b.set)
			}
		}
	}
	f := s.Cluster.Forest()
	for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			if by := w.blocked[f.Cells[f.Leaves[l]].Chain]; by != 0 && by != a.ID.Job || kept.Has(l) {
				return true
			}
		}
	}
	return false
}
