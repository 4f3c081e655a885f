// Package job has the commands about jobs. They talk to a server by REST and print tables.
// The package must not know how a server is found, or how a table is printed.
package job

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Job is a command about one job.
type Job = func(ctx context.Context, client *rest.Client, ref string) error

// Filter selects jobs by flags.
type Filter struct {
	Used  func() bool // reports whether a flag was given
	Query func() (rest.JobQuery, error)
}

// life are the commands that change jobs, and their history.
func (k *commands) life() []*cobra.Command {
	return []*cobra.Command{k.history(), k.clone(), k.stop(), k.hold(), k.release(), k.requeue(), k.update(), k.tag(),
		k.top()}
}

func (k *commands) history() *cobra.Command {
	c := &cobra.Command{Use: "history JOB", Short: "Show all attempts of a job",
		Long: `Show all attempts of a job: where and when each ran, how it ended, why it was stopped, and the
GPU-seconds of work since its last checkpoint that were lost with it.`}
	return k.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		out, err := client.JobHistory(ctx, ref)
		if err != nil {
			return err
		}
		return k.Show(out, func(t *cli.Table) { k.drawHistory(t, &out) })
	})
}

func (k *commands) drawHistory(t *cli.Table, h *rest.JobHistory) {
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
		t.Row(a.ID.String(), strconv.Itoa(int(a.Retry)), nodes(a.Nodes, a.MoreNodes), strconv.FormatInt(a.GPUs, 10),
			k.When(a.Placed), started, ran, ended,
			a.Cause.String(), lost(a.Lost), k.why(a))
	}
}

func (k *commands) span(from, to model.Time) string {
	return narrate.Short(time.Duration(to-from) * time.Microsecond)
}

// nodes names the first few nodes; left is how many more the list leaves out.
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

// lost is lost work, in GPU-seconds.
func lost(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d GPU-s", n)
}

// why is the rule by which an attempt was stopped, else how the task ended that ended it.
func (k *commands) why(a *rest.PastAttempt) string {
	if a.Why != "" && a.Message != "" {
		return a.Why + "; " + a.Message
	}
	if a.Why != "" {
		return a.Why
	}
	for i := range a.Tasks {
		t := &a.Tasks[i]
		if t.ExitClass == nil {
			continue
		}
		text := string(t.ExitClass.Class) + ": " + t.Task + " " + narrate.Exit(t.Exit)
		if t.Exit.Message != "" && !strings.Contains(text, t.Exit.Message) {
			text += ": " + t.Exit.Message
		}
		return text
	}
	return a.Message
}
