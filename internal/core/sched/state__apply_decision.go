package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// comesBack reports whether an attempt is being stopped by the platform, and its gang is to have
// cells again then without a word of its policy: only an order by submission or by a key tells
// its place before it waits.
func comesBack(s *fold, a *attempt) bool {
	j := &s.jobs[a.job]
	over := j.stop || j.completing != nil || j.held() || j.quarantined || a.state != model.AttemptStopping
	if over || !ordersAhead(&s.tables, j.space) || a.joined || s.shared(a) || s.isExtra(a) || s.moving(a) {
		return false
	}
	if j.spec.Priority < cell.MinGuaranteed || j.gangs[a.id.Gang].next != none {
		return false
	}
	switch a.cause {
	case model.EndDrained, model.EndRequeued, model.EndPlatform, model.EndRefused, model.EndPreempted:
		return true
	}
	return false
}

// lookBehind looks at those behind a job's gangs that come back, which will not any more: they are
// in no queue that they could leave.
func (s *fold) lookBehind(j *job) {
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none && comesBack(s, &s.attempts[at]) {
			s.lookIn(j.space, j.spec.Priority)
			return
		}
	}
}

// ordersAhead reports whether a VC's policy orders what waits by submission or by a key.
func ordersAhead(s *tables, space int32) bool {
	_, straight := s.pol[space].(Straight)
	_, keyed := s.pol[space].(Keyed)
	return straight || keyed
}

// minimumStands is what Verify asks instead: a minimum whose last task died has its attempt until
// the next decision.
func (s *fold) minimumStands(j *job) bool {
	at := j.gangs[0].attempt
	return at != none && s.attempts[at].state != model.AttemptReserving && (s.attempts[at].cause == 0 || s.attempts[at].alive == 0)
}

// enqueueExtras lets the members above a minimum wait, now that it was placed.
func (s *fold) enqueueExtras(slot int32) {
	j := &s.jobs[slot]
	for g := 1; j.spec.Partial() && g < len(j.gangs); g++ {
		if gg := &j.gangs[g]; !gg.done && gg.attempt == none {
			s.enqueue(slot, int32(g))
		}
	}
}

// dequeueExtras takes those that wait out of the queue: their minimum ends.
func (s *fold) dequeueExtras(slot int32) {
	j := &s.jobs[slot]
	for g := 1; j.spec.Partial() && g < len(j.gangs); g++ {
		s.dequeue(slot, int32(g))
	}
}

// leftOfLimit is how many leaves more a job's user may have in its VC, for gangs that are placed
// together.
func (s *fold) leftOfLimit(j *job) int64 {
	l := s.userLimits(j)
	if l == nil || l.GPUs == 0 {
		return math.MaxInt64
	}
	return l.GPUs - s.userHas(j.space, j.spec.User).leaves
}

// applyDecision applies a decision; false when the event is none.
func (s *fold) applyDecision(e Event) bool {
	switch e := e.(type) {
	case Placed:
		s.applyPlaced(e)
	case Reserved:
		s.applyReserved(e)
	case Unreserved:
		s.freeAttempt(s.live(e.Attempt))
	case Booked:
		s.applyBooked(e)
	case Sized:
		s.applySized(e)
	case StopSent:
		s.applyStopSent(e)
	case Joined:
		s.applyJoined(e)
	case Rotated:
		s.applyRotated(e)
	case LazilyPreempted:
		s.applyLazily(e)
	case Upgraded:
		s.applyUpgraded(e)
	case Doomed:
		s.cl.Doom(s.charged(e.VC, e.Container), e.Root, e.Cell)
		s.lookAll()
	case Spared:
		s.cl.Spare(s.charged(e.VC, e.Container), e.Root)
		s.lookAll()
	case AttemptEnded:
		s.applyAttemptEnded(e)
	case TaskRetried:
		s.applyTaskRetried(e)
	case JobCompleting:
		s.applyCompleting(e)
	case JobRetried:
		s.applyJobRetried(e)
	case JobEnded:
		s.applyJobEnded(e)
	case NodeAvoided:
		s.applyAvoided(e)
	case NodeSuspected:
		n := s.node(e.Node)
		n.Suspect, n.Reason, n.Refused = e.Until, e.Reason, nil
		if e.Until == 0 && !n.Down {
			n.Reason = ""
		}
		s.blame(n)
		s.at(e.Until, 0, 0)
		s.lookAll()
	case Quarantined:
		s.applyQuarantined(e)
	case PolicyFailed:
		s.applyPolicyFailed(e)
	default:
		return false
	}
	return true
}

