// Package narrate writes a job's events, ends and causes as sentences. It must not know where
// the text goes.
package narrate

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Narrator writes a job's events as sentences. The API returns events as they are, and -o
// json shows them.
type Narrator struct {
	tasks []string                          // names of the job's tasks by ordinal, such as main-0
	jobs  map[model.JobID]string            // names of other jobs in events
	ask   func(model.JobID) (string, error) // returns the name of another job; nil leaves numbers
}

// New returns a narrator of a job's events. ask returns the name of another job. Where it is
// nil or fails the number is used.
func New(j *rest.Job, ask func(model.JobID) (string, error)) *Narrator {
	n := &Narrator{ask: ask, jobs: map[model.JobID]string{}}
	for _, t := range j.Tasks {
		n.tasks = append(n.tasks, fmt.Sprintf("%s-%d", t.Role, t.Index))
	}
	return n
}

// job names another job as "job 7 (urgent)", and by its number alone where its name is
// unknown.
func (n *Narrator) job(id model.JobID) string {
	name, known := n.jobs[id]
	if !known && n.ask != nil {
		name, _ = n.ask(id)
		n.jobs[id] = name
	}
	if name == "" {
		return fmt.Sprintf("job %d", id)
	}
	return fmt.Sprintf("job %d (%s)", id, name)
}

// Tell writes an event as one sentence. An event of a newer server, which this program does
// not know, is shown as its data.
func (n *Narrator) Tell(e *rest.Event) string {
	event, err := model.DecodeEvent(e.Kind, e.Version, e.Data)
	if err != nil {
		return cut(string(e.Data), 400)
	}
	for _, tell := range []func(model.Event) string{n.tellJob, n.tellTask, n.tellAttempt} {
		if text := tell(event); text != "" {
			return text
		}
	}
	return cut(string(e.Data), 400)
}

func (n *Narrator) tellJob(event model.Event) string {
	switch e := event.(type) {
	case model.JobSubmitted:
		if e.Job == nil {
			return "submitted"
		}
		return fmt.Sprintf("submitted by %s to %s with priority %s", e.Meta.Subject, e.Job.VC, Priority(e.Job.Priority))
	case model.StopRequested:
		return "stop requested by " + string(e.Meta.Subject) + Because(e.Reason)
	case model.JobHeld:
		return map[bool]string{true: "held by ", false: "released by "}[e.On] + string(e.Meta.Subject) + Because(e.Reason)
	case model.JobRequeued:
		return "requeue requested by " + string(e.Meta.Subject) + Because(e.Reason)
	case model.JobUpdated:
		var parts []string
		if e.Priority != nil {
			parts = append(parts, "priority "+Priority(*e.Priority))
		}
		if e.TimeLimit != nil {
			parts = append(parts, "time limit "+document.FormatDuration(int64(*e.TimeLimit)))
		}
		return string(e.Meta.Subject) + " set " + strings.Join(parts, " and ")
	case model.JobCompleting:
		return "result: it " + phase(e.Phase, e.Cause) + Because(e.Message)
	case model.JobRetried:
		text := "the job is queued again"
		if !e.Counted {
			text += " (not counted as a retry)"
		}
		return text + notBefore(e.After) + Because(e.Message)
	case model.JobEnded:
		return "the job " + phase(e.Phase, e.Cause) + Because(e.Message)
	case model.Booked:
		return n.booked(e)
	case model.Quarantined:
		return "set aside after an internal error: the scheduler skips it; report it with this number: " + e.Stack
	case model.PolicyFailed:
		return e.Words()
	case model.Foretold:
		if e.At == 0 {
			return "notice: " + e.Message // what was announced is cancelled
		}
		return "to come at " + clock(e.At) + ": " + e.Message
	case model.Notice:
		if e.Message == "" {
			return "no longer waits for " + e.About
		}
		return "notice: " + e.Message
	case model.Noted:
		return "note of the policy " + e.Policy
	}
	return ""
}

func (n *Narrator) booked(e model.Booked) string {
	switch {
	case e.Over != "":
		return "no cells are kept for it any more" + Because(e.Over)
	case e.Start != 0:
		return "cells are kept for it, free at " + clock(e.Start) + " at the latest"
	}
	var after []string
	for _, id := range e.After {
		after = append(after, n.job(id))
	}
	return "cells are kept for it until the end of " + strings.Join(after, ", ")
}

