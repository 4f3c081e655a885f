package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/jobspec"
)

// maxUnasked is how many jobs of a filter a command changes without a question.
const maxUnasked = 1

// bulkCommand is a command on named jobs, or on those that match a filter.
type bulkCommand struct {
	verb          string               // in the question
	done          string               // printed for each job
	notApplicable string               // printed for a named job to which the command does not apply; "" sends it to the server all the same
	applies       func(*rest.Job) bool // selects jobs of a filter to which the command applies
	ask           func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error)
	after         func(ctx context.Context, refs []string) error // called after all requests; nil is nothing
}

// bulkCommand makes a command from a wish.
func (k *commands) bulkCommand(c *cobra.Command, w *bulkCommand) *cobra.Command {
	filter, yes := k.filter(c), false
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	var asked []string
	do := func(ctx context.Context, client *rest.Client, jobs []rest.Job) error {
		refs, err := k.sendAll(ctx, client, jobs, w)
		asked = append(asked, refs...)
		return err
	}
	one := k.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		return do(ctx, client, []rest.Job{j})
	})
	named := one.RunE
	c.Args = nil
	c.RunE = func(c *cobra.Command, refs []string) error {
		if slices.Contains(refs, "") {
			return cli.Usage(c, "an argument of %s is empty; it wants JOB", c.CommandPath())
		}
		if filter.Used() == (len(refs) > 0) {
			return cli.Usage(c, "name jobs, or choose them with --state, --vc, --user and --name")
		}
		var problems []error
		if len(refs) == 0 {
			problems = append(problems, k.matching(c, filter, yes, w, do))
		}
		for _, ref := range refs {
			problems = append(problems, named(c, []string{ref}))
		}
		if w.after != nil && len(asked) > 0 {
			problems = append(problems, w.after(c.Context(), asked))
		}
		return errors.Join(problems...)
	}
	return c
}

// matching finds the jobs of a filter, and asks before it changes many.
func (k *commands) matching(c *cobra.Command, filter *Filter, yes bool, w *bulkCommand,
	do func(context.Context, *rest.Client, []rest.Job) error) error {
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
	jobs = slices.DeleteFunc(jobs, func(j rest.Job) bool {
		return j.Phase.Ended() || j.Stopping || w.applies != nil &&
			!w.applies(&j)
	})
	if len(jobs) == 0 {
		return fmt.Errorf("no job matches that comb job %s could take", w.verb)
	}
	if len(jobs) > maxUnasked && !yes {
		if agreed, err := k.confirmJobs(w.verb, jobs); err != nil {
			return err
		} else if !agreed {
			return errors.New("nothing is done: answer yes, or give --yes")
		}
	}
	return do(c.Context(), client, jobs)
}

// confirmJobs lists jobs and asks about them.
func (k *commands) confirmJobs(verb string, jobs []rest.Job) (bool, error) {
	for i := range jobs[:min(len(jobs), 20)] {
		fmt.Fprintf(k.Errs, "  %s (%d), %s, VC %s\n", jobs[i].Ref, jobs[i].ID, jobs[i].Phase, jobs[i].VC)
	}
	if more := len(jobs) - 20; more > 0 {
		fmt.Fprintf(k.Errs, "  and %d more\n", more)
	}
	return cli.Answered(k.App, fmt.Sprintf("%s these %d jobs?", verb, len(jobs)))
}

// sendAll sends the command for each job, and reports those for which it was sent even when
// another one fails. It returns them.
func (k *commands) sendAll(ctx context.Context, client *rest.Client, jobs []rest.Job, w *bulkCommand) (asked []string,
	err error) {
	var out []rest.Done
	var lines []string
	var problems []error
	for i := range jobs {
		ref := rest.JobRef(jobs[i].ID)
		done, err := w.ask(ctx, client, ref)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out, asked = append(out, done), append(asked, ref)
		said := w.done
		if w.notApplicable != "" && !w.applies(&jobs[i]) {
			said = w.notApplicable
		}
		if strings.Contains(said, "{job}") {
			lines = append(lines, strings.ReplaceAll(said, "{job}", fmt.Sprintf("job %s (%d)", jobs[i].Ref,
				jobs[i].ID)))
			continue
		}
		lines = append(lines, fmt.Sprintf("job %s (%d): %s", jobs[i].Ref, jobs[i].ID, said))
	}
	var v any = out
	if len(jobs) == 1 && len(out) == 1 {
		v = out[0]
	}
	if len(out) > 0 {
		problems = append(problems, k.Show(v, func(t *cli.Table) {
			for _, line := range lines {
				t.Line("%s", line)
			}
		}))
	}
	return asked, errors.Join(problems...)
}

func (k *commands) stop() *cobra.Command {
	reason, wait := "", false
	c := &cobra.Command{Use: "stop [JOB...]", Short: "Ask to end jobs: those that are named, or those that a filter matches",
		Long: `Ask to end the jobs that are named, or those that have not ended and match --state, --vc, --user
and --name. More than one job of a filter is shown first, and stopped after a yes, or with --yes.`,
		Example: "  comb job stop train\n  comb job stop --user alice --name sweep- --yes"}
	c.Flags().StringVar(&reason, "reason", "", "shown to users")
	c.Flags().BoolVar(&wait, "wait", false, "wait until they have ended")
	return k.bulkCommand(c, &bulkCommand{verb: "stop", done: "asked {job} to stop",
		ask: func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error) {
			return client.Stop(ctx, ref, reason)
		},
		after: func(ctx context.Context, refs []string) error {
			if !wait {
				return nil
			}
			return k.waitAll(ctx, refs)
		}})
}

