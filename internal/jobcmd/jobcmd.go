// Package jobcmd is what commands about the life of a job do: its history, another job like it, and stops. They ask a
// server by REST and draw tables. It must not know how a server is found, or how a table is printed.
package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// Table takes the columns' names, rows, and text that is no row.
type Table struct {
	Head, Row func(...string)
	Line      func(string, ...any)
}

// Job is a command about one job.
type Job = func(ctx context.Context, client *rest.Client, ref string) error

// Kit is what the commands need of their program.
type Kit struct {
	Client   func() (*rest.Client, error)
	WithJob  func(*cobra.Command, Job) *cobra.Command // makes a command about the job that it names
	Show     func(v any, draw func(Table)) error      // as the user asked for
	When     func(sched.Time) string                  // an instant
	Short    func(time.Duration) string               // a span
	Exit     func(*rest.Exit) string                  // how a task ended
	Wait     Job                                      // until the job has ended
	Filter   func(*cobra.Command) *Filter             // adds the flags that choose jobs
	Submit   func(context.Context, *rest.Client, rest.SubmitRequest) (rest.Submitted, error)
	ReadFile func(name string, most int64) ([]byte, error)
	Usage    func(c *cobra.Command, format string, args ...any) error
	In       io.Reader
	Prompt   io.Writer // where questions are asked
}

// Filter chooses jobs by flags.
type Filter struct {
	Used  func() bool // a flag was given
	Query func() (rest.JobQuery, error)
}

// Verbs are the commands.
func Verbs(k *Kit) []*cobra.Command {
	return []*cobra.Command{k.history(), k.clone(), k.stop()}
}

func (k *Kit) history() *cobra.Command {
	c := &cobra.Command{Use: "history JOB", Short: "Show all attempts of a job",
		Long: `Show all attempts of a job: where and when each ran, how it ended, why it was stopped, and the
GPU-seconds of work since its last checkpoint that were lost with it.`}
	return k.WithJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		out, err := client.JobHistory(ctx, ref)
		if err != nil {
			return err
		}
		return k.Show(out, func(t Table) { k.drawHistory(t, &out) })
	})
}

func (k *Kit) drawHistory(t Table, h *rest.JobHistory) {
	if h.Left > 0 {
		t.Line("%d older attempts are left out", h.Left)
	}
	if h.Removed != nil {
		t.Line("logs, work and checkpoints were %s", h.Removed.Words())
	}
	t.Head("ATTEMPT", "RETRY", "NODES", "GPUS", "PLACED", "STARTING", "RAN", "ENDED", "CAUSE", "LOST", "WHY")
	for i := range h.Attempts {
		a := &h.Attempts[i]
		started, ran, ended := "", "", ""
		if a.Started != 0 {
			started = k.span(a.Placed, a.Started)
		}
		if a.Started != 0 && a.Ended != 0 {
			ran = k.span(a.Started, a.Ended)
		}
		if a.Ended != 0 {
			ended = k.When(a.Ended)
		}
		t.Row(a.ID.String(), strconv.Itoa(int(a.Retry)), nodes(a.Nodes, a.MoreNodes), strconv.FormatInt(a.GPUs, 10), k.When(a.Placed), started, ran, ended,
			a.Cause.String(), lost(a.Lost), k.why(a))
	}
}

func (k *Kit) span(from, to sched.Time) string {
	return k.Short(time.Duration(to-from) * time.Microsecond)
}