// applyLazily makes an allocation opportunistic.
func (s *fold) applyLazily(e LazilyPreempted) {
	a := s.live(e.Attempt)
	s.count(a, -1)
	s.cl.Demote(a.alloc)
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		m := &s.attempts[at]
		m.lazy, m.by = true, e.By
		s.rerun(m)
		s.keepLazy(m)
	}
	s.count(a, 1)
}

// applyUpgraded gives an allocation its guarantee back.
func (s *fold) applyUpgraded(e Upgraded) {
	a := s.live(e.Attempt)
	s.count(a, -1)
	s.cl.Upgrade(a.alloc, e.Binds)
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		m := &s.attempts[at]
		s.dropLazy(m)
		m.lazy, m.by, m.since = false, nil, s.seq
		s.rerun(m)
	}
	s.count(a, 1)
}

// applyPlaced starts an attempt, on fresh cells or on those reserved for it.
func (s *fold) applyPlaced(e Placed) {
	slot := s.slots.Of(e.Attempt.Job)
	j := &s.jobs[slot]
	g := &j.gangs[e.Attempt.Gang]
	var a *attempt
	if g.attempt != none {
		a = &s.attempts[g.attempt]
		g.n = e.Attempt.N
		s.unpromise(g.attempt)
		s.count(a, -1)
		s.cl.Promote(a.alloc)
	} else {
		a = s.newAttempt(slot, e.Attempt, e.Placement, false)
	}
	s.begin(slot, a, e.Placement.Tasks)
	s.count(a, 1)
	if e.Attempt.Gang == 0 {
		s.enqueueExtras(slot)
	}
}

// begin starts the tasks of an attempt, which has its leaves.
func (s *fold) begin(slot int32, a *attempt, places []cell.Task) {
	j := &s.jobs[slot]
	s.dequeue(slot, a.id.Gang)
	s.mean(&j.gangs[a.id.Gang], nil)
	a.state, a.placed, a.since = model.AttemptStarting, s.now, s.seq
	if rare(a.odd).victims != nil {
		alter(&a.odd).victims = nil
	}
	tasks := j.spec.Gangs[a.id.Gang].Tasks
	a.alive = int32(len(tasks))
	for i, o := range tasks {
		t := &j.tasks[o]
		*t = taskRun{role: t.role, index: t.index, gang: t.gang, retries: t.retries, progress: t.progress,
			state: model.TaskStarting, attempt: a.id.N, place: &places[i]}
	}
}

// newAttempt takes cells for a gang.
func (s *fold) newAttempt(slot int32, id model.AttemptID, pl cell.Placement, promise bool) *attempt {
	j := &s.jobs[slot]
	at := s.attemptSlot(slot, id)
	if !promise {
		j.gangs[id.Gang].n = id.N
	}
	alloc := s.cl.Take(j.space, j.spec.Priority, pl, promise)
	s.setAlloc(alloc, at)
	s.attempts[at] = attempt{id: id, job: slot, alloc: alloc, mate: none}
	if b := rare(j.gangs[id.Gang].odd).booked; b != nil {
		s.attempts[at].odd = &oddAttempt{turn: b.Turn}
	}
	s.link(at)
	return &s.attempts[at]
}

