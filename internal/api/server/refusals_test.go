package server

import (
	"slices"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// Of a job that waits since nodes refused it each reason is told once; of one that runs, none.
func TestRefusalsAreTold(t *testing.T) {
	no := &rest.Exit{Cause: model.StartRefused, Message: "the group is not in /etc/group"}
	j := rest.Job{JobStatus: rest.JobStatus{Phase: model.Waiting, Tasks: []rest.TaskStatus{
		{Role: "main", Node: "gpu-1", Exit: no}, {Role: "main", Index: 1, Node: "gpu-1", Exit: no},
		{Role: "main", Index: 2, Exit: &rest.Exit{Code: 1, Message: "it failed"}},
		{Role: "ps", Exit: &rest.Exit{Cause: model.StartRefused, Message: "no such folder"}},
	}}}
	want := []string{"gpu-1 refused task main-0: the group is not in /etc/group", "a node refused task ps-0: no such folder"}
	if got := refusalsOf(&j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	j.Phase = model.Active
	if got := refusalsOf(&j); got != nil {
		t.Errorf("of a job that runs: %q", got)
	}
}
