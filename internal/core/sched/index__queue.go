package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// unbook ends a gang's booking, if it has one.
func (s *index) unbook(slot, g int32) {
	j := &s.jobs[slot]
	if odd := j.gangs[g].odd; odd == nil || odd.booked == nil {
		return
	}
	alter(&j.gangs[g].odd).booked = nil
	if i, found := slices.BinarySearchFunc(s.booked, GangRef{Job: j.id, Gang: g}, GangRef.compare); found {
		s.booked = slices.Delete(s.booked, i, i+1)
	}
}

// queued is one waiting gang in the order of its VC: priority, then submission.
type queued struct {
	prio cell.Priority
	job  model.JobID
	gang int32
	slot int32
	key  Key // in the lines of a VC whose policy has one; else zero
}

// compare orders by priority, by key where there is one, then by submission.
func (a queued) compare(b queued) int {
	if c := cmp.Compare(b.prio, a.prio); c != 0 {
		return c
	}
	return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.job, b.job), cmp.Compare(a.gang, b.gang))
}

// search finds where an entry stands in a queue, or belongs: most come last and leave
// first, and a queue may be long and far away in memory.
func search(q []queued, e queued) (int, bool) {
	switch n := len(q); {
	case n == 0 || q[n-1].compare(e) < 0:
		return n, false
	case q[0] == e:
		return 0, true
	}
	return slices.BinarySearchFunc(q, e, queued.compare)
}

// enqueue puts a gang into its queue; a member above a minimum only while that runs
// and within its job's size.
func (s *index) enqueue(slot, g int32) {
	if s.queue(slot, g) {
		s.lookIn(s.jobs[slot].space, s.jobs[slot].spec.Priority)
	}
}

// queue does it, and reports whether the gang waits now.
func (s *index) queue(slot, g int32) bool {
	j := &s.jobs[slot]
	if j.held() || j.spec.Gangs[g].Extra && !(s.minimumLives(j) && j.within(g, j.size)) {
		return false
	}
	j.gangs[g].waiting = true
	s.stir(j.space)
	q := &s.queues[j.space]
	e := queued{prio: j.spec.Priority, job: j.id, gang: g, slot: slot}
	if i, found := search(*q, e); !found {
		*q = slices.Insert(*q, i, e)
		s.list(j.space, e)
	}
	return true
}

// dequeue takes a gang out of its queue, if it is there.
func (s *index) dequeue(slot, g int32) {
	j := &s.jobs[slot]
	if !j.gangs[g].waiting {
		return
	}
	j.gangs[g].waiting = false
	s.stir(j.space)
	s.unbook(slot, g)
	q := &s.queues[j.space]
	e := queued{prio: j.spec.Priority, job: j.id, gang: g, slot: slot}
	if i, found := search(*q, e); found {
		*q = without(*q, i)
	}
	s.unlist(j.space, e)
	s.lookIn(j.space, j.spec.Priority) // whoever stood behind it may go now
}

// without removes an element by moving the shorter side: most leave at the front
// of a queue, however long it is.
func without(q []queued, i int) []queued {
	if len(q) == 1 {
		return q[:0] // and its memory is used again
	}
	if i < len(q)/2 {
		copy(q[1:i+1], q[:i])
		return q[1:]
	}
	return slices.Delete(q, i, i+1)
}

// timer says when a gang wants to be looked at, or for job 0 the nodes.
type timer struct {
	at   model.Time
	job  model.JobID
	gang int32
}

// Before orders by time, then job.
func (t timer) Before(o timer) bool { return t.at < o.at || t.at == o.at && t.job < o.job }

// at sets a timer; a time that has passed sets none. Job 0 stands for the nodes.
func (s *index) at(when model.Time, id model.JobID, gang int32) {
	if when > s.now {
		s.timers.Push(timer{when, id, gang})
	}
}

// expire drops the timers that are due and touches their jobs. Timers are not
// part of the state, they follow from it. So those that it gives no reason for any
// more are dropped without a look: a restarted core does not have them.
func (s *index) expire(now model.Time) {
	for len(s.timers) > 0 && s.timers[0].at <= now {
		t := s.timers.Pop()
		if slot, ok := s.slots.Get(t.job); ok && s.meant(&s.jobs[slot], t) {
			s.touch(slot)
			s.lookIn(s.jobs[slot].space, s.jobs[slot].spec.Priority)
		} else if t.job == 0 && slices.ContainsFunc(s.nodes, func(n nodeNote) bool { return n.Suspect == t.at }) {
			s.lookAll()
		} else if t.job == 0 && s.drainsAt(t.at) {
			continue
		} else if t.job == 0 && t.at == s.again {
			s.lookFor(s.againFor)
		}
	}
}

// meant reports whether the state still gives a reason for a job's timer.
func (s *index) meant(j *job, t timer) bool {
	g := &j.gangs[t.gang]
	odd := rare(g.odd)
	switch {
	case rare(j.odd).after == t.at, g.after == t.at, odd.booked != nil && odd.booked.Start == t.at:
		return true
	case slices.ContainsFunc(odd.avoid, func(a avoidance) bool { return a.Until == t.at }):
		return true
	case g.attempt == none || s.attempts[g.attempt].started == 0:
		return false
	}
	started := s.attempts[g.attempt].started
	return j.spec.TimeLimit > 0 && s.reaches(&s.attempts[g.attempt], j.spec.TimeLimit) == t.at || s.ripens(j, started, t.at)
}

// turn is when the order of a VC changes by itself; it is known until somebody
// begins or ceases to wait or to run there, reports something, or something is noted.
type turn struct {
	known bool
	at    model.Time
}

// stir forgets when the order of a VC changes.
func (s *index) stir(space int32) { s.looks.changes[space].known = false }
