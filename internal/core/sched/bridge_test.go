package sched

import (
	"crypto/sha256"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What follows shows a state's inside to the tests that judge it from outside.

// Cluster gives the cells.
func (s *State) Cluster() *cell.Cluster { return s.in.cl }

// Key is the same for states that differ in nothing but the number of events.
func (s *State) Key() [16]byte {
	inner := *s.in
	c := &State{in: &inner}
	c.in.seq, c.in.cfg = 0, nil
	c.in.jobs = slices.Clone(s.in.jobs)
	for i := range c.in.jobs {
		if spec := c.in.jobs[i].spec; spec != nil {
			c.in.jobs[i].spec = &model.Job{Name: spec.Name, Priority: spec.Priority}
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
	for i := range s.in.attempts {
		a := &s.in.attempts[i]
		if a.job == none {
			continue
		}
		j := &s.in.jobs[a.job]
		h := Held{ID: a.id, State: a.state, Alloc: a.alloc, Lazy: a.lazy, Cause: a.cause, Spec: j.spec, Placement: s.in.cl.Alloc(a.alloc).Placement}
		for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
			state := j.tasks[o].state
			if j.tasks[o].dead {
				state = 0
			}
			h.Tasks = append(h.Tasks, state)
			h.Want = append(h.Want, j.spec.Roles[j.tasks[o].role].Leaves)
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return compareAttempts(a.ID, b.ID) })
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
	for space := range s.in.queues {
		for i := range s.in.jobs {
			j := &s.in.jobs[i]
			for g := range j.gangs {
				if j.spec != nil && j.gangs[g].waiting && s.in.space(j.spec.VC) == int32(space) && s.in.eligible(j, int32(g)) {
					out = append(out, InLine{j.id, j.spec, int32(g), int32(space), j.gangs[g].attempt != none, s.in.request(want{j: j, g: int32(g)})})
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
	j := s.in.find(id)
	if j == nil {
		return nil
	}
	var out []int32
	for i := range j.gangs {
		out = append(out, j.gangs[i].n)
	}
	return out
}

// IDs lists the jobs that have not ended.
func (s *State) IDs() []model.JobID { return s.in.slots.IDs() }
