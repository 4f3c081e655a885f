package sched

import (
	"slices"
)

// explainer says why jobs wait, when they start, and what would become of a change: on copies of
// itself that decide.
type explainer struct {
	pass
	ranks      ranking     // of the policies' orders
	said       said        // of shapes
	copyMemory *CopyMemory // for copies of this copy
	whole      bool        // reasons name all that they know of, for what is tried with them
}

// copy is Clone of what explains.
func (s *explainer) copy() *explainer { return s.cloneIn(&copyRoom{}) }

// CopyMemory is memory for a copy and for those that are made of it to see what comes of a change. It is
// much, and taking it anew for each question is a third of what an answer costs.
type CopyMemory struct{ state, with, base, tried copyRoom }

// copies is the memory of a copy for copies of it.
func (s *explainer) copies() *CopyMemory {
	if s.copyMemory == nil {
		s.copyMemory = &CopyMemory{}
	}
	return s.copyMemory
}

// copyRoom is memory for one copy after the other: each is the end of the one before.
type copyRoom struct {
	state explainer
	tasks []taskRun
	gangs []gang
}

// cloneIn is Clone in memory that is used again.
func (s *explainer) cloneIn(room *copyRoom) *explainer {
	d, was := &room.state, room.state
	*d = *s
	if s.cl != nil {
		d.cl, d.empty = s.cl.Clone(), nil
	}
	d.jobs = CopyAgain(was.jobs, s.jobs)
	tasks, gangs := room.tasks[:0], room.gangs[:0]
	var nt, ng int
	for i := range s.jobs {
		nt += len(s.jobs[i].tasks)
		ng += len(s.jobs[i].gangs)
	}
	for i := range s.ended {
		nt += len(s.ended[i].tasks)
		ng += len(s.ended[i].gangs)
	}
	tasks, gangs = slices.Grow(tasks, nt), slices.Grow(gangs, ng)
	for i := range d.jobs {
		j := &d.jobs[i]
		j.tasks, tasks = CopyPooled(j.tasks, tasks)
		j.gangs, gangs = CopyPooled(j.gangs, gangs)
	}
	d.ended = slices.Clone(s.ended)
	for i := range d.ended {
		j := &d.ended[i]
		j.tasks, tasks = CopyPooled(j.tasks, tasks)
		j.gangs, gangs = CopyPooled(j.gangs, gangs)
	}
	room.tasks, room.gangs = tasks, gangs
	d.spare, d.spareAtt = slices.Clone(s.spare), slices.Clone(s.spareAtt)
	d.slots, d.names = s.slots.CloneIn(&was.slots), s.names.cloneIn(&was.names)
	d.promises = slices.Clone(s.promises)
	d.attempts, d.byAlloc = CopyAgain(was.attempts, s.attempts), slices.Clone(s.byAlloc)
	d.holders, d.shares = slices.Clone(s.holders), slices.Clone(s.shares)
	for i := range d.holders {
		d.holders[i] = slices.Clone(d.holders[i])
	}
	d.queues = slices.Clone(s.queues)
	for i := range d.queues {
		var had []queued
		if i < len(was.queues) {
			had = was.queues[i]
		}
		d.queues[i] = CopyAgain(had, s.queues[i])
	}
	d.lines = s.lines.clone()
	d.tallies, d.running, d.allocs = cloneTallies(s.tallies), cloneRunners(s.running), make([]allocations,
		len(s.allocs))
	d.looks.spaces, d.looks.itself = slices.Clone(s.looks.spaces), slices.Clone(s.looks.itself)
	d.looks.changes, d.looks.shut = slices.Clone(s.looks.changes), slices.Clone(s.looks.shut)
	d.lazy = slices.Clone(s.lazy)
	for i := range d.lazy {
		d.lazy[i] = slices.Clone(d.lazy[i])
	}
	d.notes, d.debts, d.moved = slices.Clone(s.notes), slices.Clone(s.debts), slices.Clone(s.moved)
	d.nodes, d.leaves = slices.Clone(s.nodes), slices.Clone(s.leaves)
	d.booked, d.habits = slices.Clone(s.booked), s.habits.Clone()
	d.timers, d.dirty = slices.Clone(s.timers), slices.Clone(s.dirty)
	d.cache, d.hungry, d.out, d.mem, d.arenas = cache{}, nil, nil, memory{}, arenas{}
	d.ranks, d.said, d.copyMemory, d.whole, d.shapes, d.grew = ranking{}, said{}, nil, false, nil, askers{}
	d.calls, d.users, d.charges, d.claims, d.notYet, d.recount = calls{}, limited{}, moving{}, claimed{}, nil, false
	return d
}
