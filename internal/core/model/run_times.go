package model

import (
	"strings"
)

// MeasuredRuns are the run times of jobs that succeeded, by user and by the prefix of
// their names.
type MeasuredRuns map[nameKey]RunTimes

// nameKey identifies jobs that likely run for the same time.
type nameKey struct {
	user   Subject
	prefix string
}

// RunTimes sums up the run times of N like jobs.
type RunTimes struct {
	N        int64
	Sum, Max Duration
}

// Mean is the mean run time.
func (r RunTimes) Mean() Duration { return r.Sum / Duration(max(r.N, 1)) }

// Of returns the run times of a user's jobs whose names have the same prefix.
func (m MeasuredRuns) Of(user Subject, name JobName) (RunTimes, bool) {
	r, ok := m[nameKey{user, prefix(name)}]
	return r, ok
}

// Add counts a job that succeeded after a run time.
func (m MeasuredRuns) Add(user Subject, name JobName, run Duration) {
	if run <= 0 || run > 1<<50 {
		return
	}
	key := nameKey{user, prefix(name)}
	r := m[key]
	m[key] = RunTimes{r.N + 1, r.Sum + run, max(r.Max, run)}
}

// prefix is a job's name without a number at its end: "train-17" and "train-18" are
// the same work.
func prefix(n JobName) string {
	if p := strings.TrimRight(string(n), "0123456789-_.~"); p != "" {
		return p
	}
	return string(n)
}
