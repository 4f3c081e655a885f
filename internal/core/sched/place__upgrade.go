package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// laziesAt returns the lazily preempted gangs of one priority of a VC, in order
// of submission: full gangs, or the members above a minimum.
func (s *finder) laziesAt(space int32, prio cell.Priority, extras bool) []queued {
	q := s.lazy[space]
	var out []queued
	for _, e := range q[below(q, prio+1):below(q, prio)] {
		if s.extra(e) == extras {
			out = append(out, e)
		}
	}
	return out
}

// planUpgrade returns the bindings with which an attempt is guaranteed again, maybe once charges
// lie elsewhere.
func (s *finder) planUpgrade(a *attempt) (binds []cell.Bind, sh cell.Shift, ok bool) {
	if binds, ok = s.upgradable(a); ok || s.cl.Doomed() == 0 {
		return binds, sh, ok
	}
	fits := func() (ok bool) {
		binds, ok = s.upgradable(a)
		return ok
	}
	chains := make([]bool, len(s.cl.Forest().Chains))
	for ci := range chains {
		chains[ci] = s.waitsFor(s.entry(a), int16(ci))
	}
	p, _, ok := s.mover(&s.jobs[a.job], a.id.Gang, chains).plan(func() (plan, bool) { return plan{}, fits() })
	return binds, p.shift, ok
}

// mayUpgrade reports whether an attempt could be guaranteed again at all.
func (s *finder) mayUpgrade(a *attempt) bool { return s.steady(a) && (!a.orphaned || s.partLeft(a)) }

// upgradable returns the bindings with which an attempt is guaranteed again, if there are any.
func (s *finder) upgradable(a *attempt) ([]cell.Bind, bool) {
	binds, ok := s.cl.Upgradable(a.alloc)
	return binds, ok && !slices.ContainsFunc(s.membersOf(a.alloc), func(m *attempt) bool { return !s.suits(m, binds) })
}

// suits reports whether an attempt's leaves, in these preassigned cells, are what
// its tasks asked for: a configuration may have given them another SKU, or pinned
// the cells around them.
func (s *finder) suits(a *attempt, binds []cell.Bind) bool {
	j := &s.jobs[a.job]
	f, sp := s.cl.Forest(), s.cl.Space(s.space(j.spec.VC))
	tasks := s.cl.Alloc(a.alloc).Placement.Tasks
	for i, o := range j.spec.Gangs[a.id.Gang].Tasks {
		role := &j.spec.Roles[j.tasks[o].role]
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

// What lost its guarantee keeps its place in the order of its VC: a gang that stands behind it
// there may not stop it, though the cells are lent, nor be promised them while it is stopped for
// another VC. It would wait before that gang, and take them back.

// spared returns which holders a gang may not make leave though they use no guarantee; nil is none.
func (s *finder) spared(j *job, g int) func(cell.AllocID) bool {
	if !s.sparesSome(j) {
		return nil
	}
	return func(id cell.AllocID) bool {
		for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
			if s.standsBefore(&s.attempts[at], j, g) {
				return true
			}
		}
		return false
	}
}

// sparesSome reports whether some attempt of a job's VC lost its guarantee and may stand before one
// of the job's gangs.
func (s *finder) sparesSome(j *job) bool {
	if j.spec.Priority < cell.MinGuaranteed || j.space <= 0 || int(j.space) >= len(s.lazy) {
		return false
	}
	q := s.lazy[j.space]
	return len(q) > 0 && q[0].prio >= j.spec.Priority
}

// standsBefore reports whether an attempt lost its guarantee and stands before a gang of its VC: it
// has a higher priority, or lost it to a configuration and was submitted before. What gave its
// guarantee up within its priority did so by its policy, which has another order.
func (s *finder) standsBefore(a *attempt, j *job, g int) bool {
	if !a.lazy || j.space <= 0 || a.cause != 0 && !s.waitsAgain(a) || a.id.Job == j.id {
		return false
	}
	o := &s.jobs[a.job]
	switch {
	case s.space(o.spec.VC) != j.space || o.spec.Priority < j.spec.Priority:
		return false
	case o.spec.Priority > j.spec.Priority:
		return !s.isExtra(a)
	}
	return (a.by == nil || a.cause != 0) && !s.isExtra(a) && (j.spec.Gangs[g].Extra || compareAttempts(a.id, model.AttemptID{Job: j.id, Gang: int32(g)}) < 0)
}
