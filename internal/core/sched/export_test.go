package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// RotationOf is what a live attempt follows; nil when it is alone and always was.
func (s *State) RotationOf(id model.AttemptID) *model.Rotation {
	if a := s.in.live(id); a != nil {
		return s.in.rotationOf(a)
	}
	return nil
}

// LookAgain makes the next Decide walk everything, as if capacity had changed.
func (s *State) LookAgain() { s.in.look = true }

// BreakPromise plants an internal error: a promise is taken for one whose cells were left,
// while others still hold them.
func (s *State) BreakPromise(id model.AttemptID) {
	a := s.in.live(id)
	a.left = int32(len(s.in.cl.Alloc(a.alloc).Placement.Tasks))
}

// BreakGuarantee plants another: a gang that runs without its guarantee has leaves that no
// cluster has.
func (s *State) BreakGuarantee(id model.AttemptID) {
	pl := &s.in.cl.Alloc(s.in.live(id).alloc).Placement
	pl.Tasks = slices.Clone(pl.Tasks) // which copies of the state share
	pl.Tasks[0].Leaves = []cell.LeafID{1 << 30}
}

// Searches is how often cells were searched for so far.
func (s *State) Searches() int { return s.in.cl.Searches() }

// Copies returns what makes copies in the same memory, one after the other.
func (s *State) Copies() func() *State {
	room := copyRoom{}
	return func() *State { return &State{in: s.in.cloneIn(&room)} }
}

// CellSteps is what searches for cells took so far.
func (s *State) CellSteps() int64 { return s.in.cl.Work().Taken() }

// LeavesRead is how many leaves were read so far to say what is in use of what virtual clusters
// are guaranteed.
func (s *State) LeavesRead() int {
	if s.in.ranks.common == nil {
		return 0
	}
	return s.in.ranks.common.read
}

// Whole is an explanation of which no list is cut, with the numbers of those ahead and in the way.
func Whole(s *State, id model.JobID) (e Explanation, ahead, blockers []model.JobID) {
	all, _ := explainAll(s.in, id)
	return all.Explanation, all.ahead, all.blockers
}

// EmptySearches is how often cells were searched for as if all were free.
func EmptySearches(s *State) int { return s.in.vacant().Searches() }

// MostTasks is the most tasks that a job of one gang which never fits could have, and what is found
// without what bounds the search or is remembered of it; false for a job that could fit.
func MostTasks(s *State, spec *model.Job) (most, plain int32, never bool) {
	j := s.in.newJob(s.in.nextJob, spec, s.in.now, room{})
	if !s.in.neverFits(&j, 0) || len(spec.Roles[0].SKUs) > 0 && j.gangs[0].shape.short {
		return 0, 0, false
	}
	m := mostEver{s: s.in, j: &j, g: 0, role: 0}
	for plain+1 < spec.Roles[0].Tasks && m.fits(model.WithTasks(spec, 0, plain+1)) {
		plain++
	}
	return m.tasks(), plain, true
}
