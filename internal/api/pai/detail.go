package pai

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// exitMessages say what is known of an end, by the part that saw it.
type exitMessages struct {
	Container *string `json:"container"`
	Runtime   *string `json:"runtime"`
	Launcher  *string `json:"launcher"`
}

// jobStatus is the status in a job's details.
type jobStatus struct {
	Username                   string        `json:"username"`
	State                      string        `json:"state"`
	SubState                   string        `json:"subState"`
	ExecutionType              string        `json:"executionType"`
	Retries                    int32         `json:"retries"`
	RetryDetails               retries       `json:"retryDetails"`
	RetryDelayTime             *int64        `json:"retryDelayTime"`
	SubmissionTime             int64         `json:"submissionTime"`
	CreatedTime                *int64        `json:"createdTime"`
	LaunchedTime               *int64        `json:"launchedTime"`
	CompletedTime              *int64        `json:"completedTime"`
	AttemptID                  int32         `json:"attemptId"`
	AttemptState               string        `json:"attemptState"`
	AppID                      string        `json:"appId"`
	AppProgress                float64       `json:"appProgress"`
	AppTrackingURL             string        `json:"appTrackingUrl"`
	AppCreatedTime             *int64        `json:"appCreatedTime"`
	AppLaunchedTime            *int64        `json:"appLaunchedTime"`
	AppCompletedTime           *int64        `json:"appCompletedTime"`
	AppExitCode                *int32        `json:"appExitCode"`
	AppExitSpec                *exitSpec     `json:"appExitSpec"`
	AppExitDiagnostics         *string       `json:"appExitDiagnostics"`
	AppExitMessages            *exitMessages `json:"appExitMessages"`
	AppExitTriggerMessage      *string       `json:"appExitTriggerMessage"`
	AppExitTriggerTaskRoleName *string       `json:"appExitTriggerTaskRoleName"`
	AppExitTriggerTaskIndex    *int32        `json:"appExitTriggerTaskIndex"`
	AppExitType                *string       `json:"appExitType"`
	VirtualCluster             string        `json:"virtualCluster"`
	JobPriority                *string       `json:"jobPriority"`
}

// hived is the part of a task about its gang's cells.
type hived struct {
	AffinityGroupName    string    `json:"affinityGroupName"`
	LazyPreempted        *struct{} `json:"lazyPreempted"` // an object, by OpenPAI's specification, or null
	LazyPreemptionStatus *struct{} `json:"lazyPreemptionStatus"`
}

// container is where a task runs or ran.
type container struct {
	ID              string           `json:"containerId"`
	IP              *string          `json:"containerIp"`
	NodeName        *string          `json:"containerNodeName"`
	Ports           map[string]int32 `json:"containerPorts"`
	GPUs            *string          `json:"containerGpus"`
	Log             string           `json:"containerLog"`
	ExitCode        *int32           `json:"containerExitCode"`
	ExitSpec        *exitSpec        `json:"containerExitSpec"`
	ExitDiagnostics *string          `json:"containerExitDiagnostics"`
	Hived           *hived           `json:"hived"`
}

// task is a task in a job's details.
type task struct {
	TaskIndex          int32  `json:"taskIndex"`
	TaskUID            int64  `json:"taskUid"`
	TaskState          string `json:"taskState"`
	Retries            int32  `json:"retries"`
	AccountableRetries int32  `json:"accountableRetries"`
	CreatedTime        *int64 `json:"createdTime"`
	LaunchedTime       *int64 `json:"launchedTime"`
	CompletedTime      *int64 `json:"completedTime"`
	AttemptID          int32  `json:"attemptId"`
	AttemptState       string `json:"attemptState"`
	AttemptCreated     *int64 `json:"currentAttemptCreatedTime"`
	AttemptLaunched    *int64 `json:"currentAttemptLaunchedTime"`
	AttemptCompleted   *int64 `json:"currentAttemptCompletedTime"`
	container
}

type taskRole struct {
	Status struct {
		Name string `json:"name"`
	} `json:"taskRoleStatus"`
	Tasks []*task `json:"taskStatuses"`
}

