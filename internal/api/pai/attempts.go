package pai

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
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

// attemptOfJob is a job's last attempt, of which all is known.
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

// attemptOfPast is an attempt before the last one, from the job's history. It has no tasks.
func attemptOfPast(j *Job, n int32, past []rest.PastAttempt) attempt {
	last := attemptOfJob(j)
	a := attempt{JobName: last.JobName, FrameworkName: last.FrameworkName, UID: fmt.Sprintf("%d-%d", j.ID, n), UserName: last.UserName, State: "FAILED", OriginState: "Completed",
		MaxAttemptCount: last.MaxAttemptCount, AttemptIndex: n, JobStartedTime: last.JobStartedTime, TotalGPUNumber: last.TotalGPUNumber,
		TotalTaskNumber: last.TotalTaskNumber, TotalTaskRoleNumber: last.TotalTaskRoleNumber, TaskRoles: map[string]*taskRole{}}
	var started, ended model.Time
	for i := range past {
		p := &past[i]
		if p.Started != 0 && (started == 0 || p.Started < started) {
			started = p.Started
		}
		ended = max(ended, p.Ended)
		for k := range p.Tasks {
			if x := &p.Tasks[k]; a.ExitCode == nil && (x.Exit.Code != 0 || x.Exit.Signal != 0) {
				code, text := x.Exit.Code, x.Task+": "+x.Exit.Message
				a.ExitCode, a.AppExitTriggerMsg, a.AppExitDiagnostics = &code, &text, &text
			}
		}
	}
	a.AttemptStartedTime, a.AttemptCompletedTime = millis(started), millis(ended)
	return a
}

// attemptsOf are all known attempts of a job, the last one first.
func attemptsOf(h *Handler, w http.ResponseWriter, r *http.Request) ([]attempt, bool) {
	of, ok := refOf(w, r)
	if !ok {
		return nil, false
	}
	// The right to read the job is needed, even where there is only one attempt and no
	// history.
	var j *Job
	var past []rest.PastAttempt
	err := h.app.MayRead(r.Context(), principalOf(r), of)
	if err == nil {
		j, err = h.app.Job(r.Context(), principalOf(r), of)
	}
	if err == nil && j.Retry > 0 {
		past, err = h.app.History(r.Context(), principalOf(r), of)
	}
	if err != nil {
		fail(w, err, aboutJob)
		return nil, false
	}
	all := []attempt{attemptOfJob(j)}
	byRetry := map[int32][]rest.PastAttempt{}
	for _, p := range past {
		byRetry[p.Retry] = append(byRetry[p.Retry], p)
	}
	for n := j.Retry - 1; n >= 0; n-- {
		if list := byRetry[n]; len(list) > 0 {
			all = append(all, attemptOfPast(j, n, list))
		}
	}
	return all, true
}

func (h *Handler) listAttempts(w http.ResponseWriter, r *http.Request) {
	if all, ok := attemptsOf(h, w, r); ok {
		answer(w, http.StatusOK, all)
	}
}

func (h *Handler) getAttempt(w http.ResponseWriter, r *http.Request) {
	all, ok := attemptsOf(h, w, r)
	if !ok {
		return
	}
	text := r.PathValue("attempt")
	for i := range all {
		if text == strconv.Itoa(int(all[i].AttemptIndex)) {
			answer(w, http.StatusOK, all[i])
			return
		}
	}
	refuse(w, http.StatusNotFound, noJob, fmt.Sprintf("Attempt %s of job %s is not found.", clip(text), all[0].FrameworkName))
}

func (h *Handler) attemptsHealth(w http.ResponseWriter, r *http.Request) {
	if j, ok := h.job(w, r); ok {
		done(w, http.StatusOK, "%s attempts of the job are kept.", strconv.Itoa(int(j.Retry)+1))
	}
}
