package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// walkOpportunistic gives free leaves to opportunistic gangs, one gang at a time to the VC that
// borrows least; ties go by name. No gang blocks another.
func (s *Pass) walkOpportunistic() {
	s.lend(false)
	if s.PartialJobs > 0 {
		s.lend(true)
	}
}

// lend is one walk: of the full gangs or, with extras, of the members above a minimum.
func (s *Pass) lend(extras bool) {
	if extras && s.PartialJobs == 0 {
		return
	}
	waits := s.opportunistic(extras)
	if waits == nil {
		return
	}
	borrowed := s.borrowed()
	failed := s.failedShapes()
	for {
		space, e := 0, index.Queued{}
		for i := 1; i < len(waits); i++ {
			if space > 0 && borrowed[i] >= borrowed[space] {
				continue
			}
			if f, ok := waits[i].First(failed[i]); ok {
				space, e = i, f
			}
		}
		rest := s.Cluster.IdleCount()
		if space == 0 || rest == 0 {
			return
		}
		if s.Jobs[e.Slot].Gangs[e.Gang].Leaves > rest {
			waits[space].Pass()
		} else if s.grantOpportunistic(e, failed[space]) {
			borrowed[space] = s.loan(int32(space))
		} else {
			waits[space].Next()
		}
	}
}

// opportunistic returns, by space, the opportunistic gangs that wait: full gangs or, with
// extras, members above a minimum. It is nil if all are too large for the free leaves, and
// valid until the next call.
func (s *Pass) opportunistic(extras bool) []index.Merge {
	for len(s.Mem.waits) < len(s.Queues) {
		s.Mem.waits = append(s.Mem.waits, index.Merge{})
	}
	some, out := false, s.Mem.waits[:len(s.Queues)]
	rest := s.Cluster.IdleCount()
	for space := 1; space < len(s.Queues); space++ {
		out[space].Heads = out[space].Heads[:0]
		if u := s.GroupsOf(int32(space), cell.Opportunistic); u != nil {
			m := index.Merge{S: &s.Index, Space: int32(space), Prio: cell.Opportunistic, Heads: out[space].Heads}
			_, m.Dedicates = s.Policies[space].(model.NodeDedicator)
			for i := range u.Groups {
				if l := &u.Groups[i]; l.Extra == extras && len(l.Gangs) > 0 && (l.Shape == "" || l.Leaves <= rest) {
					m.Add(i, l)
				}
			}
			if len(m.Heads) == 0 {
				continue
			}
			m.Order()
			out[space] = m
			some = true
		}
	}
	if !some {
		return nil
	}
	return out
}

// borrowed returns the loans of all VCs, by space.
func (s *Pass) borrowed() []int64 {
	n := make([]int64, len(s.Queues))
	for i := 1; i < len(n); i++ {
		n[i] = s.loan(int32(i))
	}
	return n
}

// loan is what VCs are compared by: the leaves that a VC borrows per unit of its weight or,
// with a half-life, what it owes for present and earlier borrowing.
func (s *Pass) loan(space int32) int64 {
	if s.Config.HalfLife > 0 {
		return s.Owes(space)
	}
	return s.Tallies[space].Borrowed << state.MeanBits / s.Weight(space)
}

// grantOpportunistic places one gang on free leaves, if it can.
func (s *Pass) grantOpportunistic(e index.Queued, failed map[string]bool) bool {
	defer s.BlameJob(e.Job)
	j := &s.Jobs[e.Slot]
	g := &j.Gangs[e.Gang]
	if !s.Eligible(j, e.Gang) || failed[g.Shape.Text] || s.IsDedicated(j) && failed[g.Shape.Text+index.DedicatedMark] {
		return false
	}
	if s.Extra(e) && !s.ExtraEligible(j) {
		return false
	}
	if e.Gang == 0 && s.placeWhole(place.Want{J: j}) {
		return true
	}
	p, ok := s.Plan(place.Want{J: j, G: e.Gang})
	if !ok {
		if key := g.Shape.Text; s.IsDedicated(j) {
			failed[key+index.DedicatedMark] = !g.Avoids() // in other VCs the shape may share nodes
		} else {
			failed[key] = !g.Avoids()
		}
		return false
	}
	s.carryOut(place.Want{J: j, G: e.Gang}, p)
	return true
}

// failedShapes returns the shapes that found nothing, by space. All VCs share one set unless
// one lends nothing: then what fits depends on the VC.
func (s *Pass) failedShapes() []map[string]bool {
	if s.Mem.failed == nil {
		s.Mem.failed = map[string]bool{}
	}
	clear(s.Mem.failed)
	out := slices.Repeat([]map[string]bool{s.Mem.failed}, len(s.Queues))
	for i := 1; i < len(out) && !s.AllLend(); i++ {
		out[i] = map[string]bool{}
	}
	return out
}

// recallLent stops opportunistic work of other VCs on cells that a VC which lends nothing
// claims.
func (s *Pass) recallLent() {
	if s.AllLend() || s.Cluster.PreemptibleCount() == 0 {
		return
	}
	for _, c := range s.UnlentClaims() {
		for l := range c.Leaves.All() {
			id, _ := s.Cluster.Holder(l)
			if id == cell.None || !s.Cluster.Alloc(id).Opportunistic() || s.Cluster.Alloc(id).Space == c.Space {
				continue
			}
			if a := s.Holder(id); a.SinceSeq > s.InputsThrough { // it has just become opportunistic
				s.LookAgain.All = true
			} else if s.Steady(a) {
				for _, m := range s.MembersOf(id) {
					s.stopFor(m, model.EndPreempted, nil, s.Cluster.Space(c.Space).Name)
				}
			}
		}
	}
}

// upgrade makes a lazily preempted attempt guaranteed again, if its VC has room.
func (w *walker) upgrade(a *tables.Attempt) {
	defer w.s.BlameJob(a.ID.Job)
	s := w.s
	if !s.MayUpgrade(a) || w.leavesBlocked(a) || !s.HasTurn(model.GangRef{Job: a.ID.Job, Gang: a.ID.Gang}) {
		return
	}
	if o := w.bookings; o != nil {
		o.HoldBinding(a)
		defer o.ReholdAfterUpgrade()
	}
	binds, sh, ok := s.PlanUpgrade(a)
	if !ok {
		return
	}
	if o := w.bookings; o != nil {
		o.Release()
	}
	s.shiftCharges(sh)
	s.LookAgain.All = s.LookAgain.All || len(sh.Undoomed) > 0 || bindsBad(s.Cluster, s.Jobs[a.Job].Space, binds)
	s.emit(model.Upgraded{Attempt: a.ID, With: s.OtherMembers(a), Binds: binds})
}

// leavesBlocked reports whether an earlier gang waits for the chain of an attempt's leaves, or
// booked some of them before. An upgrade would take its cells.
func (w *walker) leavesBlocked(a *tables.Attempt) bool {
	s := w.s
	var kept cell.LeafSet
	if o := w.bookings; o != nil {
		j := &s.Jobs[a.Job]
		o.enter(j.Spec.Priority)
		kept = o.Binding(a)
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
