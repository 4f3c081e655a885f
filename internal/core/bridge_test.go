package core

import (
	"crypto/sha256"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// What follows shows a state's inside to the tests that judge it from outside.

// Cluster gives the cells.
func (s *State) Cluster() *cell.Cluster { return s.in.Cluster }

// Key is the same for states that differ in nothing but the number of events.
func (s *State) Key() [16]byte {
	inner := *s.in
	c := &State{in: &inner}
	c.in.Seq, c.in.Config = 0, nil
	c.in.Jobs = slices.Clone(s.in.Jobs)
	for i := range c.in.Jobs {
		if spec := c.in.Jobs[i].Spec; spec != nil {
			c.in.Jobs[i].Spec = &model.Job{Name: spec.Name, Priority: spec.Priority}
		}
	}
	sum := sha256.Sum256(c.Save())
	return [16]byte(sum[:16])
}

// Held is an attempt or a reservation with its cells.
type Held struct {
	ID        model.AttemptID
	State     model.AttemptState
	Alloc     cell.AllocID
	Lazy      bool
	Cause     model.EndCause
	Spec      *model.Job
	Tasks     []model.TaskState // of those not proven dead, "" for the others
	Want      []int32           // leaves of each task
	Placement cell.Placement
}

// Held lists attempts and reservations in order of their ids.
func (s *State) Held() []Held {
	var out []Held
	for i := range s.in.Attempts {
		a := &s.in.Attempts[i]
		if a.Job == tables.None {
			continue
		}
		j := &s.in.Jobs[a.Job]
		h := Held{ID: a.ID, State: a.State, Alloc: a.Alloc, Lazy: a.Lazy, Cause: a.Cause, Spec: j.Spec, Placement: s.in.Cluster.Alloc(a.Alloc).Placement}
		for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
			state := j.Tasks[o].State
			if j.Tasks[o].Dead {
				state = 0
			}
			h.Tasks = append(h.Tasks, state)
			h.Want = append(h.Want, j.Spec.Roles[j.Tasks[o].Role].Leaves)
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return model.CompareAttempts(a.ID, b.ID) })
	return out
}

// InLine is a gang that waits and may be placed now.
type InLine struct {
	Job     model.JobID
	Spec    *model.Job
	Gang    int32
	Space   int32
	Promise bool // it has a reservation
	Request cell.Request
}

// Waiting lists the gangs that wait in order of priority and submission, without
// those that a back-off keeps out.
func (s *State) Waiting() []InLine {
	var out []InLine
	for space := range s.in.Queues {
		for i := range s.in.Jobs {
			j := &s.in.Jobs[i]
			for g := range j.Gangs {
				if j.Spec != nil && j.Gangs[g].Waiting && s.in.Space(j.Spec.VC) == int32(space) && s.in.Eligible(j, int32(g)) {
					out = append(out, InLine{j.ID, j.Spec, int32(g), int32(space), j.Gangs[g].Attempt != tables.None, s.in.Request(place.Want{J: j, G: int32(g)})})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b InLine) int {
		if a.Space != b.Space {
			return int(a.Space - b.Space)
		}
		if a.Spec.Priority != b.Spec.Priority {
			return int(b.Spec.Priority - a.Spec.Priority)
		}
		return int(a.Job-b.Job)*1000 + int(a.Gang-b.Gang)
	})
	return out
}

// Attempts returns how many attempts each gang of a job has had, nil when it is
// over or unknown.
func (s *State) Attempts(id model.JobID) []int32 {
	j := s.in.Find(id)
	if j == nil {
		return nil
	}
	var out []int32
	for i := range j.Gangs {
		out = append(out, j.Gangs[i].N)
	}
	return out
}

// IDs lists the jobs that have not ended.
func (s *State) IDs() []model.JobID { return s.in.Slots.IDs() }
