package pai

import (
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

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

// jobClass is the class of a job's end; nil where it has not ended.
func jobClass(j *rest.JobStatus) *rest.ExitClass {
	if j.Phase == model.Succeeded {
		return success()
	}
	return j.ExitClass
}

// taskClass is the class of a task's end; nil where it has not ended.
func taskClass(t *rest.TaskStatus) *rest.ExitClass {
	if t.State == model.TaskSucceeded {
		return success()
	}
	return t.ExitClass
}

func success() *rest.ExitClass {
	return rest.ClassOf(&model.Exit{}, model.EndSucceeded)
}

// codeOf is the code of a class; nil for nil.
func codeOf(c *rest.ExitClass) *int32 {
	if c == nil {
		return nil
	}
	return &c.Code
}

// specOf is an exit class in OpenPAI's form; nil for nil. message is what else is known.
func specOf(c *rest.ExitClass, message string) *exitSpec {
	if c == nil {
		return nil
	}
	s := sides[c.Class]
	s.Code, s.Phrase, s.Reason, s.Solution = c.Code, c.Phrase, c.Means, []string{c.Next}
	s.Reaction, s.Behavior = reactions[c.Retry][0], reactions[c.Retry][1]
	s.Repro, s.Stage = []string{}, "RUNNING"
	switch {
	case c.Code == 0:
		s.Type, s.Stage, s.Behavior = "USER_SUCCESS", "COMPLETING", "UNKNOWN"
	case c.Code == codeStopped || c.Code == codeCompletion:
		s.Issuer, s.Causer, s.Type, s.Stage = "PAI_FC", "USER_STOP", "USER_STOP", "UNKNOWN"
	case c.Code == codeRefused:
		s.Stage = "LAUNCHING"
	case c.Code < 0:
		s.Issuer = "PAI_FC"
	}
	if message != "" {
		s.Reason = message
	}
	return &s
}

// Codes of ends that OpenPAI distinguishes by stage or kind.
const (
	codeStopped    = -210
	codeCompletion = -220
	codeRefused    = -1201
)

// sides are the issuer, the causer and the kind of an end, in OpenPAI's words.
var sides = map[exit.Class]exitSpec{
	"":             {Issuer: "USER_CONTAINER", Causer: "USER_CONTAINER", Type: "USER_SUCCESS"},
	exit.User:      {Issuer: "USER_CONTAINER", Causer: "USER_CONTAINER", Type: "USER_FAILURE"},
	exit.Permanent: {Issuer: "USER_CONTAINER", Causer: "USER_CONTAINER", Type: "USER_FAILURE"},
	exit.Resource:  {Issuer: "PAI_RUNTIME", Causer: "USER_CONTAINER", Type: "USER_FAILURE"},
	exit.Transient: {Issuer: "PAI_RUNTIME", Causer: "UNKNOWN", Type: "PLATFORM_FAILURE"},
	exit.Platform:  {Issuer: "PAI_RUNTIME", Causer: "PAI_RUNTIME", Type: "PLATFORM_FAILURE"},
	exit.Conflict:  {Issuer: "PAI_RUNTIME", Causer: "RESOURCE_ALLOCATION_TIMEOUT", Type: "RESOURCE_ALLOCATION_TIMEOUT"},
}

// reactions are OpenPAI's words for what follows an end, and for how another run would end.
var reactions = map[exit.Retry][2]string{
	exit.Never:   {"NEVER_RETRY", "PERMANENT"},
	exit.Counted: {"RETRY_TO_MAX", "UNKNOWN"},
	exit.Always:  {"ALWAYS_RETRY", "TRANSIENT"},
	exit.Delayed: {"ALWAYS_BACKOFF_RETRY", "TRANSIENT_CONFLICT"},
}
