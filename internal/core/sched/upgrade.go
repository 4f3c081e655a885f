package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A lazily preempted attempt keeps its place in its VC's order: it stands in a
// list of its own beside the queue of those that wait, and a policy ranks both
// together. When its turn comes and its VC has room around its very leaves, it is
// guaranteed again. It never blocks anybody and never makes anybody leave.

// keepLazy puts a lazily preempted attempt into its VC's list.
func (s *index) keepLazy(a *attempt) {
	e := s.entry(a)
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, e, queued.compare); !found {
		*q = slices.Insert(*q, i, e)
	}
	s.lookAll()
}

// dropLazy takes an attempt out of its VC's list, if it is there.
func (s *index) dropLazy(a *attempt) {
	q := &s.lazy[s.space(s.jobs[a.job].spec.VC)]
	if i, found := slices.BinarySearchFunc(*q, s.entry(a), queued.compare); found {
		*q = slices.Delete(*q, i, i+1)
	}
}

// entry is an attempt's gang as it would stand in the queue.
func (s *tables) entry(a *attempt) queued {
	return queued{prio: s.jobs[a.job].spec.Priority, job: a.id.Job, gang: a.id.Gang, slot: a.job}
}

// relistLazy builds the lists anew, after the VCs changed.
func (s *index) relistLazy() {
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
func (s *index) laziesAt(space int32, prio cell.Priority, extras bool) []queued {
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
func (s *tables) mayUpgrade(a *attempt) bool { return s.steady(a) && (!a.orphaned || s.partLeft(a)) }

// upgradable returns the bindings with which an attempt is guaranteed again, if there are any.
func (s *tables) upgradable(a *attempt) ([]cell.Bind, bool) {
	binds, ok := s.cl.Upgradable(a.alloc)
	return binds, ok && !slices.ContainsFunc(s.membersOf(a.alloc), func(m *attempt) bool { return !s.suits(m, binds) })
}

// partLeft reports whether an attempt that lost leaves has some that are what they were.
func (s *tables) partLeft(a *attempt) bool {
	some := slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks,
		func(t cell.Task) bool { return len(t.Leaves) > 0 })
	return some && !s.startedOtherwise(a)
}

// suits reports whether an attempt's leaves, in these preassigned cells, are what
// its tasks asked for: a configuration may have given them another SKU, or pinned
// the cells around them.
func (s *tables) suits(a *attempt, binds []cell.Bind) bool {
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
func (s *index) verifyLazy(add func(string, ...any)) {
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

// What lost its guarantee keeps its place in the order of its VC: a gang that stands behind it
// there may not stop it, though the cells are lent, nor be promised them while it is stopped for
// another VC. It would wait before that gang, and take them back.

// spared returns which holders a gang may not make leave though they use no guarantee; nil is none.
func (s *index) spared(j *job, g int) func(cell.AllocID) bool {
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
func (s *index) sparesSome(j *job) bool {
	if j.spec.Priority < cell.MinGuaranteed || j.space <= 0 || int(j.space) >= len(s.lazy) {
		return false
	}
	q := s.lazy[j.space]
	return len(q) > 0 && q[0].prio >= j.spec.Priority
}

// standsBefore reports whether an attempt lost its guarantee and stands before a gang of its VC: it
// has a higher priority, or lost it to a configuration and was submitted before. What gave its
// guarantee up within its priority did so by its policy, which has another order.
func (s *index) standsBefore(a *attempt, j *job, g int) bool {
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

// waitsAgain reports whether an attempt is being stopped and its gang waits again then, at its
// place: nothing ends its job meanwhile, and no user holds it.
func (s *index) waitsAgain(a *attempt) bool {
	j := &s.jobs[a.job]
	return a.cause.Resumes() && !j.stop && j.completing == nil && !j.held() && !a.orphaned &&
		!s.isExtra(a) && j.gangs[a.id.Gang].next == none
}

// recounting changes what waitsAgain asks of a job, and counts what is being stopped of it anew.
// What waits no more leaves its room to others.
func (s *fold) recounting(slot int32, change func()) {
	j := &s.jobs[slot]
	s.lookBehind(j)
	var leaving []*attempt
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || !s.attempts[at].cause.Resumes() || s.shared(&s.attempts[at]) && s.counted(&s.attempts[at]).id != s.attempts[at].id {
			continue
		}
		leaving = append(leaving, &s.attempts[at])
		s.count(&s.attempts[at], -1)
	}
	if change(); len(leaving) == 0 {
		return
	}
	for _, a := range leaving {
		s.count(a, 1)
	}
	s.looks.freed++
	s.lookIn(j.space, cell.MinGuaranteed)
}

// sparedReason: a gang could take cells that are lent, but to what lost its guarantee and stands
// before it.
func (s *finder) sparedReason(r model.Reason, j *job, g int32) (model.Reason, bool) {
	q := s.request(want{j: j, g: g})
	spared := q.Spared
	if spared == nil || r.Free < r.Need {
		return r, false
	}
	q = s.lifting(q, j.spec.Priority)
	q.Spared = nil
	res, ok := s.cl.Place(&q)
	if !ok {
		return r, false
	}
	for _, id := range res.Victims {
		if !spared(id) {
			continue
		}
		for _, m := range s.membersOf(id) {
			r.Jobs = append(r.Jobs, m.id.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return r.Say(PriorityAhead, "it would fit on lent cells, but %s lost the guarantee there and %s ahead of it in %s",
		s.jobList(j.spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.spec.VC), true
}

// comesBackReason: there is room for a gang while others of its VC are being stopped that wait
// before it then.
func (s *index) comesBackReason(r model.Reason, j *job, g int32) (model.Reason, bool) {
	if j.spec.Priority < cell.MinGuaranteed || j.spec.Gangs[g].Extra || int64(j.gangs[g].leaves) <= s.unheld(j.space, j.spec.Priority) {
		return r, false
	}
	for _, slot := range s.holders[j.space] {
		a := &s.attempts[slot]
		if s.jobs[a.job].spec.Priority > j.spec.Priority && !a.lazy && s.waitsAgain(a) {
			r.Jobs = append(r.Jobs, a.id.Job)
		}
	}
	slices.Sort(r.Jobs)
	if r.Jobs = slices.Compact(r.Jobs); len(r.Jobs) == 0 {
		return r, false
	}
	return comesBefore(&s.tables, r, j), true
}

// comesBefore says that there is room, but for jobs that are being stopped and wait again then.
func comesBefore(s *tables, r model.Reason, j *job) model.Reason {
	return r.Say(PriorityAhead, "it would fit, but %s %s being stopped, and then ahead of it in %s",
		s.jobList(j.spec.User, r.Jobs), verb(r.Jobs, "is", "are"), j.spec.VC)
}
