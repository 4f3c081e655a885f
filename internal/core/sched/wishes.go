package sched

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What users wish for jobs that have not ended, besides stops: that one is held or released, waits
// again, or has another priority or time limit.

// Hold keeps a waiting job from starting (On), or lets it start again.
type Hold struct {
	Meta
	Job    model.JobID
	On     bool
	Reason string
}

// Requeue asks to stop what runs of a job, with its grace, so that it waits again; with Hold it is
// held from then on.
type Requeue struct {
	Meta
	Job    model.JobID
	Hold   bool
	Reason string
}

// Update gives a job another priority or time limit; nil leaves it as it is. A time limit of 0 is
// none.
type Update struct {
	Meta
	Job       model.JobID
	Priority  *cell.Priority
	TimeLimit *model.Duration
}

// JobHeld accepts a hold, or its end.
type JobHeld struct {
	Job    model.JobID `json:"job"`
	On     bool        `json:"on"`
	Reason string      `json:"reason,omitempty"`
	Meta   Meta        `json:"meta"`
}

// JobRequeued accepts that what runs of a job is stopped and waits again.
type JobRequeued struct {
	Job    model.JobID `json:"job"`
	Hold   bool        `json:"hold,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Meta   Meta        `json:"meta"`
}

// JobUpdated accepts another priority or time limit.
type JobUpdated struct {
	Job       model.JobID     `json:"job"`
	Priority  *cell.Priority  `json:"priority,omitempty"`
	TimeLimit *model.Duration `json:"time_limit,omitempty"`
	Meta      Meta            `json:"meta"`
}

// On returns a job's description with what is updated; the one before is not changed.
func (e JobUpdated) On(spec *model.Job) *model.Job {
	out := *spec
	if e.Priority != nil {
		out.Priority = *e.Priority
	}
	if e.TimeLimit != nil {
		out.TimeLimit = *e.TimeLimit
	}
	return &out
}

func (JobHeld) event() Kind     { return "JobHeld" }
func (JobRequeued) event() Kind { return "JobRequeued" }
func (JobUpdated) event() Kind  { return "JobUpdated" }

// held reports whether a job is held: its gangs stand in no queue.
func (j *job) held() bool { return j.odd != nil && j.odd.held != nil }

// wishedJob finds a job that has not ended and does not end, about which a user wishes something.
func (s *fold) wishedJob(id model.JobID) (*job, *Refusal) {
	j := s.find(id)
	switch {
	case j == nil && id > 0 && id < s.nextJob:
		return nil, refuse(Conflict, "job %d has ended already", id)
	case j == nil:
		return nil, refuse(NotFound, "there is no job %d", id)
	case j.stop || j.completing != nil:
		return nil, refuse(Conflict, "job %d is ending", id)
	}
	return j, nil
}

// standing reports whether an attempt of a job lives; promised, whether cells are being freed for
// one.
func (s *tables) standing(j *job) (runs, promised bool) {
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none {
			reserving := s.attempts[at].state == model.AttemptReserving
			runs, promised = runs || !reserving, promised || reserving
		}
	}
	return runs, promised
}

func (s *fold) checkHold(c Hold) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	if j.held() == c.On {
		return nil, Answer{Job: c.Job, Repeated: true}, nil
	}
	if runs, _ := s.standing(j); runs && c.On {
		return nil, Answer{}, refuse(Conflict, "job %d runs: only a job that waits can be held; comb job requeue --hold stops it and holds it then", c.Job)
	}
	return []Event{JobHeld{Job: c.Job, On: c.On, Reason: c.Reason, Meta: c.Meta}}, Answer{Job: c.Job}, nil
}

func (s *fold) checkRequeue(c Requeue) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	if runs, _ := s.standing(j); !runs {
		return nil, Answer{}, refuse(Conflict, "nothing of job %d runs: it waits already", c.Job)
	}
	return []Event{JobRequeued{Job: c.Job, Hold: c.Hold, Reason: c.Reason, Meta: c.Meta}}, Answer{Job: c.Job}, nil
}

func (s *explainer) checkUpdate(c Update) ([]Event, Answer, *Refusal) {
	j, no := s.wishedJob(c.Job)
	if no != nil {
		return nil, Answer{}, no
	}
	e := JobUpdated{Job: c.Job, Meta: c.Meta}
	if p := c.Priority; p != nil && *p != j.spec.Priority {
		if no := s.checkPriority(j, *p); no != nil {
			return nil, Answer{}, no
		}
		e.Priority = p
	}
	if d := c.TimeLimit; d != nil && *d != j.spec.TimeLimit {
		if *d < 0 {
			return nil, Answer{}, refuse(Invalid, "a time limit must not be negative")
		}
		for g := range j.gangs {
			if at := j.gangs[g].attempt; at != none && *d > 0 && s.attempts[at].started > 0 && s.reaches(&s.attempts[at], *d) <= s.now {
				return nil, Answer{}, refuse(Conflict, "job %d has run for longer than that already: give it more time, or stop it", c.Job)
			}
		}
		e.TimeLimit = d
	}
	if e.Priority == nil && e.TimeLimit == nil {
		return nil, Answer{Job: c.Job, Repeated: true}, nil
	}
	return []Event{e}, Answer{Job: c.Job}, nil
}

// checkPriority refuses a priority that a job cannot have, or not now.
func (s *explainer) checkPriority(j *job, p cell.Priority) *Refusal {
	if runs, promised := s.standing(j); runs {
		return refuse(Conflict, "job %d runs: only a job that waits can get another priority; comb job requeue --hold stops it first", j.id)
	} else if promised {
		return refuse(Conflict, "cells are being freed for job %d, and it starts soon: its priority cannot change now; comb job hold gives them back", j.id)
	}
	spec := *j.spec
	spec.Priority = p
	if no := checkJob(&spec); no != nil {
		return no
	}
	if no := s.checkCap(j, p); no != nil {
		return no
	}
	tried := s.newJob(j.id, &spec, s.now, s.arenas.rooms.take())
	defer s.arenas.rooms.leave(&tried)
	for g := range tried.gangs {
		if why := s.whyNever(&tried, g); why != nil {
			return &Refusal{Kind: Never, Message: fmt.Sprintf("with priority %d %s", p, why.Message), Reason: why}
		}
	}
	return nil
}

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

// giveBack takes back what is promised to a job that is held.
func (s *pass) giveBack(slot int32) {
	for g := range s.jobs[slot].gangs {
		s.stay(&s.jobs[slot].gangs[g], "its job is held")
		if at := s.jobs[slot].gangs[g].attempt; at != none && s.attempts[at].state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: s.attempts[at].id, Reason: "its job is held"})
		}
	}
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

func (s *index) applyUpdated(e JobUpdated) {
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
