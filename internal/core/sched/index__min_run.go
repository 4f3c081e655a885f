package sched

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A gang runs for a while before others of its own priority and VC may stop it: for the
// VC's minimum run time and its policy's quantum, whichever is longer. Both are counted
// from the last start. So a gang that was stopped and comes back gets something done
// before it is stopped again, however often the order changes. Neither holds up a higher
// priority, or another VC's guarantee.

// quantaOf returns the quantum of each VC's policy, by space.
func quantaOf(policies []Policy) []model.Duration {
	out := make([]model.Duration, len(policies))
	for i, p := range policies {
		if sparing, ok := p.(Sparing); ok {
			out[i] = max(sparing.Quantum(), 0)
		}
	}
	return out
}

// quantum is that of the policy of a VC.
func (s *index) quantum(space int32) model.Duration { return s.quanta[max(space, 0)] }

// minRun is how long a gang of a VC runs before its own priority may stop it.
func (s *index) minRun(space int32) model.Duration { return max(s.vc(space).MinRun, s.quantum(space)) }

// young reports whether an attempt has not run yet for as long as its own priority has to
// leave it alone: for a gang that is due its policy's quantum does not count.
func (s *index) young(a *attempt, due bool) bool {
	space := s.jobs[a.job].space
	if due {
		return s.younger(a, s.vc(space).MinRun)
	}
	return s.younger(a, s.minRun(space))
}

// unsettled reports whether an attempt has not run for its VC's minimum yet: before that
// its policy gives it no other size either.
func (s *index) unsettled(a *attempt) bool { return s.younger(a, s.vc(s.jobs[a.job].space).MinRun) }

// younger reports whether an attempt has run for less than a while.
func (s *index) younger(a *attempt, least model.Duration) bool {
	return least > 0 && (a.started == 0 || a.started.Add(least) > s.now)
}

// timeMinRun looks again when an attempt has run for its VC's minimum, and for the quantum of
// its policy: then its own priority may preempt it.
func (s *index) timeMinRun(a *attempt) {
	j := &s.jobs[a.job]
	if s.cfg == nil || a.started == 0 || j.spec.Priority < cell.MinGuaranteed {
		return
	}
	least := s.vc(j.space).MinRun
	if least > 0 {
		s.at(a.started.Add(least), j.id, a.id.Gang)
	}
	if q := s.quantum(j.space); q > least {
		s.at(a.started.Add(q), j.id, a.id.Gang)
	}
}

// ripens reports whether an attempt of a job that began to run then has run for the minimum
// of its VC, or the quantum of its policy, at an instant.
func (s *index) ripens(j *job, started, at model.Time) bool {
	least, q := s.vc(j.space).MinRun, s.quantum(j.space)
	return j.spec.Priority >= cell.MinGuaranteed && (least > 0 && started.Add(least) == at || q > least && started.Add(q) == at)
}

// spent reports whether the budget of preemptions of an attempt's job is used up: then it is left
// alone however long it has run.
func (s *index) spent(a *attempt) bool {
	j := &s.jobs[a.job]
	return !s.isExtra(a) && j.yielded >= s.vc(j.space).PreemptionBudget()
}
