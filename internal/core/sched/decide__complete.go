package sched

import (
	"fmt"

	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// complete applies the completion policies of a job's roles (FrameworkController):
// enough failures fail the job's attempt, enough successes end it well, and when
// all tasks ended without either, it succeeded. A time limit that has passed
// fails it.
func (s *pass) complete(slot int32) {
	j := &s.jobs[slot]
	if e, over := s.overTime(j); over {
		s.emit(e)
		return
	}
	type ends struct{ failed, succeeded int32 }
	var room [4]ends // of most jobs' roles
	roles := append(room[:0], make([]ends, len(j.spec.Roles))...)
	done := true
	var good *taskRun
	for o := range j.tasks {
		t := &j.tasks[o]
		switch {
		case t.state == model.TaskSucceeded && s.final(j, t):
			good = t
			if roles[t.role].succeeded++; atLeast(roles[t.role].succeeded, j.spec.Roles[t.role].MinSucceeded) {
				s.emit(JobCompleting{Job: j.id, Phase: Succeeded, Cause: model.EndSucceeded, Exit: *t.exit, Task: int32(o),
					Message: doneMessage(j)})
				return
			}
		case t.state == model.TaskFailed && s.final(j, t):
			if roles[t.role].failed++; atLeast(roles[t.role].failed, j.spec.Roles[t.role].MinFailed) {
				s.emit(s.failedBy(j))
				return
			}
		case s.stoppedExtra(j, t): // its minimum is over without it
		default:
			done = false
		}
	}
	if done {
		e := JobCompleting{Job: j.id, Phase: Succeeded, Cause: model.EndSucceeded, Task: none, Message: doneMessage(j)}
		if good != nil {
			e.Exit = *good.exit
		}
		s.emit(e)
	}
}

// firstFailure returns the task that failed first of those that count, of roles of which enough
// failed. Of tasks whose ends came together it is told by when these were: others fail when one is
// gone.
func firstFailure(j *job, counts func(*taskRun) bool) int32 {
	failed := make([]int32, len(j.spec.Roles))
	for o := range j.tasks {
		if t := &j.tasks[o]; counts(t) {
			failed[t.role]++
		}
	}
	first := int32(none)
	for o := range j.tasks {
		t := &j.tasks[o]
		if !counts(t) || !atLeast(failed[t.role], j.spec.Roles[t.role].MinFailed) {
			continue
		}
		if first == none || t.exit.At < j.tasks[first].exit.At {
			first = int32(o)
		}
	}
	return first
}

// atLeast compares a count with a policy; a policy below 1 is disabled.
func atLeast(n, policy int32) bool { return policy >= 1 && n >= policy }

// final reports whether a task's end counts: it will not be retried by itself,
// and no other member's trouble makes its gang run again.
func (s *pass) final(j *job, t *taskRun) bool {
	g := &j.gangs[t.gang]
	if g.attempt != none {
		a := &s.attempts[g.attempt]
		if a.refused || a.platform || a.cause.Resumes() {
			return false
		}
	} else if g.last != nil && !ownEnd(g.last.Cause) {
		return false
	}
	_, again := s.taskRetry(j, t)
	return t.state == model.TaskSucceeded || !again
}

// ownEnd reports whether an attempt ended by its tasks' own doing.
func ownEnd(c model.EndCause) bool {
	return c == model.EndSucceeded || c == model.EndFailed || c == model.EndCompleted
}

// taskRetry says whether a failed task of an incremental job runs again, and how.
func (s *pass) taskRetry(j *job, t *taskRun) (e TaskRetried, again bool) {
	role, g := &j.spec.Roles[t.role], &j.gangs[t.gang]
	if len(j.spec.Gangs[t.gang].Tasks) > 1 || role.TaskRetries == 0 || t.state != model.TaskFailed {
		return e, false
	}
	v := exit.Judge(t.exit.Seen())
	e = TaskRetried{Job: j.id, Gang: t.gang, After: s.now.Add(backOff(max(g.retries, g.faultsInARow())))}
	if v.Retry == exit.Delayed {
		e.After = s.now.Add(model.Duration(exit.Delay(int64(j.id)+int64(t.gang)<<32, g.n)) * model.Second)
	}
	e.Counted = !v.Free(g.free)
	return e, !e.Counted || v.Retry != exit.Never && (role.TaskRetries < 0 || g.retries < role.TaskRetries)
}

// failedBy says that a job fails, and by which task.
func (s *pass) failedBy(j *job) JobCompleting {
	ordinal := firstFailure(j, func(t *taskRun) bool { return t.state == model.TaskFailed && s.final(j, t) })
	t := &j.tasks[ordinal]
	return JobCompleting{Job: j.id, Phase: Failed, Cause: model.EndFailed, Exit: *t.exit, Task: ordinal, Message: exit.Words(j.spec.Roles[t.role].Name, t.index, t.exit.Seen())}
}

// overTime reports whether an attempt of the job ran longer than its limit.
func (s *pass) overTime(j *job) (JobCompleting, bool) {
	if j.spec.TimeLimit == 0 {
		return JobCompleting{}, false
	}
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none && s.attempts[at].started > 0 && s.attempts[at].alive > 0 && s.ranFor(&s.attempts[at]) >= j.spec.TimeLimit {
			msg := fmt.Sprintf("it ran longer than its time limit of %d s", j.spec.TimeLimit/model.Second)
			return JobCompleting{Job: j.id, Phase: Failed, Cause: model.EndTimeLimit, Task: none, Message: msg}, true
		}
	}
	return JobCompleting{}, false
}

