package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/upload"
)

func (a *commands) drawJobs(t *cli.Table, list []rest.Job) {
	t.Head("NAME", "ID", "USER", "VC", "PRIO", "STATE", "REASON", "GPUS", "TASKS", "NODES", "WAIT/RUN", "LEFT",
		"SUBMITTED")
	for i := range list {
		j := &list[i]
		t.Row(j.Ref, cli.Number(j.ID), string(j.User), string(j.VC), narrate.Priority(j.Priority), state(j),
			reason(j), cli.Number(j.GPUs), tasksText(j), Nodes(j), a.waitRun(j),
			leftText(j, a.Now(), true), a.When(j.Submitted))
	}
}

func state(j *rest.Job) string {
	if j.Stopping && !j.Phase.Ended() {
		return "Stopping"
	}
	if j.Held != nil && !j.Phase.Ended() {
		return "Held"
	}
	return string(j.Phase)
}

// reason says in a few words why a job waits, or why it ended.
func reason(j *rest.Job) string {
	switch {
	case j.Reason != nil && slices.ContainsFunc(j.Attempts, wasPreempted):
		return string(j.Reason.Code) + " (preempted)"
	case j.Reason != nil:
		return string(j.Reason.Code)
	case !j.Phase.Ended() || j.Phase == model.Succeeded:
		return ""
	case j.Cause == model.EndFailed && j.Exit != nil:
		return clip(classText(j.ExitClass) + narrate.Exit(j.Exit) + narrate.Because(failureText(j.Exit)))
	case slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool {
		return t.Exit != nil &&
			t.Exit.Cause == model.GraceOver
	}):
		return j.Cause.String() + " (" + string(model.GraceOver) + ")"
	}
	return j.Cause.String()
}

// classText is the class of an end, before the description of it.
func classText(c *rest.ExitClass) string {
	if c == nil || c.Class == "" {
		return ""
	}
	return string(c.Class) + ": "
}

func wasPreempted(a rest.AttemptStatus) bool { return a.Cause == model.EndPreempted }

// failureText is the message of a task that failed by itself. For an end by the platform the
// cause says it.
func failureText(e *rest.Exit) string {
	if e.Cause != "" {
		return ""
	}
	return e.Message
}

// clip keeps the beginning of a text, for a column of a table. comb job get shows all of it.
func clip(text string) string {
	const longest = 50
	if r := []rune(text); len(r) > longest {
		return string(r[:longest-3]) + "..."
	}
	return text
}

// tasksText is "running/all".
func tasksText(j *rest.Job) string {
	counts, n := model.TaskRunning, 0
	if j.Phase.Ended() {
		counts = model.TaskSucceeded
	}
	for _, t := range j.Tasks {
		if t.State == counts {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(j.Tasks))
}

// waitRun is how long the job waited in all, and once it has started how long it has run,
// without further waits and suspensions.
func (a *commands) waitRun(j *rest.Job) string {
	if j.Started == 0 {
		return a.Span(j.Submitted, j.Ended)
	}
	if j.Waited == 0 { // it ended before this was measured: all but its first wait count as run time
		ran := narrate.Span(j.Ran)
		if j.Ran == 0 && j.Phase.Ended() {
			ran = a.Span(j.Started, j.Ended)
		}
		return a.Span(j.Submitted, j.Started) + "/" + ran
	}
	return narrate.Span(j.Waited) + "/" + narrate.Span(j.Ran)
}

// doneText is the finished part of a job's steps.
func doneText(o *rest.JobOutlook) string { return fmt.Sprintf("%d.%d%%", o.Done/10, o.Done%10) }

// leftText is a job's reported progress, and when it ends or must leave its place, with the
// basis of that. brief is such as "12.5%, 1h4m (reported steps)", or "at most 59m (drain)".
func leftText(j *rest.Job, now time.Time, brief bool) string {
	o := rest.JobOutlook{}
	if j.Outlook != nil {
		o = *j.Outlook
	}
	var parts []string
	if o.At != 0 {
		parts = append(parts, doneText(&o))
	}
	if len(j.Coming) > 0 && j.Coming[0].Kind != model.ComesLimit && j.Coming[0].Kind != model.ComesStop {
		if c := &j.Coming[0]; c.At != 0 && (o.Ends == 0 || c.At < o.Ends) {
			o.Ends, o.Last, o.Basis = c.At, true, "the "+c.Kind
		}
	}
	switch most := ""; {
	case o.Ends != 0:
		if o.Last {
			most = "at most "
		}
		text := most + narrate.Short(max(time.UnixMicro(int64(o.Ends)).Sub(now), 0))
		if brief {
			text += " (" + strings.TrimPrefix(o.Basis, "the ") + ")"
		} else {
			text += ", by " + o.Basis
		}
		parts = append(parts, text)
	case o.Basis != "" && !brief:
		parts = append(parts, "not known: "+o.Basis)
	}
	return strings.Join(parts, ", ")
}

func (a *commands) jobGet() *cobra.Command {
	file := false
	c := &cobra.Command{Use: "get JOB", Short: "Show a job with its tasks"}
	c.Flags().BoolVar(&file, "file", false, "show the job file as submitted, secrets masked")
	return a.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		if file {
			data, err := client.JobConfig(ctx, ref)
			if err != nil {
				return err
			}
			_, err = a.Out.Write(data)
			return err
		}
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		return a.Show(j, func(t *cli.Table) { a.drawJob(t, &j) })
	})
}

