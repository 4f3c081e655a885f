package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// limitReason says by which limit a gang waits.
func (s *explainer) limitReason(j *job, g int32) model.Reason {
	l, u := s.userLimits(j), s.userHas(j.space, j.spec.User)
	r := s.newReason(j, g)
	r.Jobs, r.More = few(s, u.jobs)
	what := "job"
	if len(j.gangs) > 1 {
		what = "gang"
	}
	text := fmt.Sprintf("in %s one user gets at most %s: %s uses %d, and this %s asks for %d; in use by ",
		j.spec.VC, s.unitsIn(j.space, l.GPUs), j.spec.User, u.leaves, what, j.gangs[g].leaves)
	if l.GPUs == 0 || u.leaves+int64(j.gangs[g].leaves) <= l.GPUs {
		text = fmt.Sprintf("in %s one user runs at most %s at a time, and %s runs ", j.spec.VC,
			model.Plural(int32(l.Running), "job", "jobs"), j.spec.User)
	}
	return r.Say(UserLimit, "%s", text+listed(s, j.spec.User, r.Jobs, r.More))
}

// checkCap refuses a priority above that which a job's VC lets its users have.
func (s *explainer) checkCap(j *job, p cell.Priority) *Refusal {
	l := s.userLimits(j)
	if l == nil || l.Priority == nil || p <= *l.Priority {
		return nil
	}
	return refuse(Never, "the priority is %d, and jobs in %s may have at most %d", p, j.spec.VC, *l.Priority)
}

// checkLimits refuses a job that its VC's limits of users keep out.
func (s *explainer) checkLimits(j *job) *Refusal {
	l := s.userLimits(j)
	if l == nil {
		return nil
	}
	if no := s.checkCap(j, j.spec.Priority); no != nil {
		return no
	}
	for g := range j.gangs {
		if n := int64(j.gangs[g].leaves); l.GPUs > 0 && n > l.GPUs {
			why := s.newReason(j, int32(g)).Say(UserLimit, "it can never start: it asks for %d GPUs or CPU slots at once, more than the %d of one user in %s", n, l.GPUs, j.spec.VC)
			return &Refusal{Kind: Never, Message: why.Message, Reason: &why}
		}
	}
	if l.Waiting == 0 {
		return nil
	}
	var waits []model.JobID
	for _, q := range s.queues[j.space] {
		if o := &s.jobs[q.slot]; o.spec.User == j.spec.User && s.phase(o) == Waiting && !slices.Contains(waits, o.id) {
			if waits = append(waits, o.id); int64(len(waits)) >= l.Waiting {
				return refuse(Busy, "%s has %d waiting jobs in %s, the most for one user: stop one, or submit this one when one has started", j.spec.User, l.Waiting, j.spec.VC)
			}
		}
	}
	return nil
}
