package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// Actions appends what the executor must do about an event that was just
// applied; call it after Apply of that very event, or after the whole batch.
func (s *pass) Actions(to []Action, e Event) []Action {
	switch e := e.(type) {
	case Placed:
		if a := s.live(e.Attempt); a != nil && a.alive > 0 {
			return append(to, s.startAction(a, false))
		}
	case Joined:
		if a := s.live(e.Attempt); a != nil && a.alive > 0 {
			return append(to, s.startAction(a, false))
		}
	case Rotated:
		return s.rotationActions(to, &e.Rotation)
	case TaskExited:
		if e.Exit.Cause == NodeLost {
			return append(to, Action{Attempt: e.Attempt, Lost: []int32{e.Task}})
		}
	case StopSent:
		if a := s.live(e.Attempt); a != nil && a.alive > 0 {
			return append(to, Action{Attempt: e.Attempt, Grace: e.Grace})
		}
	}
	return to
}

// rotationActions tells all who stand in a rotation. One that was replaced in the same
// batch is told as it is now.
func (s *pass) rotationActions(to []Action, r *model.Rotation) []Action {
	for _, turn := range r.Turns {
		for _, id := range turn {
			if a := s.live(id); a != nil && a.alive > 0 && a.share != 0 {
				to = append(to, Action{Attempt: id, Rotation: s.rotationToTell(a)})
			}
		}
	}
	return to
}

func (s *pass) startAction(a *attempt, known bool) Action {
	defer s.blaming(a.id.Job)
	j := &s.jobs[a.job]
	tasks := j.spec.Gangs[a.id.Gang].Tasks
	start := &Start{ID: j.id, Job: j.spec, Retry: j.retry, Rotation: s.rotationToTell(a), Tasks: make([]TaskStart, 0, len(tasks))}
	origins := rare(a.odd).origins
	for k, o := range tasks {
		t := &j.tasks[o]
		if t.dead {
			continue
		}
		origin := s.cl.Origin(t.place)
		if origins != nil {
			origin = origins[k]
		}
		begins := TaskStart{Task: o, Role: t.role, Index: t.index, Place: *t.place, SKU: origin.Leaf}
		for _, d := range origin.Division {
			begins.Division = append(begins.Division, int32(len(d)))
		}
		start.Tasks = append(start.Tasks, begins)
	}
	return Action{Attempt: a.id, Start: start, Known: known}
}

// rotationToTell is a copy of an attempt's rotation: the state's own changes.
func (s *pass) rotationToTell(a *attempt) *model.Rotation {
	r := s.rotationOf(a)
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// Outstanding returns the actions of all live attempts, marked Known: what an
// executor is told after a restart. A stopping attempt is named twice, to be
// adopted and then stopped.
func (s *pass) Outstanding() []Action {
	var slots []int32
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != model.AttemptReserving && a.alive > 0 {
			slots = append(slots, int32(i))
		}
	}
	slices.SortFunc(slots, func(x, y int32) int { return compareAttempts(s.attempts[x].id, s.attempts[y].id) })
	var out []Action
	for _, slot := range slots {
		a := &s.attempts[slot]
		out = append(out, s.startAction(a, true))
		if a.cause != 0 {
			out = append(out, Action{Attempt: a.id, Grace: s.jobs[a.job].spec.Grace, Known: true})
		}
	}
	return out
}
