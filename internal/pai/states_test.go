package pai

import (
	"testing"

	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

func TestStatesOfJobs(t *testing.T) {
	one := func(s sched.AttemptState) []rest.AttemptStatus { return []rest.AttemptStatus{{State: s}} }
	for name, c := range map[string]struct {
		job        rest.JobStatus
		state, sub string
		exit       int32 // 1 is none
	}{
		"waits":            {rest.JobStatus{Phase: sched.Waiting}, "WAITING", "AttemptCreationPending", 1},
		"promised":         {rest.JobStatus{Phase: sched.Waiting, Attempts: one(sched.AttemptReserving)}, "WAITING", "AttemptCreationRequested", 1},
		"starts":           {rest.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptStarting)}, "WAITING", "AttemptPreparing", 1},
		"runs":             {rest.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptRunning)}, "RUNNING", "AttemptRunning", 1},
		"suspended":        {rest.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptSuspended)}, "RUNNING", "AttemptRunning", 1},
		"is preempted":     {rest.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptStopping)}, "RUNNING", "AttemptDeleting", 1},
		"node lost":        {rest.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptUnknown)}, "UNKNOWN", "AttemptRunning", 1},
		"is stopped":       {rest.JobStatus{Phase: sched.Active, Stopping: true, Attempts: one(sched.AttemptStopping)}, "STOPPING", "AttemptDeleting", 1},
		"succeeded":        {rest.JobStatus{Phase: sched.Succeeded, Cause: sched.EndSucceeded}, "SUCCEEDED", "Completed", 0},
		"stopped":          {rest.JobStatus{Phase: sched.Stopped, Cause: sched.EndStopped}, "STOPPED", "Completed", -210},
		"failed":           {rest.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed, Exit: &rest.Exit{Code: 7}}, "FAILED", "Completed", 7},
		"out of memory":    {rest.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed, Exit: &rest.Exit{Code: 137, Cause: sched.OutOfMemory}}, "FAILED", "Completed", -1200},
		"time is over":     {rest.JobStatus{Phase: sched.Failed, Cause: sched.EndTimeLimit}, "FAILED", "Completed", -1004},
		"lost for good":    {rest.JobStatus{Phase: sched.Failed, Cause: sched.EndPlatform}, "FAILED", "Completed", -1001},
		"nothing is known": {rest.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed}, "FAILED", "Completed", -310},
	} {
		state, sub := jobState(&c.job)
		exit := int32(1)
		if e := jobExit(&c.job); e != nil {
			exit = *e
		}
		if state != c.state || sub != c.sub || exit != c.exit {
			t.Errorf("%s: %s, %s, %d; want %s, %s, %d", name, state, sub, exit, c.state, c.sub, c.exit)
		}
		found := false
		for _, p := range phasesOf(state) {
			found = found || p == c.job.Phase
		}
		if !found {
			t.Errorf("%s: a list of jobs that are %s does not look at %s", name, state, c.job.Phase)
		}
	}
}

func TestStatesOfTasks(t *testing.T) {
	for _, c := range []struct {
		state          sched.TaskState
		exit           *rest.Exit
		cause          sched.EndCause
		name, attempt  string
		code           int32 // 1 is none
		phrase, reacts string
	}{
		{sched.TaskWaiting, nil, 0, "WAITING", "AttemptCreationPending", 1, "", ""},
		{sched.TaskStarting, nil, 0, "WAITING", "AttemptPreparing", 1, "", ""},
		{sched.TaskRunning, nil, 0, "RUNNING", "AttemptRunning", 1, "", ""},
		{sched.TaskSuspended, nil, 0, "RUNNING", "AttemptRunning", 1, "", ""},
		{sched.TaskStopping, nil, sched.EndStopped, "STOPPING", "AttemptDeleting", 1, "", ""},
		{sched.TaskIsUnknown, nil, 0, "UNKNOWN", "AttemptRunning", 1, "", ""},
		{sched.TaskSucceeded, &rest.Exit{}, sched.EndSucceeded, "SUCCEEDED", "Completed", 0, "Succeeded", "NEVER_RETRY"},
		{sched.TaskFailed, &rest.Exit{Code: 3}, sched.EndFailed, "FAILED", "Completed", 3, "FailedByUser", "RETRY_TO_MAX"},
		{sched.TaskFailed, &rest.Exit{Code: 139, Signal: 11}, sched.EndFailed, "FAILED", "Completed", 139, "KilledBySignal", "RETRY_TO_MAX"},
		{sched.TaskEnded, &rest.Exit{Code: 143}, sched.EndPreempted, "STOPPED", "Completed", -101, "PodExternalDeleted", "ALWAYS_RETRY"},
		{sched.TaskEnded, &rest.Exit{Code: 143}, sched.EndStopped, "STOPPED", "Completed", -210, "StopFrameworkRequested", "NEVER_RETRY"},
		{sched.TaskEnded, &rest.Exit{Code: 143}, sched.EndCompleted, "STOPPED", "Completed", -220, "FrameworkAttemptCompletion", "NEVER_RETRY"},
		{sched.TaskFailed, &rest.Exit{Code: 137, Cause: sched.NodeLost}, sched.EndPlatform, "FAILED", "Completed", -1001, "NodeLost", "ALWAYS_RETRY"},
		{sched.TaskFailed, &rest.Exit{Cause: sched.StartRefused}, sched.EndRefused, "FAILED", "Completed", -1201, "ContainerCannotRun", "ALWAYS_RETRY"},
	} {
		name, attempt := taskState(c.state)
		code := taskExit(&rest.TaskStatus{State: c.state, Exit: c.exit}, c.cause)
		spec := specOf(code, "")
		if spec == nil {
			spec = &exitSpec{Code: 1}
		}
		if name != c.name || attempt != c.attempt || spec.Code != c.code || spec.Phrase != c.phrase || spec.Reaction != c.reacts {
			t.Errorf("%v: %s, %s, %+v", c.state, name, attempt, spec)
		}
	}
}
