package state

import (
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

func (s *State) applyHeld(e model.JobHeld) {
	if s.Find(e.Job) != nil {
		s.hold(s.Slots.Of(e.Job), e.On, e.Meta.Subject, e.Reason)
	}
}

// hold takes the gangs of a job out of their queues, or queues again those that would wait.
func (s *State) hold(slot int32, on bool, by model.Subject, reason string) {
	j := &s.Jobs[slot]
	s.recounting(slot, func() {
		tables.SetRare(&j.Rare).Held = nil
		if on {
			tables.SetRare(&j.Rare).Held = &model.HoldStatus{By: by, Since: s.Now, Reason: reason}
		}
	})
	for g := range j.Gangs {
		if gg := &j.Gangs[g]; on {
			s.Dequeue(slot, int32(g))
		} else if !gg.Done && gg.Attempt == tables.None && !j.Stop && j.Completing == nil {
			s.Enqueue(slot, int32(g))
		}
	}
	index.MayMoveCharges(&s.Index)
	s.Touch(slot)
}

func (s *State) applyRequeued(e model.JobRequeued) {
	j := s.Find(e.Job)
	if j == nil {
		return
	}
	slot := s.Slots.Of(e.Job)
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State != model.AttemptReserving &&
			s.Attempts[at].Cause == 0 {
			tables.SetRare(&s.Attempts[at].Rare).Requeue = true
		}
	}
	if e.Hold && !j.Held() {
		s.hold(slot, true, e.Meta.Subject, e.Reason)
	}
	s.Touch(slot)
}

func (s *State) applyUpdated(e model.JobUpdated) {
	j := s.Find(e.Job)
	if j == nil {
		return
	}
	slot := s.Slots.Of(e.Job)
	if e.Priority == nil {
		j.Spec = e.On(j.Spec) // a copy: clones of the state share the one before
		for g := range j.Gangs {
			if at := j.Gangs[g].Attempt; at != tables.None {
				s.timeLimit(&s.Attempts[at])
			}
		}
		s.ForgetNextChange(j.Space)
		s.DirtyVC(j.Space, j.Spec.Priority) // bookings may depend on when it ends
		index.MayMoveCharges(&s.Index)
		s.Touch(slot)
		return
	}
	for g := range j.Gangs {
		s.Dequeue(slot, int32(g))
	}
	j.Spec = e.On(j.Spec)
	for g := range j.Gangs {
		if gg := &j.Gangs[g]; !gg.Done && gg.Attempt == tables.None {
			s.Enqueue(slot, int32(g))
		}
	}
	index.MayMoveCharges(&s.Index)
	s.Touch(slot)
}

// InBrackets is a reason in brackets, to follow a sentence; "" without a reason.
func InBrackets(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
