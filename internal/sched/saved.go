package sched

// What the exit code 0 of a task means that was told to make room. Most programs that save on
// SIGTERM end with 0 then, as those do that have just done their last step: what their job says of
// itself, and what they reported, tells them apart.

// savedOnly reports whether a task that ends now has work left although its exit code is 0: it was
// told to make room, and either its reported steps are not all done, or its job keeps checkpoints
// and nothing says that it is done.
func savedOnly(s *State, f TaskExited) bool {
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

// zero reports whether a task's program ended with 0.
func (x *Exit) zero() bool { return x != nil && x.Code == 0 && x.Cause == "" }

// counts reports whether a task announced how many steps it has.
func (t *taskRun) counts() bool { return t.progress != nil && t.progress.Total > 0 }

// didAll reports whether an attempt of a task reported the last of its steps.
func (t *taskRun) didAll(a *attempt) bool {
	return t.counts() && t.progress.Step >= t.progress.Total && t.progress.StepAt >= a.started
}

// finished reports whether a task that was asked to make room had done all its work
// when it ended: with code 0, and not before the last step that it announced.
func (t *taskRun) finished(a *attempt, x *Exit, hints *Hints) bool {
	return x.zero() && !x.Saved && (hints.ExitZeroMeansDone || !t.counts() || t.didAll(a))
}

// settleSaved looks at a gang that was told to make room and of which the last task has ended. In
// many gangs one task reports for all: when all ended with 0, and each that announced its steps has
// done them, those that announced none are done, too. That is known only now, since facts of
// several tasks come in any order.
func settleSaved(s *State, a *attempt) {
	j := &s.jobs[a.job]
	tasks := j.spec.Gangs[a.id.Gang].Tasks
	did := false
	for _, o := range tasks {
		t := &j.tasks[o]
		if !t.exit.zero() || t.counts() && !t.didAll(a) {
			return
		}
		did = did || t.counts()
	}
	for _, o := range tasks {
		if t := &j.tasks[o]; did && t.exit.Saved {
			t.state = TaskSucceeded
		}
	}
}

// zeroMeans says what the exit codes 0 of an attempt's tasks meant that was told to make room; ""
// where none ended so.
func zeroMeans(s *State, a *attempt, cause EndCause) string {
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
	case cause == EndSucceeded && done && !hints.Checkpoint && !hints.ExitZeroMeansDone && !allCounted(j, a):
		return "told to make room, it ended with exit code 0: that counts as done, since checkpoint is off"
	case cause == EndSucceeded && done:
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
		if gg := &j.gangs[g]; gg.attempt == none && gg.last != nil && gg.last.Cause == EndSucceeded && gg.last.Told > 0 {
			return gg.last.Message
		}
	}
	return ""
}