// detail is a job with all its tasks.
type detail struct {
	Name      string               `json:"name"`
	Tags      []string             `json:"tags"`
	JobStatus jobStatus            `json:"jobStatus"`
	TaskRoles map[string]*taskRole `json:"taskRoles"`
}

func detailOf(j *Job) *detail {
	s := summaryOf(&j.Job)
	d := &detail{Name: s.Name, Tags: s.Tags, TaskRoles: map[string]*taskRole{}, JobStatus: jobStatus{
		Username: s.Username, State: s.State, SubState: s.SubState, ExecutionType: s.ExecutionType, Retries: s.Retries, RetryDetails: s.RetryDetails,
		SubmissionTime: s.SubmissionTime, CreatedTime: s.CreatedTime, LaunchedTime: s.LaunchedTime, CompletedTime: s.CompletedTime,
		AttemptID: j.Retry, AttemptState: s.SubState, AppID: s.DebugID, AppCreatedTime: s.CreatedTime, AppLaunchedTime: s.LaunchedTime, AppCompletedTime: s.CompletedTime,
		AppExitCode: s.AppExitCode, AppExitSpec: specOf(jobClass(&j.JobStatus), j.Message), VirtualCluster: s.VirtualCluster, JobPriority: s.JobPriority,
	}}
	if j.Outlook != nil {
		d.JobStatus.AppProgress = float64(j.Outlook.Done) / 1000
	}
	for i := range j.Tasks {
		t := taskOf(j, i)
		role := d.TaskRoles[j.Tasks[i].Role]
		if role == nil {
			role = &taskRole{}
			role.Status.Name = j.Tasks[i].Role
			d.TaskRoles[j.Tasks[i].Role] = role
		}
		role.Tasks = append(role.Tasks, t)
	}
	d.JobStatus.end(j)
	return d
}

// end fills in how a job ended, and through which of its tasks.
func (s *jobStatus) end(j *Job) {
	if s.AppExitSpec == nil {
		return
	}
	s.AppExitType = &s.AppExitSpec.Type
	if j.Message != "" {
		s.AppExitDiagnostics, s.AppExitTriggerMessage = &j.Message, &j.Message
		s.AppExitMessages = &exitMessages{Launcher: &j.Message}
	}
	first := -1
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.State == model.TaskFailed && t.Exit != nil && (first < 0 || t.Exit.At < j.Tasks[first].Exit.At) {
			first = i
		}
	}
	if first >= 0 {
		s.AppExitTriggerTaskRoleName, s.AppExitTriggerTaskIndex = &j.Tasks[first].Role, &j.Tasks[first].Index
	}
}

// attemptOf returns the attempt in which a task ran last; nil where that is unknown.
func attemptOf(j *Job, t *rest.TaskStatus) *rest.AttemptStatus {
	for i := range j.Attempts {
		if a := &j.Attempts[i]; a.ID.Gang == t.Gang && a.ID.N == t.Attempt && t.Attempt > 0 {
			return a
		}
	}
	return nil
}

// taskOf is a task with its last attempt.
func taskOf(j *Job, i int) *task {
	t := &j.Tasks[i]
	out := &task{TaskIndex: t.Index, TaskUID: int64(j.ID)*100_000 + int64(i), Retries: max(t.Attempt-1, 0), AccountableRetries: t.Retries,
		CreatedTime: millis(j.Submitted), AttemptID: max(t.Attempt-1, 0)}
	out.TaskState, out.AttemptState = taskState(t.State)
	c := &out.container
	c.ID, c.Ports, c.GPUs = containerID(&j.Job, i), portsOf(j, t), devicesOf(t)
	c.Log = logPath(j, t.Role, t.Index, out.AttemptID)
	if t.Host != "" {
		c.IP = &t.Host
	}
	if t.Node != "" {
		node := string(t.Node)
		c.NodeName = &node
	}
	if a := attemptOf(j, t); a != nil {
		out.LaunchedTime, out.AttemptCreated, out.AttemptLaunched, out.AttemptCompleted = millis(a.Started), millis(a.Placed), millis(a.Started), millis(a.Ended)
		c.Hived = &hived{AffinityGroupName: groupName(&j.Job, t.Gang)}
		if a.Lazy {
			c.Hived.LazyPreempted = &struct{}{}
		}
	}
	class, said := taskClass(t), ""
	if t.Exit != nil {
		if t.Exit.At != 0 {
			out.AttemptCompleted = millis(t.Exit.At)
		}
		if t.Exit.Message != "" {
			c.ExitDiagnostics, said = &t.Exit.Message, t.Exit.Message
		}
	}
	c.ExitCode, c.ExitSpec = codeOf(class), specOf(class, said)
	if c.ExitCode != nil {
		out.CompletedTime = out.AttemptCompleted
	}
	return out
}

