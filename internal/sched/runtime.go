package sched

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/cell"
)

// basis is what the expected end of an attempt rests on.
type basis int8

const (
	basisNone basis = iota
	basisLimit
	basisDeclared
	basisMeasured
	basisStop
)

func (b basis) text() string {
	switch b {
	case basisLimit:
		return "the time limit"
	case basisDeclared:
		return "the declared duration"
	case basisMeasured:
		return "the run times of earlier jobs of that name"
	case basisStop:
		return "its stop"
	}
	return "nothing"
}

// span is between when and when an attempt should end; 0 is not known, and why
// says so.
type span struct {
	early, late Time
	basis       basis
	why         string
}

// spanOf judges when an attempt ends: a time limit ends it at the latest, what
// its job declares or how long the same ran before says when it likely does.
func (s *State) spanOf(a *attempt, m Measured) span {
	spec := s.jobs[a.job].spec
	seen, measured := m[MeasuredKey{spec.User, namePrefix(spec.Name)}]
	limit, likely := spec.TimeLimit, spec.Hints.Duration
	out := span{basis: basisDeclared, why: "declares no time limit"}
	if likely == 0 && measured {
		likely, out.basis = seen.Mean(), basisMeasured
	}
	switch {
	case a.state == AttemptUnknown:
		return span{why: "has tasks of which nothing proves whether they still live"}
	case limit > 0:
		out.late, out.basis = s.reaches(a, limit), basisLimit
		out.early = out.late
		if likely > 0 {
			out.early = s.reaches(a, min(likely, limit))
		}
	case likely > 0:
		out.early, out.late = s.reaches(a, likely), s.reaches(a, likely)
		if out.basis == basisMeasured {
			out.late = s.reaches(a, max(likely, seen.Max))
		}
		if out.late < s.now {
			return span{why: "runs longer than expected and declares no time limit"}
		}
	default:
		out.basis = basisNone
		return out
	}
	out.early, out.late = max(out.early, s.now), max(out.late, s.now)
	return out
}

// declaredEnd is when an attempt ends at the latest by what its job declares, and
// what that rests on, or why it is not known.
func (s *State) declaredEnd(a *attempt) (Time, string) {
	b := s.spanOf(a, nil)
	if b.late == 0 {
		return 0, b.why
	}
	return b.late, b.basis.text()
}

// allocEnd is when an allocation is given back by what the jobs of its members
// declare; 0 when that is not known of all.
func (s *State) allocEnd(id cell.AllocID) Time {
	var last Time
	for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
		end, _ := s.declaredEnd(&s.attempts[at])
		if end == 0 {
			return 0
		}
		last = max(last, end)
	}
	return last
}

// Measured are the run times of jobs that ended well, by user and by what their
// names begin with.
type Measured map[MeasuredKey]RunTimes

// MeasuredKey names jobs that are likely to run for the same time.
type MeasuredKey struct {
	User   Subject
	Prefix string
}

// RunTimes sums up the run times of equal jobs.
type RunTimes struct {
	N        int64
	Sum, Max Duration
}

// Mean is the mean run time.
func (r RunTimes) Mean() Duration { return r.Sum / Duration(max(r.N, 1)) }

// Add counts a job that has ended, if it tells how long such a job runs.
func (m Measured) Add(j *JobStatus) {
	run := Duration(j.Ended - j.Started)
	if j.Phase != Succeeded || j.Started == 0 || run <= 0 || run > 1<<50 {
		return
	}
	key := MeasuredKey{j.User, namePrefix(j.Name)}
	r := m[key]
	m[key] = RunTimes{r.N + 1, r.Sum + run, max(r.Max, run)}
}

// namePrefix is a job's name without what counts its runs: "train-17" and
// "train-18" are the same work.
func namePrefix(n JobName) string {
	if p := strings.TrimRight(string(n), "0123456789-_.~"); p != "" {
		return p
	}
	return string(n)
}

// spanText shows a duration in words: "1 h 5 min".
func spanText(d Duration) string {
	switch {
	case d < Second:
		return fmt.Sprintf("%d ms", d/Millisecond)
	case d < Minute:
		return fmt.Sprintf("%d s", (d+Second-1)/Second)
	case d < Hour:
		return fmt.Sprintf("%d min %d s", d/Minute, d%Minute/Second)
	}
	return fmt.Sprintf("%d h %d min", d/Hour, d%Hour/Minute)
}
