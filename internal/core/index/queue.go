package index

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Unbook ends a gang's booking, if it has one.
func (s *Index) Unbook(slot, g int32) {
	j := &s.Jobs[slot]
	if odd := j.Gangs[g].Rare; odd == nil || odd.Booked == nil {
		return
	}
	tables.SetRare(&j.Gangs[g].Rare).Booked = nil
	if i, found := slices.BinarySearchFunc(s.Booked, model.GangRef{Job: j.ID, Gang: g}, model.GangRef.Compare); found {
		s.Booked = slices.Delete(s.Booked, i, i+1)
	}
}

// Queued is one waiting gang in the order of its VC: by priority, then by submission.
type Queued struct {
	Prio cell.Priority
	Job  model.JobID
	Gang int32
	Slot int32
	Key  model.Key // set only in the wait groups of a VC with a Keyed policy
}

// Compare orders by priority, by key where there is one, then by submission.
func (a Queued) Compare(b Queued) int {
	if c := cmp.Compare(b.Prio, a.Prio); c != 0 {
		return c
	}
	return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

// search finds where an entry stands in a queue, or belongs. It tries the ends first: most gangs
// come last and leave first, and a long queue lies far apart in memory.
func search(q []Queued, e Queued) (int, bool) {
	switch n := len(q); {
	case n == 0 || q[n-1].Compare(e) < 0:
		return n, false
	case q[0] == e:
		return 0, true
	}
	return slices.BinarySearchFunc(q, e, Queued.Compare)
}

// Enqueue puts a gang into its queue and marks its VC for the walk. A member above a minimum is
// queued only while that minimum runs, and within its job's size.
func (s *Index) Enqueue(slot, g int32) {
	if s.Queue(slot, g) {
		s.DirtyVC(s.Jobs[slot].Space, s.Jobs[slot].Spec.Priority)
	}
}

// Queue puts a gang into its queue, and reports whether it waits now.
func (s *Index) Queue(slot, g int32) bool {
	j := &s.Jobs[slot]
	if j.Held() || j.Spec.Gangs[g].Extra && !(s.MinimumLives(j) && j.Within(g, j.Size)) {
		return false
	}
	j.Gangs[g].Waiting = true
	s.ForgetNextChange(j.Space)
	q := &s.Queues[j.Space]
	e := Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: g, Slot: slot}
	if i, found := search(*q, e); !found {
		*q = slices.Insert(*q, i, e)
		s.AddToGroup(j.Space, e)
	}
	return true
}

// Dequeue takes a gang out of its queue, if it is there.
func (s *Index) Dequeue(slot, g int32) {
	j := &s.Jobs[slot]
	if !j.Gangs[g].Waiting {
		return
	}
	j.Gangs[g].Waiting = false
	s.ForgetNextChange(j.Space)
	s.Unbook(slot, g)
	q := &s.Queues[j.Space]
	e := Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: g, Slot: slot}
	if i, found := search(*q, e); found {
		*q = without(*q, i)
	}
	s.DropFromGroup(j.Space, e)
	s.DirtyVC(j.Space, j.Spec.Priority) // gangs behind it may go now
}

// without removes an element by moving the shorter side: most leave at the front of a queue that
// may be long.
func without(q []Queued, i int) []Queued {
	if len(q) == 1 {
		return q[:0] // so that its memory is used again
	}
	if i < len(q)/2 {
		copy(q[1:i+1], q[:i])
		return q[1:]
	}
	return slices.Delete(q, i, i+1)
}

// timer says when a gang is to be looked at; with job 0, when the nodes are or a decision is due.
type timer struct {
	At   model.Time
	job  model.JobID
	gang int32
}

// Before orders by time, then job.
func (t timer) Before(o timer) bool { return t.At < o.At || t.At == o.At && t.job < o.job }

// SetTimer sets a timer; a time that has passed sets none. Job 0 stands for nodes and decisions.
func (s *Index) SetTimer(when model.Time, id model.JobID, gang int32) {
	if when > s.Now {
		s.Timers.Push(timer{when, id, gang})
	}
}

// Expire drops the timers that are due and touches their jobs. Timers follow from the state and
// are not part of it. So a timer for which the state gives no reason any more is dropped without a
// look: a restarted core would not have it.
func (s *Index) Expire(now model.Time) {
	for len(s.Timers) > 0 && s.Timers[0].At <= now {
		t := s.Timers.Pop()
		if slot, ok := s.Slots.Get(t.job); ok && s.meant(&s.Jobs[slot], t) {
			s.Touch(slot)
			s.DirtyVC(s.Jobs[slot].Space, s.Jobs[slot].Spec.Priority)
			MayMoveCharges(s)
		} else if t.job == 0 && slices.ContainsFunc(s.Nodes, func(n tables.NodeNote) bool { return n.Suspect == t.At }) {
			s.DirtyAll()
		} else if t.job == 0 && s.drainsAt(t.At) {
			continue
		} else if t.job == 0 && t.At == s.Again {
			s.lookFor(s.AgainFor)
		}
	}
}

