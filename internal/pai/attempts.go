package pai

import (
	"fmt"
	"net/http"
	"strconv"
)

// attempt is one attempt of a job.
type attempt struct {
	JobName              string               `json:"jobName"`
	FrameworkName        string               `json:"frameworkName"`
	UID                  string               `json:"uid"`
	UserName             string               `json:"userName"`
	State                string               `json:"state"`
	OriginState          string               `json:"originState"`
	MaxAttemptCount      int32                `json:"maxAttemptCount"`
	AttemptIndex         int32                `json:"attemptIndex"`
	JobStartedTime       *int64               `json:"jobStartedTime,omitempty"`
	AttemptStartedTime   *int64               `json:"attemptStartedTime,omitempty"`
	AttemptCompletedTime *int64               `json:"attemptCompletedTime,omitempty"`
	ExitCode             *int32               `json:"exitCode,omitempty"`
	ExitPhrase           string               `json:"exitPhrase,omitempty"`
	ExitType             string               `json:"exitType,omitempty"`
	AppExitTriggerMsg    *string              `json:"appExitTriggerMessage,omitempty"`
	AppExitTriggerRole   *string              `json:"appExitTriggerTaskRoleName,omitempty"`
	AppExitTriggerIndex  *int32               `json:"appExitTriggerTaskIndex,omitempty"`
	AppExitSpec          *exitSpec            `json:"appExitSpec,omitempty"`
	AppExitDiagnostics   *string              `json:"appExitDiagnostics"`
	TotalGPUNumber       int64                `json:"totalGpuNumber"`
	TotalTaskNumber      int                  `json:"totalTaskNumber"`
	TotalTaskRoleNumber  int                  `json:"totalTaskRoleNumber"`
	TaskRoles            map[string]*taskRole `json:"taskRoles"`
	IsLatest             bool                 `json:"isLatest"`
}

// attemptOfJob is a job's last attempt, the one that is kept.
func attemptOfJob(j *Job) attempt {
	d, s := detailOf(j), summaryOf(&j.Job)
	a := attempt{JobName: s.Name, FrameworkName: s.Username + "~" + s.Name, UID: fmt.Sprintf("%d-%d", j.ID, j.Retry), UserName: s.Username,
		State: s.State, OriginState: s.SubState, AttemptIndex: j.Retry, JobStartedTime: s.CreatedTime, AttemptStartedTime: s.LaunchedTime,
		AttemptCompletedTime: s.CompletedTime, ExitCode: s.AppExitCode, AppExitTriggerMsg: d.JobStatus.AppExitTriggerMessage,
		AppExitTriggerRole: d.JobStatus.AppExitTriggerTaskRoleName, AppExitTriggerIndex: d.JobStatus.AppExitTriggerTaskIndex,
		AppExitSpec: d.JobStatus.AppExitSpec, AppExitDiagnostics: d.JobStatus.AppExitDiagnostics,
		TotalGPUNumber: s.TotalGPUNumber, TotalTaskNumber: s.TotalTaskNumber, TotalTaskRoleNumber: s.TotalTaskRoleNumber, TaskRoles: d.TaskRoles, IsLatest: true}
	if j.Spec != nil {
		a.MaxAttemptCount = j.Spec.Retries + 1
	}
	if a.AppExitSpec != nil {
		a.ExitPhrase, a.ExitType = a.AppExitSpec.Phrase, a.AppExitSpec.Type
	}
	return a
}

func (h *Handler) listAttempts(w http.ResponseWriter, r *http.Request) {
	if j, ok := h.job(w, r); ok {
		answer(w, http.StatusOK, []attempt{attemptOfJob(j)})
	}
}

func (h *Handler) getAttempt(w http.ResponseWriter, r *http.Request) {
	// The path's attempt is looked at by job.
	if j, ok := h.job(w, r); ok {
		answer(w, http.StatusOK, attemptOfJob(j))
	}
}

func (h *Handler) attemptsHealth(w http.ResponseWriter, r *http.Request) {
	if j, ok := h.job(w, r); ok {
		done(w, http.StatusOK, "The last of %s attempts of the job is kept.", strconv.Itoa(int(j.Retry)+1))
	}
}
