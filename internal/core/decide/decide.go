// Package decide makes the decisions that are due. Decide settles what happened, walks the
// virtual clusters in the orders of their policies, and places, reserves, books and lends
// cells. Each decision is an event that is applied at once. It must not read explanations.
package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// Decide makes every decision that is due at now. It returns their records, already applied,
// numbered on from Seq and ending with Decided, or nil if there was nothing to look at.
//
// First it settles what happened: attempts end, jobs complete, retry or end, reservations that
// cannot be kept are revoked. Then the walk places guaranteed gangs. Opportunistic gangs come
// last, only when no other look is due: else they could be started now and preempted by a
// guaranteed gang in the next.
func (s *Pass) Decide(now model.Time) []model.Record {
	now = max(s.Now, now)
	s.Expire(now)
	s.lookAtChanges(now)
	if s.Cluster == nil || len(s.ToSettle) == 0 && !s.IsDirty() {
		return nil // and nothing changed that a replay would miss
	}
	s.Now = now
	through := s.Seq
	s.InputsThrough = through
	s.beginOut()
	if s.IsDirty() {
		s.TouchReserving()
	}
	s.settleJobs()
	if s.settleNodes() {
		s.TouchReserving() // a reservation may be on a node that is suspect now
		s.settleJobs()
	}
	s.settleDoomed()
	first := len(s.Out)
	s.Charges.BlockedSince = 0
	s.LookAgain.Reset(s.Cluster.NumSpaces(), s.Dirty.Flat)
	if s.Charges.AnySettled = first > 0; s.IsDirty() || s.Charges.AnySettled && s.Cluster.NumCharges() > 0 {
		s.walk()
	}
	if before := s.Seq; before > through {
		s.settleDoomed() // work on bad cells was upgraded, or reservations were revoked
		s.LookAgain.All = s.LookAgain.All || s.Seq > before
	}
	s.LookAgain.All = s.LookAgain.All || s.Charges.BlockedSince > 0 &&
		s.placedSince(int(s.Charges.BlockedSince-s.InputsThrough))
	if s.Cluster.NumCharges() > 0 && saysSince[model.Reserved](s, first) {
		s.LookAgain.All = true // a gang may wait for bad hardware alone now, and block no other
	}
	s.reordered()
	if !s.LookAgain.Any() {
		s.recallLent()
	}
	if !s.LookAgain.Any() && s.MustLend() {
		s.walkOpportunistic()
	}
	digest := s.Mem.text(model.DigestOf(s.Out))
	s.emit(model.Decided{Now: s.Now, Through: through, Digest: digest, Version: model.Version,
		Again: s.LookAgain.Any(), For: s.LookAgain.Names(s.Cluster)})
	return s.endOut()
}

// AgainMost bounds how often Settle repeats Decide.
const AgainMost = 16

// Settle decides, and decides again while a decision asks for another one at once. That covers
// all that follows from what happened without time passing. It returns the records of all
// decisions.
func (s *Pass) Settle(now model.Time) []model.Record {
	log := s.Decide(now)
	for i := 0; i < AgainMost && s.Again == s.Now+1; i++ {
		log = append(log, s.Decide(s.Again)...)
	}
	return log
}

// reordered asks for another look at VCs with backfill whose policies order gangs by idle
// leaves, if other VCs placed gangs since: another gang may be first now, and start. Lending
// changes no such order.
func (s *Pass) reordered() {
	if s.LookAgain.Space > 0 && s.placedSince(s.LookAgain.Ordered) {
		s.LookAgain.By(s.LookAgain.Space) // every walk comes to all VCs with backfill
	}
}

// placedSince reports whether this Decide placed a gang after its first n records.
func (s *Pass) placedSince(n int) bool { return saysSince[model.Placed](s, n) }

// saysSince reports whether this Decide emitted an event of type E after its first n records.
func saysSince[E model.Event](s *Pass, n int) bool {
	return slices.ContainsFunc(s.Out[n:], func(r model.Record) bool {
		_, is := r.Event.(E)
		return is
	})
}

