package server

import (
	"fmt"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// carry knows one SKU, whose leaves have two GPUs each.
func carry(sku cell.TypeName) (int64, bool) { return 2, sku == "pair" }

// A job that asks for leaves of a SKU names no GPUs: what it holds, and what it lost, is counted by
// the leaves that it was given.
func TestLeavesAreCounted(t *testing.T) {
	id := model.AttemptID{Job: 1, N: 1}
	f := newAttemptFold(carry)
	for _, r := range []model.Record{
		{Time: 1e6, Event: model.JobSubmitted{ID: 1, Job: &model.Job{VC: "a", Gangs: []model.Gang{{Tasks: []int32{0, 1}}}, Roles: []model.Role{{Name: "main", Tasks: 2, Leaves: 2}}}}},
		{Time: 2e6, Event: model.Placed{Attempt: id, Placement: cell.Placement{Tasks: []cell.Task{{Node: "n1", SKU: "pair", Leaves: []cell.LeafID{0, 1}}, {Node: "n2", SKU: "pair", Leaves: []cell.LeafID{4, 5}}}}}},
		{Time: 3e6, Event: model.TaskStarted{Attempt: id}},
		{Time: 13e6, Event: model.AttemptEnded{Attempt: id, Cause: model.EndPreempted}},
	} {
		f.Add(&r)
	}
	if list, _ := f.Attempts(); len(list) != 1 || list[0].GPUs != 8 || list[0].Lost != 80 {
		t.Errorf("%+v: want 8 GPUs, and 80 GPU-seconds lost", list)
	}
}

// Work that a task saved when it was told to make room is not lost, though it told no checkpoint;
// with a task that failed it may be. Where checkpoint is off, its steps said that work was left;
// where its user stopped it, that it saves is said by checkpoint alone.
func TestSavedIsNotLost(t *testing.T) {
	for _, c := range []struct {
		code       int32
		checkpoint bool
		cause      model.EndCause
		lost       int64
	}{{0, true, model.EndDrained, 0}, {1, true, model.EndDrained, 20}, {0, false, model.EndPreempted, 0}, {0, true, model.EndStopped, 0}, {0, false, model.EndStopped, 20}} {
		code, lost, saved := c.code, c.lost, c.cause != model.EndStopped
		id := model.AttemptID{Job: 1, N: 1}
		f := newAttemptFold(carry)
		job := &model.Job{VC: "a", Gangs: []model.Gang{{Tasks: []int32{0, 1}}}, Roles: []model.Role{{Name: "main", Tasks: 2, Launch: model.Launch{GPU: 1}}}}
		job.Hints.Checkpoint = c.checkpoint
		for _, r := range []model.Record{
			{Time: 1e6, Event: model.JobSubmitted{ID: 1, Job: job}},
			{Time: 2e6, Event: model.Placed{Attempt: id, Placement: cell.Placement{Tasks: []cell.Task{{Node: "n1"}, {Node: "n1"}}}}},
			{Time: 3e6, Event: model.TaskStarted{Attempt: id}},
			{Time: 4e6, Event: model.StopSent{Attempt: id, Cause: c.cause}},
			{Time: 12e6, Event: model.TaskExited{Attempt: id, Exit: model.Exit{Saved: saved}}},
			{Time: 13e6, Event: model.TaskExited{Attempt: id, Task: 1, Exit: model.Exit{Code: code, Saved: saved && code == 0}}},
			{Time: 13e6, Event: model.AttemptEnded{Attempt: id, Cause: c.cause}},
		} {
			f.Add(&r)
		}
		if list, _ := f.Attempts(); list[0].Lost != lost {
			t.Errorf("%+v: %d GPU-seconds are lost", c, list[0].Lost)
		}
	}
}

// TestFold: a job of two GPUs is preempted after a checkpoint, fails, is tried again and is
// stopped.
func TestFold(t *testing.T) {
	id := func(n int32) model.AttemptID { return model.AttemptID{Job: 1, N: n} }
	place := cell.Placement{Tasks: []cell.Task{{Node: "n1"}, {Node: "n1"}}}
	by := model.AttemptID{Job: 7, N: 1}
	f := newAttemptFold(carry)
	for _, r := range []model.Record{
		{Time: 1e6, Event: model.JobSubmitted{ID: 1, Job: &model.Job{VC: "a", Priority: 10, Gangs: []model.Gang{{Tasks: []int32{0, 1}}},
			Roles: []model.Role{{Name: "main", Tasks: 1, Launch: model.Launch{GPU: 1}}, {Name: "side", Tasks: 1, Launch: model.Launch{GPU: 1}}}}}},
		{Time: 2e6, Event: model.Placed{Attempt: id(1), Placement: place}},
		{Time: 4e6, Event: model.TaskStarted{Attempt: id(1)}},
		{Time: 5e6, Event: model.TaskStarted{Attempt: id(1), Task: 1}},
		{Time: 10e6, Event: model.Progress{Attempt: id(1), Checkpoint: true}},
		{Time: 15e6, Event: model.StopSent{Attempt: id(1), Cause: model.EndPreempted, By: &by}},
		{Time: 20e6, Event: model.TaskExited{Attempt: id(1), Exit: model.Exit{Code: 143, Signal: 15}}},
		{Time: 20e6, Event: model.AttemptEnded{Attempt: id(1), Cause: model.EndPreempted}},
		{Time: 30e6, Event: model.Placed{Attempt: id(2), Placement: place}},
		{Time: 31e6, Event: model.TaskStarted{Attempt: id(2)}},
		{Time: 35e6, Event: model.TaskExited{Attempt: id(2), Task: 1, Exit: model.Exit{Code: 3, Own: true, Message: "no data"}}},
		{Time: 36e6, Event: model.AttemptEnded{Attempt: id(2), Cause: model.EndFailed}},
		{Time: 36e6, Event: model.JobRetried{Job: 1, Counted: true}},
		{Time: 40e6, Event: model.Placed{Attempt: id(3), Placement: place}},
		{Time: 41e6, Event: model.StopRequested{Job: 1, Reason: "enough", Meta: model.Meta{Subject: "bob"}}},
		{Time: 41e6, Event: model.StopSent{Attempt: id(3), Cause: model.EndStopped}},
		{Time: 42e6, Event: model.TaskRefused{Attempt: id(3), Reason: "no image"}},
	} {
		f.Add(&r)
	}
	list, left := f.Attempts()
	if len(list) != 3 || left != 0 {
		t.Fatalf("%d attempts, %d left out", len(list), left)
	}
	if a := list[0]; a.Placed != 2e6 || a.Started != 4e6 || a.Told != 15e6 || a.Ended != 20e6 || a.GPUs != 2 || a.Lost != 20 || a.Retry != 0 ||
		len(a.Nodes) != 1 || a.Tasks[0].Task != "main-0" || a.Tasks[0].ExitClass.Class != "transient" || a.Cause != model.EndPreempted {
		t.Errorf("preempted: %+v", a)
	}
	if a := list[1]; a.Retry != 0 || a.Lost != 10 || a.Tasks[0].Task != "side-0" || a.Tasks[0].ExitClass.Class != "user" || a.Cause != model.EndFailed {
		t.Errorf("failed: %+v", a)
	}
	if a := list[2]; a.Retry != 1 || a.Lost != 0 || a.Started != 0 || a.Ended != 0 || a.Why != "asked by bob: enough" || a.Tasks[0].Exit.Message != "no image" {
		t.Errorf("stopped: %+v", a)
	}
	for _, c := range []struct {
		by   otherJob
		want string
	}{
		{otherJob{"7 (bob~x)", "a", 100}, "job 7 (bob~x) has a higher priority (100, and this one 10)"},
		{otherJob{"7", "b", 0}, "its GPUs are guaranteed to VC b, and job 7 there needed them"},
		{otherJob{"7", "a", 10}, "the policy of VC a put job 7 first"},
	} {
		if got := f.Why(&list[0], c.by); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	list[0].Lazy = true
	if got := f.Why(&list[0], otherJob{"7", "b", 0}); got != "its GPUs were borrowed from VC b, and job 7 there needed them" {
		t.Error(got)
	}
}

// TestRefusedByWhom: what kept a task from starting is its job's own fault in the history, too,
// where it is in the state.
func TestRefusedByWhom(t *testing.T) {
	for job, want := range map[bool]string{true: "user 126 NotStartable you",
		false: "platform -1201 ContainerDockerCreationError administrator"} {
		id := model.AttemptID{Job: 1, N: 1}
		f := newAttemptFold(carry)
		for _, e := range []model.Event{
			model.JobSubmitted{ID: 1, Job: &model.Job{
				Gangs: []model.Gang{{Tasks: []int32{0}}}, Roles: []model.Role{{Name: "main", Tasks: 1}}}},
			model.Placed{Attempt: id, Placement: cell.Placement{Tasks: []cell.Task{{Node: "n1"}}}},
			model.TaskRefused{Attempt: id, Reason: "there is no such directory", Job: job},
			model.AttemptEnded{Attempt: id, Cause: map[bool]model.EndCause{true: model.EndFailed, false: model.EndPlatform}[job]},
		} {
			f.Add(&model.Record{Time: 1e6, Event: e})
		}
		list, _ := f.Attempts()
		c := list[0].Tasks[0].ExitClass
		if got := fmt.Sprint(c.Class, " ", c.Code, " ", c.Phrase, " ", c.Actor); got != want {
			t.Errorf("the job's own fault: %v; it is %s, want %s", job, got, want)
		}
	}
}

// TestFoldIsBounded: of very many attempts the last ones are kept, and it is said how many are not.
func TestFoldIsBounded(t *testing.T) {
	f := newAttemptFold(carry)
	for n := range int32(mostAttempts + 5) {
		id := model.AttemptID{Job: 1, N: n + 1}
		f.Add(&model.Record{Time: 1, Event: model.Placed{Attempt: id}})
		f.Add(&model.Record{Time: 2, Event: model.AttemptEnded{Attempt: id, Cause: model.EndPlatform}})
	}
	if list, left := f.Attempts(); len(list) != mostAttempts || left != 5 || list[0].ID.N != 6 || len(f.live) != 0 {
		t.Errorf("%d attempts, %d left out, %d live", len(list), left, len(f.live))
	}
}

// TestFoldOfManyTasks: the history of a large job that is tried again and again has a bound, and of
// each attempt it has the first failures and how many ends are left out.
func TestFoldOfManyTasks(t *testing.T) {
	const tasks, tries = 4000, 30
	f := newAttemptFold(carry)
	var place cell.Placement
	for o := range tasks {
		place.Tasks = append(place.Tasks, cell.Task{Node: cell.NodeName(fmt.Sprint("n", o/2))})
	}
	for n := range int32(tries) {
		id := model.AttemptID{Job: 1, N: n + 1}
		f.Add(&model.Record{Event: model.Placed{Attempt: id, Placement: place}})
		for o := range int32(tasks) {
			x := model.Exit{Own: true}
			if o >= tasks-2 {
				x.Code = 200
			}
			f.Add(&model.Record{Event: model.TaskExited{Attempt: id, Task: o, Exit: x}})
		}
		f.Add(&model.Record{Event: model.AttemptEnded{Attempt: id, Cause: model.EndFailed}})
	}
	f.Add(&model.Record{Event: model.JobEnded{Job: 1, Phase: model.Failed}})
	list, _ := f.Attempts()
	lines := 0
	for i := range list {
		a := &list[i]
		lines += len(a.Nodes) + len(a.Tasks)
		last := a.Tasks[len(a.Tasks)-1]
		if len(a.Nodes)+a.MoreNodes != tasks/2 || len(a.Tasks)+a.MoreTasks != tasks || last.Task != fmt.Sprint(tasks-1) {
			t.Fatalf("attempt %s: %d and %d nodes, %d and %d tasks, the last is %s", a.ID, len(a.Nodes), a.MoreNodes, len(a.Tasks), a.MoreTasks, last.Task)
		}
		if over := last.ExitClass.Retry == exit.Never; over != (i == tries-1) {
			t.Errorf("attempt %s: retried %s", a.ID, last.ExitClass.Retry)
		}
	}
	if len(list) != tries || lines > MostLines || lines != f.lines {
		t.Errorf("%d attempts, %d lines, counted as %d", len(list), lines, f.lines)
	}
}
