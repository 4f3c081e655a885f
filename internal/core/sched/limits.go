package sched

import (
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// limited is what users hold in the VC that was asked about last, as of one event: a walk asks it
// of each gang.
type limited struct {
	seq   uint64
	space int32
	of    map[model.Subject]use
}

// use is what a user has in one VC.
type use struct {
	leaves int64
	jobs   []model.JobID // that run, or are promised cells; the earliest first
}

// userHas returns what a user has in a VC.
func (s *index) userHas(space int32, user model.Subject) use {
	l := &s.users
	if l.of == nil || l.seq != s.seq || l.space != space {
		*l = limited{seq: s.seq, space: space, of: map[model.Subject]use{}}
		for a := range s.holding(space) {
			j := &s.jobs[a.job]
			u := l.of[j.spec.User]
			u.leaves += int64(j.gangs[a.id.Gang].leaves)
			if i, found := slices.BinarySearch(u.jobs, j.id); !found {
				u.jobs = slices.Insert(u.jobs, i, j.id)
			}
			l.of[j.spec.User] = u
		}
	}
	return l.of[user]
}

// userLimits are those of a job's VC; nil where it has none.
func (s *tables) userLimits(j *job) *model.UserLimits {
	if s.cl == nil || j.space <= 0 || int(j.space) >= int(s.cl.NumSpaces()) {
		return nil
	}
	return s.vc(j.space).Users
}

// overLimit reports whether a gang that waits must wait for what its user has in the VC.
func (s *index) overLimit(j *job, g int32) bool {
	l := s.userLimits(j)
	if l == nil || j.gangs[g].attempt != none {
		return false
	}
	u := s.userHas(j.space, j.spec.User)
	_, runs := slices.BinarySearch(u.jobs, j.id)
	return l.GPUs > 0 && u.leaves+int64(j.gangs[g].leaves) > l.GPUs || l.Running > 0 && !runs && int64(len(u.jobs)) >= l.Running
}

// leftOfLimit is how many leaves more a job's user may have in its VC, for gangs that are placed
// together.
func (s *index) leftOfLimit(j *job) int64 {
	l := s.userLimits(j)
	if l == nil || l.GPUs == 0 {
		return math.MaxInt64
	}
	return l.GPUs - s.userHas(j.space, j.spec.User).leaves
}

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
	return r.Say(UserLimit, "%s", text+listed(&s.tables, j.spec.User, r.Jobs, r.More))
}

// checkCap refuses a priority above that which a job's VC lets its users have.
func (s *tables) checkCap(j *job, p cell.Priority) *Refusal {
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
