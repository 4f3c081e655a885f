package core

import (
	"slices"

	"github.com/combsched/comb/internal/core/explain"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// actions says what the executor is to do.
type actions struct{ *explain.Explainer }

// of appends what the executor must do about an event that was just applied. Call it after Apply
// of that very event, or after the whole batch.
func (s actions) of(to []model.Action, e model.Event) []model.Action {
	switch e := e.(type) {
	case model.Placed:
		if a := s.Live(e.Attempt); a != nil && a.Alive > 0 {
			return append(to, s.startAction(a, false))
		}
	case model.Joined:
		if a := s.Live(e.Attempt); a != nil && a.Alive > 0 {
			return append(to, s.startAction(a, false))
		}
	case model.Rotated:
		return s.rotationActions(to, &e.Rotation)
	case model.TaskExited:
		if e.Exit.Cause == model.NodeLost {
			return append(to, model.Action{Attempt: e.Attempt, Lost: []int32{e.Task}})
		}
	case model.StopSent:
		if a := s.Live(e.Attempt); a != nil && a.Alive > 0 {
			return append(to, model.Action{Attempt: e.Attempt, Grace: e.Grace, Cause: e.Cause, By: e.By})
		}
	}
	return to
}

// rotationActions tells a rotation to all its members. One that was replaced in the same batch is
// told as it is now.
func (s actions) rotationActions(to []model.Action, r *model.Rotation) []model.Action {
	for _, turn := range r.Turns {
		for _, id := range turn {
			if a := s.Live(id); a != nil && a.Alive > 0 && a.Share != 0 {
				to = append(to, model.Action{Attempt: id, Rotation: s.rotationToTell(a)})
			}
		}
	}
	return to
}

func (s actions) startAction(a *tables.Attempt, known bool) model.Action {
	defer s.BlameJob(a.ID.Job)
	j := &s.Jobs[a.Job]
	tasks := j.Spec.Gangs[a.ID.Gang].Tasks
	start := &model.Start{ID: j.ID, Job: j.Spec, Retry: j.Retry, Rotation: s.rotationToTell(a),
		Tasks: make([]model.TaskStart, 0, len(tasks))}
	origins := tables.RareOf(a.Rare).Origins
	for k, o := range tasks {
		t := &j.Tasks[o]
		if t.Dead {
			continue
		}
		origin := s.Cluster.Origin(t.Place)
		if origins != nil {
			origin = origins[k]
		}
		begins := model.TaskStart{Task: o, Role: t.Role, Index: t.Index, Place: *t.Place, SKU: origin.Leaf}
		for _, d := range origin.Division {
			begins.Division = append(begins.Division, int32(len(d)))
		}
		start.Tasks = append(start.Tasks, begins)
	}
	return model.Action{Attempt: a.ID, Start: start, Known: known}
}

// rotationToTell is a copy of an attempt's rotation: the state changes its own.
func (s actions) rotationToTell(a *tables.Attempt) *model.Rotation {
	r := s.RotationOf(a)
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// outstanding returns the actions of all live attempts, marked Known: what an executor is told
// after a restart. A stopping attempt has two: one to adopt it, one to stop it.
func (s actions) outstanding() []model.Action {
	var slots []int32
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.State != model.AttemptReserving && a.Alive > 0 {
			slots = append(slots, int32(i))
		}
	}
	slices.SortFunc(slots, func(x, y int32) int { return model.CompareAttempts(s.Attempts[x].ID, s.Attempts[y].ID) })
	var out []model.Action
	for _, slot := range slots {
		a := &s.Attempts[slot]
		out = append(out, s.startAction(a, true))
		if a.Cause != 0 {
			grace := s.Jobs[a.Job].Spec.Grace
			out = append(out, model.Action{Attempt: a.ID, Grace: grace, Cause: a.Cause, By: a.By, Known: true})
		}
	}
	return out
}
