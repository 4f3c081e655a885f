package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// extraEligible reports whether a member above the minimum may be placed now: not beside a minimum
// of which nothing is known, nor beside one that was made opportunistic, which would be stopped
// before the member.
func (s *finder) extraEligible(j *job) bool {
	if !s.minimumLives(j) {
		return false
	}
	a := &s.attempts[j.gangs[0].attempt]
	return a.state != model.AttemptUnknown && !a.lazy
}

// extrasBelow returns a rule that names the guaranteed members above a minimum in
// a VC with a priority below a limit; nil when there are no partial gangs.
func (s *finder) extrasBelow(space int32, limit cell.Priority) func(cell.AllocID) bool {
	if s.partials == 0 {
		return nil
	}
	return func(id cell.AllocID) bool {
		a := s.holder(id)
		al := s.cl.Alloc(id)
		return s.isExtra(a) && al.Space == space && !al.Opportunistic() && al.Priority < limit && !s.stuck(id)
	}
}

// withExtras looks again at victims among which there are minimums: the members above these will
// leave with them, which may save somebody else. One that its own priority may not stop yet can
// only leave with its minimum.
func (s *finder) withExtras(r cell.Request, res cell.Result, due bool) cell.Result {
	if s.partials == 0 {
		return res
	}
	victims := slices.Clone(res.Victims)
	for _, v := range res.Victims {
		a := s.holder(v)
		j := &s.jobs[a.job]
		for g := 1; a.id.Gang == 0 && j.spec.Partial() && g < len(j.gangs); g++ {
			at := j.gangs[g].attempt
			if at == none || j.spec.Priority == r.Priority && s.young(&s.attempts[at], due) {
				continue
			}
			if state := s.attempts[at].state; state != model.AttemptReserving && state != model.AttemptUnknown {
				victims = append(victims, s.attempts[at].alloc)
			}
		}
	}
	if len(victims) == len(res.Victims) {
		return res
	}
	r.Lift = &cell.Lift{Also: func(id cell.AllocID) bool { return slices.Contains(victims, id) }}
	if better, ok := s.cl.Place(&r); ok {
		if s.fullGangs(better) < s.fullGangs(res) {
			return better
		}
	}
	return res
}

// fullGangs counts the victims that are no members above a minimum.
func (s *finder) fullGangs(res cell.Result) int {
	n := 0
	for _, v := range res.Victims {
		if !s.isExtra(s.holder(v)) {
			n++
		}
	}
	return n
}

// extraFirst orders members above a minimum before full gangs.
func (s *finder) extraFirst(a, b *attempt) int {
	switch x, y := s.isExtra(a), s.isExtra(b); {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}
