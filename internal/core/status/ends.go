package status

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// MaxUntold is how late a booking may be before users are told a new time.
const MaxUntold = model.Minute

// AttemptLeftBy returns when an attempt has left its cells at the latest: its limit or the stop
// that it was told, plus its grace. Both are enforced; nothing else bounds it.
func (s *Status) AttemptLeftBy(a *tables.Attempt) (model.Time, bool) {
	spec := s.Jobs[a.Job].Spec
	switch {
	case a.State == model.AttemptUnknown:
		return 0, false
	case a.Cause != 0:
		return a.StopSentAt.Add(spec.Grace), true
	case spec.TimeLimit == 0:
		return 0, false
	}
	begin := max(a.Placed, a.Started)
	if a.Share != 0 {
		return s.Reaches(a, spec.TimeLimit).Add(spec.Grace), true
	}
	if a.State == model.AttemptReserving {
		begin = begin.Add(s.longestGrace(tables.RareOf(a.Rare).Victims))
		switch late := s.Now - begin; { // its victims are late
		case late > model.Time(MaxUntold): // in whole minutes, so that the instant changes rarely
			begin += (late + model.Time(MaxUntold) - 1) / model.Time(MaxUntold) * model.Time(MaxUntold)
		case late > 0:
			begin = s.Now
		}
	}
	end := begin.Add(model.Duration(model.Time(spec.TimeLimit).Add(spec.Grace)))
	if a.Started == 0 && end <= s.Now { // it is slow to start, and cannot leave before
		step := max(end-begin, model.Time(MaxUntold)) // else the instant changes often with a short limit
		end += (1 + (s.Now-end)/step) * step
	}
	return end, true
}

// LeftBy is AttemptLeftBy for all members of an attempt's allocation.
func (s *Status) LeftBy(a *tables.Attempt) (model.Time, bool) {
	last, known := s.AttemptLeftBy(a)
	for at := s.First(a); known && s.Shared(a) && at != tables.None; at = s.Attempts[at].NextMember {
		var end model.Time
		end, known = s.AttemptLeftBy(&s.Attempts[at])
		last = max(last, end)
	}
	return last, known
}

// longestGrace is the longest grace of some attempts.
func (s *Status) longestGrace(ids []model.AttemptID) model.Duration {
	var most model.Duration
	for _, id := range ids {
		if j := s.Find(id.Job); j != nil {
			most = max(most, j.Spec.Grace)
		}
	}
	return most
}

// WorkAhead estimates the remaining work of an attempt without a limit, in leaves times
// microseconds: up to its hinted duration, else as long again as it has run.
func (s *Status) WorkAhead(a *tables.Attempt) int64 {
	j := &s.Jobs[a.Job]
	left := s.Now - max(a.Placed, a.Started)
	if d := model.Time(j.Spec.Hints.Duration); d > left {
		left = d - left
	}
	leaves := int64(j.Gangs[a.ID.Gang].Leaves)
	if int64(left) > (1<<62)/max(leaves, 1) {
		return 1 << 62
	}
	return int64(left) * leaves
}