func (a *commands) drawJob(t *cli.Table, j *rest.Job) {
	t.Row("name", string(j.Name))
	t.Row("id", cli.Number(j.ID))
	t.Row("user", string(j.User))
	t.Row("vc", string(j.VC))
	t.Row("priority", narrate.Priority(j.Priority))
	t.Row("state", state(j))
	if j.Reason != nil {
		t.Row("reason", string(j.Reason.Code)+": "+j.Reason.Message)
	}
	if why := refusal(j); why != "" {
		t.Row("refused", why)
	}
	if j.Phase.Ended() {
		t.Row("cause", j.Cause.String())
	}
	if j.Exit != nil {
		t.Row("exit", narrate.ExitBeside(j.Exit, j.Message))
	}
	if j.Message != "" {
		t.Row("message", j.Message)
	}
	if c := j.ExitClass; c != nil {
		t.Row("class", classText(c)+c.Means)
		t.Row("next", whatNext(c))
	}
	t.Row("submitted", a.When(j.Submitted))
	t.Row("started", a.When(j.Started))
	t.Row("ended", a.When(j.Ended))
	t.Row("wait/run", a.waitRun(j))
	if text := leftText(j, a.Now(), false); text != "" {
		t.Row("left", text)
	}
	for i := range j.Coming {
		t.Row("comes", comesText(&j.Coming[i], a.When))
	}
	for _, often := range [][2]string{{"tags", strings.Join(j.Tags, " ")}, {"retries", retries(&j.JobStatus)},
		{"preempted", preempted(&j.JobStatus)}} {
		if often[1] != "" {
			t.Row(often[:]...)
		}
	}
	if borrows(j) {
		t.Row("guarantee", "runs as opportunistic, without its guarantee, until room for that returns")
	}
	for i := range j.Tasks {
		if k := &j.Tasks[i]; len(k.Lost) > 0 {
			t.Row("draining", fmt.Sprintf("%s-%d runs on %s of %s that the configuration lacks", k.Role, k.Index,
				cli.Count(len(k.Lost), "device", "devices"), k.Node))
		}
	}
	if h := j.Held; h != nil && !j.Phase.Ended() {
		t.Row("held", "by "+string(h.By)+" since "+t.App.When(h.Since)+narrate.Because(h.Reason)+": comb job release "+j.Ref)
	}
	for _, n := range j.Notices {
		t.Row("notice", n)
	}
	if j.Upload != nil {
		t.Row("upload", j.Upload.Digest+", "+upload.Size(j.Upload.Size))
	}
	if j.CheckpointDir != "" {
		t.Row("checkpoints", j.CheckpointDir)
	}
	t.Line("")
	t.Head("TASK", "STATE", "ATTEMPT", "NODE", "SKU", "DEVICES", "MAY USE", "PORTS", "PID", "EXIT", "PROGRESS")
	for i := range j.Tasks {
		drawTask(t, &j.Tasks[i], j.Message)
	}
}

// drawTask prints the line of a task. said is the part of the job's message about an end.
func drawTask(t *cli.Table, k *rest.TaskStatus, said string) {
	t.Row(fmt.Sprintf("%s-%d", k.Role, k.Index), k.State.String(), cli.Number(k.Attempt), string(k.Node), string(k.SKU),
		narrate.Devices(k.Devices, k.Parts), mayUse(k), portList(k.Ports), pid(k.PID),
		narrate.ExitBeside(k.Exit, said), narrate.Progress(k.Progress))
}