// attemptSlot gives a gang a slot for its next attempt.
func (s *fold) attemptSlot(slot int32, id model.AttemptID) int32 {
	g := &s.jobs[slot].gangs[id.Gang]
	if id.N != g.n+1 {
		panic(fmt.Sprintf("sched: attempt %v follows attempt %d", id, g.n))
	}
	at := int32(len(s.attempts))
	if n := len(s.spareAtt); n > 0 {
		at, s.spareAtt = s.spareAtt[n-1], s.spareAtt[:n-1]
	} else {
		s.attempts = append(s.attempts, attempt{})
	}
	if g.attempt != none {
		g.next = at // it moves
	} else {
		g.attempt = at
	}
	return at
}

func (s *fold) applyReserved(e Reserved) {
	slot := s.slots.Of(e.Attempt.Job)
	leaves := s.jobs[slot].gangs[e.Attempt.Gang].attempt // with a promise it is counted otherwise
	countAgain(s, leaves, -1)
	a := s.newAttempt(slot, e.Attempt, e.Placement, true)
	countAgain(s, leaves, 1)
	a.state, a.placed, a.since, a.odd = model.AttemptReserving, s.now, s.seq, &oddAttempt{victims: e.Victims, turn: rare(a.odd).turn}
	s.promises = append(s.promises, s.slotOf(a))
	s.count(a, 1)
	s.relist(slot, e.Attempt.Gang)
}

// countAgain counts an attempt of a gang whose promise for the time after it comes or goes.
func countAgain(s *fold, slot, sign int32) {
	if slot != none {
		s.count(&s.attempts[slot], sign)
	}
}

// unpromise forgets that an attempt is a reservation.
func (s *fold) unpromise(slot int32) {
	i := slices.Index(s.promises, slot)
	last := len(s.promises) - 1
	s.promises[i] = s.promises[last]
	s.promises = s.promises[:last]
}

// freeAttempt gives an attempt's cells back, unless others share them, and forgets it.
func (s *fold) freeAttempt(a *attempt) {
	g := &s.jobs[a.job].gangs[a.id.Gang]
	slot, leaves := s.slotOf(a), int32(none)
	if slot == g.next {
		leaves = g.attempt
	}
	countAgain(s, leaves, -1)
	s.count(a, -1)
	if a.state == model.AttemptReserving {
		s.unpromise(slot)
	}
	if a.lazy {
		s.dropLazy(a)
	}
	s.unlink(slot)
	if alloc := a.alloc; s.part(slot) {
		s.count(s.holder(alloc), 1)
		s.setMood(s.holder(alloc))
		s.lookIn(s.jobs[a.job].space, s.jobs[a.job].spec.Priority) // there is room beside those who stay
	} else {
		s.byAlloc[alloc] = none
		s.release(alloc)
	}
	if s.grew.by(s.jobs[a.job].space); s.jobs[a.job].spec.Priority < cell.MinGuaranteed || s.cl.Ailed() {
		s.grew.all = true
	}
	s.spareAtt = append(s.spareAtt, slot)
	if slot == g.next {
		g.next = none
	} else {
		g.attempt = none
	}
	countAgain(s, leaves, 1)
	s.relist(a.job, a.id.Gang)
	drains := rare(a.odd).drains
	*a = attempt{job: none}
	s.drained(drains)
}

func (s *fold) applyStopSent(e StopSent) {
	a := s.live(e.Attempt)
	s.count(a, -1)
	cleared := a.lazy && a.by != nil && e.By != nil && *a.by == *e.By // who is stopped gave up its guarantee for it
	a.cause, a.by, a.told = e.Cause, e.By, s.now
	s.count(a, 1)
	if !a.lazy || cleared {
		s.countYield(a)
	}
	s.mean(&s.jobs[a.job].gangs[a.id.Gang], e.Nodes)
	if e.Cause == model.EndMigrated {
		s.noteMove(s.jobs[a.job].spec.VC)
	}
	if e.Attempt.Gang == 0 {
		s.dequeueExtras(a.job)
	}
	s.lookAtStop(a) // its cells can be promised now
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; t.state == model.TaskStarting || t.state == model.TaskRunning {
			t.state = model.TaskStopping
		}
	}
	s.refreshState(a)
}

