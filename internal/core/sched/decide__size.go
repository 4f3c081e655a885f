package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// Ill implements View.
func (v view) Ill(ref GangRef, members int32) int64 {
	j := v.s.find(ref.Job)
	if j == nil || !v.s.cl.Ailed() {
		return 0
	}
	var n int64
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || int32(g) != ref.Gang && (ref.Gang != 0 || !j.spec.Partial()) || !j.within(int32(g), members) ||
			v.s.attempts[at].state == model.AttemptReserving || v.s.attempts[at].cause != 0 {
			continue
		}
		for _, t := range v.s.cl.Alloc(v.s.attempts[at].alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				if v.s.leafBad(l) {
					n++
				}
			}
		}
	}
	return n
}

// setSize gives a job the size with which it starts.
func (s *pass) setSize(w want) {
	if n := w.members(); w.j.spec.Partial() && n != w.j.size {
		s.emit(Sized{Job: w.j.id, Size: n})
	}
}

// resizes reports whether a wish is for another size of a gang that runs.
func (s *pass) resizes(gang GangRef, size int32) bool {
	a := s.attemptOf(gang)
	return size == Pause || a != nil && !a.lazy
}

// resize gives a job that runs another number of members: those above it are stopped,
// the last first, or more of them wait. Who got cells by this very decision is left alone
// until the next, which is asked for.
func (w *walker) resize(wish *Wish) {
	s := w.s
	a := s.attemptOf(wish.Gang)
	if a == nil || a.cause != 0 || a.alive == 0 || a.lazy {
		return
	}
	slot := a.job
	if j := &s.jobs[slot]; j.quarantined || j.stop || j.completing != nil || !j.canHave(wish.Gang.Gang, wish.Size) {
		return
	}
	if wish.Size == Pause {
		s.pause(a)
		return
	}
	if j := &s.jobs[slot]; j.size == wish.Size || s.youngAbove(j, wish.Size) {
		return
	} else if a.since > s.through || s.fresh(j, wish.Size) {
		s.grew.by(s.jobs[slot].space)
		return
	}
	if wish.Beside {
		w.grow(slot, wish.Size)
		return
	}
	s.cutPromises(slot, wish.Size)
	s.emit(Sized{Job: wish.Gang.Job, Size: wish.Size})
	for g := int32(len(s.jobs[slot].gangs)) - 1; g > 0; g-- {
		j := &s.jobs[slot]
		if at := j.gangs[g].attempt; at != none && !j.within(g, wish.Size) {
			s.stopAttempt(&s.attempts[at], model.EndResized, nil)
		}
	}
	s.grew.by(s.jobs[slot].space) // members may wait now whose turn is over, and leaves be left
}

// pause stops a gang that can go on later where it was.
func (s *pass) pause(a *attempt) {
	j := &s.jobs[a.job]
	if a.state != model.AttemptStarting && a.state != model.AttemptRunning || !j.spec.Hints.Checkpoint || s.shared(a) || s.unsettled(a) {
		return
	}
	if s.grew.by(j.space); a.since > s.through || s.fresh(j, 0) {
		return
	}
	s.stopAttempt(a, model.EndResized, nil) // what it leaves can be promised now
}

// youngAbove reports whether a member above a size has not run for its VC's minimum yet.
func (s *pass) youngAbove(j *job, size int32) bool {
	for g := int32(1); int(g) < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) && s.attempts[at].cause == 0 && s.attempts[at].state != model.AttemptReserving && s.unsettled(&s.attempts[at]) {
			return true
		}
	}
	return false
}

// fresh reports whether a member above a size got its cells by this very decision.
func (s *pass) fresh(j *job, size int32) bool {
	for g := int32(1); j.spec.Partial() && int(g) < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) && s.attempts[at].since > s.through {
			return true
		}
	}
	return false
}

// cutPromises takes back what was promised to members above a size.
func (s *pass) cutPromises(slot, size int32) {
	for g := int32(1); int(g) < len(s.jobs[slot].gangs); g++ {
		j := &s.jobs[slot]
		if at := j.gangs[g].attempt; at != none && !j.within(g, size) &&
			s.attempts[at].state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: s.attempts[at].id, Reason: "its job gets a smaller size"})
		}
	}
}