// whatNext says which side must act, and how.
func whatNext(c *rest.ExitClass) string {
	if c.Actor == exit.None {
		return c.Next
	}
	return string(c.Actor) + ": " + c.Next
}

// refusal is why a waiting job was last refused at its start; "" if it was not.
func refusal(j *rest.Job) string {
	if j.Phase != model.Waiting {
		return ""
	}
	for _, a := range slices.Backward(j.Attempts) {
		if a.Cause == model.EndRefused {
			return fmt.Sprintf("attempt %s: %s", a.ID, a.Message)
		}
	}
	return ""
}

// retries says how often a job was retried after a failure. Some failures are not the job's
// own, and do not count against its retries.
func retries(j *rest.JobStatus) string {
	switch {
	case j.Retry == 0:
		return ""
	case j.Counted == j.Retry:
		return cli.Number(j.Retry)
	}
	return fmt.Sprintf("%d, of which %d count as its own failures", j.Retry, j.Counted)
}

// preempted says how often a job was preempted, and for which jobs.
func preempted(j *rest.JobStatus) string {
	switch {
	case j.Preempted+j.Yielded == 0:
		return ""
	case j.Yielded == 0:
		return cli.Count(j.Preempted, "time", "times")
	}
	return fmt.Sprintf("%s, %d of them for jobs of its own priority", cli.Count(j.Preempted, "time", "times"),
		j.Yielded)
}

// borrows reports whether a job of guaranteed priority runs without its guarantee: it was
// preempted lazily, or a change of the configuration took the guarantee.
func borrows(j *rest.Job) bool {
	return j.Priority >= cell.MinGuaranteed && slices.ContainsFunc(j.Attempts, func(a rest.AttemptStatus) bool {
		return a.Opportunistic && a.State != model.AttemptOver
	})
}

// mayUse describes the limits of a task that was started.
func mayUse(t *rest.TaskStatus) string {
	if t.State == model.TaskWaiting {
		return ""
	}
	return t.Limits.String()
}

// portList writes a task's ports, with a dash for ranges: "20017-20018,20040".
func portList(ports []int32) string {
	var out []string
	for i := 0; i < len(ports); {
		last := i
		for last+1 < len(ports) && ports[last+1] == ports[last]+1 {
			last++
		}
		text := cli.Number(ports[i])
		if last > i {
			text += "-" + cli.Number(ports[last])
		}
		out, i = append(out, text), last+1
	}
	return strings.Join(out, ",")
}

func pid(n int32) string {
	if n == 0 {
		return ""
	}
	return cli.Number(n)
}

func (a *commands) jobEvents() *cobra.Command {
	follow := false
	after := uint64(0)
	c := &cobra.Command{Use: "events JOB", Short: "Show what happened to a job",
		Long: "Show what happened to a job, in sentences. With -o json or yaml, the events as\nthe journal holds them; docs/events.md describes each."}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job's end")
	c.Flags().Uint64Var(&after, "after", 0, "only events behind this number")
	return a.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		told := narrate.New(&j, func(id model.JobID) (string, error) {
			other, err := client.Job(ctx, rest.JobRef(id))
			return other.Ref, err
		})
		ref = rest.JobRef(j.ID) // the name may go to a new job while this one is followed
		if follow {
			return client.Follow(ctx, ref, after, rest.Follower{Event: func(e rest.Event) error { return a.printEvent(told, e) }})
		}
		var all []rest.Event
		for {
			page, err := client.JobEvents(ctx, ref, after)
			if err != nil {
				return err
			}
			all = append(all, page.Events...)
			if after = page.Next; after == 0 {
				break
			}
		}
		return a.Show(rest.EventList{Events: all}, func(t *cli.Table) {
			t.Head("SEQ", "TIME", "EVENT", "WHAT")
			for i := range all {
				e := &all[i]
				t.Row(cli.Number(e.Seq), a.When(e.Time), string(e.Kind), told.Tell(e))
			}
		})
	})
}

// printEvent prints one event of a stream: a JSON line, or a line for people.
func (a *commands) printEvent(told *narrate.Narrator, e rest.Event) error {
	if a.Format != "table" {
		return json.NewEncoder(a.Out).Encode(e)
	}
	_, err := fmt.Fprintf(a.Out, "%-6d %-20s %-16s %s\n", e.Seq, a.When(e.Time), e.Kind,
		cli.Clean(told.Tell(&e), false))
	return err
}
