package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

func (s *fold) applyHeld(e JobHeld) {
	if s.find(e.Job) != nil {
		s.hold(s.slots.Of(e.Job), e.On, e.Meta.Subject, e.Reason)
	}
}

// hold takes the gangs of a job out of their queues, or puts those back that would wait.
func (s *fold) hold(slot int32, on bool, by model.Subject, reason string) {
	j := &s.jobs[slot]
	s.recounting(slot, func() {
		alter(&j.odd).held = nil
		if on {
			alter(&j.odd).held = &model.HoldStatus{By: by, Since: s.now, Reason: reason}
		}
	})
	for g := range j.gangs {
		if gg := &j.gangs[g]; on {
			s.dequeue(slot, int32(g))
		} else if !gg.done && gg.attempt == none && !j.stop && j.completing == nil {
			s.enqueue(slot, int32(g))
		}
	}
	s.touch(slot)
}

func (s *fold) applyRequeued(e JobRequeued) {
	j := s.find(e.Job)
	if j == nil {
		return
	}
	slot := s.slots.Of(e.Job)
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none && s.attempts[at].state != model.AttemptReserving && s.attempts[at].cause == 0 {
			alter(&s.attempts[at].odd).requeue = true
		}
	}
	if e.Hold && !j.held() {
		s.hold(slot, true, e.Meta.Subject, e.Reason)
	}
	s.touch(slot)
}

func (s *fold) applyUpdated(e JobUpdated) {
	j := s.find(e.Job)
	if j == nil {
		return
	}
	slot := s.slots.Of(e.Job)
	if e.Priority == nil {
		j.spec = e.On(j.spec) // clones of the state share the one before
		for g := range j.gangs {
			if at := j.gangs[g].attempt; at != none {
				s.timeLimit(&s.attempts[at])
			}
		}
		s.stir(j.space)
		s.lookIn(j.space, j.spec.Priority) // others may be planned around its end
		s.touch(slot)
		return
	}
	for g := range j.gangs {
		s.dequeue(slot, int32(g))
	}
	j.spec = e.On(j.spec)
	for g := range j.gangs {
		if gg := &j.gangs[g]; !gg.done && gg.attempt == none {
			s.enqueue(slot, int32(g))
		}
	}
	s.touch(slot)
}

// inBrackets adds a reason to a sentence, if there is one.
func inBrackets(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
