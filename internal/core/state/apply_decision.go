package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// ComesBack reports whether an attempt is being stopped by the platform, and its gang's place in
// the order is known before it waits again. That is so only if its policy orders by submission or
// by a key: then the gang can be planned for without asking the policy.
func ComesBack(s *State, a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	over := j.Stop || j.Completing != nil || j.Held() || j.Quarantined || a.State != model.AttemptStopping
	if over || !OrdersAhead(&s.Tables, j.Space) || a.NotFirst || s.Shared(a) || s.IsExtra(a) || s.IsMoveTarget(a) {
		return false
	}
	if j.Spec.Priority < cell.MinGuaranteed || j.Gangs[a.ID.Gang].Next != tables.None {
		return false
	}
	switch a.Cause {
	case model.EndDrained, model.EndRequeued, model.EndPlatform, model.EndRefused, model.EndPreempted:
		return true
	}
	return false
}

// lookBehind marks the gangs behind a job's gangs that would have come back and now will not.
// Those stand in no queue, so no Dequeue marks them.
func (s *State) lookBehind(j *tables.Job) {
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None && ComesBack(s, &s.Attempts[at]) {
			s.DirtyVC(j.Space, j.Spec.Priority)
			return
		}
	}
}

// OrdersAhead reports whether a VC's policy orders waiting gangs by submission or by a key.
func OrdersAhead(s *tables.Tables, space int32) bool {
	_, straight := s.Policies[space].(model.StrictFIFO)
	_, keyed := s.Policies[space].(model.Keyed)
	return straight || keyed
}

// LeftOfLimit is how many more leaves a job's user may have in its VC, for gangs that are placed
// together.
func (s *State) LeftOfLimit(j *tables.Job) int64 {
	l := s.UserLimits(j)
	if l == nil || l.GPUs == 0 {
		return math.MaxInt64
	}
	return l.GPUs - s.UserHas(j.Space, j.Spec.User).Leaves
}

// applyDecision applies a decision; false when the event is none.
func (s *State) applyDecision(e model.Event) bool {
	switch e := e.(type) {
	case model.Placed:
		s.applyPlaced(e)
	case model.Reserved:
		s.applyReserved(e)
	case model.Unreserved:
		s.freeAttempt(s.Live(e.Attempt))
	case model.Booked:
		s.applyBooked(e)
	case model.Sized:
		s.applySized(e)
	case model.StopSent:
		s.applyStopSent(e)
	case model.Joined:
		s.applyJoined(e)
	case model.Rotated:
		s.applyRotated(e)
	case model.LazilyPreempted:
		s.applyLazily(e)
	case model.Upgraded:
		s.applyUpgraded(e)
	case model.Doomed:
		s.Cluster.Doom(s.charged(e.VC, e.Container), e.Root, e.Cell)
		s.DirtyAll()
	case model.Spared:
		s.Cluster.Undoom(s.charged(e.VC, e.Container), e.Root)
		s.DirtyAll()
	case model.AttemptEnded:
		s.applyAttemptEnded(e)
	case model.TaskRetried:
		s.applyTaskRetried(e)
	case model.JobCompleting:
		s.applyCompleting(e)
	case model.JobRetried:
		s.applyJobRetried(e)
	case model.JobEnded:
		s.applyJobEnded(e)
	case model.NodeAvoided:
		s.applyAvoided(e)
	case model.NodeSuspected:
		n := s.node(e.Node)
		n.Suspect, n.Reason, n.Refused = e.Until, e.Reason, nil
		if e.Until == 0 && !n.Down {
			n.Reason = ""
		}
		s.updateNodeHealth(n)
		s.SetTimer(e.Until, 0, 0)
		s.DirtyAll()
	case model.Quarantined:
		s.applyQuarantined(e)
	case model.PolicyFailed:
		s.applyPolicyFailed(e)
	default:
		return false
	}
	return true
}

// applyLazily makes an allocation opportunistic.
func (s *State) applyLazily(e model.LazilyPreempted) {
	a := s.Live(e.Attempt)
	s.count(a, -1)
	s.Cluster.Demote(a.Alloc)
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		m.Lazy, m.By = true, e.By
		s.NoteChanged(m)
		s.KeepLazy(m)
	}
	s.count(a, 1)
}