// portsOf labels a task's ports. The first port of a label has just the label, the others a
// number after it.
func portsOf(j *Job, t *rest.TaskStatus) map[string]int32 {
	ports, left := map[string]int32{}, t.Ports
	if j.Spec == nil {
		return ports
	}
	at := slices.IndexFunc(j.Spec.Roles, func(r model.Role) bool { return r.Name == t.Role })
	if at < 0 {
		return ports
	}
	for _, p := range j.Spec.Roles[at].Launch.Ports {
		for n := int32(0); n < p.Count && len(left) > 0; n++ {
			label := p.Label
			if n > 0 {
				label += strconv.Itoa(int(n))
			}
			ports[label], left = left[0], left[1:]
		}
	}
	return ports
}

func devicesOf(t *rest.TaskStatus) *string {
	if len(t.Devices) == 0 {
		return nil
	}
	var all []string
	for _, d := range t.Devices {
		all = append(all, strconv.Itoa(int(d)))
	}
	text := strings.Join(all, ",")
	return &text
}

// job returns the job of a path. Only its last attempt is known. Where there is no such job
// it answers the request.
func (h *Handler) job(w http.ResponseWriter, r *http.Request) (*Job, bool) {
	of, ok := refOf(w, r)
	if !ok {
		return nil, false
	}
	j, err := h.app.Job(r.Context(), principalOf(r), of)
	if err != nil {
		fail(w, err, aboutJob)
		return nil, false
	}
	if text := r.PathValue("attempt"); text != "" && text != strconv.Itoa(int(j.Retry)) {
		refuse(w, http.StatusNotFound, noJob, fmt.Sprintf("Attempt %s of job %s is not found: the tasks of its last, %d, alone are told; job-attempts has all.", clip(text), of, j.Retry))
		return nil, false
	}
	return j, true
}

func (h *Handler) getJob(w http.ResponseWriter, r *http.Request) {
	if j, ok := h.job(w, r); ok {
		answer(w, http.StatusOK, detailOf(j))
	}
}

// taskDetail is a task with its known attempts.
type taskDetail struct {
	TaskIndex          int32         `json:"taskIndex"`
	TaskUID            string        `json:"taskUid"`
	TaskState          string        `json:"taskState"`
	Retries            int32         `json:"retries"`
	AccountableRetries int32         `json:"accountableRetries"`
	CreatedTime        *int64        `json:"createdTime"`
	LaunchedTime       *int64        `json:"launchedTime"`
	CompletedTime      *int64        `json:"completedTime"`
	Username           string        `json:"username"`
	JobName            string        `json:"jobName"`
	JobAttemptID       int32         `json:"jobAttemptId"`
	TaskRoleName       string        `json:"taskRoleName"`
	Attempts           []taskAttempt `json:"attempts"`
}

type taskAttempt struct {
	AttemptID    int32  `json:"attemptId"`
	AttemptState string `json:"attemptState"`
	Created      *int64 `json:"currentAttemptCreatedTime"`
	Launched     *int64 `json:"currentAttemptLaunchedTime"`
	Completed    *int64 `json:"currentAttemptCompletedTime"`
	container
}