// outRoom is how many records a buffer has room for.
const outRoom = 256

// beginOut prepares Out.
func (s *Pass) beginOut() {
	if cap(s.Mem.records)-len(s.Mem.records) < 8 {
		s.Mem.records = make([]model.Record, 0, outRoom)
	}
	s.Out = s.Mem.records[len(s.Mem.records):]
}

// endOut returns the records of a Decide. Their memory is never reused.
func (s *Pass) endOut() []model.Record {
	out := s.Out
	if n := len(s.Mem.records) + len(out); n <= cap(s.Mem.records) {
		s.Mem.records = s.Mem.records[:n]
	}
	s.Out = nil
	return slices.Clip(out)
}

func (s *Pass) settleJobs() {
	for len(s.ToSettle) > 0 {
		if slot, ok := s.Slots.Get(s.ToSettle.Pop()); ok {
			s.Jobs[slot].Touched = false
			s.settle(slot)
		}
	}
}

// settle brings one job up to date with what happened to it.
func (s *Pass) settle(slot int32) {
	id := s.Jobs[slot].ID
	defer s.BlameJob(id)
	if aside := tables.RareOf(s.Jobs[slot].Rare).Aside; aside > 0 {
		s.settleAside(slot, aside)
		return
	}
	for g := range s.Jobs[slot].Gangs {
		s.settleGang(slot, int32(g))
	}
	j := &s.Jobs[slot]
	if j.Completing == nil && !j.Stop {
		s.complete(slot)
	}
	if j = &s.Jobs[slot]; j.Completing == nil && !j.Stop {
		s.watch(slot)
	}
	if j = &s.Jobs[slot]; j.Stop || j.Completing != nil {
		s.windDown(slot)
	} else if j.Held() {
		s.giveBack(slot)
	}
	if s.Find(id) != nil {
		s.retryGangs(slot)
	}
}

// settleGang ends an attempt whose tasks are all dead, stops one that cannot go on, and revokes
// a reservation that cannot be kept.
func (s *Pass) settleGang(slot, g int32) {
	s.settleMove(&s.Jobs[slot].Gangs[g])
	at := s.Jobs[slot].Gangs[g].Attempt
	if at == tables.None {
		return
	}
	a := &s.Attempts[at]
	if a.State == model.AttemptReserving {
		s.settleReservation(a)
		return
	}
	if a.Alive > 0 && a.Cause == 0 {
		switch {
		case a.Refused:
			s.stopAttempt(a, model.EndRefused, nil)
		case a.Platform:
			s.stopAttempt(a, model.EndPlatform, nil)
		case tables.RareOf(a.Rare).Requeue:
			s.stopAttempt(a, model.EndRequeued, nil)
		case s.DrainDue(a):
			s.stopAttempt(a, model.EndDrained, nil)
		case s.IsExtra(a) && !s.MinimumLives(&s.Jobs[slot]):
			s.stopAttempt(a, s.extraCause(&s.Jobs[slot]), nil)
		}
	}
	if a.Alive > 0 {
		return
	}
	s.endAttempt(slot, g, at)
}

// endAttempt ends an attempt that has no live task.
func (s *Pass) endAttempt(slot, g, at int32) {
	a := &s.Attempts[at]
	if g == 0 {
		s.unreserveExtras(slot)
	}
	left := int32(tables.None)
	if s.Shared(a) { // the members that stay share out its turns
		if left = s.First(a); left == at {
			left = a.NextMember
		}
	}
	cause := s.endCause(a)
	if !cause.Resumes() && cause != model.EndPlatform || s.Jobs[slot].Held() {
		s.cancelMove(&s.Jobs[slot].Gangs[g], "it does not move any more")
	}
	s.emit(model.AttemptEnded{Attempt: a.ID, Cause: cause, Message: cmp.Or(tables.RareOf(a.Rare).Message,
		zeroMeans(&s.Tables, a, cause))})
	if left != tables.None {
		s.settleTurns(left)
	}
}