// applyUpgraded gives an allocation its guarantee back.
func (s *State) applyUpgraded(e model.Upgraded) {
	a := s.Live(e.Attempt)
	s.count(a, -1)
	s.Cluster.Upgrade(a.Alloc, e.Binds)
	for at := s.First(a); at != tables.None; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		s.DropLazy(m)
		m.Lazy, m.By, m.SinceSeq = false, nil, s.Seq
		s.NoteChanged(m)
	}
	s.count(a, 1)
}

// applyPlaced starts an attempt, on fresh cells or on those reserved for it.
func (s *State) applyPlaced(e model.Placed) {
	slot := s.Slots.Of(e.Attempt.Job)
	j := &s.Jobs[slot]
	g := &j.Gangs[e.Attempt.Gang]
	var a *tables.Attempt
	if g.Attempt != tables.None {
		a = &s.Attempts[g.Attempt]
		g.N = e.Attempt.N
		s.unpromise(g.Attempt)
		s.count(a, -1)
		s.Cluster.Promote(a.Alloc)
	} else {
		a = s.newAttempt(slot, e.Attempt, e.Placement, false)
	}
	s.begin(slot, a, e.Placement.Tasks)
	s.count(a, 1)
	if e.Attempt.Gang == 0 {
		s.EnqueueExtras(slot)
	}
}

// begin starts the tasks of an attempt that has its leaves.
func (s *State) begin(slot int32, a *tables.Attempt, places []cell.Task) {
	j := &s.Jobs[slot]
	s.Dequeue(slot, a.ID.Gang)
	s.SetMoveTo(&j.Gangs[a.ID.Gang], nil)
	a.State, a.Placed, a.SinceSeq = model.AttemptStarting, s.Now, s.Seq
	if tables.RareOf(a.Rare).Victims != nil {
		tables.SetRare(&a.Rare).Victims = nil
	}
	tasks := j.Spec.Gangs[a.ID.Gang].Tasks
	a.Alive = int32(len(tasks))
	for i, o := range tasks {
		t := &j.Tasks[o]
		*t = tables.TaskRun{Role: t.Role, Index: t.Index, Gang: t.Gang, Retries: t.Retries, Progress: t.Progress,
			State: model.TaskStarting, Attempt: a.ID.N, Place: &places[i]}
	}
}

// newAttempt takes cells for a gang.
func (s *State) newAttempt(slot int32, id model.AttemptID, pl cell.Placement, promise bool) *tables.Attempt {
	j := &s.Jobs[slot]
	at := s.attemptSlot(slot, id)
	if !promise {
		j.Gangs[id.Gang].N = id.N
	}
	alloc := s.Cluster.Take(j.Space, j.Spec.Priority, pl, promise)
	s.setAlloc(alloc, at)
	s.Attempts[at] = tables.Attempt{ID: id, Job: slot, Alloc: alloc, NextMember: tables.None}
	if b := tables.RareOf(j.Gangs[id.Gang].Rare).Booked; b != nil {
		s.Attempts[at].Rare = &tables.AttemptRare{BookingTurn: b.Turn}
	}
	s.Link(at)
	return &s.Attempts[at]
}

// attemptSlot gives a gang a slot for its next attempt.
func (s *State) attemptSlot(slot int32, id model.AttemptID) int32 {
	g := &s.Jobs[slot].Gangs[id.Gang]
	if id.N != g.N+1 {
		panic(fmt.Sprintf("core: attempt %v follows attempt %d", id, g.N))
	}
	at := int32(len(s.Attempts))
	if n := len(s.FreedAttempts); n > 0 {
		at, s.FreedAttempts = s.FreedAttempts[n-1], s.FreedAttempts[:n-1]
	} else {
		s.Attempts = append(s.Attempts, tables.Attempt{})
	}
	if g.Attempt != tables.None {
		g.Next = at // it moves
	} else {
		g.Attempt = at
	}
	return at
}

func (s *State) applyReserved(e model.Reserved) {
	slot := s.Slots.Of(e.Attempt.Job)
	leaves := s.Jobs[slot].Gangs[e.Attempt.Gang].Attempt // counted another way with a promise
	countAgain(s, leaves, -1)
	a := s.newAttempt(slot, e.Attempt, e.Placement, true)
	countAgain(s, leaves, 1)
	a.State, a.Placed, a.SinceSeq, a.Rare = model.AttemptReserving, s.Now, s.Seq, &tables.AttemptRare{Victims: e.Victims,
		BookingTurn: tables.RareOf(a.Rare).BookingTurn}
	s.Promises = append(s.Promises, s.SlotOf(a))
	s.count(a, 1)
	s.Regroup(slot, e.Attempt.Gang)
}