// theTask returns a path's job and task. Where there is none it answers the request.
func (h *Handler) theTask(w http.ResponseWriter, r *http.Request) (*Job, int, bool) {
	j, ok := h.job(w, r)
	if !ok {
		return nil, 0, false
	}
	role, index := r.PathValue("role"), r.PathValue("index")
	for i := range j.Tasks {
		if j.Tasks[i].Role == role && strconv.Itoa(int(j.Tasks[i].Index)) == index {
			return j, i, true
		}
	}
	refuse(w, http.StatusNotFound, "NoTaskError", fmt.Sprintf("Task %s-%s of job %s~%s is not found.", clip(role), clip(index), j.User, j.Name))
	return nil, 0, false
}

func (h *Handler) getTask(w http.ResponseWriter, r *http.Request) {
	j, i, ok := h.theTask(w, r)
	if !ok {
		return
	}
	t := taskOf(j, i)
	out := taskDetail{TaskIndex: t.TaskIndex, TaskUID: strconv.FormatInt(t.TaskUID, 10), TaskState: t.TaskState, Retries: t.Retries, AccountableRetries: t.AccountableRetries,
		CreatedTime: t.CreatedTime, LaunchedTime: t.LaunchedTime, CompletedTime: t.CompletedTime,
		Username: string(j.User), JobName: string(j.Name), JobAttemptID: j.Retry, TaskRoleName: j.Tasks[i].Role, Attempts: []taskAttempt{}}
	if j.Tasks[i].Attempt > 0 {
		out.Attempts = append(out.Attempts, taskAttempt{t.AttemptID, t.AttemptState, t.AttemptCreated, t.AttemptLaunched, t.AttemptCompleted, t.container})
	}
	answer(w, http.StatusOK, out)
}

// event is one of a job's events.
type event struct {
	UID             string    `json:"uid"`
	FrameworkName   string    `json:"frameworkName"`
	PodUID          string    `json:"podUid"`
	TaskroleName    string    `json:"taskroleName"`
	TaskName        string    `json:"taskName"`
	TaskIndex       int       `json:"taskIndex"`
	Type            string    `json:"type"`
	Reason          string    `json:"reason"`
	Message         string    `json:"message"`
	FirstTimestamp  time.Time `json:"firstTimestamp"`
	LastTimestamp   time.Time `json:"lastTimestamp"`
	Count           int       `json:"count"`
	SourceComponent string    `json:"sourceComponent"`
	SourceHost      *string   `json:"sourceHost"`
}

func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	of, ok := refOf(w, r)
	if !ok {
		return
	}
	kind := r.URL.Query().Get("type")
	if kind != "" && kind != "Warning" && kind != "Normal" {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "type: want Warning or Normal")
		return
	}
	records, err := h.app.Events(r.Context(), principalOf(r), of)
	if err != nil {
		fail(w, err, aboutJob)
		return
	}
	all := []event{}
	for i := range records {
		if e := eventOf(of, &records[i]); kind == "" || kind == e.Type {
			all = append(all, e)
		}
	}
	slices.Reverse(all) // newest first
	answer(w, http.StatusOK, map[string]any{"totalCount": len(all), "data": all})
}

// warnings are the kinds of events that tell of a problem.
var warnings = []string{"TaskRefused", "TaskUnknown", "Quarantined", "PolicyFailed"}

// maxEvent bounds the text of an event, in bytes: some contain a program's output.
const maxEvent = 1 << 10

func eventOf(of Ref, r *rest.Event) event {
	at := time.UnixMicro(int64(r.Time)).UTC()
	e := event{UID: strconv.FormatUint(r.Seq, 10), FrameworkName: of.String(), Type: "Normal", Reason: string(r.Kind), Message: r.Says,
		FirstTimestamp: at, LastTimestamp: at, Count: 1, SourceComponent: "comb"}
	if len(e.Message) > maxEvent {
		e.Message = strings.ToValidUTF8(e.Message[:maxEvent], "") + "..."
	}
	if slices.Contains(warnings, e.Reason) {
		e.Type = "Warning"
	}
	return e
}

// ssh answers as OpenPAI does for a job without SSH keys.
func (h *Handler) ssh(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.job(w, r); ok {
		refuse(w, http.StatusNotFound, "NoJobSshInfoError", "Comb keeps no keys of jobs: use comb job exec.")
	}
}