// endCause returns why an attempt ended whose tasks are all dead.
func (s *Pass) endCause(a *tables.Attempt) model.EndCause {
	switch {
	case a.Cause != 0 && !a.Cause.Resumes():
		return a.Cause
	case a.Refused:
		return model.EndRefused
	case a.Platform:
		return model.EndPlatform
	}
	j := &s.Jobs[a.Job]
	ended, failed := false, false
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		ended = ended || j.Tasks[o].State == model.TaskEnded
		failed = failed || j.Tasks[o].State == model.TaskFailed
	}
	switch {
	case ended && a.Cause != 0:
		return a.Cause
	case ended:
		return model.EndPreempted
	case failed:
		return model.EndFailed
	}
	return model.EndSucceeded
}

// settleReservation revokes a reservation that cannot be kept.
func (s *Pass) settleReservation(a *tables.Attempt) {
	if !s.Cluster.AnyBadOrUnknown() {
		return // this is called whenever one of many victims has left
	}
	for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			hold, _ := s.Cluster.Holder(l)
			switch {
			case hold != cell.None && s.HasUnknown(hold):
				lost := s.MembersOf(hold)
				i := slices.IndexFunc(lost, func(m *tables.Attempt) bool { return m.State == model.AttemptUnknown })
				s.emit(model.Unreserved{Attempt: a.ID, Reason: fmt.Sprintf("attempt %v may be alive on a lost node",
					lost[i].ID)})
				return
			case s.LeafBad(l):
				s.emit(model.Unreserved{Attempt: a.ID, Reason: "a reserved cell is no longer in service"})
				return
			}
		}
	}
}

// startReserved starts a gang if nothing holds its reserved cells any more, and reports whether it
// did.
func (s *Pass) startReserved(a *tables.Attempt) bool {
	if s.IsMoveTarget(a) || s.Jobs[a.Job].Gangs[a.ID.Gang].After > s.Now {
		return false
	}
	pl := s.Cluster.Alloc(a.Alloc).Placement
	for ; int(a.VacatedTasks) < len(pl.Tasks); a.VacatedTasks++ {
		for _, l := range pl.Tasks[a.VacatedTasks].Leaves {
			if hold, _ := s.Cluster.Holder(l); hold != cell.None {
				return false
			}
		}
	}
	space := s.Cluster.Alloc(a.Alloc).Space
	s.emit(model.Placed{Attempt: a.ID, Placement: pl})
	if s.Dirty.Tuned[space] {
		s.LookAgain.By(space) // an earlier gang may share its leaves now
	}
	return true
}

// stopAttempt sends a stop unless one was sent.
func (s *Pass) stopAttempt(a *tables.Attempt, cause model.EndCause, by *model.AttemptID) {
	s.stopFor(a, cause, by, "")
}

// stopFor is stopAttempt with the VC that recalls its lent cells; "" if none does.
func (s *Pass) stopFor(a *tables.Attempt, cause model.EndCause, by *model.AttemptID, lender cell.VCName) {
	if a.Cause != 0 {
		return
	}
	if cause == model.EndPreempted {
		s.assertOlder(a)
	}
	if a.ID.Gang == 0 {
		s.unreserveExtras(a.Job)
	}
	s.emit(model.StopSent{Attempt: a.ID, Cause: cause, Grace: s.Jobs[a.Job].Spec.Grace, By: by, For: lender})
	if a.ID.Gang == 0 {
		s.stopExtras(a.Job, cause, by, lender)
	}
}