// countAgain counts the attempt of a gang that moves, around a change of the promise to which it
// moves.
func countAgain(s *State, slot, sign int32) {
	if slot != tables.None {
		s.count(&s.Attempts[slot], sign)
	}
}

// unpromise takes an attempt off the list of reservations.
func (s *State) unpromise(slot int32) {
	i := slices.Index(s.Promises, slot)
	last := len(s.Promises) - 1
	s.Promises[i] = s.Promises[last]
	s.Promises = s.Promises[:last]
}

// freeAttempt frees an attempt's slot, and its cells unless other members share them.
func (s *State) freeAttempt(a *tables.Attempt) {
	g := &s.Jobs[a.Job].Gangs[a.ID.Gang]
	slot, leaves := s.SlotOf(a), int32(tables.None)
	if slot == g.Next {
		leaves = g.Attempt
	}
	countAgain(s, leaves, -1)
	s.count(a, -1)
	if a.State == model.AttemptReserving {
		s.unpromise(slot)
	}
	if a.Lazy {
		s.DropLazy(a)
	}
	s.Unlink(slot)
	if alloc := a.Alloc; s.part(slot) {
		s.count(s.Holder(alloc), 1)
		s.setIntent(s.Holder(alloc))
		s.DirtyVC(s.Jobs[a.Job].Space, s.Jobs[a.Job].Spec.Priority) // gangs may join those that stay
	} else {
		s.ByAlloc[alloc] = tables.None
		s.Release(alloc)
	}
	if s.LookAgain.By(s.Jobs[a.Job].Space); s.Jobs[a.Job].Spec.Priority < cell.MinGuaranteed ||
		s.Cluster.AnyBadOrUnknown() {
		s.LookAgain.All = true
	}
	s.FreedAttempts = append(s.FreedAttempts, slot)
	if slot == g.Next {
		g.Next = tables.None
	} else {
		g.Attempt = tables.None
	}
	countAgain(s, leaves, 1)
	s.Regroup(a.Job, a.ID.Gang)
	drains := tables.RareOf(a.Rare).DrainingLeaves
	*a = tables.Attempt{Job: tables.None}
	s.unmarkDraining(drains)
}

func (s *State) applyStopSent(e model.StopSent) {
	a := s.Live(e.Attempt)
	s.count(a, -1)
	cleared := a.Lazy && a.By != nil && e.By != nil && *a.By == *e.By // demoted for this preemptor
	a.Cause, a.By, a.StopSentAt = e.Cause, e.By, s.Now
	s.count(a, 1)
	if !a.Lazy || cleared {
		s.countYield(a)
	}
	s.SetMoveTo(&s.Jobs[a.Job].Gangs[a.ID.Gang], e.Nodes)
	if e.Cause == model.EndMigrated {
		s.noteMove(s.Jobs[a.Job].Spec.VC)
	}
	if e.Attempt.Gang == 0 {
		s.DequeueExtras(a.Job)
	}
	s.DirtyByStop(a) // its cells can be promised now
	j := &s.Jobs[a.Job]
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if t := &j.Tasks[o]; t.State == model.TaskStarting || t.State == model.TaskRunning {
			t.State = model.TaskStopping
		}
	}
	s.refreshState(a)
}

func (s *State) applyAttemptEnded(e model.AttemptEnded) {
	a := s.Live(e.Attempt)
	j := &s.Jobs[a.Job]
	g := &j.Gangs[e.Attempt.Gang]
	noteTaken(s, a, e.Cause)
	g.Ran += s.RanFor(a)
	st := s.AttemptStatus(a)
	st.State, st.Cause, st.Ended, st.Message = model.AttemptOver, e.Cause, s.Now, cmp.Or(e.Message, st.Message)
	g.Last = s.Arenas.Attempts.Keep(st)
	if e.Attempt.Gang == 0 {
		s.DequeueExtras(a.Job)
	}
	if e.Cause == model.EndPreempted && !s.IsExtra(a) {
		j.Preempted++
	}
	if e.Cause != model.EndMigrated {
		s.SetMoveTo(g, nil)
	}
	for _, o := range j.Spec.Gangs[e.Attempt.Gang].Tasks {
		s.noteRefusal(j, o)
	}
	s.Touch(a.Job)
	s.freeAttempt(a)
	forgetLasting(j)
	g.N = max(g.N, e.Attempt.N)
	g.Done = true // until TaskRetried or JobRetried
	s.TouchReserving()
}

