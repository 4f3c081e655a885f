package core

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// RotationOf is what a live attempt follows; nil when it is alone and always was.
func (s *State) RotationOf(id model.AttemptID) *model.Rotation {
	if a := s.in.Live(id); a != nil {
		return s.in.RotationOf(a)
	}
	return nil
}

// LookAgain makes the next Decide walk everything, as if capacity had changed.
func (s *State) LookAgain() { s.in.AllDirty = true }

// BreakPromise plants an internal error: a promise is taken for one whose cells were left,
// while others still hold them.
func (s *State) BreakPromise(id model.AttemptID) {
	a := s.in.Live(id)
	a.VacatedTasks = int32(len(s.in.Cluster.Alloc(a.Alloc).Placement.Tasks))
}

// BreakGuarantee plants another: a gang that runs without its guarantee has leaves that no
// cluster has.
func (s *State) BreakGuarantee(id model.AttemptID) {
	pl := &s.in.Cluster.Alloc(s.in.Live(id).Alloc).Placement
	pl.Tasks = slices.Clone(pl.Tasks) // which copies of the state share
	pl.Tasks[0].Leaves = []cell.LeafID{1 << 30}
}

// Searches is how often cells were searched for so far.
func (s *State) Searches() int { return s.in.Cluster.Searches() }

// Copies returns what makes copies in the same memory, one after the other.
func (s *State) Copies() func() *State {
	room := explain.CopyBuffer{}
	return func() *State { return &State{in: s.in.CloneIn(&room)} }
}

// CellSteps is what searches for cells took so far.
func (s *State) CellSteps() int64 { return s.in.Cluster.Work().Taken() }

// LeavesRead is how many leaves were read so far to say what is in use of what virtual clusters
// are guaranteed.
func (s *State) LeavesRead() int {
	if s.in.Orders.Reasons == nil {
		return 0
	}
	return s.in.Orders.Reasons.Read
}

// Whole is an explanation of which no list is cut, with the numbers of those ahead and in the way.
func Whole(s *State, id model.JobID) (e model.Explanation, ahead, blockers []model.JobID) {
	all, _ := explain.ExplainAll(s.in, id)
	return all.Explanation, all.Ahead, all.Blockers
}

// EmptySearches is how often cells were searched for as if all were free.
func EmptySearches(s *State) int { return s.in.Vacant().Searches() }

// MostTasks is the most tasks that a job of one gang which never fits could have, and what is found
// without what bounds the search or is remembered of it; false for a job that could fit.
func MostTasks(s *State, spec *model.Job) (most, plain int32, never bool) {
	j := s.in.NewJob(s.in.NextJob, spec, s.in.Now, tables.JobMemory{})
	if !s.in.NeverFits(&j, 0) || len(spec.Roles[0].SKUs) > 0 && j.Gangs[0].Shape.NoSKUFits {
		return 0, 0, false
	}
	m := explain.MostEver{S: s.in, J: &j, G: 0, Role: 0}
	for plain+1 < spec.Roles[0].Tasks && m.Fits(model.WithTasks(spec, 0, plain+1)) {
		plain++
	}
	return m.Tasks(), plain, true
}