// meant reports whether the state still gives a reason for a job's timer.
func (s *Index) meant(j *tables.Job, t timer) bool {
	g := &j.Gangs[t.gang]
	odd := tables.RareOf(g.Rare)
	switch {
	case tables.RareOf(j.Rare).After == t.At, g.After == t.At, odd.Booked != nil && odd.Booked.Start == t.At:
		return true
	case slices.ContainsFunc(odd.Avoid, func(a tables.Avoidance) bool { return a.Until == t.At }):
		return true
	case g.Attempt == tables.None || s.Attempts[g.Attempt].Started == 0:
		return false
	}
	started := s.Attempts[g.Attempt].Started
	return j.Spec.TimeLimit > 0 && s.Reaches(&s.Attempts[g.Attempt], j.Spec.TimeLimit) == t.At ||
		s.endsMinRun(j, started, t.At)
}

// NextChange is when the order of a VC changes as time passes; At 0 is never. It stays known until
// a gang begins or ceases to wait or to run there, reports something, or something is noted about
// it.
type NextChange struct {
	Known bool
	At    model.Time
}

// ForgetNextChange forgets when the order of a VC changes.
func (s *Index) ForgetNextChange(space int32) { s.Dirty.NextChanges[space].Known = false }

// UnbookAll ends all bookings, since a configuration numbers the leaves anew.
func (s *Index) UnbookAll() {
	for len(s.Booked) > 0 {
		last := s.Booked[len(s.Booked)-1]
		s.Unbook(s.Slots.Of(last.Job), last.Gang)
	}
}

// VerifyBooking checks that a gang is listed as booked if and only if it is, and that a booked
// gang waits, at most with a reservation: that may be revoked.
func (s *Index) VerifyBooking(j *tables.Job, g int32, add func(string, ...any)) {
	gg := &j.Gangs[g]
	_, listed := slices.BinarySearchFunc(s.Booked, model.GangRef{Job: j.ID, Gang: g}, model.GangRef.Compare)
	switch b := tables.RareOf(gg.Rare).Booked; {
	case listed != (b != nil):
		add("gang %d of job %d: booked %v, listed %v", g, j.ID, b != nil, listed)
	case b != nil && (!gg.Waiting || gg.Attempt != tables.None &&
		s.Attempts[gg.Attempt].State != model.AttemptReserving):
		add("gang %d of job %d is booked, but it waits for nothing", g, j.ID)
	case b != nil && (b.Job != j.ID || b.Gang != g || b.Start == 0 && len(b.Leaves) == 0):
		add("gang %d of job %d has a booking that is not its: %+v", g, j.ID, *b)
	}
}

// SetMoveTo notes on which nodes a gang that is told to move is to run next; nil ends that.
func (s *Index) SetMoveTo(g *tables.Gang, nodes []cell.NodeName) {
	if tables.RareOf(g.Rare).MoveTo != nil {
		s.Migrating--
	}
	if g.SetMoveTo(nodes); nodes != nil {
		s.Migrating++
	}
}

// VerifyMigrating counts the gangs that are to move again.
func (s *Index) VerifyMigrating(add func(string, ...any)) {
	n := 0
	for i := range s.Jobs {
		for k := range s.Jobs[i].Gangs {
			if s.Jobs[i].Spec != nil && tables.RareOf(s.Jobs[i].Gangs[k].Rare).MoveTo != nil {
				n++
			}
		}
	}
	if n != s.Migrating {
		add("%d gangs are to run elsewhere, counted as %d", n, s.Migrating)
	}
}

// MinimumStands is MinimumLives as Verify asks it: a minimum without a live task keeps its attempt
// until the next decision.
func (s *Index) MinimumStands(j *tables.Job) bool {
	at := j.Gangs[0].Attempt
	return at != tables.None && s.Attempts[at].State != model.AttemptReserving &&
		(s.Attempts[at].Cause == 0 || s.Attempts[at].Alive == 0)
}

// EnqueueExtras queues the members above a minimum that was just placed.
func (s *Index) EnqueueExtras(slot int32) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if gg := &j.Gangs[g]; !gg.Done && gg.Attempt == tables.None {
			s.Enqueue(slot, int32(g))
		}
	}
}

// DequeueExtras takes the members above a minimum that ends out of the queue.
func (s *Index) DequeueExtras(slot int32) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		s.Dequeue(slot, int32(g))
	}
}
