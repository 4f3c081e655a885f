package sched

import (
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/habit"
)

// span is between when and when an attempt should end; 0 is not known, and why
// says so. soon is what the early end rests on, basis the late one.
type span struct {
	early, late Time
	soon, basis habit.Basis
	open        bool // only its limit is known: it may end at any time before
	why         string
}

// spanOf judges when an attempt ends: a time limit ends it at the latest; what its tasks report, else what
// its job declares or how long the same ran before, says when it likely does. reported is what byReports says;
// 0 leaves that out.
func (s *State) spanOf(a *attempt, m Measured, reported Duration) span {
	spec := s.jobs[a.job].spec
	seen, measured := m.Of(spec.User, spec.Name)
	limit, likely, overdue := spec.TimeLimit, spec.Hints.Duration, "runs longer than expected"
	out := span{basis: habit.ByDeclared}
	if reported > 0 {
		likely, out.basis, overdue = reported, habit.ByReported, "runs on after the time that its reported steps need"
	} else if likely == 0 && measured {
		likely, out.basis = seen.Mean(), habit.ByMeasured
	}
	if spec.Hints.Checkpoint && reported == 0 && likely > 0 { // what earlier attempts did is saved
		likely = max(likely-s.jobs[a.job].gangs[a.id.Gang].ran, 1)
	}
	out.soon = out.basis
	switch {
	case a.state == AttemptUnknown:
		return span{why: "has tasks of which nothing proves whether they still live"}
	case limit > 0:
		out.late, out.basis = s.reaches(a, limit), habit.ByLimit
		if out.open = likely == 0; out.open || likely >= limit {
			likely, out.soon = limit, habit.ByLimit
		}
		out.early = s.reaches(a, likely)
	case likely > 0:
		out.early, out.late = s.reaches(a, likely), s.reaches(a, likely)
		if out.basis == habit.ByMeasured {
			out.late = s.reaches(a, max(likely, seen.Max))
		}
		if out.late < s.now {
			return span{why: overdue + " and declares no time limit"}
		}
	default:
		return span{why: "declares no time limit"}
	}
	out.early, out.late = max(out.early, s.now), max(out.late, s.now)
	return out
}

// byReports is for how long an attempt will have run when each of its tasks has done the steps that it announced,
// at the mean rate since its first report; 0 where none said enough. A task that has reported once
// is taken to have begun with no step done when its attempt started, if that is the gang's first.
func byReports(s *State, a *attempt) (total Duration) {
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		p := j.tasks[o].progress
		if a.started == 0 || p == nil || p.Total <= 0 || p.StepAt < a.started {
			continue
		}
		from, since := p.From, p.FromAt
		if since < a.started || p.Step <= from {
			if j.gangs[a.id.Gang].ran > 0 {
				continue
			}
			from, since = 0, a.started
		}
		later := s.ranSince(a, p.StepAt)
		took := s.ranSince(a, since) - later
		if took > 0 && p.Step > from {
			total = max(total, s.ranFor(a)-later+habit.Portion(took, max(p.Total-p.Step, 0), p.Step-from))
		}
	}
	return total
}

// jobOutlook is how far a job is that runs or is being stopped, and when the last of its gangs ends; nil where
// nothing is known.
func (s *State) jobOutlook(j *job) *JobOutlook {
	out := JobOutlook{}
	var done, told int64
	for i := range j.tasks {
		if p := j.tasks[i].progress; p != nil && p.Total > 0 {
			done, told, out.At = done+int64(habit.Portion(1000, max(min(p.Step, p.Total), 0), p.Total)), told+1, max(out.At, p.StepAt)
		}
	}
	out.Done = int32(done / max(told, 1))
	known := true
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || s.attempts[at].state == AttemptReserving {
			known = known && j.gangs[g].done // it has still to run
			continue
		}
		end := attemptEnd(s, &s.attempts[at])
		if known = known && end.Ends > 0; end.Ends == 0 || end.Ends >= out.Ends {
			out.Ends, out.Last, out.Basis = end.Ends, end.Last, end.Basis
		}
	}
	if !known {
		out.Ends, out.Last = 0, false
	}
	if out == (JobOutlook{}) {
		return nil
	}
	return &out
}

// attemptEnd is when an attempt ends, as its span or its stop says.
func attemptEnd(s *State, a *attempt) JobOutlook {
	if a.state == AttemptStopping {
		return JobOutlook{Ends: a.told.Add(s.jobs[a.job].spec.Grace), Last: true, Basis: "the grace of its stop"}
	}
	b := s.spanOf(a, nil, byReports(s, a))
	if b.late == 0 {
		return JobOutlook{Basis: "it " + b.why}
	}
	if b.early <= s.now { // later than was thought: only the limit is known
		b.early, b.soon = b.late, b.basis
	}
	return JobOutlook{Ends: b.early, Last: b.soon == habit.ByLimit, Basis: b.soon.Text()}
}

// allocEnd is when an allocation is given back by what the jobs of its members
// declare; 0 when that is not known of all.
func (s *State) allocEnd(id cell.AllocID) Time {
	var last Time
	for at := s.byAlloc[id]; at != none; at = s.attempts[at].mate {
		end := s.spanOf(&s.attempts[at], nil, 0).late
		if end == 0 {
			return 0
		}
		last = max(last, end)
	}
	return last
}