// windDown stops what still runs of a job that is stopped or completing, then ends the job, or
// retries it.
func (s *Pass) windDown(slot int32) {
	j := &s.Jobs[slot]
	cause := model.EndStopped
	if !j.Stop {
		cause = model.EndCompleted
		if j.Completing.Cause == model.EndTimeLimit {
			cause = model.EndTimeLimit
		}
	}
	busy := false
	for g := range j.Gangs {
		s.cancelMove(&j.Gangs[g], "its job ends")
		at := j.Gangs[g].Attempt
		if at == tables.None {
			continue
		}
		a := &s.Attempts[at]
		if a.State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: a.ID, Reason: "its job ends"})
			continue
		}
		busy = true
		s.stopAttempt(a, cause, nil)
	}
	if busy {
		return
	}
	if j.Stop {
		s.learn(slot)
		s.emit(model.JobEnded{Job: j.ID, Phase: model.Stopped, Cause: model.EndStopped,
			Message: tables.RareOf(j.Rare).StopReason})
		return
	}
	if e, retry := s.retryJob(j); retry {
		s.emit(e)
		return
	}
	s.learn(slot)
	j = &s.Jobs[slot]
	c := j.Completing
	s.emit(model.JobEnded{Job: j.ID, Phase: c.Phase, Cause: c.Cause, Exit: c.Exit, Message: c.Message})
}

// settleNodes suspects nodes that refused several jobs and ends expired suspicions. It reports
// whether it changed any.
func (s *Pass) settleNodes() bool {
	before := s.Seq
	for i := range s.Nodes {
		n := s.Nodes[i]
		switch {
		case n.Suspect > 0 && n.Suspect <= s.Now:
			s.emit(model.NodeSuspected{Node: n.Name, Reason: "the suspicion expired"})
		case n.Suspect == 0 && len(n.Refused) >= suspectAfter:
			why := fmt.Sprintf("%d jobs were refused there", len(n.Refused))
			s.emit(model.NodeSuspected{Node: n.Name, Until: s.Now.Add(suspectFor), Reason: why})
		}
	}
	return s.Seq > before
}

// A node that refused suspectAfter jobs lately gets no work for suspectFor.
const (
	suspectAfter = 3
)

const (
	suspectFor = 5 * model.Minute
)

// Accept turns a fact into the events to apply; none if it is stale or known. They are valid
// until the next call.
func (s *Pass) Accept(f model.Fact) []model.Event {
	if !s.IsNews(f) {
		return nil
	}
	if x, ok := f.(model.TaskExited); ok {
		x.Exit.Rule, x.Exit.Saved = s.Exits.Match(x.Exit.Seen()), savedOnly(&s.Tables, x)
		f = x
	}
	s.Mem.fact[0] = f.(model.Event)
	return s.Mem.fact[:]
}

// settleAside replaces settle for a job on which decisions failed again. Dead attempts give
// their cells back, a stop is carried out, and a stopped job ends with its last attempt. Its
// policy is not asked, and nothing is completed or retried.
func (s *Pass) settleAside(slot, aside int32) {
	if aside+1 >= state.MaxAside {
		return
	}
	id, busy := s.Jobs[slot].ID, false
	for g := range s.Jobs[slot].Gangs {
		at := s.Jobs[slot].Gangs[g].Attempt
		if at == tables.None {
			continue
		}
		a := &s.Attempts[at]
		if a.Alive == 0 {
			s.endAttempt(slot, int32(g), at)
			continue
		}
		busy = true
		if s.Jobs[slot].Stop && a.Cause == 0 {
			s.emit(model.StopSent{Attempt: a.ID, Cause: model.EndStopped, Grace: s.Jobs[slot].Spec.Grace})
		}
	}
	if j := &s.Jobs[slot]; j.Stop && !busy {
		s.emit(model.JobEnded{Job: id, Phase: model.Stopped, Cause: model.EndStopped,
			Message: tables.RareOf(j.Rare).StopReason})
	}
}

// Wake returns when Decide must run even if nothing happens; 0 is never.
func (s *Pass) Wake() model.Time {
	var wake model.Time
	if len(s.Timers) > 0 {
		wake = s.Timers[0].At
	}
	for _, space := range s.Dirty.Timed {
		wake = index.Sooner(wake, s.NextChange(space))
	}
	return wake
}

