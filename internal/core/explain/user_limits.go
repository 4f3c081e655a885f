package explain

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// limitReason says by which limit a gang waits.
func (s *Explainer) limitReason(j *tables.Job, g int32) model.Reason {
	l, u := s.UserLimits(j), s.UserHas(j.Space, j.Spec.User)
	r := s.newReason(j, g)
	r.Jobs, r.More = few(s, u.Jobs)
	what := "job"
	if len(j.Gangs) > 1 {
		what = "gang"
	}
	text := fmt.Sprintf("in %s one user gets at most %s: %s uses %d, and this %s asks for %d; in use by ",
		j.Spec.VC, s.UnitsIn(j.Space, l.GPUs), j.Spec.User, u.Leaves, what, j.Gangs[g].Leaves)
	if l.GPUs == 0 || u.Leaves+int64(j.Gangs[g].Leaves) <= l.GPUs {
		text = fmt.Sprintf("in %s one user runs at most %s at a time, and %s runs ", j.Spec.VC,
			model.Plural(int32(l.Running), "job", "jobs"), j.Spec.User)
	}
	return r.Say(model.UserLimit, "%s", text+listed(s, j.Spec.User, r.Jobs, r.More))
}

// checkCap refuses a priority above that which a job's VC lets its users have.
func (s *Explainer) checkCap(j *tables.Job, p cell.Priority) *model.Refusal {
	l := s.UserLimits(j)
	if l == nil || l.Priority == nil || p <= *l.Priority {
		return nil
	}
	return Refuse(model.Never, "the priority is %d, and jobs in %s may have at most %d", p, j.Spec.VC, *l.Priority)
}

// checkLimits refuses a job that its VC's limits of users keep out.
func (s *Explainer) checkLimits(j *tables.Job) *model.Refusal {
	l := s.UserLimits(j)
	if l == nil {
		return nil
	}
	if no := s.checkCap(j, j.Spec.Priority); no != nil {
		return no
	}
	for g := range j.Gangs {
		if n := int64(j.Gangs[g].Leaves); l.GPUs > 0 && n > l.GPUs {
			why := s.newReason(j, int32(g)).Say(model.UserLimit, "it can never start: it asks for %d GPUs or CPU slots at once, more than the %d of one user in %s", n, l.GPUs, j.Spec.VC)
			return &model.Refusal{Kind: model.Never, Message: why.Message, Reason: &why}
		}
	}
	if l.Waiting == 0 {
		return nil
	}
	var waits []model.JobID
	for _, q := range s.Queues[j.Space] {
		if o := &s.Jobs[q.Slot]; o.Spec.User == j.Spec.User && s.Phase(o) == model.Waiting &&
			!slices.Contains(waits, o.ID) {
			if waits = append(waits, o.ID); int64(len(waits)) >= l.Waiting {
				return Refuse(model.Busy, "%s has %d waiting jobs in %s, the most for one user: stop one, or submit this one when one has started", j.Spec.User, l.Waiting, j.Spec.VC)
			}
		}
	}
	return nil
}
