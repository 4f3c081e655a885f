package sched

import "slices"

// Actions returns what the executor must do about an event that was just
// applied; call it after Apply of that very event, or after the whole batch.
func (s *State) Actions(e Event) []Action {
	switch e := e.(type) {
	case Placed:
		if a := s.live(e.Attempt); a != nil && a.alive > 0 {
			return []Action{s.startAction(a, false)}
		}
	case StopSent:
		if a := s.live(e.Attempt); a != nil && a.alive > 0 {
			return []Action{{Attempt: e.Attempt, Grace: e.Grace}}
		}
	}
	return nil
}

func (s *State) startAction(a *attempt, known bool) Action {
	j := &s.jobs[a.job]
	start := &Start{ID: j.id, Job: j.spec, Retry: j.retry}
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := &j.tasks[o]
		if t.dead {
			continue
		}
		start.Tasks = append(start.Tasks, TaskStart{Task: o, Role: t.role, Index: t.index, Place: *t.place, SKU: s.cl.SKU(t.place.SKU)})
	}
	return Action{Attempt: a.id, Start: start, Known: known}
}

// Outstanding returns the actions of all live attempts, marked Known: what an
// executor is told after a restart. A stopping attempt is named twice, to be
// adopted and then stopped.
func (s *State) Outstanding() []Action {
	var slots []int32
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != AttemptReserving && a.alive > 0 {
			slots = append(slots, int32(i))
		}
	}
	slices.SortFunc(slots, func(x, y int32) int { return compareAttempts(s.attempts[x].id, s.attempts[y].id) })
	var out []Action
	for _, slot := range slots {
		a := &s.attempts[slot]
		out = append(out, s.startAction(a, true))
		if a.cause != "" {
			out = append(out, Action{Attempt: a.id, Grace: s.jobs[a.job].spec.Grace, Known: true})
		}
	}
	return out
}
