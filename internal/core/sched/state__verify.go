package sched

import (
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Verify checks every invariant of the state and returns all breaches.
func (s *fold) Verify() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf("sched: "+format, a...)) }
	if s.cl == nil {
		return nil
	}
	if err := s.cl.Verify(); err != nil {
		errs = append(errs, err)
	}
	if s.empty != nil {
		if err := s.empty.Verify(); err != nil {
			errs = append(errs, fmt.Errorf("the empty twin: %w", err))
		}
	}
	for i := range s.jobs {
		if s.jobs[i].spec != nil {
			s.verifyJob(int32(i), add)
		}
	}
	s.verifyLines(add)
	s.verifyKept(add)
	s.verifyLazy(add)
	s.verifyHolders(add)
	s.verifyRunners(add)
	s.verifyAllocations(add)
	s.verifyAway(add)
	s.verifyTallies(add)
	s.verifyShares(add)
	for i, q := range s.queues {
		if !slices.IsSortedFunc(q, queued.compare) {
			add("queue %d is out of order", i)
		}
	}
	live, promised := 0, 0
	for i := range s.attempts {
		if s.attempts[i].job != none {
			if !s.attempts[i].joined {
				live++
			}
			if s.attempts[i].state == model.AttemptReserving {
				promised++
				if !slices.Contains(s.promises, int32(i)) {
					add("attempt %v is a reservation and not noted as one", s.attempts[i].id)
				}
				if s.jobs[s.attempts[i].job].quarantined {
					add("attempt %v is a reservation of a job that was set aside", s.attempts[i].id)
				}
			}
			s.verifyAttempt(int32(i), add)
		}
	}
	if promised != len(s.promises) {
		add("%d reservations, noted %d", promised, len(s.promises))
	}
	if n := s.cl.Live(); n != live {
		add("%d allocations live, but %d attempts hold one", n, live)
	}
	return errors.Join(errs...)
}

func (s *fold) verifyJob(slot int32, add func(string, ...any)) {
	j := &s.jobs[slot]
	if named, _ := s.names.get(j.spec.User, j.spec.Name, s.jobs); s.slots.Of(j.id) != slot || named != slot {
		add("job %d is not found by its id or name", j.id)
	}
	for g := range j.gangs {
		gg := &j.gangs[g]
		e := queued{prio: j.spec.Priority, job: j.id, gang: int32(g), slot: slot}
		at, queuedNow := slices.BinarySearchFunc(s.queues[s.space(j.spec.VC)], e, queued.compare)
		if queuedNow && s.queues[s.space(j.spec.VC)][at].slot != slot {
			add("gang %d of job %d stands in its queue with slot %d, not %d", g, j.id, s.queues[s.space(j.spec.VC)][at].slot, slot)
		}
		if gg.waiting && j.spec.Gangs[g].Extra && !s.minimumStands(j) {
			add("gang %d of job %d waits, but its minimum does not run", g, j.id)
		}
		if gg.waiting && !j.within(int32(g), j.size) {
			add("gang %d of job %d waits, but the job has a size of %d", g, j.id, j.size)
		}
		if queuedNow != gg.waiting {
			add("gang %d of job %d: waiting %v, in its queue %v", g, j.id, gg.waiting, queuedNow)
		}
		s.verifyBooking(j, int32(g), add)
		if gg.attempt == none {
			continue
		}
		a := &s.attempts[gg.attempt]
		if a.job != slot || a.id.Job != j.id || a.id.Gang != int32(g) {
			add("gang %d of job %d points at attempt %v", g, j.id, a.id)
		}
		// A job that ends leaves its queue first and gives its promises back next.
		if reserving := a.state == model.AttemptReserving; reserving != gg.waiting && !(reserving && (j.stop || j.held() || j.completing != nil)) {
			add("attempt %v is %s, but its gang waits: %v", a.id, a.state, gg.waiting)
		}
	}
}

func (s *fold) verifyAttempt(slot int32, add func(string, ...any)) {
	a := &s.attempts[slot]
	j := &s.jobs[a.job]
	if s.byAlloc[a.alloc] != slot && !a.joined {
		add("allocation %d of attempt %v is not its", a.alloc, a.id)
	}
	al := s.cl.Alloc(a.alloc)
	if al.Promised != (a.state == model.AttemptReserving) || al.Lazy != a.lazy {
		add("attempt %v is %s, lazy %v; its allocation: promised %v, lazy %v", a.id, a.state, a.lazy, al.Promised, al.Lazy)
	}
	tasks := j.spec.Gangs[a.id.Gang].Tasks
	if len(al.Placement.Tasks) != len(tasks) {
		add("attempt %v has %d tasks on cells, want %d", a.id, len(al.Placement.Tasks), len(tasks))
		return
	}
	var alive int32
	for i, o := range tasks {
		t := &j.tasks[o]
		if !t.dead {
			alive++
		}
		want := j.spec.Roles[t.role].Leaves
		if n := int32(len(al.Placement.Tasks[i].Leaves)); n != want && !a.orphaned {
			add("task %d of attempt %v has %d leaves, want %d", o, a.id, n, want)
		}
		s.verifyNode(a.id, &al.Placement.Tasks[i], add)
	}
	if a.state != model.AttemptReserving && alive != a.alive {
		add("attempt %v: %d tasks alive, counted %d", a.id, alive, a.alive)
	}
}

// verifyNode checks that a task's leaves are its devices on its node. (Their SKU
// may have another name since a configuration renamed it.)
func (s *fold) verifyNode(id model.AttemptID, t *cell.Task, add func(string, ...any)) {
	f := s.cl.Forest()
	for i, l := range t.Leaves {
		c := &f.Cells[f.Leaves[l]]
		if f.Nodes[c.Node].Name != t.Node || f.Device(l) != t.Devices[i] {
			add("attempt %v: leaf %d is not device %d on %s", id, l, t.Devices[i], t.Node)
		}
	}
}
