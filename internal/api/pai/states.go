package pai

import (
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// States of jobs and tasks, and the states of FrameworkController that go with them.
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
	case model.Succeeded:
		return succeeded, completed
	case model.Failed:
		return failed, completed
	case model.Stopped:
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

// phasesOf returns the phases that a job in a state can have.
func phasesOf(state string) []model.Phase {
	switch state {
	case succeeded:
		return []model.Phase{model.Succeeded}
	case failed:
		return []model.Phase{model.Failed}
	case stopped:
		return []model.Phase{model.Stopped}
	case waiting, running, stopping, unknown:
		return []model.Phase{model.Waiting, model.Active}
	}
	return nil
}
