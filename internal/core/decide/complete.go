package decide

import (
	"fmt"

	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// complete applies the completion policies of a job's roles (FrameworkController): enough
// failures fail the job's attempt, enough successes complete it. If all tasks ended without
// either, it succeeded. It fails once its time limit has passed.
func (s *Pass) complete(slot int32) {
	j := &s.Jobs[slot]
	if e, over := s.overTime(j); over {
		s.emit(e)
		return
	}
	type ends struct{ failed, succeeded int32 }
	var room [4]ends // of most jobs' roles
	roles := append(room[:0], make([]ends, len(j.Spec.Roles))...)
	done := true
	var good *tables.TaskRun
	for o := range j.Tasks {
		t := &j.Tasks[o]
		switch {
		case t.State == model.TaskSucceeded && s.final(j, t):
			good = t
			if roles[t.Role].succeeded++; atLeast(roles[t.Role].succeeded, j.Spec.Roles[t.Role].MinSucceeded) {
				s.emit(model.JobCompleting{Job: j.ID, Phase: model.Succeeded, Cause: model.EndSucceeded,
					Exit: *t.Exit, Task: int32(o),
					Message: doneMessage(j)})
				return
			}
		case t.State == model.TaskFailed && s.final(j, t):
			if roles[t.Role].failed++; atLeast(roles[t.Role].failed, j.Spec.Roles[t.Role].MinFailed) {
				s.emit(s.failedBy(j))
				return
			}
		case s.stoppedExtra(j, t): // its minimum is over
		default:
			done = false
		}
	}
	if done {
		e := model.JobCompleting{Job: j.ID, Phase: model.Succeeded, Cause: model.EndSucceeded, Task: tables.None,
			Message: doneMessage(j)}
		if good != nil {
			e.Exit = *good.Exit
		}
		s.emit(e)
	}
}

// firstFailure returns the first failed task that counts, of roles with enough failures. Exits
// that were reported together are ordered by their own times, since other tasks fail once one
// is gone.
func firstFailure(j *tables.Job, counts func(*tables.TaskRun) bool) int32 {
	failed := make([]int32, len(j.Spec.Roles))
	for o := range j.Tasks {
		if t := &j.Tasks[o]; counts(t) {
			failed[t.Role]++
		}
	}
	first := int32(tables.None)
	for o := range j.Tasks {
		t := &j.Tasks[o]
		if !counts(t) || !atLeast(failed[t.Role], j.Spec.Roles[t.Role].MinFailed) {
			continue
		}
		if first == tables.None || t.Exit.At < j.Tasks[first].Exit.At {
			first = int32(o)
		}
	}
	return first
}

// atLeast compares a count with a policy; a policy below 1 is disabled.
func atLeast(n, policy int32) bool { return policy >= 1 && n >= policy }

// final reports whether a task's end counts: the task is not retried by itself, and its gang
// does not run again because of the platform or another member.
func (s *Pass) final(j *tables.Job, t *tables.TaskRun) bool {
	g := &j.Gangs[t.Gang]
	if g.Attempt != tables.None {
		a := &s.Attempts[g.Attempt]
		if a.Refused || a.Platform || a.Cause.Resumes() {
			return false
		}
	} else if g.Last != nil && !ownEnd(g.Last.Cause) {
		return false
	}
	_, again := s.taskRetry(j, t)
	return t.State == model.TaskSucceeded || !again
}

// ownEnd reports whether an attempt ended because its tasks did.
func ownEnd(c model.EndCause) bool {
	return c == model.EndSucceeded || c == model.EndFailed || c == model.EndCompleted
}

// taskRetry says whether a failed task of an incremental job runs again, and how.
func (s *Pass) taskRetry(j *tables.Job, t *tables.TaskRun) (e model.TaskRetried, again bool) {
	role, g := &j.Spec.Roles[t.Role], &j.Gangs[t.Gang]
	if len(j.Spec.Gangs[t.Gang].Tasks) > 1 || role.TaskRetries == 0 || t.State != model.TaskFailed {
		return e, false
	}
	v := exit.Judge(t.Exit.Seen())
	e = model.TaskRetried{Job: j.ID, Gang: t.Gang, After: s.Now.Add(backOff(max(g.Retries, g.FaultsInARow())))}
	if v.Retry == exit.Delayed {
		e.After = s.Now.Add(model.Duration(exit.Delay(int64(j.ID)+int64(t.Gang)<<32, g.N)) * model.Second)
	}
	e.Counted = !v.Uncounted(g.UncountedRetries)
	return e, !e.Counted || v.Retry != exit.Never && (role.TaskRetries < 0 || g.Retries < role.TaskRetries)
}

// failedBy says that a job fails, and by which task.
func (s *Pass) failedBy(j *tables.Job) model.JobCompleting {
	ordinal := firstFailure(j, func(t *tables.TaskRun) bool { return t.State == model.TaskFailed && s.final(j, t) })
	t := &j.Tasks[ordinal]
	return model.JobCompleting{Job: j.ID, Phase: model.Failed, Cause: model.EndFailed, Exit: *t.Exit, Task: ordinal,
		Message: exit.Words(j.Spec.Roles[t.Role].Name, t.Index, t.Exit.Seen())}
}

// overTime reports whether an attempt of the job ran longer than its limit.
func (s *Pass) overTime(j *tables.Job) (model.JobCompleting, bool) {
	if j.Spec.TimeLimit == 0 {
		return model.JobCompleting{}, false
	}
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].Started > 0 && s.Attempts[at].Alive > 0 &&
			s.RanFor(&s.Attempts[at]) >= j.Spec.TimeLimit {
			msg := fmt.Sprintf("it ran longer than its time limit of %d s", j.Spec.TimeLimit/model.Second)
			return model.JobCompleting{Job: j.ID, Phase: model.Failed, Cause: model.EndTimeLimit, Task: tables.None,
				Message: msg}, true
		}
	}
	return model.JobCompleting{}, false
}