// forgetLasting drops a job's lasting notices once it has no attempt: while one lives, they may be
// about that.
func forgetLasting(j *tables.Job) {
	lives := func(g tables.Gang) bool { return g.Attempt != tables.None || g.Next != tables.None }
	if tables.RareOf(j.Rare).Lasting != nil && !slices.ContainsFunc(j.Gangs, lives) {
		tables.SetRare(&j.Rare).Lasting = nil
	}
}

// noteRefusal counts the jobs that a node refused lately. An image that cannot be fetched does not
// count: else jobs that name an unreachable registry would put nodes out of service for all.
func (s *State) noteRefusal(j *tables.Job, ordinal int32) {
	t := &j.Tasks[ordinal]
	if t.Exit == nil || t.Exit.Cause != model.StartRefused || t.Exit.Fetch {
		return
	}
	n := s.node(t.Place.Node)
	lately := slices.DeleteFunc(slices.Clone(n.Refused), func(r tables.Refusal) bool {
		return r.Job == j.ID || r.At.Add(refusalsCount) < s.Now
	})
	n.Refused = append(lately, tables.Refusal{Job: j.ID, At: s.Now})
}

// TouchReserving marks all jobs with a reservation for the next Decide.
func (s *State) TouchReserving() {
	for _, slot := range s.Promises {
		s.Touch(s.Attempts[slot].Job)
	}
}

func (s *State) applyTaskRetried(e model.TaskRetried) {
	slot := s.Slots.Of(e.Job)
	j := &s.Jobs[slot]
	g := &j.Gangs[e.Gang]
	g.Done, g.After = false, e.After
	switch {
	case e.Counted:
		g.Retries++
	case e.After > s.Now && g.Last != nil && g.Last.Cause == model.EndFailed:
		g.UncountedRetries++
	}
	if e.After > s.Now {
		g.Faults = g.FaultsInARow() + 1
	}
	for _, o := range j.Spec.Gangs[e.Gang].Tasks {
		t := &j.Tasks[o]
		t.State = model.TaskWaiting
		if e.Counted {
			t.Retries++
		}
	}
	s.SetTimer(e.After, e.Job, e.Gang)
	if g.Next != tables.None { // it has left, and starts on the cells promised to it
		g.Attempt, g.Next = g.Next, tables.None
	}
	s.Enqueue(slot, e.Gang)
}

func (s *State) applyCompleting(e model.JobCompleting) {
	slot := s.Slots.Of(e.Job)
	j := &s.Jobs[slot]
	s.recounting(slot, func() { j.Completing = s.Arenas.Completing.Keep(e) })
	for g := range j.Gangs {
		s.Dequeue(slot, int32(g))
	}
	s.Touch(slot)
}

func (s *State) applyJobRetried(e model.JobRetried) {
	slot := s.Slots.Of(e.Job)
	j := &s.Jobs[slot]
	s.recounting(slot, func() { j.Completing = nil })
	j.Retry++
	if e.Counted {
		j.Counted++
	}
	if tables.RareOf(j.Rare).After != e.After {
		tables.SetRare(&j.Rare).After = e.After
	}
	for i := range j.Tasks {
		j.Tasks[i].State, j.Tasks[i].Dead, j.Tasks[i].Retries = model.TaskWaiting, false, 0
	}
	for g := range j.Gangs {
		j.Gangs[g].Done, j.Gangs[g].Retries, j.Gangs[g].UncountedRetries, j.Gangs[g].Faults = false, 0, 0, 0
		s.Enqueue(slot, int32(g))
	}
	s.SetTimer(e.After, e.Job, 0)
}

