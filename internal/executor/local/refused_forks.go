package local

import (
	"time"

	"github.com/combsched/comb/internal/executor/cgroup"
)

const (
	forksPause = 10 * time.Second // between looks at the count
	// forksWithin is how recently before its end a task must have met its limit of processes to
	// have failed by it: many programs try again, or manage with fewer.
	forksWithin = time.Minute
)

// forkRefusals counts the forks of a task that its own limit of processes refused.
type forkRefusals struct {
	refused   int64
	rose      time.Time // when a look last found more than the one before
	causedEnd bool      // some were refused just before its main process ended
}

// look takes a count.
func (f *forkRefusals) look(refused int64, now time.Time) {
	if refused > f.refused {
		f.refused, f.rose = refused, now
	}
}

// end takes the last count, once the main process has ended and before anything is killed: a
// killed group refuses forks as well.
func (f *forkRefusals) end(refused int64, now time.Time) {
	f.look(refused, now)
	f.causedEnd = f.refused > 0 && now.Sub(f.rose) <= forksWithin
}

// countsForks reports whether a task has a limit of processes that the kernel counts.
func (s *spec) countsForks() bool {
	return s.Limits.Pids > 0 && (s.Container != nil || cgroup.HasController(s.Parents, "pids"))
}

// refusedForks is how many forks were refused until now.
func (s *spec) refusedForks() int64 {
	if !s.countsForks() {
		return 0
	}
	return cgroup.Refused(s.Parents, s.groupName())
}
