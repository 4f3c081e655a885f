package pai

import (
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

func TestStatesOfJobs(t *testing.T) {
	one := func(s model.AttemptState) []model.AttemptStatus { return []model.AttemptStatus{{State: s}} }
	for name, c := range map[string]struct {
		job        model.JobStatus
		state, sub string
		exit       int32 // 1 is none
	}{
		"waits":            {model.JobStatus{Phase: model.Waiting}, "WAITING", "AttemptCreationPending", 1},
		"promised":         {model.JobStatus{Phase: model.Waiting, Attempts: one(model.AttemptReserving)}, "WAITING", "AttemptCreationRequested", 1},
		"starts":           {model.JobStatus{Phase: model.Active, Attempts: one(model.AttemptStarting)}, "WAITING", "AttemptPreparing", 1},
		"runs":             {model.JobStatus{Phase: model.Active, Attempts: one(model.AttemptRunning)}, "RUNNING", "AttemptRunning", 1},
		"suspended":        {model.JobStatus{Phase: model.Active, Attempts: one(model.AttemptSuspended)}, "RUNNING", "AttemptRunning", 1},
		"is preempted":     {model.JobStatus{Phase: model.Active, Attempts: one(model.AttemptStopping)}, "RUNNING", "AttemptDeleting", 1},
		"node lost":        {model.JobStatus{Phase: model.Active, Attempts: one(model.AttemptUnknown)}, "UNKNOWN", "AttemptRunning", 1},
		"is stopped":       {model.JobStatus{Phase: model.Active, Stopping: true, Attempts: one(model.AttemptStopping)}, "STOPPING", "AttemptDeleting", 1},
		"succeeded":        {model.JobStatus{Phase: model.Succeeded, Cause: model.EndSucceeded}, "SUCCEEDED", "Completed", 0},
		"stopped":          {model.JobStatus{Phase: model.Stopped, Cause: model.EndStopped}, "STOPPED", "Completed", -210},
		"failed":           {model.JobStatus{Phase: model.Failed, Cause: model.EndFailed, Exit: &model.Exit{Code: 7}}, "FAILED", "Completed", 7},
		"out of memory":    {model.JobStatus{Phase: model.Failed, Cause: model.EndFailed, Exit: &model.Exit{Code: 137, Cause: model.OutOfMemory}}, "FAILED", "Completed", -1200},
		"time is over":     {model.JobStatus{Phase: model.Failed, Cause: model.EndTimeLimit}, "FAILED", "Completed", -1004},
		"lost for good":    {model.JobStatus{Phase: model.Failed, Cause: model.EndPlatform}, "FAILED", "Completed", -1001},
		"nothing is known": {model.JobStatus{Phase: model.Failed, Cause: model.EndFailed}, "FAILED", "Completed", -310},
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
		state          model.TaskState
		exit           *model.Exit
		cause          model.EndCause
		name, attempt  string
		code           int32 // 1 is none
		phrase, reacts string
	}{
		{model.TaskWaiting, nil, 0, "WAITING", "AttemptCreationPending", 1, "", ""},
		{model.TaskStarting, nil, 0, "WAITING", "AttemptPreparing", 1, "", ""},
		{model.TaskRunning, nil, 0, "RUNNING", "AttemptRunning", 1, "", ""},
		{model.TaskSuspended, nil, 0, "RUNNING", "AttemptRunning", 1, "", ""},
		{model.TaskStopping, nil, model.EndStopped, "STOPPING", "AttemptDeleting", 1, "", ""},
		{model.TaskIsUnknown, nil, 0, "UNKNOWN", "AttemptRunning", 1, "", ""},
		{model.TaskSucceeded, &model.Exit{}, model.EndSucceeded, "SUCCEEDED", "Completed", 0, "Succeeded", "NEVER_RETRY"},
		{model.TaskFailed, &model.Exit{Code: 3}, model.EndFailed, "FAILED", "Completed", 3, "FailedByUser", "RETRY_TO_MAX"},
		{model.TaskFailed, &model.Exit{Code: 139, Signal: 11}, model.EndFailed, "FAILED", "Completed", 139, "ContainerSigSegvReceived", "NEVER_RETRY"},
		{model.TaskEnded, &model.Exit{Code: 143}, model.EndPreempted, "STOPPED", "Completed", -101, "PodExternalDeleted", "ALWAYS_RETRY"},
		{model.TaskEnded, &model.Exit{Code: 143}, model.EndStopped, "STOPPED", "Completed", -210, "StopFrameworkRequested", "NEVER_RETRY"},
		{model.TaskEnded, &model.Exit{Code: 143}, model.EndCompleted, "STOPPED", "Completed", -220, "FrameworkAttemptCompletion", "NEVER_RETRY"},
		{model.TaskFailed, &model.Exit{Code: 137, Cause: model.NodeLost}, model.EndPlatform, "FAILED", "Completed", -1001, "PodNodeLost", "ALWAYS_RETRY"},
		{model.TaskFailed, &model.Exit{Cause: model.StartRefused}, model.EndRefused, "FAILED", "Completed", -1201, "ContainerDockerCreationError", "ALWAYS_RETRY"},
	} {
		name, attempt := taskState(c.state)
		job := rest.StatusOf(&model.JobStatus{Tasks: []model.TaskStatus{{State: c.state, Exit: c.exit, Attempt: 1}},
			Attempts: []model.AttemptStatus{{ID: model.AttemptID{N: 1}, Cause: c.cause}}})
		spec := specOf(taskClass(&job.Tasks[0]), "")
		if spec == nil {
			spec = &exitSpec{Code: 1}
		}
		if name != c.name || attempt != c.attempt || spec.Code != c.code || spec.Phrase != c.phrase || spec.Reaction != c.reacts {
			t.Errorf("%v: %s, %s, %+v", c.state, name, attempt, spec)
		}
	}
}
