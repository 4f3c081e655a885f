package pai

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// Names of errors about jobs.
const (
	noJob      = "NoJobError"
	invalidJob = "InvalidProtocolError"
)

// retries counts a job's retries by cause.
type retries struct {
	User     int32 `json:"user"`
	Platform int32 `json:"platform"`
	Resource int32 `json:"resource"`
}

// summary is a job in a list.
type summary struct {
	Name                string   `json:"name"`
	Username            string   `json:"username"`
	State               string   `json:"state"`
	SubState            string   `json:"subState"`
	ExecutionType       string   `json:"executionType"`
	Tags                []string `json:"tags"`
	Retries             int32    `json:"retries"`
	RetryDetails        retries  `json:"retryDetails"`
	RetryDelayTime      *int64   `json:"retryDelayTime"`
	SubmissionTime      int64    `json:"submissionTime"`
	CreatedTime         *int64   `json:"createdTime"`
	LaunchedTime        *int64   `json:"launchedTime"`
	CompletedTime       *int64   `json:"completedTime"`
	AppExitCode         *int32   `json:"appExitCode"`
	VirtualCluster      string   `json:"virtualCluster"`
	TotalGPUNumber      int64    `json:"totalGpuNumber"`
	TotalTaskNumber     int      `json:"totalTaskNumber"`
	TotalTaskRoleNumber int      `json:"totalTaskRoleNumber"`
	DebugID             string   `json:"debugId"`
	JobPriority         *string  `json:"jobPriority"`
}

func summaryOf(j *rest.Job) *summary {
	s := &summary{
		Name: string(j.Name), Username: string(j.User), Tags: append([]string{}, j.Tags...), ExecutionType: executionOf(j), VirtualCluster: string(j.VC),
		Retries: j.Retry, RetryDetails: retries{User: j.Counted, Platform: max(j.Retry-j.Counted, 0)},
		SubmissionTime: int64(j.Submitted) / 1000, CreatedTime: millis(j.Submitted), LaunchedTime: millis(j.Started), CompletedTime: millis(j.Ended),
		AppExitCode: codeOf(jobClass(&j.JobStatus)), TotalGPUNumber: j.GPUs, TotalTaskNumber: len(j.Tasks), TotalTaskRoleNumber: rolesOf(j),
		DebugID: strconv.FormatInt(int64(j.ID), 10),
	}
	s.State, s.SubState = jobState(&j.JobStatus)
	if class := model.PriorityName(j.Priority); class != "" {
		s.JobPriority = &class
	}
	return s
}

// executionOf is STOP for a job that a user asked to stop, else START.
func executionOf(j *rest.Job) string {
	if j.Stopping || j.Phase == "Stopped" {
		return "STOP"
	}
	return "START"
}

func rolesOf(j *rest.Job) (n int) {
	seen := map[string]bool{}
	for i := range j.Tasks {
		seen[j.Tasks[i].Role] = true
	}
	return len(seen)
}

func (h *Handler) submit(w http.ResponseWriter, r *http.Request) {
	file, err := io.ReadAll(r.Body)
	if err != nil || len(file) == 0 {
		refuse(w, http.StatusBadRequest, invalidJob, "the body is empty, or cannot be read: send a job file as text/yaml")
		return
	}
	name, err := h.app.Submit(r.Context(), principalOf(r), file)
	if err != nil {
		fail(w, err, codes{missing: "NoVirtualClusterError", conflict: "ConflictJobError", invalid: invalidJob})
		return
	}
	done(w, http.StatusAccepted, "Update job %s for user %s successfully.", name, principalOf(r).User)
}

// refOf returns the job that a path names. Where it names none it answers the request.
func refOf(w http.ResponseWriter, r *http.Request) (Ref, bool) {
	text := r.PathValue("job")
	user, name, both := strings.Cut(text, "~")
	if !both || !rest.ValidName(user) || !rest.ValidName(name) {
		refuse(w, http.StatusNotFound, noJob, "Job "+clip(text)+" is not found: want USER~NAME.")
		return Ref{}, false
	}
	return Ref{user, name}, true
}

var aboutJob = codes{missing: noJob, conflict: "ReadOnlyJobError"}

func (h *Handler) jobConfig(w http.ResponseWriter, r *http.Request) {
	of, ok := refOf(w, r)
	if !ok {
		return
	}
	text, err := h.app.JobConfig(r.Context(), principalOf(r), of)
	if err != nil {
		fail(w, err, aboutJob)
		return
	}
	if len(text) == 0 {
		refuse(w, http.StatusNotFound, "NoJobConfigError", "The job file of "+of.String()+" is not kept.")
		return
	}
	w.Header().Set("Content-Type", "text/yaml; charset=utf-8")
	_, _ = w.Write(text)
}

func (h *Handler) executionType(w http.ResponseWriter, r *http.Request) {
	of, ok := refOf(w, r)
	if !ok {
		return
	}
	var in struct {
		Value string `json:"value"`
	}
	if !read(w, r, &in) {
		return
	}
	if in.Value != "START" && in.Value != "STOP" {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "value: want START or STOP")
		return
	}
	changed, err := true, error(nil)
	if in.Value == "STOP" {
		err = h.app.Stop(r.Context(), principalOf(r), of)
	} else {
		changed, err = h.app.Start(r.Context(), principalOf(r), of)
	}
	switch {
	case err != nil:
		fail(w, err, aboutJob)
	case !changed:
		done(w, http.StatusOK, "Job %s is started already: nothing is changed.", of)
	default:
		done(w, http.StatusAccepted, "Execute job %s successfully.", of)
	}
}

// tag adds the tag of a request's body to a job, or removes it.
func tag(h *Handler, on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		of, ok := refOf(w, r)
		if !ok {
			return
		}
		var in struct {
			Value string `json:"value"`
		}
		if !read(w, r, &in) {
			return
		}
		if err := h.app.Tag(r.Context(), principalOf(r), of, in.Value, on); err != nil {
			fail(w, err, aboutJob)
			return
		}
		text := "Add tag %s to job %s successfully."
		if !on {
			text = "Delete tag %s from job %s successfully."
		}
		done(w, http.StatusOK, text, in.Value, of)
	}
}
