package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// TestEndedIsNotTriedAgain: a job that has failed for good, and its tasks, are not said to start
// again.
func TestEndedIsNotTriedAgain(t *testing.T) {
	status := model.JobStatus{Phase: model.Failed, Cause: model.EndFailed, Exit: &model.Exit{Code: 200},
		Tasks: []model.TaskStatus{{State: model.TaskFailed, Exit: &model.Exit{Code: 201}}, {State: model.TaskSucceeded}}}
	ended := StatusOf(&status)
	for _, c := range []*ExitClass{ended.ExitClass, ended.Tasks[0].ExitClass} {
		if c.Retry != exit.Never || c.Actor != exit.Owner || !strings.Contains(c.Next, "read its log") {
			t.Errorf("%+v", c)
		}
	}
	if ended.Tasks[1].ExitClass != nil {
		t.Error("a task that succeeded has a class")
	}
	status.Phase = model.Active
	if c := StatusOf(&status).Tasks[0].ExitClass; c.Retry != exit.Delayed || c.Actor != exit.None {
		t.Errorf("of a job that goes on: %+v", c)
	}
}

// A reason in a list of jobs says all that the core says, also how much it leaves out.
func TestReasonIsWhole(t *testing.T) {
	r := model.Reason{Code: model.VCBusy, Message: "m", Until: 1, Jobs: []model.JobID{2}, More: 3,
		Nodes: []cell.NodeName{"n"}, MoreNodes: 4, Besides: []model.Code{model.OnHold}, Need: 5, Free: 6, Total: 7, Asks: "a", Rooms: []model.Room{{Free: 8}}}
	want, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(ReasonOf(&r))
	if err != nil || string(got) != string(want) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
