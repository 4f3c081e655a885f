package place

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// ExtraEligible reports whether a member above the minimum may be placed now. Its minimum must
// live, be in a known state, and have its guarantee: one that lost it would be stopped before
// the member.
func (s *Finder) ExtraEligible(j *tables.Job) bool {
	if !s.MinimumLives(j) {
		return false
	}
	a := &s.Attempts[j.Gangs[0].Attempt]
	return a.State != model.AttemptUnknown && !a.Lazy
}

// extrasBelow returns a filter for the guaranteed members above a minimum in a VC, below a
// priority; nil if there are no partial gangs.
func (s *Finder) extrasBelow(space int32, limit cell.Priority) func(cell.AllocID) bool {
	if s.PartialJobs == 0 {
		return nil
	}
	return func(id cell.AllocID) bool {
		a := s.Holder(id)
		al := s.Cluster.Alloc(id)
		return s.IsExtra(a) && al.Space == space && !al.Opportunistic() && al.Priority < limit && !s.HasUnknown(id)
	}
}

// withExtras repairs a choice of victims that contains minimums. Members above these stop with
// them, which may save other victims. A member that may not be stopped alone yet can only stop
// with its minimum.
func (s *Finder) withExtras(r cell.Request, res cell.Result, due bool) cell.Result {
	if s.PartialJobs == 0 {
		return res
	}
	victims := slices.Clone(res.Victims)
	for _, v := range res.Victims {
		a := s.Holder(v)
		j := &s.Jobs[a.Job]
		for g := 1; a.ID.Gang == 0 && j.Spec.Partial() && g < len(j.Gangs); g++ {
			at := j.Gangs[g].Attempt
			if at == tables.None || j.Spec.Priority == r.Priority && s.ProtectedFromPeers(&s.Attempts[at], due) {
				continue
			}
			if state := s.Attempts[at].State; state != model.AttemptReserving && state != model.AttemptUnknown {
				victims = append(victims, s.Attempts[at].Alloc)
			}
		}
	}
	if len(victims) == len(res.Victims) {
		return res
	}
	r.Preempt = &cell.Preemptible{Also: func(id cell.AllocID) bool { return slices.Contains(victims, id) }}
	if better, ok := s.Cluster.Place(&r); ok {
		if s.fullGangs(better) < s.fullGangs(res) {
			return better
		}
	}
	return res
}

// fullGangs counts the victims that are not members above a minimum.
func (s *Finder) fullGangs(res cell.Result) int {
	n := 0
	for _, v := range res.Victims {
		if !s.IsExtra(s.Holder(v)) {
			n++
		}
	}
	return n
}

// ExtraFirst orders members above a minimum before full gangs.
func (s *Finder) ExtraFirst(a, b *tables.Attempt) int {
	switch x, y := s.IsExtra(a), s.IsExtra(b); {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}
