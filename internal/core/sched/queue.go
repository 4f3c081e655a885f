package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

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

// requeueAll builds the queues anew, after the VCs changed.
func (s *fold) requeueAll() {
	s.queues = make([][]queued, s.cl.NumSpaces())
	for slot := range s.jobs {
		j := &s.jobs[slot]
		for g := range j.gangs {
			if j.spec != nil && j.gangs[g].waiting {
				i := j.space
				s.queues[i] = append(s.queues[i], queued{prio: j.spec.Priority, job: j.id, gang: int32(g), slot: int32(slot)})
			}
		}
	}
	for i := range s.queues {
		slices.SortFunc(s.queues[i], queued.compare)
	}
	s.relistAll()
	s.relistLazy()
	s.relink()
	s.resetLooks()
	s.tallies = s.recounted()
	s.lookAll()
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
func (s *tables) meant(j *job, t timer) bool {
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

// Wake returns when Decide wants to run again by itself; 0 is never.
func (s *pass) Wake() model.Time {
	var wake model.Time
	if len(s.timers) > 0 {
		wake = s.timers[0].at
	}
	for _, space := range s.looks.timed {
		wake = sooner(wake, s.nextChange(space))
	}
	return wake
}

// turn is when the order of a VC changes by itself; it is known until somebody
// begins or ceases to wait or to run there, reports something, or something is noted.
type turn struct {
	known bool
	at    model.Time
}

// stir forgets when the order of a VC changes.
func (s *index) stir(space int32) { s.looks.changes[space].known = false }

// nextChange returns when the order of a VC changes by itself for the first time
// after the last decision; 0 is never. Where nobody waits the order does not matter.
func (s *pass) nextChange(space int32) model.Time {
	c := &s.looks.changes[space]
	if c.known && (c.at == 0 || c.at > s.decided) {
		return c.at
	}
	*c = turn{known: true, at: s.changeAfter(space)}
	return c.at
}

// changeAfter finds out what nextChange notes.
func (s *pass) changeAfter(space int32) model.Time {
	at := s.nextClear(space)
	p, timed := s.pol[space].(Timed)
	if timed && s.looks.tuned[space] {
		for _, r := range s.tallies[space].ranks {
			at = sooner(at, s.changeOf(p, space, r.prio))
		}
	}
	for prio, ok := s.nextPriority(space, cell.MaxGuaranteed+1); ok && prio >= cell.MinGuaranteed; prio, ok = s.nextPriority(space, prio) {
		if timed {
			at = sooner(at, s.changeOf(p, space, prio))
			continue
		}
		at = sooner(at, s.nextAge(space, prio))
	}
	return at
}

// changeOf is when a policy's order of one priority changes by itself. A policy that names an
// instant that has passed would be looked at without end: it is looked at with the next full
// second, which is the same one for a state that was saved and loaded meanwhile.
func (s *pass) changeOf(p Timed, space int32, prio cell.Priority) model.Time {
	was := s.ask(space)
	at := p.NextChange(view{s: s, space: space, prio: prio, now: s.decided})
	s.ask(was)
	if at != 0 && at <= s.decided {
		const every = model.Time(model.Second)
		at = (s.decided/every + 1) * every
	}
	return at
}

// lookAtChanges looks at the VCs whose order changed by itself since the last
// decision.
func (s *pass) lookAtChanges(now model.Time) {
	for _, space := range s.looks.timed {
		if t := s.nextChange(space); t > 0 && t <= now {
			s.looks.itself[space], s.looks.some = true, true
			s.looks.shut[space].holds = false
		}
	}
}
