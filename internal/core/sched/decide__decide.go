package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Decide takes every decision that is due at now. It returns the records of its decisions, already
// applied, numbered on from Seq, ending with Decided; it returns nil when there was nothing to look
// at.
//
// First what happened is settled: attempts end, jobs complete, retry or end, promises that cannot
// be kept are taken back. Then the walk places who waits with a guarantee. What is left is lent
// last of all, once nothing asks for another look: else who borrows could be started, and stopped
// by the next look for somebody guaranteed.
func (s *pass) Decide(now model.Time) []Record {
	now = max(s.now, now)
	s.expire(now)
	s.lookAtChanges(now)
	if s.cl == nil || len(s.dirty) == 0 && !s.looking() {
		return nil // and nothing changed that a replay would not know of
	}
	s.now = now
	through := s.seq
	s.through = through
	s.beginOut()
	if s.looking() {
		s.touchReserving()
	}
	s.settleJobs()
	if s.settleNodes() {
		s.touchReserving() // a promise may lie on a node that is suspect now
		s.settleJobs()
	}
	s.settleDoomed()
	first := len(s.out)
	s.charges.inTheWay = 0
	s.grew.reset(s.cl.NumSpaces(), s.looks.flat)
	if s.charges.news = first > 0; s.looking() || s.charges.news && s.cl.Doomed() > 0 {
		s.walk()
	}
	if before := s.seq; before > through {
		s.settleDoomed() // work on bad cells was upgraded, or promises were taken back
		s.grew.all = s.grew.all || s.seq > before
	}
	s.grew.all = s.grew.all || s.charges.inTheWay > 0 && s.placedSince(int(s.charges.inTheWay-s.through))
	if s.cl.Doomed() > 0 && saysSince[Reserved](s, first) {
		s.grew.all = true // whether a gang that held up others waits for bad hardware alone hangs on what others use
	}
	s.reordered()
	if !s.grew.any() {
		s.recallLent()
	}
	if !s.grew.any() && s.mustLend() {
		s.walkOpportunistic()
	}
	digest := s.mem.text(digestOf(s.out))
	s.emit(Decided{Now: s.now, Through: through, Digest: digest, Version: Version, Again: s.grew.any(), For: s.grew.names(s.cl)})
	return s.endOut()
}

// againMost bounds how often a decision asks for another one right after it.
const againMost = 16

// Settle decides, and again as long as a decision asks for another one at once, which is all that
// follows by itself from what happened. It returns the records of all.
func (s *pass) Settle(now model.Time) []Record {
	log := s.Decide(now)
	for i := 0; i < againMost && s.again == s.now+1; i++ {
		log = append(log, s.Decide(s.again)...)
	}
	return log
}

// reordered asks for another look where another VC placed a gang after the walk of one that
// backfills, whose policy orders those that wait by what is idle: a gang that is first now, and was
// held up by another one before, may start. What is lent changes no such order.
func (s *pass) reordered() {
	if s.grew.space > 0 && s.placedSince(s.grew.ordered) {
		s.grew.by(s.grew.space) // and each walk comes to all VCs that backfill
	}
}

// placedSince reports whether somebody was placed after so many of this Decide's records.
func (s *pass) placedSince(n int) bool { return saysSince[Placed](s, n) }

// saysSince reports whether an event of one kind came after so many of this Decide's records.
func saysSince[E Event](s *pass, n int) bool {
	return slices.ContainsFunc(s.out[n:], func(r Record) bool {
		_, is := r.Event.(E)
		return is
	})
}

// outRoom is for how many records memory is taken at once.
const outRoom = 256

// beginOut makes room for what Decide returns.
func (s *pass) beginOut() {
	if cap(s.mem.records)-len(s.mem.records) < 8 {
		s.mem.records = make([]Record, 0, outRoom)
	}
	s.out = s.mem.records[len(s.mem.records):]
}

// endOut returns the records of a Decide; their memory is never used again.
func (s *pass) endOut() []Record {
	out := s.out
	if n := len(s.mem.records) + len(out); n <= cap(s.mem.records) {
		s.mem.records = s.mem.records[:n]
	}
	s.out = nil
	return slices.Clip(out)
}

func (s *pass) settleJobs() {
	for len(s.dirty) > 0 {
		if slot, ok := s.slots.Get(s.dirty.Pop()); ok {
			s.jobs[slot].touched = false
			s.settle(slot)
		}
	}
}

// emit applies a decision and adds it to what Decide returns.
func (s *pass) emit(e Event) {
	r := Record{Seq: s.seq + 1, Time: s.now, Event: e}
	s.Apply(r)
	s.out = append(s.out, r)
}

