package index

import (
	"slices"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// UserHoldings is a cache of what users hold in the VC that was asked about last, as of one event:
// a walk asks for it at each gang.
type UserHoldings struct {
	seq   uint64
	space int32
	of    map[model.Subject]use
}

// use is what a user has in one VC.
type use struct {
	Leaves int64
	Jobs   []model.JobID // that run, or are promised cells; sorted
}

// UserHas returns what a user has in a VC.
func (s *Index) UserHas(space int32, user model.Subject) use {
	l := &s.UserHoldings
	if l.of == nil || l.seq != s.Seq || l.space != space {
		*l = UserHoldings{seq: s.Seq, space: space, of: map[model.Subject]use{}}
		for a := range s.AttemptsIn(space) {
			j := &s.Jobs[a.Job]
			u := l.of[j.Spec.User]
			u.Leaves += int64(j.Gangs[a.ID.Gang].Leaves)
			if i, found := slices.BinarySearch(u.Jobs, j.ID); !found {
				u.Jobs = slices.Insert(u.Jobs, i, j.ID)
			}
			l.of[j.Spec.User] = u
		}
	}
	return l.of[user]
}

// UserLimits are the limits of users in a job's VC; nil if it has none.
func (s *Index) UserLimits(j *tables.Job) *model.UserLimits {
	if s.Cluster == nil || j.Space <= 0 || int(j.Space) >= int(s.Cluster.NumSpaces()) {
		return nil
	}
	return s.VC(j.Space).Users
}

// OverLimit reports whether a waiting gang must wait because of what its user has in the VC.
func (s *Index) OverLimit(j *tables.Job, g int32) bool {
	l := s.UserLimits(j)
	if l == nil || j.Gangs[g].Attempt != tables.None {
		return false
	}
	u := s.UserHas(j.Space, j.Spec.User)
	_, runs := slices.BinarySearch(u.Jobs, j.ID)
	return l.GPUs > 0 && u.Leaves+int64(j.Gangs[g].Leaves) > l.GPUs || l.Running > 0 && !runs &&
		int64(len(u.Jobs)) >= l.Running
}
