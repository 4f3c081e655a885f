package sched

import (
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// Measured are the run times of jobs that ended well, by user and by what their
// names begin with.
type MeasuredRuns map[nameKey]RunTimes

// nameKey names jobs that are likely to run for the same time.
type nameKey struct {
	user   model.Subject
	prefix string
}

// RunTimes sums up the run times of equal jobs.
type RunTimes struct {
	N        int64
	Sum, Max model.Duration
}

// Mean is the mean run time.
func (r RunTimes) Mean() model.Duration { return r.Sum / model.Duration(max(r.N, 1)) }

// Of returns the run times of the jobs of a user whose names begin as this one.
func (m MeasuredRuns) Of(user model.Subject, name model.JobName) (RunTimes, bool) {
	r, ok := m[nameKey{user, prefix(name)}]
	return r, ok
}

// Add counts a job that ended well after it had run so long.
func (m MeasuredRuns) Add(user model.Subject, name model.JobName, run model.Duration) {
	if run <= 0 || run > 1<<50 {
		return
	}
	key := nameKey{user, prefix(name)}
	r := m[key]
	m[key] = RunTimes{r.N + 1, r.Sum + run, max(r.Max, run)}
}

// prefix is a job's name without what counts its runs: "train-17" and
// "train-18" are the same work.
func prefix(n model.JobName) string {
	if p := strings.TrimRight(string(n), "0123456789-_.~"); p != "" {
		return p
	}
	return string(n)
}
