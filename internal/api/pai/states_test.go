package pai

import (
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/sched"
)

func TestStatesOfJobs(t *testing.T) {
	one := func(s sched.AttemptState) []sched.AttemptStatus { return []sched.AttemptStatus{{State: s}} }
	for name, c := range map[string]struct {
		job        sched.JobStatus
		state, sub string
		exit       int32 // 1 is none
	}{
		"waits":            {sched.JobStatus{Phase: sched.Waiting}, "WAITING", "AttemptCreationPending", 1},
		"promised":         {sched.JobStatus{Phase: sched.Waiting, Attempts: one(sched.AttemptReserving)}, "WAITING", "AttemptCreationRequested", 1},
		"starts":           {sched.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptStarting)}, "WAITING", "AttemptPreparing", 1},
		"runs":             {sched.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptRunning)}, "RUNNING", "AttemptRunning", 1},
		"suspended":        {sched.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptSuspended)}, "RUNNING", "AttemptRunning", 1},
		"is preempted":     {sched.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptStopping)}, "RUNNING", "AttemptDeleting", 1},
		"node lost":        {sched.JobStatus{Phase: sched.Active, Attempts: one(sched.AttemptUnknown)}, "UNKNOWN", "AttemptRunning", 1},
		"is stopped":       {sched.JobStatus{Phase: sched.Active, Stopping: true, Attempts: one(sched.AttemptStopping)}, "STOPPING", "AttemptDeleting", 1},
		"succeeded":        {sched.JobStatus{Phase: sched.Succeeded, Cause: sched.EndSucceeded}, "SUCCEEDED", "Completed", 0},
		"stopped":          {sched.JobStatus{Phase: sched.Stopped, Cause: sched.EndStopped}, "STOPPED", "Completed", -210},
		"failed":           {sched.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed, Exit: &sched.Exit{Code: 7}}, "FAILED", "Completed", 7},
		"out of memory":    {sched.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed, Exit: &sched.Exit{Code: 137, Cause: sched.OutOfMemory}}, "FAILED", "Completed", -1200},
		"time is over":     {sched.JobStatus{Phase: sched.Failed, Cause: sched.EndTimeLimit}, "FAILED", "Completed", -1004},
		"lost for good":    {sched.JobStatus{Phase: sched.Failed, Cause: sched.EndPlatform}, "FAILED", "Completed", -1001},
		"nothing is known": {sched.JobStatus{Phase: sched.Failed, Cause: sched.EndFailed}, "FAILED", "Completed", -310},
	} {
		job := rest.StatusOf(&c.job)
		state, sub := jobState(&job)
		exit := int32(1)
		if e := codeOf(jobClass(&job)); e != nil {
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
		exit           *sched.Exit
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
		{sched.TaskSucceeded, &sched.Exit{}, sched.EndSucceeded, "SUCCEEDED", "Completed", 0, "Succeeded", "NEVER_RETRY"},
		{sched.TaskFailed, &sched.Exit{Code: 3}, sched.EndFailed, "FAILED", "Completed", 3, "FailedByUser", "RETRY_TO_MAX"},
		{sched.TaskFailed, &sched.Exit{Code: 139, Signal: 11}, sched.EndFailed, "FAILED", "Completed", 139, "ContainerSigSegvReceived", "NEVER_RETRY"},
		{sched.TaskEnded, &sched.Exit{Code: 143}, sched.EndPreempted, "STOPPED", "Completed", -101, "PodExternalDeleted", "ALWAYS_RETRY"},
		{sched.TaskEnded, &sched.Exit{Code: 143}, sched.EndStopped, "STOPPED", "Completed", -210, "StopFrameworkRequested", "NEVER_RETRY"},
		{sched.TaskEnded, &sched.Exit{Code: 143}, sched.EndCompleted, "STOPPED", "Completed", -220, "FrameworkAttemptCompletion", "NEVER_RETRY"},
		{sched.TaskFailed, &sched.Exit{Code: 137, Cause: sched.NodeLost}, sched.EndPlatform, "FAILED", "Completed", -1001, "PodNodeLost", "ALWAYS_RETRY"},
		{sched.TaskFailed, &sched.Exit{Cause: sched.StartRefused}, sched.EndRefused, "FAILED", "Completed", -1201, "ContainerDockerCreationError", "ALWAYS_RETRY"},
	} {
		name, attempt := taskState(c.state)
		job := rest.StatusOf(&sched.JobStatus{Tasks: []sched.TaskStatus{{State: c.state, Exit: c.exit, Attempt: 1}},
			Attempts: []sched.AttemptStatus{{ID: sched.AttemptID{N: 1}, Cause: c.cause}}})
		spec := specOf(taskClass(&job.Tasks[0]), "")
		if spec == nil {
			spec = &exitSpec{Code: 1}
		}
		if name != c.name || attempt != c.attempt || spec.Code != c.code || spec.Phrase != c.phrase || spec.Reaction != c.reacts {
			t.Errorf("%v: %s, %s, %+v", c.state, name, attempt, spec)
		}
	}
}