// NextChange returns when the order of a VC changes with time alone for the first time after
// the last decision; 0 is never. It is 0 as well where no gang waits and the order does not
// matter.
func (s *Pass) NextChange(space int32) model.Time {
	c := &s.Dirty.NextChanges[space]
	if c.Known && (c.At == 0 || c.At > s.DecidedAt) {
		return c.At
	}
	*c = index.NextChange{Known: true, At: s.changeAfter(space)}
	return c.At
}

// changeAfter computes what NextChange caches.
func (s *Pass) changeAfter(space int32) model.Time {
	at := s.nextClear(space)
	p, timed := s.Policies[space].(model.Timed)
	if timed && s.Dirty.Tuned[space] {
		for _, r := range s.Tallies[space].Ranks {
			at = index.Sooner(at, s.changeOf(p, space, r.Prio))
		}
	}
	for prio, ok := s.NextPriority(space, cell.MaxGuaranteed+1); ok &&
		prio >= cell.MinGuaranteed; prio, ok = s.NextPriority(space, prio) {
		if timed {
			at = index.Sooner(at, s.changeOf(p, space, prio))
			continue
		}
		at = index.Sooner(at, s.NextAge(space, prio))
	}
	return at
}

// changeOf returns when a policy's order of one priority changes by itself. An instant that has
// passed counts as the next full second, or Decide would run without end. That second is the
// same after a restart.
func (s *Pass) changeOf(p model.Timed, space int32, prio cell.Priority) model.Time {
	was := s.EnterPolicy(space)
	at := p.NextChange(view{s: s, space: space, prio: prio, now: s.DecidedAt})
	s.EnterPolicy(was)
	if at != 0 && at <= s.DecidedAt {
		const every = model.Time(model.Second)
		at = (s.DecidedAt/every + 1) * every
	}
	return at
}

// lookAtChanges marks the VCs whose order changed by itself since the last decision.
func (s *Pass) lookAtChanges(now model.Time) {
	for _, space := range s.Dirty.Timed {
		if t := s.NextChange(space); t > 0 && t <= now {
			s.Dirty.OrderChanged[space], s.Dirty.Some = true, true
			s.Dirty.Exhausted[space].Holds = false
		}
	}
}

// VerifyWake checks that the cache of NextChange follows from the state, since a restart
// computes it anew. It holds between decisions only, where Verify holds after every event, and
// Verify itself lets some of the cache be recomputed.
func (s *Pass) VerifyWake() error {
	var errs []error
	for _, space := range s.Dirty.Timed {
		c := s.Dirty.NextChanges[space]
		if !c.Known || c.At != 0 && c.At <= s.DecidedAt {
			continue
		}
		if at := s.changeAfter(space); at != c.At {
			errs = append(errs, fmt.Errorf("core: the order of %s changes by itself at %d, noted is %d",
				s.Cluster.Space(space).Name, at, c.At))
		}
	}
	return errors.Join(errs...)
}

// settleTurns gives the turns of a shared allocation to the members that still live.
func (s *Pass) settleTurns(slot int32) {
	a := &s.Attempts[slot]
	r := s.RotationOf(a)
	if r == nil {
		return
	}
	left := model.Rotation{Quantum: r.Quantum, Epoch: s.Now}
	for _, turn := range r.Turns {
		turn = slices.DeleteFunc(slices.Clone(turn), func(id model.AttemptID) bool {
			m := s.Live(id)
			return m == nil || m.Alive == 0
		})
		if len(turn) > 0 {
			left.Turns = append(left.Turns, turn)
		}
	}
	if len(left.Turns) < 2 {
		left.Quantum = 0
	}
	if len(left.Turns) > 0 && !left.Equal(r) {
		s.emit(model.Rotated{Rotation: left})
	}
}

// giveBack revokes the reservations of a held job.
func (s *Pass) giveBack(slot int32) {
	for g := range s.Jobs[slot].Gangs {
		s.cancelMove(&s.Jobs[slot].Gangs[g], "its job is held")
		if at := s.Jobs[slot].Gangs[g].Attempt; at != tables.None && s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "its job is held"})
		}
	}
}
