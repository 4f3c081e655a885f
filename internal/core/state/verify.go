package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Verify checks every invariant of the state and returns all breaches.
func (s *State) Verify() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf("sched: "+format, a...)) }
	if s.Cluster == nil {
		return nil
	}
	if err := s.Cluster.Verify(); err != nil {
		errs = append(errs, err)
	}
	if s.Empty != nil {
		if err := s.Empty.Verify(); err != nil {
			errs = append(errs, fmt.Errorf("the empty twin: %w", err))
		}
	}
	for i := range s.Jobs {
		if s.Jobs[i].Spec != nil {
			s.verifyJob(int32(i), add)
		}
	}
	s.VerifyLines(add)
	s.VerifyKept(add)
	s.verifyLazy(add)
	s.verifyHolders(add)
	s.VerifyRunners(add)
	s.VerifyAllocations(add)
	s.verifyAway(add)
	s.verifyTallies(add)
	s.verifyShares(add)
	for i, q := range s.Queues {
		if !slices.IsSortedFunc(q, index.Queued.Compare) {
			add("queue %d is out of order", i)
		}
	}
	live, promised := 0, 0
	for i := range s.Attempts {
		if s.Attempts[i].Job != tables.None {
			if !s.Attempts[i].Joined {
				live++
			}
			if s.Attempts[i].State == model.AttemptReserving {
				promised++
				if !slices.Contains(s.Promises, int32(i)) {
					add("attempt %v is a reservation and not noted as one", s.Attempts[i].ID)
				}
				if s.Jobs[s.Attempts[i].Job].Quarantined {
					add("attempt %v is a reservation of a job that was set aside", s.Attempts[i].ID)
				}
			}
			s.verifyAttempt(int32(i), add)
		}
	}
	if promised != len(s.Promises) {
		add("%d reservations, noted %d", promised, len(s.Promises))
	}
	if n := s.Cluster.Live(); n != live {
		add("%d allocations live, but %d attempts hold one", n, live)
	}
	return errors.Join(errs...)
}

func (s *State) verifyJob(slot int32, add func(string, ...any)) {
	j := &s.Jobs[slot]
	if named, _ := s.Names.Get(j.Spec.User, j.Spec.Name, s.Jobs); s.Slots.Of(j.ID) != slot || named != slot {
		add("job %d is not found by its id or name", j.ID)
	}
	for g := range j.Gangs {
		gg := &j.Gangs[g]
		e := index.Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: int32(g), Slot: slot}
		at, queuedNow := slices.BinarySearchFunc(s.Queues[s.Space(j.Spec.VC)], e, index.Queued.Compare)
		if queuedNow && s.Queues[s.Space(j.Spec.VC)][at].Slot != slot {
			add("gang %d of job %d stands in its queue with slot %d, not %d", g, j.ID,
				s.Queues[s.Space(j.Spec.VC)][at].Slot, slot)
		}
		if gg.Waiting && j.Spec.Gangs[g].Extra && !s.minimumStands(j) {
			add("gang %d of job %d waits, but its minimum does not run", g, j.ID)
		}
		if gg.Waiting && !j.Within(int32(g), j.Size) {
			add("gang %d of job %d waits, but the job has a size of %d", g, j.ID, j.Size)
		}
		if queuedNow != gg.Waiting {
			add("gang %d of job %d: waiting %v, in its queue %v", g, j.ID, gg.Waiting, queuedNow)
		}
		s.verifyBooking(j, int32(g), add)
		if gg.Attempt == tables.None {
			continue
		}
		a := &s.Attempts[gg.Attempt]
		if a.Job != slot || a.ID.Job != j.ID || a.ID.Gang != int32(g) {
			add("gang %d of job %d points at attempt %v", g, j.ID, a.ID)
		}
		// A job that ends leaves its queue first and gives its promises back next.
		if reserving := a.State == model.AttemptReserving; reserving != gg.Waiting &&
			!(reserving && (j.Stop || j.Held() || j.Completing != nil)) {
			add("attempt %v is %s, but its gang waits: %v", a.ID, a.State, gg.Waiting)
		}
	}
}

func (s *State) verifyAttempt(slot int32, add func(string, ...any)) {
	a := &s.Attempts[slot]
	j := &s.Jobs[a.Job]
	if s.ByAlloc[a.Alloc] != slot && !a.Joined {
		add("allocation %d of attempt %v is not its", a.Alloc, a.ID)
	}
	al := s.Cluster.Alloc(a.Alloc)
	if al.Promised != (a.State == model.AttemptReserving) || al.Lazy != a.Lazy {
		add("attempt %v is %s, lazy %v; its allocation: promised %v, lazy %v", a.ID, a.State, a.Lazy, al.Promised,
			al.Lazy)
	}
	tasks := j.Spec.Gangs[a.ID.Gang].Tasks
	if len(al.Placement.Tasks) != len(tasks) {
		add("attempt %v has %d tasks on cells, want %d", a.ID, len(al.Placement.Tasks), len(tasks))
		return
	}
	var alive int32
	for i, o := range tasks {
		t := &j.Tasks[o]
		if !t.Dead {
			alive++
		}
		want := j.Spec.Roles[t.Role].Leaves
		if n := int32(len(al.Placement.Tasks[i].Leaves)); n != want && !a.Orphaned {
			add("task %d of attempt %v has %d leaves, want %d", o, a.ID, n, want)
		}
		s.verifyNode(a.ID, &al.Placement.Tasks[i], add)
	}
	if a.State != model.AttemptReserving && alive != a.Alive {
		add("attempt %v: %d tasks alive, counted %d", a.ID, alive, a.Alive)
	}
}

// verifyNode checks that a task's leaves are its devices on its node. (Their SKU
// may have another name since a configuration renamed it.)
func (s *State) verifyNode(id model.AttemptID, t *cell.Task, add func(string, ...any)) {
	f := s.Cluster.Forest()
	for i, l := range t.Leaves {
		c := &f.Cells[f.Leaves[l]]
		if f.Nodes[c.Node].Name != t.Node || f.Device(l) != t.Devices[i] {
			add("attempt %v: leaf %d is not device %d on %s", id, l, t.Devices[i], t.Node)
		}
	}
}