// waitAll waits for jobs, one after the other.
func (k *commands) waitAll(ctx context.Context, refs []string) error {
	client, err := k.Client()
	problems := []error{err}
	for i := 0; err == nil && i < len(refs); i++ {
		_, err := k.waitFor(ctx, client, refs[i])
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (k *commands) hold() *cobra.Command {
	reason := ""
	c := &cobra.Command{Use: "hold [JOB...]", Short: "Keep waiting jobs from starting, until comb job release",
		Long: `Keep waiting jobs from starting, until comb job release. A job that is held keeps the time of its
submission, stands in no other job's way, and gives back cells that were being freed for it. One that runs is not held:
comb job requeue --hold stops it first.`,
		Example: "  comb job hold train --reason 'the data is not there yet'\n  comb job hold --vc vision --state waiting --yes"}
	c.Flags().StringVar(&reason, "reason", "", "shown to users")
	return k.bulkCommand(c, &bulkCommand{verb: "hold", done: "held",
		applies: func(j *rest.Job) bool { return j.Phase == model.Waiting && j.Held == nil },
		ask: func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error) {
			return client.Hold(ctx, ref, reason)
		}})
}

func (k *commands) release() *cobra.Command {
	c := &cobra.Command{Use: "release [JOB...]", Short: "Let held jobs start",
		Example: "  comb job release train\n  comb job release --vc vision --yes"}
	return k.bulkCommand(c, &bulkCommand{verb: "release", done: "released",
		notApplicable: "nothing was changed: it was not held",
		applies:       func(j *rest.Job) bool { return j.Held != nil },
		ask: func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error) {
			return client.Release(ctx, ref)
		}})
}

func (k *commands) requeue() *cobra.Command {
	var in rest.RequeueRequest
	c := &cobra.Command{Use: "requeue [JOB...]", Short: "Stop what runs of jobs, so that they wait again",
		Long: `Stop what runs of jobs, with their grace for a checkpoint, so that they wait again in their old places and go
on from their checkpoints. No retry is counted. With --hold they are held from then on.`,
		Example: "  comb job requeue train --reason 'node n7 is slow'\n  comb job requeue train --hold"}
	c.Flags().StringVar(&in.Reason, "reason", "", "shown to users")
	c.Flags().BoolVar(&in.Hold, "hold", false, "and hold them")
	return k.bulkCommand(c, &bulkCommand{verb: "requeue", done: "stopped and back in the queue",
		applies: func(j *rest.Job) bool { return j.Phase == model.Active },
		ask: func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error) {
			return client.Requeue(ctx, ref, in)
		}})
}

func (k *commands) update() *cobra.Command {
	prio, limit := "", ""
	c := &cobra.Command{Use: "update [JOB...]", Short: "Change the priority or the time limit of jobs",
		Long: `Change the priority of jobs that wait, or the time limit of jobs that wait or run. --priority takes
oppo, test, prod, crit or a number; --time-limit a time, or 0 for none.`,
		Example: "  comb job update train --priority prod\n  comb job update train --time-limit 12h"}
	c.Flags().StringVar(&prio, "priority", "", "oppo, test, prod, crit, or a number from -1")
	c.Flags().StringVar(&limit, "time-limit", "", "a time such as 90m or 1d12h; 0 is none")
	_ = c.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions(model.PriorityNames(),
		cobra.ShellCompDirectiveNoFileComp))
	var in rest.UpdateRequest
	out := k.bulkCommand(c, &bulkCommand{verb: "update", done: "updated",
		ask: func(ctx context.Context, client *rest.Client, ref string) (rest.Done, error) {
			return client.Update(ctx, ref, in)
		}})
	run := out.RunE
	out.RunE = func(c *cobra.Command, args []string) error {
		if prio == "" && limit == "" {
			return cli.Usage(c, "say what to change: --priority, --time-limit or both")
		}
		if prio != "" {
			p, known := model.PriorityNamed(prio)
			if n, err := strconv.ParseInt(prio, 10, 16); !known &&
				(err != nil || n < int64(cell.Opportunistic) || n > int64(cell.MaxGuaranteed)) {
				return cli.Usage(c, "--priority %q: want oppo, test, prod, crit or a number from -1 to %d", prio,
					cell.MaxGuaranteed)
			} else if !known {
				p = cell.Priority(n)
			}
			in.Priority = &p
		}
		if limit != "" {
			if err := document.Unitless(limit); err != nil {
				return cli.Usage(c, "--time-limit %s: %w", limit, err)
			}
			micros, ok := document.ParseDuration(limit)
			if !ok || micros < 0 || micros > jobspec.MaxTimeLimit || model.Duration(micros)%model.Second != 0 {
				return cli.Usage(c, "--time-limit %q: want a time such as 90m or 1d12h in whole seconds, up to 10 years, or 0 for none", limit)
			}
			d := model.Duration(micros)
			in.TimeLimit = &d
		}
		return run(c, args)
	}
	return out
}