func (n *Narrator) tellTask(event model.Event) string {
	switch e := event.(type) {
	case model.TaskStarted:
		if e.PID == 0 { // a pod
			return n.task(e.Task) + " runs at " + e.Host
		}
		return fmt.Sprintf("%s runs as process %d of %s", n.task(e.Task), e.PID, e.Host)
	case model.TaskExited:
		return n.task(e.Task) + " ended: " + Exit(rest.ExitOf(&e.Exit)) + Because(e.Exit.Message)
	case model.TaskRefused:
		return n.task(e.Task) + " could not be started" + Because(e.Reason)
	case model.TaskUnknown:
		return n.task(e.Task) + ": contact lost, it may still run" + Because(e.Reason)
	case model.Progress:
		text := n.task(e.Task) + ":"
		if e.Step > 0 || e.Loss != "" {
			text += " " + Progress(&rest.TaskProgress{Step: e.Step, Total: e.Total, Loss: e.Loss})
		}
		if e.Checkpoint {
			text += " checkpoint saved"
		}
		if e.Use != nil {
			text += " " + Use(rest.UseOf(e.Use))
		}
		return text
	}
	return ""
}

func (n *Narrator) tellAttempt(event model.Event) string {
	switch e := event.(type) {
	case model.Placed:
		return fmt.Sprintf("attempt %s placed on %s", e.Attempt, Places(e.Placement))
	case model.Reserved:
		if len(e.Victims) == 0 {
			return fmt.Sprintf("attempt %s gets %s after the one before it has stopped", e.Attempt, Places(e.Placement))
		}
		return fmt.Sprintf("attempt %s gets %s after %s stopped", e.Attempt, Places(e.Placement), victims(e.Victims))
	case model.Unreserved:
		return fmt.Sprintf("attempt %s: its reservation is cancelled", e.Attempt) + Because(e.Reason)
	case model.StopSent:
		text := fmt.Sprintf("attempt %s told to stop within %s: %s", e.Attempt, Span(e.Grace), Cause(e.Cause))
		if e.By != nil {
			text += " for " + n.job(e.By.Job)
		}
		if e.For != "" {
			text += fmt.Sprintf(": virtual cluster %s lends nothing", e.For)
		}
		return text
	case model.Joined:
		return fmt.Sprintf("attempt %s joins attempt %s on %s", e.Attempt, e.Host, Places(e.Placement))
	case model.LazilyPreempted:
		text := fmt.Sprintf("attempt %s goes on as opportunistic", e.Attempt)
		if e.By != nil {
			text += ": its guaranteed cells go to " + n.job(e.By.Job)
		}
		return text
	case model.Upgraded:
		return fmt.Sprintf("attempt %s is guaranteed again", e.Attempt)
	case model.AttemptEnded:
		if e.Cause == model.EndPlatform && e.Message != "" { // the message says what it was
			return fmt.Sprintf("attempt %s over: %s", e.Attempt, e.Message)
		}
		return fmt.Sprintf("attempt %s over: %s", e.Attempt, Cause(e.Cause)) + Because(e.Message)
	case model.TaskRetried:
		text := "queued again"
		if !e.Counted {
			text += " (not counted as a retry)"
		}
		return text + notBefore(e.After)
	case model.Sized:
		return fmt.Sprintf("may have %d members, as its policy says", e.Size)
	case model.NodeAvoided:
		return fmt.Sprintf("avoids node %s", e.Node) + Until(e.Until)
	}
	return ""
}

// task names a task by its ordinal in the job.
func (n *Narrator) task(i int32) string {
	if i >= 0 && int(i) < len(n.tasks) {
		return n.tasks[i]
	}
	return "task " + fmt.Sprint(i)
}

// Places is "n1 devices 0,1, n2 devices 0,1", one part per task.
func Places(p cell.Placement) string {
	var out []string
	for i, t := range p.Tasks {
		if i == 8 {
			out = append(out, fmt.Sprintf("and %d more", len(p.Tasks)-i))
			break
		}
		word := "devices"
		if len(t.Devices) == 1 {
			word = "device"
		}
		out = append(out, fmt.Sprintf("%s %s %s", t.Node, word, Devices(t.Devices, t.Parts)))
	}
	return strings.Join(out, "; ")
}

func victims(list []model.AttemptID) string {
	var out []string
	for _, v := range list {
		out = append(out, v.String())
	}
	if len(out) == 1 {
		return "attempt " + out[0] + " has"
	}
	return "attempts " + strings.Join(out, ", ") + " have"
}
