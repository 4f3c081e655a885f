package pai

import (
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/sched"
)

// States of a job and of a task, and FrameworkController's own beside them.
const (
	waiting   = "WAITING"
	running   = "RUNNING"
	stopping  = "STOPPING"
	stopped   = "STOPPED"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	unknown   = "UNKNOWN"

	pending   = "AttemptCreationPending"
	requested = "AttemptCreationRequested"
	preparing = "AttemptPreparing"
	runs      = "AttemptRunning"
	deleting  = "AttemptDeleting"
	completed = "Completed"
)

// jobState returns a job's state and substate.
func jobState(j *rest.JobStatus) (state, sub string) {
	switch j.Phase {
	case sched.Succeeded:
		return succeeded, completed
	case sched.Failed:
		return failed, completed
	case sched.Stopped:
		return stopped, completed
	}
	if j.Stopping {
		return stopping, deleting
	}
	n := map[model.AttemptState]int{}
	for i := range j.Attempts {
		n[j.Attempts[i].State]++
	}
	switch {
	case n[model.AttemptRunning]+n[model.AttemptSuspended] > 0:
		return running, runs
	case n[model.AttemptStopping] > 0:
		return running, deleting
	case n[model.AttemptStarting] > 0:
		return waiting, preparing
	case n[model.AttemptUnknown] > 0:
		return unknown, runs
	case n[model.AttemptReserving] > 0:
		return waiting, requested
	}
	return waiting, pending
}

// taskState returns a task's state and that of its attempt.
func taskState(s model.TaskState) (state, attempt string) {
	switch s {
	case model.TaskStarting:
		return waiting, preparing
	case model.TaskRunning, model.TaskSuspended:
		return running, runs
	case model.TaskStopping:
		return stopping, deleting
	case model.TaskIsUnknown:
		return unknown, runs
	case model.TaskSucceeded:
		return succeeded, completed
	case model.TaskFailed:
		return failed, completed
	case model.TaskEnded:
		return stopped, completed
	}
	return waiting, pending
}

// phasesOf returns the phases in which a job of a state may be.
func phasesOf(state string) []sched.Phase {
	switch state {
	case succeeded:
		return []sched.Phase{sched.Succeeded}
	case failed:
		return []sched.Phase{sched.Failed}
	case stopped:
		return []sched.Phase{sched.Stopped}
	case waiting, running, stopping, unknown:
		return []sched.Phase{sched.Waiting, sched.Active}
	}
	return nil
}