func (s *fold) applyAttemptEnded(e AttemptEnded) {
	a := s.live(e.Attempt)
	j := &s.jobs[a.job]
	g := &j.gangs[e.Attempt.Gang]
	noteTaken(s, a, e.Cause)
	g.ran += s.ranFor(a)
	st := s.attemptStatus(a)
	st.State, st.Cause, st.Ended, st.Message = model.AttemptOver, e.Cause, s.now, cmp.Or(e.Message, st.Message)
	g.last = s.arenas.attempts.Keep(st)
	if e.Attempt.Gang == 0 {
		s.dequeueExtras(a.job)
	}
	if e.Cause == model.EndPreempted && !s.isExtra(a) {
		j.preempted++
	}
	if e.Cause != model.EndMigrated {
		s.mean(g, nil)
	}
	for _, o := range j.spec.Gangs[e.Attempt.Gang].Tasks {
		s.noteRefusal(j, o)
	}
	s.touch(a.job)
	s.freeAttempt(a)
	forgetLasting(j)
	g.n = max(g.n, e.Attempt.N)
	g.done = true // until TaskRetried or JobRetried
	s.touchReserving()
}

// forgetLasting drops a job's notices of what lasts with its last attempt: while one lives, they
// may be of that one.
func forgetLasting(j *job) {
	lives := func(g gang) bool { return g.attempt != none || g.next != none }
	if rare(j.odd).lasting != nil && !slices.ContainsFunc(j.gangs, lives) {
		alter(&j.odd).lasting = nil
	}
}

// noteRefusal counts a refusing node's jobs. An image that does not come counts for none: else a
// team whose jobs name a registry that is away would put nodes aside for all.
func (s *fold) noteRefusal(j *job, ordinal int32) {
	t := &j.tasks[ordinal]
	if t.exit == nil || t.exit.Cause != StartRefused || t.exit.Fetch {
		return
	}
	n := s.node(t.place.Node)
	lately := slices.DeleteFunc(slices.Clone(n.Refused), func(r refusal) bool {
		return r.Job == j.id || r.At.Add(refusalsCount) < s.now
	})
	n.Refused = append(lately, refusal{Job: j.id, At: s.now})
}

// touchReserving looks again at everybody who waits for cells to be left.
func (s *fold) touchReserving() {
	for _, slot := range s.promises {
		s.touch(s.attempts[slot].job)
	}
}

func (s *fold) applyTaskRetried(e TaskRetried) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	g := &j.gangs[e.Gang]
	g.done, g.after = false, e.After
	switch {
	case e.Counted:
		g.retries++
	case e.After > s.now && g.last != nil && g.last.Cause == model.EndFailed:
		g.free++
	}
	if e.After > s.now {
		g.faults = g.faultsInARow() + 1
	}
	for _, o := range j.spec.Gangs[e.Gang].Tasks {
		t := &j.tasks[o]
		t.state = model.TaskWaiting
		if e.Counted {
			t.retries++
		}
	}
	s.at(e.After, e.Job, e.Gang)
	if g.next != none { // it has left, and starts where it was promised to
		g.attempt, g.next = g.next, none
	}
	s.enqueue(slot, e.Gang)
}

func (s *fold) applyCompleting(e JobCompleting) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	s.recounting(slot, func() { j.completing = s.arenas.completing.Keep(e) })
	for g := range j.gangs {
		s.dequeue(slot, int32(g))
	}
	s.touch(slot)
}

func (s *fold) applyJobRetried(e JobRetried) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	s.recounting(slot, func() { j.completing = nil })
	j.retry++
	if e.Counted {
		j.counted++
	}
	if rare(j.odd).after != e.After {
		alter(&j.odd).after = e.After
	}
	for i := range j.tasks {
		j.tasks[i].state, j.tasks[i].dead, j.tasks[i].retries = model.TaskWaiting, false, 0
	}
	for g := range j.gangs {
		j.gangs[g].done, j.gangs[g].retries, j.gangs[g].free, j.gangs[g].faults = false, 0, 0, 0
		s.enqueue(slot, int32(g))
	}
	s.at(e.After, e.Job, 0)
}

