package sched

import (
	"slices"

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
func (s *index) userLimits(j *job) *model.UserLimits {
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
