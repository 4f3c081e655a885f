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
	if s.Cluster == nil {
		return nil
	}
	var errs []error
	if err := s.Cluster.Verify(); err != nil {
		errs = append(errs, err)
	}
	if s.Empty != nil {
		if err := s.Empty.Verify(); err != nil {
			errs = append(errs, fmt.Errorf("the empty twin: %w", err))
		}
	}
	verifier{s, func(format string, a ...any) { errs = append(errs, fmt.Errorf("core: "+format, a...)) }}.all()
	return errors.Join(errs...)
}

// all checks everything but the cells.
func (s verifier) all() {
	for i := range s.Jobs {
		if s.Jobs[i].Spec != nil {
			s.verifyJob(int32(i))
		}
	}
	s.VerifyWaitGroups(s.add)
	s.VerifyKept(s.add)
	s.VerifyLazy(s.add)
	s.VerifyHolders(s.add)
	s.VerifyRunners(s.add)
	s.VerifyAllocations(s.add)
	s.VerifyMigrating(s.add)
	s.verifyTallies()
	s.verifyShares()
	for i, q := range s.Queues {
		if !slices.IsSortedFunc(q, index.Queued.Compare) {
			s.add("queue %d is out of order", i)
		}
	}
	live, promised := 0, 0
	for i := range s.Attempts {
		if s.Attempts[i].Job != tables.None {
			if !s.Attempts[i].NotFirst {
				live++
			}
			if s.Attempts[i].State == model.AttemptReserving {
				promised++
				if !slices.Contains(s.Promises, int32(i)) {
					s.add("attempt %v is a reservation and not noted as one", s.Attempts[i].ID)
				}
				if s.Jobs[s.Attempts[i].Job].Quarantined {
					s.add("attempt %v is a reservation of a job that was set aside", s.Attempts[i].ID)
				}
			}
			s.verifyAttempt(int32(i))
		}
	}
	if promised != len(s.Promises) {
		s.add("%d reservations, noted %d", promised, len(s.Promises))
	}
	if n := s.Cluster.Live(); n != live {
		s.add("%d allocations live, but %d attempts hold one", n, live)
	}
}

func (s verifier) verifyJob(slot int32) {
	j := &s.Jobs[slot]
	if named, _ := s.Names.Get(j.Spec.User, j.Spec.Name, s.Jobs); s.Slots.Of(j.ID) != slot || named != slot {
		s.add("job %d is not found by its id or name", j.ID)
	}
	for g := range j.Gangs {
		gg := &j.Gangs[g]
		e := index.Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: int32(g), Slot: slot}
		at, queuedNow := slices.BinarySearchFunc(s.Queues[s.Space(j.Spec.VC)], e, index.Queued.Compare)
		if queuedNow && s.Queues[s.Space(j.Spec.VC)][at].Slot != slot {
			s.add("gang %d of job %d stands in its queue with slot %d, not %d", g, j.ID,
				s.Queues[s.Space(j.Spec.VC)][at].Slot, slot)
		}
		if gg.Waiting && j.Spec.Gangs[g].Extra && !s.MinimumStands(j) {
			s.add("gang %d of job %d waits, but its minimum does not run", g, j.ID)
		}
		if gg.Waiting && !j.Within(int32(g), j.Size) {
			s.add("gang %d of job %d waits, but the job has a size of %d", g, j.ID, j.Size)
		}
		if queuedNow != gg.Waiting {
			s.add("gang %d of job %d: waiting %v, in its queue %v", g, j.ID, gg.Waiting, queuedNow)
		}
		s.VerifyBooking(j, int32(g), s.add)
		if gg.Attempt == tables.None {
			continue
		}
		a := &s.Attempts[gg.Attempt]
		if a.Job != slot || a.ID.Job != j.ID || a.ID.Gang != int32(g) {
			s.add("gang %d of job %d points at attempt %v", g, j.ID, a.ID)
		}
		// A job that ends leaves its queue first and gives its promises back next.
		if reserving := a.State == model.AttemptReserving; reserving != gg.Waiting &&
			!(reserving && (j.Stop || j.Held() || j.Completing != nil)) {
			s.add("attempt %v is %s, but its gang waits: %v", a.ID, a.State, gg.Waiting)
		}
	}
}

func (s verifier) verifyAttempt(slot int32) {
	a := &s.Attempts[slot]
	j := &s.Jobs[a.Job]
	if s.ByAlloc[a.Alloc] != slot && !a.NotFirst {
		s.add("allocation %d of attempt %v is not its", a.Alloc, a.ID)
	}
	al := s.Cluster.Alloc(a.Alloc)
	if al.Promised != (a.State == model.AttemptReserving) || al.Lazy != a.Lazy {
		s.add("attempt %v is %s, lazy %v; its allocation: promised %v, lazy %v", a.ID, a.State, a.Lazy, al.Promised,
			al.Lazy)
	}
	tasks := j.Spec.Gangs[a.ID.Gang].Tasks
	if len(al.Placement.Tasks) != len(tasks) {
		s.add("attempt %v has %d tasks on cells, want %d", a.ID, len(al.Placement.Tasks), len(tasks))
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
			s.add("task %d of attempt %v has %d leaves, want %d", o, a.ID, n, want)
		}
		s.verifyNode(a.ID, &al.Placement.Tasks[i])
	}
	if a.State != model.AttemptReserving && alive != a.Alive {
		s.add("attempt %v: %d tasks alive, counted %d", a.ID, alive, a.Alive)
	}
}

// verifyNode checks that a task's leaves are its devices on its node. Their SKU may have been
// renamed by a configuration.
func (s verifier) verifyNode(id model.AttemptID, t *cell.Task) {
	f := s.Cluster.Forest()
	for i, l := range t.Leaves {
		c := &f.Cells[f.Leaves[l]]
		if f.Nodes[c.Node].Name != t.Node || f.Device(l) != t.Devices[i] {
			s.add("attempt %v: leaf %d is not device %d on %s", id, l, t.Devices[i], t.Node)
		}
	}
}
