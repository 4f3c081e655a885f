package place

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// LazyGangs returns the lazily preempted gangs of one priority of a VC, by submission: full
// gangs, or with extras the members above a minimum.
func (s *Finder) LazyGangs(space int32, prio cell.Priority, extras bool) []index.Queued {
	q := s.Lazy[space]
	var out []index.Queued
	for _, e := range q[index.Below(q, prio+1):index.Below(q, prio)] {
		if s.Extra(e) == extras {
			out = append(out, e)
		}
	}
	return out
}

// PlanUpgrade returns the bindings that make an attempt guaranteed again, and the charges that
// must move for it.
func (s *Finder) PlanUpgrade(a *tables.Attempt) (binds []cell.Bind, sh cell.ChargeMove, ok bool) {
	if binds, ok = s.upgradable(a); ok || s.Cluster.NumCharges() == 0 {
		return binds, sh, ok
	}
	fits := func() (ok bool) {
		binds, ok = s.upgradable(a)
		return ok
	}
	chains := make([]bool, len(s.Cluster.Forest().Chains))
	for ci := range chains {
		chains[ci] = s.waitsFor(s.Entry(a), int16(ci))
	}
	p, _, ok := s.ChargeMover(&s.Jobs[a.Job], a.ID.Gang, chains).Plan(func() (Plan, bool) { return Plan{}, fits() })
	return binds, p.Shift, ok
}

// MayUpgrade reports whether an attempt could be guaranteed again at all.
func (s *Finder) MayUpgrade(a *tables.Attempt) bool {
	return s.Steady(a) && (!a.Orphaned || s.PartLeft(a))
}

// upgradable returns the bindings that make an attempt guaranteed again, if there are any.
func (s *Finder) upgradable(a *tables.Attempt) ([]cell.Bind, bool) {
	binds, ok := s.Cluster.Upgradable(a.Alloc)
	return binds, ok && !slices.ContainsFunc(s.MembersOf(a.Alloc),
		func(m *tables.Attempt) bool { return !s.suits(m, binds) })
}

// suits reports whether an attempt's leaves, inside the given preassigned cells, are what its
// tasks asked for. A configuration may have changed their SKU, or pinned the cells around them.
func (s *Finder) suits(a *tables.Attempt, binds []cell.Bind) bool {
	j := &s.Jobs[a.Job]
	f, sp := s.Cluster.Forest(), s.Cluster.Space(s.Space(j.Spec.VC))
	tasks := s.Cluster.Alloc(a.Alloc).Placement.Tasks
	for i, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		role := &j.Spec.Roles[j.Tasks[o].Role]
		for _, l := range tasks[i].Leaves {
			leaf := f.Leaves[l]
			if len(role.SKUs) > 0 && !slices.Contains(role.SKUs, f.Chains[f.Cells[leaf].Chain].SKU) {
				return false
			}
			if !slices.ContainsFunc(binds, func(b cell.Bind) bool {
				return b.Space == 0 && f.Contains(b.Cell, leaf) && sp.Roots[b.Root].Pinned == role.Pinned
			}) {
				return false
			}
		}
	}
	return true
}

// A lazily preempted gang keeps its place in the run order of its VC, though its cells are
// lent. A gang behind it must not stop it, nor be promised its cells while another VC stops it:
// it would wait before that gang, and take the cells back.

// spared returns a filter for holders without a guarantee that a gang must not preempt; nil is
// none.
func (s *Finder) spared(j *tables.Job, g int) func(cell.AllocID) bool {
	if !s.SparesSome(j) {
		return nil
	}
	return func(id cell.AllocID) bool {
		for at := s.ByAlloc[id]; at != tables.None; at = s.Attempts[at].NextMember {
			if s.StandsBefore(&s.Attempts[at], j, g) {
				return true
			}
		}
		return false
	}
}

// SparesSome reports whether a lazily preempted gang of a job's VC may stand before one of the
// job's gangs.
func (s *Finder) SparesSome(j *tables.Job) bool {
	if j.Spec.Priority < cell.MinGuaranteed || j.Space <= 0 || int(j.Space) >= len(s.Lazy) {
		return false
	}
	q := s.Lazy[j.Space]
	return len(q) > 0 && q[0].Prio >= j.Spec.Priority
}

// StandsBefore reports whether a lazily preempted attempt stands before a gang of its VC: it
// has a higher priority, or a configuration took its guarantee and it was submitted before. One
// that was demoted within its own priority does not: its policy, with its own order, wanted
// that.
func (s *Finder) StandsBefore(a *tables.Attempt, j *tables.Job, g int) bool {
	if !a.Lazy || j.Space <= 0 || a.Cause != 0 && !s.WaitsAgain(a) || a.ID.Job == j.ID {
		return false
	}
	o := &s.Jobs[a.Job]
	switch {
	case s.Space(o.Spec.VC) != j.Space || o.Spec.Priority < j.Spec.Priority:
		return false
	case o.Spec.Priority > j.Spec.Priority:
		return !s.IsExtra(a)
	}
	return (a.By == nil || a.Cause != 0) && !s.IsExtra(a) && (j.Spec.Gangs[g].Extra ||
		model.CompareAttempts(a.ID, model.AttemptID{Job: j.ID, Gang: int32(g)}) < 0)
}