func (s *fold) applyJobEnded(e JobEnded) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	for g := range j.gangs {
		s.dequeue(slot, int32(g))
	}
	if j.spec.Partial() {
		s.partials--
		s.countPartial(j, -1)
	}
	if j.loner {
		s.loners--
	}
	s.looks.chooses(j, -1)
	s.slots.Remove(j.id, slot)
	s.names.remove(j, slot)
	for g := range j.gangs {
		if rare(j.gangs[g].odd).meant != nil {
			s.away--
		}
	}
	s.ended = append(s.ended, endedJob{job: *j, end: e, at: s.now})
	*j = job{}
	s.spare = append(s.spare, slot)
}

func (s *fold) applyAvoided(e NodeAvoided) {
	j := s.find(e.Job)
	g := &j.gangs[e.Gang]
	all := slices.Clone(rare(g.odd).avoid)
	i := slices.IndexFunc(all, func(a avoidance) bool { return a.Node == e.Node })
	if i < 0 {
		i = len(all)
		all = append(all, avoidance{Node: e.Node})
	}
	all[i].Until = e.Until
	all[i].Times++
	alter(&g.odd).avoid = all
	s.looks.avoiding = max(s.looks.avoiding, e.Until)
	s.relist(s.slots.Of(e.Job), e.Gang)
	s.at(e.Until, e.Job, e.Gang)
}

func (s *fold) applyQuarantined(e Quarantined) {
	j := s.find(e.Job)
	if j == nil {
		return
	}
	s.lookBehind(j)
	j.quarantined = true
	if again := e.Times - 1; again > rare(j.odd).aside {
		alter(&j.odd).aside = again
	}
	slot := s.slots.Of(e.Job)
	for g := range j.gangs {
		s.dequeue(slot, int32(g))
		for _, at := range [...]int32{j.gangs[g].attempt, j.gangs[g].next} {
			if at != none && s.attempts[at].state == model.AttemptReserving {
				s.freeAttempt(&s.attempts[at])
			}
		}
	}
}

// countYield counts a stop against the budget of a job: one by its own priority in its VC, of a
// full gang that runs with a guarantee. It counts when it is sent, since it is not taken back, and
// the preemptor may be gone when it is obeyed.
func (s *fold) countYield(a *attempt) {
	if a.cause != model.EndPreempted || a.by == nil || s.isExtra(a) {
		return
	}
	j := &s.jobs[a.job]
	if by := s.find(a.by.Job); by != nil && by.spec.VC == j.spec.VC && by.spec.Priority == j.spec.Priority && by.spec.Priority >= cell.MinGuaranteed {
		j.yielded++
	}
}

// applySized lets the members within the size wait, if their minimum runs, and no
// others.
func (s *fold) applySized(e Sized) {
	slot := s.slots.Of(e.Job)
	j := &s.jobs[slot]
	j.size = e.Size
	for g := int32(1); int(g) < len(j.gangs); g++ {
		gg := &j.gangs[g]
		switch in := j.within(g, j.size); {
		case gg.waiting && !in:
			s.dequeue(slot, g)
		case in && !gg.waiting && !gg.done && gg.attempt == none:
			s.enqueue(slot, g)
		}
	}
	s.stir(j.space)
}

// forgetSizes gives the jobs of VCs that have another policy now the size that they
// begin with.
func (s *fold) forgetSizes(was *model.Config, renamed []model.Rename) {
	for i := range s.jobs {
		j := &s.jobs[i]
		if j.spec == nil || !j.spec.Partial() || j.size == j.spec.UsualSize() {
			continue
		}
		name := j.spec.VC
		if i := slices.IndexFunc(renamed, func(r model.Rename) bool { return r.To == name }); i >= 0 {
			name = renamed[i].From
		}
		if cmp.Or(model.OfVC(was, name).Policy, "fifo") != s.policyOf(j.spec.VC) {
			s.applySized(Sized{Job: j.id, Size: j.spec.UsualSize()})
		}
	}
}