func (s *State) applyJobEnded(e model.JobEnded) {
	slot := s.Slots.Of(e.Job)
	j := &s.Jobs[slot]
	for g := range j.Gangs {
		s.Dequeue(slot, int32(g))
	}
	if j.Spec.Partial() {
		s.PartialJobs--
		s.CountPartial(j, -1)
	}
	if j.Dedicated {
		s.DedicatedJobs--
	}
	s.Dirty.Chooses(j, -1)
	s.Slots.Remove(j.ID, slot)
	s.Names.Remove(j, slot)
	for g := range j.Gangs {
		if tables.RareOf(j.Gangs[g].Rare).MoveTo != nil {
			s.Migrating--
		}
	}
	s.Ended = append(s.Ended, tables.EndedJob{Job: *j, End: e, At: s.Now})
	*j = tables.Job{}
	s.FreedJobs = append(s.FreedJobs, slot)
}

func (s *State) applyAvoided(e model.NodeAvoided) {
	j := s.Find(e.Job)
	g := &j.Gangs[e.Gang]
	all := slices.Clone(tables.RareOf(g.Rare).Avoid)
	i := slices.IndexFunc(all, func(a tables.Avoidance) bool { return a.Node == e.Node })
	if i < 0 {
		i = len(all)
		all = append(all, tables.Avoidance{Node: e.Node})
	}
	all[i].Until = e.Until
	all[i].Times++
	tables.SetRare(&g.Rare).Avoid = all
	s.Dirty.Avoiding = max(s.Dirty.Avoiding, e.Until)
	s.Regroup(s.Slots.Of(e.Job), e.Gang)
	s.SetTimer(e.Until, e.Job, e.Gang)
}

func (s *State) applyQuarantined(e model.Quarantined) {
	j := s.Find(e.Job)
	if j == nil {
		return
	}
	s.lookBehind(j)
	j.Quarantined = true
	if again := e.Times - 1; again > tables.RareOf(j.Rare).Aside {
		tables.SetRare(&j.Rare).Aside = again
	}
	slot := s.Slots.Of(e.Job)
	for g := range j.Gangs {
		s.Dequeue(slot, int32(g))
		for _, at := range [...]int32{j.Gangs[g].Attempt, j.Gangs[g].Next} {
			if at != tables.None && s.Attempts[at].State == model.AttemptReserving {
				s.freeAttempt(&s.Attempts[at])
			}
		}
	}
}

// countYield counts a preemption against a job's budget: of a full gang that runs with a
// guarantee, by a gang of its own priority and VC. It counts when the stop is sent: that is not
// taken back, and the preemptor may be gone when the stop is obeyed.
func (s *State) countYield(a *tables.Attempt) {
	if a.Cause != model.EndPreempted || a.By == nil || s.IsExtra(a) {
		return
	}
	j := &s.Jobs[a.Job]
	if by := s.Find(a.By.Job); by != nil && by.Spec.VC == j.Spec.VC && by.Spec.Priority == j.Spec.Priority &&
		by.Spec.Priority >= cell.MinGuaranteed {
		j.Yielded++
	}
}

// applySized queues the members within the new size, if their minimum runs, and dequeues the rest.
func (s *State) applySized(e model.Sized) {
	slot := s.Slots.Of(e.Job)
	j := &s.Jobs[slot]
	j.Size = e.Size
	for g := int32(1); int(g) < len(j.Gangs); g++ {
		gg := &j.Gangs[g]
		switch in := j.Within(g, j.Size); {
		case gg.Waiting && !in:
			s.Dequeue(slot, g)
		case in && !gg.Waiting && !gg.Done && gg.Attempt == tables.None:
			s.Enqueue(slot, g)
		}
	}
	s.ForgetNextChange(j.Space)
}

// forgetSizes gives jobs the size with which they begin where a VC got another policy.
func (s *State) forgetSizes(was *model.Config, renamed []model.Rename) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Spec == nil || !j.Spec.Partial() || j.Size == j.Spec.UsualSize() {
			continue
		}
		name := j.Spec.VC
		if i := slices.IndexFunc(renamed, func(r model.Rename) bool { return r.To == name }); i >= 0 {
			name = renamed[i].From
		}
		if cmp.Or(model.ConfigOfVC(was, name).Policy, "fifo") != s.PolicyOf(j.Spec.VC) {
			s.applySized(model.Sized{Job: j.ID, Size: j.Spec.UsualSize()})
		}
	}
}