// retryJob reports whether a job whose attempt completed runs again, depending on its exit.
// With Retries -2 it always does, even after success.
func (s *Pass) retryJob(j *tables.Job) (model.JobRetried, bool) {
	c := j.Completing
	e := model.JobRetried{Job: j.ID, Message: c.Message}
	if c.Cause == model.EndTimeLimit || c.Cause == model.EndEarly {
		return e, false
	}
	e.After = s.Now.Add(backOff(j.Retry))
	if j.Spec.Retries == -2 {
		e.Counted = true
		return e, true
	}
	if c.Phase != model.Failed || s.permanent(j, c.Exit) {
		return e, false
	}
	v := exit.Judge(c.Exit.Seen())
	if v.Retry == exit.Delayed {
		e.After = s.Now.Add(model.Duration(exit.Delay(int64(j.ID), j.Retry)) * model.Second)
	}
	e.Counted = !v.Uncounted(j.Retry - j.Counted)
	return e, !e.Counted || v.Retry != exit.Never && (j.Spec.Retries == -1 || j.Counted < j.Spec.Retries)
}

// permanent reports whether the policy says that no retry will mend a failure.
func (s *Pass) permanent(j *tables.Job, x model.Exit) bool {
	p, ok := s.Policies[j.Space].(model.FailureJudge)
	if !ok {
		return false
	}
	was := s.EnterPolicy(j.Space)
	permanent := p.Permanent(x)
	s.EnterPolicy(was)
	return permanent
}

// backOff doubles from one second up to MaxBackOff.
func backOff(times int32) model.Duration {
	return min(model.Second<<min(times, 20), tables.MaxBackOff)
}

// retryGangs lets gangs whose attempt ended without an outcome wait again.
func (s *Pass) retryGangs(slot int32) {
	j := &s.Jobs[slot]
	if j.Stop || j.Completing != nil {
		return
	}
	for g := range j.Gangs {
		gg := &j.Gangs[g]
		if !gg.Done || gg.Last == nil {
			continue
		}
		e := model.TaskRetried{Job: j.ID, Gang: int32(g)}
		task, again := s.taskRetry(j, &j.Tasks[j.Spec.Gangs[g].Tasks[0]])
		switch {
		case gg.Last.Cause == model.EndRefused:
			s.avoidRefusing(j, int32(g))
		case gg.Last.Cause == model.EndPlatform:
			e.After = s.Now.Add(backOff(gg.FaultsInARow()))
		case gg.Last.Cause == model.EndFailed && again:
			e = task
		case s.endedWithMinimum(j, int32(g)):
		case ownEnd(gg.Last.Cause):
			continue
		}
		s.emit(e)
		j = &s.Jobs[slot]
	}
}

// avoidRefusing keeps a gang off nodes that just refused it: 10 s, doubling up to 10 minutes.
func (s *Pass) avoidRefusing(j *tables.Job, g int32) {
	for _, o := range j.Spec.Gangs[g].Tasks {
		t := &j.Tasks[o]
		if t.Exit == nil || t.Exit.Cause != model.StartRefused {
			continue
		}
		was := j.Gangs[g].Avoidance(t.Place.Node)
		d := min(10*model.Second<<min(was.Times, 10), 10*model.Minute)
		if until := s.Now.Add(d); was.Until < until {
			s.emit(model.NodeAvoided{Job: j.ID, Gang: g, Node: t.Place.Node, Until: until})
		}
	}
}

// What exit code 0 means after a stop. Most programs that save on SIGTERM end with 0, as do
// those that have just finished. What their job declares, and what they reported, tells them
// apart.

// savedOnly reports whether a task that ends now after a stop has work left despite exit code
// 0: its reported steps are not all done or, if it reports none, its job keeps checkpoints.
func savedOnly(s *tables.Tables, f model.TaskExited) bool {
	a := s.Live(f.Attempt)
	hints := &s.Jobs[a.Job].Spec.Hints
	if !a.Cause.Resumes() || f.Exit.Own || !f.Exit.Zero() || hints.ExitZeroMeansDone {
		return false
	}
	t := s.Task(a, f.Task)
	if t.AnnouncesSteps() {
		return !t.DidAll(a)
	}
	return hints.Checkpoint
}

// zeroMeans says for users what the exit codes 0 of a stopped attempt's tasks meant; "" if
// there were none.
func zeroMeans(s *tables.Tables, a *tables.Attempt, cause model.EndCause) string {
	if !a.Cause.Resumes() {
		return ""
	}
	j := &s.Jobs[a.Job]
	saved, done := false, false
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if x := j.Tasks[o].Exit; x.Zero() && !x.Own {
			saved, done = saved || x.Saved, true
		}
	}
	switch hints := &j.Spec.Hints; {
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

// allCounted reports whether all tasks of an attempt reported that all their steps are done.
func allCounted(j *tables.Job, a *tables.Attempt) bool {
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if !j.Tasks[o].DidAll(a) {
			return false
		}
	}
	return true
}

// doneMessage is the message for a job that succeeded by tasks that were told to stop; "" for
// others.
func doneMessage(j *tables.Job) string {
	for g := range j.Gangs {
		gg := &j.Gangs[g]
		if last := gg.Last; gg.Attempt == tables.None && last != nil && last.Cause == model.EndSucceeded &&
			last.Told > 0 {
			return last.Message
		}
	}
	return ""
}