// retryJob says whether a job whose attempt completed runs again, by what its exit means. Retries
// of -2 means for ever, even after success, without any classification.
func (s *pass) retryJob(j *job) (JobRetried, bool) {
	c := j.completing
	e := JobRetried{Job: j.id, Message: c.Message}
	if c.Cause == model.EndTimeLimit || c.Cause == model.EndEarly {
		return e, false
	}
	e.After = s.now.Add(backOff(j.retry))
	if j.spec.Retries == -2 {
		e.Counted = true
		return e, true
	}
	if c.Phase != Failed || s.permanent(j, c.Exit) {
		return e, false
	}
	v := exit.Judge(c.Exit.Seen())
	if v.Retry == exit.Delayed {
		e.After = s.now.Add(model.Duration(exit.Delay(int64(j.id), j.retry)) * model.Second)
	}
	e.Counted = !v.Free(j.retry - j.counted)
	return e, !e.Counted || v.Retry != exit.Never && (j.spec.Retries == -1 || j.counted < j.spec.Retries)
}

// permanent reports whether the policy of a job's VC knows that no retry mends a failure.
func (s *pass) permanent(j *job, x Exit) bool {
	p, ok := s.pol[j.space].(Judge)
	if !ok {
		return false
	}
	was := s.ask(j.space)
	permanent := p.Permanent(x)
	s.ask(was)
	return permanent
}

// backOff grows from one second to five minutes.
func backOff(times int32) model.Duration {
	return min(model.Second<<min(times, 20), maxBackOff)
}

// retryGangs lets gangs whose attempt ended without an outcome wait again.
func (s *pass) retryGangs(slot int32) {
	j := &s.jobs[slot]
	if j.stop || j.completing != nil {
		return
	}
	for g := range j.gangs {
		gg := &j.gangs[g]
		if !gg.done || gg.last == nil {
			continue
		}
		e := TaskRetried{Job: j.id, Gang: int32(g)}
		task, again := s.taskRetry(j, &j.tasks[j.spec.Gangs[g].Tasks[0]])
		switch {
		case gg.last.Cause == model.EndRefused:
			s.avoidRefusing(j, int32(g))
		case gg.last.Cause == model.EndPlatform:
			e.After = s.now.Add(backOff(gg.faultsInARow()))
		case gg.last.Cause == model.EndFailed && again:
			e = task
		case s.endedWithMinimum(j, int32(g)):
		case ownEnd(gg.last.Cause):
			continue
		}
		s.emit(e)
		j = &s.jobs[slot]
	}
}

// avoidRefusing keeps a gang off the nodes that just refused it: 10 s, doubling
// up to 10 minutes.
func (s *pass) avoidRefusing(j *job, g int32) {
	for _, o := range j.spec.Gangs[g].Tasks {
		t := &j.tasks[o]
		if t.exit == nil || t.exit.Cause != StartRefused {
			continue
		}
		was := j.gangs[g].avoidance(t.place.Node)
		d := min(10*model.Second<<min(was.Times, 10), 10*model.Minute)
		if until := s.now.Add(d); was.Until < until {
			s.emit(NodeAvoided{Job: j.id, Gang: g, Node: t.place.Node, Until: until})
		}
	}
}

// What the exit code 0 of a task means that was told to make room. Most programs that save on
// SIGTERM end with 0 then, as those do that have just done their last step: what their job says of
// itself, and what they reported, tells them apart.

// savedOnly reports whether a task that ends now has work left although its exit code is 0: it was
// told to make room, and either its reported steps are not all done, or its job keeps checkpoints
// and nothing says that it is done.
func savedOnly(s *tables, f TaskExited) bool {
	a := s.live(f.Attempt)
	hints := &s.jobs[a.job].spec.Hints
	if !a.cause.Resumes() || f.Exit.Own || !f.Exit.zero() || hints.ExitZeroMeansDone {
		return false
	}
	t := s.task(a, f.Task)
	if t.counts() {
		return !t.didAll(a)
	}
	return hints.Checkpoint
}

// zeroMeans says what the exit codes 0 of an attempt's tasks meant that was told to make room; ""
// where none ended so.
func zeroMeans(s *tables, a *attempt, cause model.EndCause) string {
	if !a.cause.Resumes() {
		return ""
	}
	j := &s.jobs[a.job]
	saved, done := false, false
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if x := j.tasks[o].exit; x.zero() && !x.Own {
			saved, done = saved || x.Saved, true
		}
	}
	switch hints := &j.spec.Hints; {
	case cause == model.EndSucceeded && done && !hints.Checkpoint && !hints.ExitZeroMeansDone && !allCounted(j, a):
		return "told to make room, it ended with exit code 0: that counts as done, since checkpoint is off"
	case cause == model.EndSucceeded && done:
		return "told to make room, it ended with exit code 0 and had done its work"
	case cause.Resumes() && saved && hints.Checkpoint:
		return "told to make room, it ended with exit code 0: it has saved its work and goes on later, " +
			"since checkpoint is on"
	case cause.Resumes() && saved:
		return "told to make room, it ended with exit code 0 before the last of its steps: it goes on later"
	}
	return ""
}

// allCounted reports whether each task of an attempt reported that it has done all its steps.
func allCounted(j *job, a *attempt) bool {
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if !j.tasks[o].didAll(a) {
			return false
		}
	}
	return true
}

// doneMessage is what is said of a job that has succeeded by tasks which were told to make room; ""
// for others.
func doneMessage(j *job) string {
	for g := range j.gangs {
		gg := &j.gangs[g]
		if last := gg.last; gg.attempt == none && last != nil && last.Cause == model.EndSucceeded && last.Told > 0 {
			return last.Message
		}
	}
	return ""
}
