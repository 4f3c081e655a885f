package sched

import (
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// A lazily preempted attempt keeps its place in its VC's order: it stands in a
// list of its own beside the queue of those that wait, and a policy ranks both
// together. When its turn comes and its VC has room around its very leaves, it is
// guaranteed again. It never blocks anybody and never makes anybody leave.

// keepLazy puts a lazily preempted attempt into its VC's list.
func (s *State) keepLazy(a *attempt) {
	e := s.entry(a)
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, e, queued.compare); !found {
		*q = slices.Insert(*q, i, e)
	}
	s.lookAll()
}

// dropLazy takes an attempt out of its VC's list, if it is there.
func (s *State) dropLazy(a *attempt) {
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, s.entry(a), queued.compare); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// entry is an attempt's gang as it would stand in the queue.
func (s *State) entry(a *attempt) queued {
	return queued{prio: s.jobs[a.job].spec.Priority, job: a.id.Job, gang: a.id.Gang, slot: a.job}
}

// relistLazy builds the lists anew, after the VCs changed.
func (s *State) relistLazy() {
	s.lazy = make([][]queued, s.cl.NumSpaces())
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.lazy {
			space := s.space(s.jobs[a.job].spec.VC)
			s.lazy[space] = append(s.lazy[space], s.entry(a))
		}
	}
	for i := range s.lazy {
		slices.SortFunc(s.lazy[i], queued.compare)
	}
}

// laziesAt returns the lazily preempted gangs of one priority of a VC, in order
// of submission: full gangs, or the members above a minimum.
func (s *State) laziesAt(space int32, prio cell.Priority, extras bool) []queued {
	q := s.lazy[space]
	var out []queued
	for _, e := range q[below(q, prio+1):below(q, prio)] {
		if s.extra(e) == extras {
			out = append(out, e)
		}
	}
	return out
}

// below returns where the gangs of a priority below p begin.
func below(q []queued, p cell.Priority) int {
	if len(q) == 0 || q[0].prio < p {
		return 0
	}
	i, _ := slices.BinarySearchFunc(q, p, func(e queued, p cell.Priority) int {
		if e.prio >= p {
			return -1
		}
		return 1
	})
	return i
}

// upgrade guarantees a lazily preempted attempt again, if there is room.
func (w *walker) upgrade(a *attempt) {
	defer w.s.blaming(a.id.Job)
	s := w.s
	if !s.mayUpgrade(a) || w.leavesBlocked(a) || !s.hasTurn(GangRef{a.id.Job, a.id.Gang}) {
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

// planUpgrade returns the bindings with which an attempt is guaranteed again, maybe once charges lie
// elsewhere.
func (s *State) planUpgrade(a *attempt) (binds []cell.Bind, sh cell.Shift, ok bool) {
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
func (s *State) mayUpgrade(a *attempt) bool { return s.steady(a) && (!a.orphaned || s.partLeft(a)) }

// upgradable returns the bindings with which an attempt is guaranteed again, if there are any.
func (s *State) upgradable(a *attempt) ([]cell.Bind, bool) {
	binds, ok := s.cl.Upgradable(a.alloc)
	return binds, ok && !slices.ContainsFunc(s.membersOf(a.alloc), func(m *attempt) bool { return !s.suits(m, binds) })
}

// partLeft reports whether an attempt that lost leaves has some that are what they were.
func (s *State) partLeft(a *attempt) bool {
	some := slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks, func(t cell.Task) bool { return len(t.Leaves) > 0 })
	return some && !s.startedOtherwise(a)
}

// suits reports whether an attempt's leaves, in these preassigned cells, are what
// its tasks asked for: a configuration may have given them another SKU, or pinned
// the cells around them.
func (s *State) suits(a *attempt, binds []cell.Bind) bool {
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

// verifyLazy checks that the lists hold exactly the lazily preempted attempts.
func (s *State) verifyLazy(add func(string, ...any)) {
	listed, lazy := 0, 0
	for i := range s.lazy {
		listed += len(s.lazy[i])
		if !slices.IsSortedFunc(s.lazy[i], queued.compare) {
			add("the list of lazily preempted gangs of space %d is out of order", i)
		}
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || !a.lazy {
			continue
		}
		lazy++
		if _, found := slices.BinarySearchFunc(s.lazy[s.space(s.jobs[a.job].spec.VC)], s.entry(a), queued.compare); !found {
			add("lazily preempted attempt %v is not listed", a.id)
		}
	}
	if listed != lazy {
		add("%d lazily preempted attempts, listed %d", lazy, listed)
	}
}
