package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// TestJobWithoutItsGuarantee checks that a job says when it runs on without its
// guarantee, or on devices that left the configuration.
func TestJobWithoutItsGuarantee(t *testing.T) {
	j := rest.Job{}
	j.Priority = 10
	j.Tasks = []rest.TaskStatus{{Role: "main", Node: "n", SKU: "G", Devices: []int32{3}, Lost: []int32{3}}}
	j.Attempts = []rest.AttemptStatus{{State: model.AttemptOver, Opportunistic: true}}
	show := func() string {
		var out strings.Builder
		a := &cli.App{Out: &out, Format: "table", Now: time.Now}
		if err := a.Show(j, func(t *cli.Table) { (&commands{a}).drawJob(t, &j) }); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := show()
	if strings.Contains(text, "guarantee") || !strings.Contains(text, "main-0 runs on 1 device of n that the configuration lacks") {
		t.Error(text)
	}
	j.Attempts[0].State = model.AttemptRunning
	if text = show(); !strings.Contains(text, "without its guarantee") {
		t.Error(text)
	}
	j.Priority = cell.Opportunistic
	if text = show(); strings.Contains(text, "guarantee") {
		t.Error(text)
	}
}

func TestExplanationOfADemotedJob(t *testing.T) {
	ex := rest.Explanation{}
	ex.Phase = model.Active
	for _, demoted := range []bool{false, true} {
		ex.Demoted = demoted
		var out strings.Builder
		a := &cli.App{Out: &out, Format: "table", Now: time.Now}
		if err := a.Show(ex, func(t *cli.Table) { (&commands{a}).drawExplanation(t, &ex) }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "without its guarantee"); got != demoted {
			t.Error(out.String())
		}
	}
}

// TestNotesAreWords checks that explain shows no microseconds, lease numbers or JSON of a policy.
func TestNotesAreWords(t *testing.T) {
	a := &commands{&cli.App{}}
	for note, want := range map[string]string{
		`{"at":1790000000000000,"ran":5}`:            "",
		"room for 2 since 1790000000000000us":        "room for 2 since 2026-09-21T14:13:20Z",
		"measured 0s; holds 0 a100 833334-833336":    "measured 0s",
		"measured 0s; ":                              "measured 0s",
		"did 360s of that by 120s; promised 0 gpu 7": "did 360s of that by 120s",
		"": "",
	} {
		if got := a.noteText(note); got != want {
			t.Errorf("%q is shown as %q, not %q", note, got, want)
		}
	}
}

// The list tells in a few words why a job ended, and clips what a program said last.
func TestReasonsOfEnds(t *testing.T) {
	job := func(cause model.EndCause, x rest.Exit) *rest.Job {
		return &rest.Job{JobStatus: rest.JobStatus{Phase: model.Failed, Cause: cause, Exit: &x, Tasks: []rest.TaskStatus{{Exit: &x}}}}
	}
	for _, c := range []struct {
		job  *rest.Job
		want string
	}{
		{job(model.EndFailed, rest.Exit{Code: 137, Signal: 9, Cause: model.OutOfMemory, Message: "it needed more than its 64 MiB of memory"}), "signal 9 (out of memory)"},
		{job(model.EndFailed, rest.Exit{Code: 1, Own: true, Message: strings.Repeat("ä", 60)}), "exit 1: " + strings.Repeat("ä", 39) + "..."},
		{job(model.EndFailed, rest.Exit{Code: 1, Own: true}), "exit 1"},
		{job(model.EndTimeLimit, rest.Exit{Code: 143, Signal: 15}), "time limit"},
		{job(model.EndTimeLimit, rest.Exit{Code: 137, Signal: 9, Cause: model.GraceOver}), "time limit (grace over)"},
	} {
		if got := reason(c.job); got != c.want {
			t.Errorf("%+v: %q, want %q", c.job.Exit, got, c.want)
		}
	}
}

// WAIT counts all waits, also those after a preemption.
func TestWaitIsAllWaits(t *testing.T) {
	a := &commands{&cli.App{Now: func() time.Time { return time.UnixMicro(200e6) }}}
	j := rest.Job{}
	j.Submitted, j.Started, j.Phase = 10e6, 20e6, model.Active
	for waited, want := range map[model.Duration]string{40e6: "40s/1m", 0: "10s/1m"} {
		j.Waited, j.Ran = waited, 60e6
		if got := a.waitRun(&j); got != want {
			t.Errorf("waited %d: %q, want %q", waited, got, want)
		}
	}
}

// A job that its reader may not see is called by its number alone: no word is empty or said twice.
func TestHiddenJobHasNoEmptyWords(t *testing.T) {
	ex := rest.Explanation{}
	hidden := func() model.JobBrief {
		return model.JobBrief{Job: 2, Name: "trains", User: "ann", VC: "speech", Priority: 10, Takes: "4 GPUs"}
	}
	ex.Ahead, ex.Blockers, ex.Preempts = []model.JobBrief{hidden()}, []model.JobBrief{hidden()}, []model.Displaced{{JobBrief: hidden()}}
	ex.Shares = []model.GangShare{{Name: "all", With: []model.JobBrief{hidden()}}}
	ex.Estimate = &model.Estimate{Latest: 5, Ends: []model.EstimatedEnd{{Job: 2, Name: "trains", At: 4}}}
	ex.Gangs = []model.GangReason{{Name: "all", Reason: model.Reason{Jobs: []model.JobID{2}}}}
	ex.Names = []rest.NamedJob{{ID: 2, Ref: "job 2", VC: "speech"}}
	rest.Hide(&ex.Explanation, func(model.JobID) bool { return true })
	var out strings.Builder
	a := &cli.App{Out: &out, Format: "table", Now: time.Now}
	if err := a.Show(ex, func(t *cli.Table) { (&commands{a}).drawExplanation(t, &ex); (&commands{a}).drawDryRun(t, &ex) }); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Contains(text, " of  ") || strings.Contains(text, "job 2 (2") || strings.Contains(text, "ann") || !strings.Contains(text, "    job 2 in speech, test, 4 GPUs") {
		t.Error(text)
	}
	if data, err := json.Marshal(ex); err != nil || strings.Contains(string(data), `"user":""`) {
		t.Errorf("%s %v", data, err)
	}
}

// TestWordsOfAnEndComeOnce: a job's message and the words of its exit are often the same.
func TestWordsOfAnEndComeOnce(t *testing.T) {
	j := &rest.Job{}
	j.ID, j.Ref, j.Phase = 7, "train", model.Failed
	j.Exit = &rest.Exit{Code: 126, Message: "there is no such directory"}
	j.Message = "task main-0 failed with exit code 126: there is no such directory"
	want := "job train (7) failed, exit 126: task main-0 failed with exit code 126: there is no such directory"
	if got := ending(j); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.Message = ""
	if got, want := ending(j), "job train (7) failed, exit 126 (there is no such directory)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is asked for and what is free is told as GPUs and CPUs of each type: never as leaves, and
// different types are not added up.
func TestAmountsAreToldByType(t *testing.T) {
	v100 := model.Carry{SKU: "V100", Device: cell.NVIDIA, GPU: 1}
	slot := model.Carry{SKU: "slot", Device: cell.CPU, MilliCPU: 1500}
	var out strings.Builder
	a := &cli.App{Out: &out, Format: "table", Now: time.Now}
	ex := rest.Explanation{}
	ex.Gangs = []model.GangReason{{Name: "g", Reason: model.Reason{Code: model.VCBusy, Need: 6, Free: 4, Total: 12, Asks: "6 GPUs",
		Rooms: []model.Room{{Carry: v100, Free: 3, Total: 8}, {Carry: slot, Free: 1, Total: 4}}}}}
	ex.Blockers = []model.JobBrief{{Name: "b", Leaves: 9, Takes: "5 GPUs (V100) and 6 CPUs (slot)"}}
	if err := a.Show(ex, func(t *cli.Table) { (&commands{a}).drawExplanation(t, &ex) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"asks for 6 GPUs; free to it now: 3 of 8 GPUs (V100) and 1.5 of 6 CPUs (slot)", "5 GPUs (V100) and 6 CPUs (slot)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "lea") {
		t.Error(out.String())
	}
}