// nodes names the first few machines, of these and of more that are left out.
func nodes(names []cell.NodeName, left int) string {
	const most = 3
	var out []string
	for _, n := range names[:min(len(names), most)] {
		out = append(out, string(n))
	}
	text := strings.Join(out, ",")
	if more := len(names) - len(out) + left; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lost is work that was lost, in GPU-seconds.
func lost(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d GPU-s", n)
}

// why is the rule by which an attempt was stopped, else how the task ended by which it ended.
func (k *Kit) why(a *rest.PastAttempt) string {
	if a.Why != "" {
		return a.Why
	}
	for i := range a.Tasks {
		t := &a.Tasks[i]
		if t.ExitClass == nil {
			continue
		}
		text := string(t.ExitClass.Class) + ": " + t.Task + " " + k.Exit(t.Exit)
		if t.Exit.Message != "" && !strings.Contains(text, t.Exit.Message) {
			text += ": " + t.Exit.Message
		}
		return text
	}
	return a.Message
}

// many is how many jobs are stopped without a question.
const many = 1

func (k *Kit) stop() *cobra.Command {
	reason, wait, yes := "", false, false
	c := &cobra.Command{Use: "stop [JOB...]", Short: "Ask to end jobs: those that are named, or those that a filter matches",
		Long: `Ask to end the jobs that are named, or those that have not ended and match --state, --vc, --user
and --name. More than one job of a filter is shown first, and stopped after a yes, or with --yes.`,
		Example: "  comb job stop train\n  comb job stop --user alice --name sweep- --yes"}
	filter := k.Filter(c)
	c.Flags().StringVar(&reason, "reason", "", "shown to users")
	c.Flags().BoolVar(&wait, "wait", false, "wait until they have ended")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	var asked []string // to wait for, once all were asked
	stop := func(ctx context.Context, client *rest.Client, jobs []rest.Job) error {
		refs, err := k.stopAll(ctx, client, jobs, reason)
		asked = append(asked, refs...)
		return err
	}
	one := k.WithJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		return stop(ctx, client, []rest.Job{j})
	})
	named := one.RunE
	c.Args = nil
	c.RunE = func(c *cobra.Command, refs []string) error {
		if filter.Used() == (len(refs) > 0) {
			return k.Usage(c, "name jobs, or choose them with --state, --vc, --user and --name")
		}
		var problems []error
		if len(refs) == 0 {
			problems = append(problems, k.stopMatching(c, filter, yes, stop))
		}
		for _, ref := range refs {
			problems = append(problems, named(c, []string{ref}))
		}
		if wait && len(asked) > 0 {
			problems = append(problems, k.waitAll(c.Context(), asked))
		}
		return errors.Join(problems...)
	}
	return c
}

// waitAll waits for jobs, one after the other.
func (k *Kit) waitAll(ctx context.Context, refs []string) error {
	client, err := k.Client()
	problems := []error{err}
	for i := 0; err == nil && i < len(refs); i++ {
		problems = append(problems, k.Wait(ctx, client, refs[i]))
	}
	return errors.Join(problems...)
}

// stopMatching finds the jobs of a filter, and asks before it stops many.
func (k *Kit) stopMatching(c *cobra.Command, filter *Filter, yes bool, stop func(context.Context, *rest.Client, []rest.Job) error) error {
	q, err := filter.Query()
	if err != nil {
		return err
	}
	client, err := k.Client()
	if err != nil {
		return err
	}
	q.Limit = 1000
	var jobs []rest.Job
	for {
		page, err := client.Jobs(c.Context(), q)
		if err != nil {
			return err
		}
		jobs = append(jobs, page.Jobs...)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	jobs = slices.DeleteFunc(jobs, func(j rest.Job) bool { return j.Phase.Ended() || j.Stopping })
	if len(jobs) == 0 {
		return errors.New("no job matches that has not ended")
	}
	if len(jobs) > many && !yes && !k.agreed(jobs) {
		return errors.New("nothing is stopped: answer yes, or give --yes")
	}
	return stop(c.Context(), client, jobs)
}

// agreed shows jobs and asks whether they shall be stopped.
func (k *Kit) agreed(jobs []rest.Job) bool {
	for i := range jobs[:min(len(jobs), 20)] {
		fmt.Fprintf(k.Prompt, "  %s (%d), %s, VC %s\n", jobs[i].Ref, jobs[i].ID, jobs[i].Phase, jobs[i].VC)
	}
	if more := len(jobs) - 20; more > 0 {
		fmt.Fprintf(k.Prompt, "  and %d more\n", more)
	}
	fmt.Fprintf(k.Prompt, "stop these %d jobs? [y/N] ", len(jobs))
	answer := ""
	_, _ = fmt.Fscanln(k.In, &answer)
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// stopAll asks to end jobs, and tells of each that was asked even where another one fails. It returns those.
func (k *Kit) stopAll(ctx context.Context, client *rest.Client, jobs []rest.Job, reason string) (asked []string, err error) {
	var out []rest.Done
	var lines []string
	var problems []error
	for i := range jobs {
		ref := rest.JobRef(jobs[i].ID)
		done, err := client.Stop(ctx, ref, reason)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out, asked = append(out, done), append(asked, ref)
		lines = append(lines, fmt.Sprintf("job %s (%d): stop asked", jobs[i].Ref, jobs[i].ID))
	}
	var v any = out
	if len(jobs) == 1 && len(out) == 1 {
		v = out[0]
	}
	if len(out) > 0 {
		problems = append(problems, k.Show(v, func(t Table) {
			for _, line := range lines {
				t.Line("%s", line)
			}
		}))
	}
	return asked, errors.Join(problems...)
}
