package pai

import (
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
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
	n := map[sched.AttemptState]int{}
	for i := range j.Attempts {
		n[j.Attempts[i].State]++
	}
	switch {
	case n[sched.AttemptRunning]+n[sched.AttemptSuspended] > 0:
		return running, runs
	case n[sched.AttemptStopping] > 0:
		return running, deleting
	case n[sched.AttemptStarting] > 0:
		return waiting, preparing
	case n[sched.AttemptUnknown] > 0:
		return unknown, runs
	case n[sched.AttemptReserving] > 0:
		return waiting, requested
	}
	return waiting, pending
}

// taskState returns a task's state and that of its attempt.
func taskState(s sched.TaskState) (state, attempt string) {
	switch s {
	case sched.TaskStarting:
		return waiting, preparing
	case sched.TaskRunning, sched.TaskSuspended:
		return running, runs
	case sched.TaskStopping:
		return stopping, deleting
	case sched.TaskIsUnknown:
		return unknown, runs
	case sched.TaskSucceeded:
		return succeeded, completed
	case sched.TaskFailed:
		return failed, completed
	case sched.TaskEnded:
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

// priorityClass is a job's priority by its name in OpenPAI; "" has none.
func priorityClass(p cell.Priority) string {
	switch p {
	case 120:
		return "crit"
	case 100:
		return "prod"
	case 10:
		return "test"
	case -1:
		return "oppo"
	}
	return ""
}

// Exit codes that the platform gives, FrameworkController's among them.
const (
	codePreempted  = -101
	codeStopped    = -210
	codeCompletion = -220
	codeUnknown    = -310
	codeNodeLost   = -1001
	codeTimeLimit  = -1004
	codeMemory     = -1200
	codeRefused    = -1201
)

// jobExit returns the exit code of a job that has ended; nil of another.
func jobExit(j *rest.JobStatus) *int32 {
	if !j.Phase.Ended() {
		return nil
	}
	code := int32(0)
	switch {
	case j.Phase == sched.Stopped:
		code = codeStopped
	case j.Phase == sched.Failed:
		code = exitCode(j.Exit, j.Cause)
	}
	return &code
}

// taskExit returns the exit code of a task whose attempt ended; nil of another. cause is the attempt's.
func taskExit(t *rest.TaskStatus, cause sched.EndCause) *int32 {
	code := int32(0)
	switch t.State {
	case sched.TaskSucceeded:
	case sched.TaskFailed, sched.TaskEnded:
		code = exitCode(t.Exit, cause)
	default:
		return nil
	}
	return &code
}

// exitCode is that of what did not succeed: the platform's reason comes before the program's own code.
func exitCode(e *rest.Exit, cause sched.EndCause) int32 {
	switch cause {
	case sched.EndPreempted, sched.EndMigrated, sched.EndResized:
		return codePreempted
	case sched.EndStopped, sched.EndEarly, sched.EndNeverAlive:
		return codeStopped
	case sched.EndTimeLimit:
		return codeTimeLimit
	case sched.EndRefused:
		return codeRefused
	}
	if cause == sched.EndCompleted && (e == nil || !e.Own) {
		return codeCompletion
	}
	if e == nil {
		if cause == sched.EndPlatform {
			return codeNodeLost
		}
		return codeUnknown
	}
	switch e.Cause {
	case sched.OutOfMemory:
		return codeMemory
	case sched.SupervisorLost, sched.NodeRebooted, sched.NodeLost:
		return codeNodeLost
	case sched.StartRefused:
		return codeRefused
	case sched.NeverStarted:
		return codeStopped
	case sched.SuspendTimeout:
		return codePreempted
	}
	return e.Code
}

// exitSpec explains an exit code.
type exitSpec struct {
	Code     int32    `json:"code"`
	Phrase   string   `json:"phrase"`
	Issuer   string   `json:"issuer"`
	Causer   string   `json:"causer"`
	Type     string   `json:"type"`
	Stage    string   `json:"stage"`
	Behavior string   `json:"behavior"`
	Reaction string   `json:"reaction"`
	Reason   string   `json:"reason"`
	Repro    []string `json:"repro"`
	Solution []string `json:"solution"`
}

// specs explain the codes that the platform gives.
var specs = map[int32]exitSpec{
	0: {Phrase: "Succeeded", Issuer: "USER_CONTAINER", Causer: "USER_CONTAINER", Type: "USER_SUCCESS", Stage: "COMPLETING", Behavior: "UNKNOWN",
		Reaction: "NEVER_RETRY", Reason: "the program ended with exit code 0"},
	codePreempted: {Phrase: "PodExternalDeleted", Issuer: "PAI_HIVED", Causer: "UNKNOWN", Type: "PLATFORM_FAILURE", Stage: "RUNNING", Behavior: "TRANSIENT",
		Reaction: "ALWAYS_RETRY", Reason: "the scheduler stopped the task for other work", Solution: []string{"nothing: it starts again"}},
	codeStopped: {Phrase: "StopFrameworkRequested", Issuer: "PAI_FC", Causer: "USER_STOP", Type: "USER_STOP", Stage: "UNKNOWN", Behavior: "PERMANENT",
		Reaction: "NEVER_RETRY", Reason: "a user asked to stop the job"},
	codeCompletion: {Phrase: "FrameworkAttemptCompletion", Issuer: "PAI_FC", Causer: "USER_STOP", Type: "USER_STOP", Stage: "UNKNOWN", Behavior: "PERMANENT",
		Reaction: "NEVER_RETRY", Reason: "the job had ended by another of its tasks"},
	codeUnknown: {Phrase: "UnknownFailure", Issuer: "PAI_RUNTIME", Causer: "UNKNOWN", Type: "UNKNOWN_FAILURE", Stage: "UNKNOWN", Behavior: "UNKNOWN",
		Reaction: "RETRY_TO_MAX", Reason: "how the task ended is not known"},
	codeNodeLost: {Phrase: "NodeLost", Issuer: "PAI_RUNTIME", Causer: "PAI_RUNTIME", Type: "PLATFORM_FAILURE", Stage: "RUNNING", Behavior: "TRANSIENT",
		Reaction: "ALWAYS_RETRY", Reason: "the task's node or its supervisor was lost", Solution: []string{"nothing: it starts again"}},
	codeTimeLimit: {Phrase: "DeadlineExceeded", Issuer: "PAI_FC", Causer: "USER_SUBMISSION", Type: "USER_FAILURE", Stage: "RUNNING", Behavior: "PERMANENT",
		Reaction: "NEVER_RETRY", Reason: "the job ran as long as its time limit allows", Solution: []string{"submit it again with a longer time limit"}},
	codeMemory: {Phrase: "OOMKilled", Issuer: "PAI_RUNTIME", Causer: "USER_CONTAINER", Type: "USER_FAILURE", Stage: "RUNNING", Behavior: "PERMANENT",
		Reaction: "NEVER_RETRY", Reason: "the task used more memory than it asked for", Solution: []string{"ask for more memory, or use less"}},
	codeRefused: {Phrase: "ContainerCannotRun", Issuer: "PAI_RUNTIME", Causer: "PAI_RUNTIME", Type: "PLATFORM_FAILURE", Stage: "LAUNCHING", Behavior: "UNKNOWN",
		Reaction: "ALWAYS_RETRY", Reason: "the node could not start the task"},
}

// specOf explains an exit code; nil of none. message is what is known beyond it.
func specOf(code *int32, message string) *exitSpec {
	if code == nil {
		return nil
	}
	s, known := specs[*code]
	if !known {
		s = exitSpec{Phrase: "FailedByUser", Issuer: "USER_CONTAINER", Causer: "USER_CONTAINER", Type: "USER_FAILURE", Stage: "RUNNING", Behavior: "UNKNOWN",
			Reaction: "RETRY_TO_MAX", Reason: "the program ended with an exit code of its own", Solution: []string{"read its log"}}
		if *code > 128 && *code <= 192 {
			s.Phrase, s.Reason = "KilledBySignal", "a signal ended the program"
		}
	}
	if message != "" {
		s.Reason = message
	}
	s.Code, s.Repro, s.Solution = *code, list(s.Repro), list(s.Solution)
	return &s
}
