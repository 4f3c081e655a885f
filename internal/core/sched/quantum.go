package sched

import (
	"fmt"
	"slices"
	"strings"

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
func (s *tables) quantum(space int32) model.Duration { return s.quanta[max(space, 0)] }

// minRun is how long a gang of a VC runs before its own priority may stop it.
func (s *tables) minRun(space int32) model.Duration { return max(s.vc(space).MinRun, s.quantum(space)) }

// young reports whether an attempt has not run yet for as long as its own priority has to
// leave it alone: for a gang that is due its policy's quantum does not count.
func (s *tables) young(a *attempt, due bool) bool {
	space := s.jobs[a.job].space
	if due {
		return s.younger(a, s.vc(space).MinRun)
	}
	return s.younger(a, s.minRun(space))
}

// unsettled reports whether an attempt has not run for its VC's minimum yet: before that
// its policy gives it no other size either.
func (s *tables) unsettled(a *attempt) bool { return s.younger(a, s.vc(s.jobs[a.job].space).MinRun) }

// younger reports whether an attempt has run for less than a while.
func (s *tables) younger(a *attempt, least model.Duration) bool {
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
func (s *tables) ripens(j *job, started, at model.Time) bool {
	least, q := s.vc(j.space).MinRun, s.quantum(j.space)
	return j.spec.Priority >= cell.MinGuaranteed && (least > 0 && started.Add(least) == at || q > least && started.Add(q) == at)
}

// sheltered says, in a clause, who stands behind a gang in its policy's order and is left alone
// since it has not run for long enough yet, and until when the first of them is; "" is nobody.
func (s *pass) sheltered(j *job, g int32) (string, model.Time) {
	if j.spec.Priority < cell.MinGuaranteed || s.minRun(j.space) == 0 {
		return "", 0
	}
	var first model.Time
	var each []string
	over, due := s.overFor(j, g)
	least := s.minRun(j.space)
	if due {
		least = s.vc(j.space).MinRun
	}
	for _, a := range over {
		if a.cause != 0 || !s.younger(a, least) || len(each) == maxNamed || s.spent(a) {
			continue
		}
		name := s.nameTo(j.spec.User, a.id.Job)
		if a.started == 0 {
			each = append(each, name+" is about to run")
			continue
		}
		until := a.started.Add(least)
		first = sooner(first, until)
		each = append(each, fmt.Sprintf("%s for another %d s", name, secondsUntil(s.now, until)))
	}
	if len(each) == 0 {
		return "", 0
	}
	return fmt.Sprintf("jobs of its own priority are not preempted in their first %d s: %s", least/model.Second, strings.Join(each, ", ")), first
}

// overFor lists the attempts that the policy of a gang's VC would have stopped for it, were
// they old enough, in order of their jobs, and whether the gang was promised its cells for now:
// then the quantum protects nobody from it.
func (s *pass) overFor(j *job, g int32) (out []*attempt, due bool) {
	ref := GangRef{j.id, g}
	for wish := range s.pol[j.space].Rank(view{s: s, space: j.space, prio: j.spec.Priority, now: s.now, all: true}) {
		if wish.Gang != ref || wish.Over == nil {
			continue
		}
		due = wish.Due
		for of := range wish.Over {
			if a := s.attemptOf(of); a != nil && !s.cl.Alloc(a.alloc).Opportunistic() {
				out = append(out, a)
			}
		}
		break
	}
	slices.SortFunc(out, func(a, b *attempt) int { return compareAttempts(a.id, b.id) })
	return out, due
}

// spent reports whether the budget of preemptions of an attempt's job is used up: then it is left
// alone however long it has run.
func (s *index) spent(a *attempt) bool {
	j := &s.jobs[a.job]
	return !s.isExtra(a) && j.yielded >= s.vc(j.space).PreemptionBudget()
}
