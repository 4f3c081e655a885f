package index

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// A gang runs for a while before other gangs of its priority and VC may stop it: for the longer of
// the VC's minimum run time and its policy's quantum. Both count from the last start. So a gang
// that was stopped and comes back gets something done before it is stopped again, however often
// the order changes. Neither holds up a higher priority, or another VC's guarantee.

// QuantaOf returns the quantum of each VC's policy, by space.
func QuantaOf(policies []model.Policy) []model.Duration {
	out := make([]model.Duration, len(policies))
	for i, p := range policies {
		if sparing, ok := p.(model.HasQuantum); ok {
			out[i] = max(sparing.Quantum(), 0)
		}
	}
	return out
}

// quantum is the quantum of a VC's policy.
func (s *Index) quantum(space int32) model.Duration { return s.Quanta[max(space, 0)] }

// MinRun is how long a gang of a VC runs before gangs of its own priority may stop it.
func (s *Index) MinRun(space int32) model.Duration { return max(s.VC(space).MinRun, s.quantum(space)) }

// ProtectedFromPeers reports whether an attempt is still protected from gangs of its own priority.
// Against a gang that is due the policy's quantum does not count.
func (s *Index) ProtectedFromPeers(a *tables.Attempt, due bool) bool {
	space := s.Jobs[a.Job].Space
	if due {
		return s.RanLessThan(a, s.VC(space).MinRun)
	}
	return s.RanLessThan(a, s.MinRun(space))
}

// BelowMinRun reports whether an attempt has not run for its VC's minimum yet. Until then its
// policy does not change its size either.
func (s *Index) BelowMinRun(a *tables.Attempt) bool {
	return s.RanLessThan(a, s.VC(s.Jobs[a.Job].Space).MinRun)
}

// RanLessThan reports whether an attempt has run for less than a duration; never if that is 0.
func (s *Index) RanLessThan(a *tables.Attempt, least model.Duration) bool {
	return least > 0 && (a.Started == 0 || a.Started.Add(least) > s.Now)
}

// TimeMinRun sets timers for when an attempt has run for its VC's minimum, and for its policy's
// quantum: from then on gangs of its own priority may preempt it.
func (s *Index) TimeMinRun(a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	if s.Config == nil || a.Started == 0 || j.Spec.Priority < cell.MinGuaranteed {
		return
	}
	least := s.VC(j.Space).MinRun
	if least > 0 {
		s.SetTimer(a.Started.Add(least), j.ID, a.ID.Gang)
	}
	if q := s.quantum(j.Space); q > least {
		s.SetTimer(a.Started.Add(q), j.ID, a.ID.Gang)
	}
}

// endsMinRun reports whether an attempt that began to run at started completes its VC's minimum, or
// its policy's quantum, exactly at that time.
func (s *Index) endsMinRun(j *tables.Job, started, at model.Time) bool {
	least, q := s.VC(j.Space).MinRun, s.quantum(j.Space)
	return j.Spec.Priority >= cell.MinGuaranteed && (least > 0 && started.Add(least) == at || q > least &&
		started.Add(q) == at)
}

// BudgetSpent reports whether the preemption budget of an attempt's job is used up: then it is left
// alone however long it has run.
func (s *Index) BudgetSpent(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return !s.IsExtra(a) && j.Yielded >= s.VC(j.Space).PreemptionBudget()
}