// settle brings one job up to date with what happened to it.
func (s *pass) settle(slot int32) {
	id := s.jobs[slot].id
	defer s.blaming(id)
	if aside := rare(s.jobs[slot].odd).aside; aside > 0 {
		s.settleAside(slot, aside)
		return
	}
	for g := range s.jobs[slot].gangs {
		s.settleGang(slot, int32(g))
	}
	j := &s.jobs[slot]
	if j.completing == nil && !j.stop {
		s.complete(slot)
	}
	if j = &s.jobs[slot]; j.completing == nil && !j.stop {
		s.watch(slot)
	}
	if j = &s.jobs[slot]; j.stop || j.completing != nil {
		s.windDown(slot)
	} else if j.held() {
		s.giveBack(slot)
	}
	if s.find(id) != nil {
		s.retryGangs(slot)
	}
}

// settleGang ends an attempt whose tasks are all dead, stops one that cannot go
// on, and takes back a reservation that cannot be kept.
func (s *pass) settleGang(slot, g int32) {
	s.settleMove(&s.jobs[slot].gangs[g])
	at := s.jobs[slot].gangs[g].attempt
	if at == none {
		return
	}
	a := &s.attempts[at]
	if a.state == model.AttemptReserving {
		s.settleReservation(a)
		return
	}
	if a.alive > 0 && a.cause == 0 {
		switch {
		case a.refused:
			s.stopAttempt(a, model.EndRefused, nil)
		case a.platform:
			s.stopAttempt(a, model.EndPlatform, nil)
		case rare(a.odd).requeue:
			s.stopAttempt(a, model.EndRequeued, nil)
		case s.drainDue(a):
			s.stopAttempt(a, model.EndDrained, nil)
		case s.isExtra(a) && !s.minimumLives(&s.jobs[slot]):
			s.stopAttempt(a, s.extraCause(&s.jobs[slot]), nil)
		}
	}
	if a.alive > 0 {
		return
	}
	s.endAttempt(slot, g, at)
}

// endAttempt ends an attempt of which nothing lives.
func (s *pass) endAttempt(slot, g, at int32) {
	a := &s.attempts[at]
	if g == 0 {
		s.unreserveExtras(slot)
	}
	left := int32(none)
	if s.shared(a) { // who stays on its leaves has them to themselves
		if left = s.first(a); left == at {
			left = a.mate
		}
	}
	cause := s.endCause(a)
	if !cause.Resumes() && cause != model.EndPlatform || s.jobs[slot].held() {
		s.stay(&s.jobs[slot].gangs[g], "it does not move any more")
	}
	s.emit(AttemptEnded{Attempt: a.id, Cause: cause, Message: cmp.Or(rare(a.odd).message, zeroMeans(&s.tables, a, cause))})
	if left != none {
		s.settleTurns(left)
	}
}

// endCause says why an attempt, all of whose tasks are dead, ended.
func (s *pass) endCause(a *attempt) model.EndCause {
	switch {
	case a.cause != 0 && !a.cause.Resumes():
		return a.cause
	case a.refused:
		return model.EndRefused
	case a.platform:
		return model.EndPlatform
	}
	j := &s.jobs[a.job]
	ended, failed := false, false
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		ended = ended || j.tasks[o].state == model.TaskEnded
		failed = failed || j.tasks[o].state == model.TaskFailed
	}
	switch {
	case ended && a.cause != 0:
		return a.cause
	case ended:
		return model.EndPreempted
	case failed:
		return model.EndFailed
	}
	return model.EndSucceeded
}

// settleReservation takes a promise back that cannot be kept.
func (s *pass) settleReservation(a *attempt) {
	if !s.cl.Ailed() {
		return // asked whenever one of many victims has left
	}
	for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			hold, _ := s.cl.Holder(l)
			switch {
			case hold != cell.None && s.stuck(hold):
				lost := s.membersOf(hold)
				i := slices.IndexFunc(lost, func(m *attempt) bool { return m.state == model.AttemptUnknown })
				s.emit(Unreserved{Attempt: a.id, Reason: fmt.Sprintf("attempt %v may be alive on a lost node", lost[i].id)})
				return
			case s.leafBad(l):
				s.emit(Unreserved{Attempt: a.id, Reason: "a reserved cell is no longer in service"})
				return
			}
		}
	}
}

// fulfil starts a gang whose reserved cells have all been left; false when some have not.
func (s *pass) fulfil(a *attempt) bool {
	if s.moving(a) || s.jobs[a.job].gangs[a.id.Gang].after > s.now {
		return false
	}
	pl := s.cl.Alloc(a.alloc).Placement
	for ; int(a.left) < len(pl.Tasks); a.left++ {
		for _, l := range pl.Tasks[a.left].Leaves {
			if hold, _ := s.cl.Holder(l); hold != cell.None {
				return false
			}
		}
	}
	space := s.cl.Alloc(a.alloc).Space
	s.emit(Placed{Attempt: a.id, Placement: pl})
	if s.looks.tuned[space] {
		s.grew.by(space) // a gang that was passed over may share its leaves now
	}
	return true
}

// stopAttempt sends a stop unless one was sent.
func (s *pass) stopAttempt(a *attempt, cause model.EndCause, by *model.AttemptID) {
	s.stopFor(a, cause, by, "")
}

// stopFor is stopAttempt, maybe for a VC that lends nothing.
func (s *pass) stopFor(a *attempt, cause model.EndCause, by *model.AttemptID, lender cell.VCName) {
	if a.cause != 0 {
		return
	}
	if cause == model.EndPreempted {
		s.assertOlder(a)
	}
	if a.id.Gang == 0 {
		s.unreserveExtras(a.job)
	}
	s.emit(StopSent{Attempt: a.id, Cause: cause, Grace: s.jobs[a.job].spec.Grace, By: by, For: lender})
	if a.id.Gang == 0 {
		s.stopExtras(a.job, cause, by, lender)
	}
}

// windDown ends what still runs of a job that is stopped or completing, and then the job or its
// attempt.
func (s *pass) windDown(slot int32) {
	j := &s.jobs[slot]
	cause := model.EndStopped
	if !j.stop {
		cause = model.EndCompleted
		if j.completing.Cause == model.EndTimeLimit {
			cause = model.EndTimeLimit
		}
	}
	busy := false
	for g := range j.gangs {
		s.stay(&j.gangs[g], "its job ends")
		at := j.gangs[g].attempt
		if at == none {
			continue
		}
		a := &s.attempts[at]
		if a.state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: a.id, Reason: "its job ends"})
			continue
		}
		busy = true
		s.stopAttempt(a, cause, nil)
	}
	if busy {
		return
	}
	if j.stop {
		s.learn(slot)
		s.emit(JobEnded{Job: j.id, Phase: Stopped, Cause: model.EndStopped, Message: rare(j.odd).stopReason})
		return
	}
	if e, retry := s.retryJob(j); retry {
		s.emit(e)
		return
	}
	s.learn(slot)
	j = &s.jobs[slot]
	c := j.completing
	s.emit(JobEnded{Job: j.id, Phase: c.Phase, Cause: c.Cause, Exit: c.Exit, Message: c.Message})
}

// settleNodes suspects nodes that refused several jobs, and ends suspicions; it reports whether it
// changed any.
func (s *pass) settleNodes() bool {
	before := s.seq
	for i := range s.nodes {
		n := s.nodes[i]
		switch {
		case n.Suspect > 0 && n.Suspect <= s.now:
			s.emit(NodeSuspected{Node: n.Name, Reason: "the suspicion expired"})
		case n.Suspect == 0 && len(n.Refused) >= suspectAfter:
			why := fmt.Sprintf("%d jobs were refused there", len(n.Refused))
			s.emit(NodeSuspected{Node: n.Name, Until: s.now.Add(suspectFor), Reason: why})
		}
	}
	return s.seq > before
}

// A node that refuses this many jobs within refusalsCount gets no work for so long.
const (
	suspectAfter = 3
)

const (
	suspectFor = 5 * model.Minute
)

// Accept turns a fact into the events to apply; none when it is stale or known. They
// are there until the next call.
func (s *pass) Accept(f Fact) []Event {
	if !s.isNews(f) {
		return nil
	}
	if x, ok := f.(TaskExited); ok {
		x.Exit.Rule, x.Exit.Saved = s.exits.Match(x.Exit.Seen()), savedOnly(&s.tables, x)
		f = x
	}
	s.mem.fact[0] = f.(Event)
	return s.mem.fact[:]
}

// settleAside is what is left of settle for a job that was set aside again: an attempt of
// which nothing lives gives its cells back, a stop is sent, and with the last attempt a job
// that was told to stop ends. Nothing is asked of its policy, completed or tried again.
func (s *pass) settleAside(slot, aside int32) {
	if aside+1 >= maxAside {
		return
	}
	id, busy := s.jobs[slot].id, false
	for g := range s.jobs[slot].gangs {
		at := s.jobs[slot].gangs[g].attempt
		if at == none {
			continue
		}
		a := &s.attempts[at]
		if a.alive == 0 {
			s.endAttempt(slot, int32(g), at)
			continue
		}
		busy = true
		if s.jobs[slot].stop && a.cause == 0 {
			s.emit(StopSent{Attempt: a.id, Cause: model.EndStopped, Grace: s.jobs[slot].spec.Grace})
		}
	}
	if j := &s.jobs[slot]; j.stop && !busy {
		s.emit(JobEnded{Job: id, Phase: Stopped, Cause: model.EndStopped, Message: rare(j.odd).stopReason})
	}
}
