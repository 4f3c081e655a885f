package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Command has all commands about jobs.
func Command(of *cli.App) *cobra.Command {
	a := &commands{of}
	c := cli.Noun("job", "Jobs: submit, watch, explain, stop",
		append(a.life(), a.jobSubmit(), a.jobRun(), a.jobList(), a.jobGet(), a.jobLogs(), a.jobExplain(),
			a.jobWait(), a.jobEvents(),
			jobExec(a), jobPortForward(a))...)
	c.Long = `Submit, watch, explain and stop jobs. JOB is a job's number; or NAME, a job of your own, the one that
has not ended or else the last of that name; or USER~NAME, the same of any user.`
	return c
}

// withJob makes a command about one job: its number, the name of the caller's own job, or
// USER~NAME.
func (a *commands) withJob(c *cobra.Command, do func(ctx context.Context, client *rest.Client,
	ref string) error) *cobra.Command {
	c.Args = cli.Args(cobra.ExactArgs(1))
	c.ValidArgsFunction = a.Complete(cli.JobNames)
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := a.Client()
		if err != nil {
			return err
		}
		err = do(c.Context(), client, args[0])
		if err != nil {
			return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: args[0], List: cli.JobNames})
		}
		return nil
	}
	return c
}

func (a *commands) jobSubmit() *cobra.Command {
	var wait, dryRun bool
	var vc, name, key, code string
	c := &cobra.Command{Use: "submit FILE...", Short: "Submit job files (- is standard input)",
		Long: `Submit job files in OpenPAI's protocol v2; "-" reads standard input. Of up to 50
files all are checked first, and none is submitted if one is wrong. Nothing is
submitted by --dry-run, which says whether the job would start now, where, and which
jobs would be stopped for it; or why it would wait, until when, and what would let it
start.`,
		Example: "  comb job submit train.yaml --vc vision --wait",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
	}
	f := c.Flags()
	f.BoolVar(&wait, "wait", false, "wait until the jobs have ended; exit with 0, 10 (failed) or 11 (stopped)")
	f.BoolVar(&dryRun, "dry-run", false, "check only, and say what would happen")
	f.StringVar(&vc, "vc", "", "virtual cluster, instead of the file's")
	f.StringVar(&name, "name", "", "job name, instead of the file's (one file only)")
	f.StringVar(&code, "upload", "", "a folder whose copy is the tasks' working directory, without what its .gitignore and .combignore leave out")
	f.StringVar(&key, "idempotency-key", "", "submitting again with the same key has no second effect (one file only)")
	cli.NeverEmpty(f, "vc", "name", "upload", "idempotency-key")
	c.RunE = func(c *cobra.Command, files []string) error {
		if len(files) > 1 && (name != "" || key != "") {
			return cli.Usage(c, "--name and --idempotency-key go with one file")
		}
		client, err := a.Client()
		if err != nil {
			return err
		}
		requests, err := a.readJobs(files, rest.SubmitRequest{Name: name, VC: vc})
		if err != nil {
			return err
		}
		digest, err := sendCode(c.Context(), a, client, code)
		if err != nil {
			return err
		}
		for i := range requests {
			requests[i].Upload = digest
		}
		if dryRun {
			return a.dryRun(c.Context(), client, files, requests)
		}
		return a.submitAll(c.Context(), client, submissions{files, requests, key, wait})
	}
	return c
}

// readJobs reads all files before the first is sent.
func (a *commands) readJobs(files []string, with rest.SubmitRequest) ([]rest.SubmitRequest, error) {
	var out []rest.SubmitRequest
	for _, file := range files {
		data, err := a.ReadFile(file, rest.MaxBody)
		if err != nil {
			return nil, err
		}
		r := with
		if r.Source = string(data); r.Source == "" {
			return nil, fmt.Errorf("%s is empty", file)
		}
		if strings.HasPrefix(r.Source, "#!") {
			err := fmt.Errorf("%s is a script, and a job file is YAML; no lines of #SBATCH or the like are read", file)
			return nil, cli.Hint{Err: err, Next: fmt.Sprintf("run it with: comb job run --gpus N -- sh %s    "+
				"(and --memory, --time-limit, --vc; see comb job run --help)", file)}
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *commands) dryRun(ctx context.Context, client *rest.Client, files []string,
	requests []rest.SubmitRequest) error {
	var all []rest.Validated
	for i, r := range requests {
		v, err := client.ValidateJob(ctx, r)
		if err != nil && r.Quick != nil {
			return byFlag(err)
		}
		if err != nil {
			return cli.InFile(files[i], err)
		}
		if r.Quick != nil {
			v.Warnings = flagsWarned(v.Warnings)
		}
		a.Warn(files[i], v.Warnings)
		all = append(all, v)
	}
	var v any = all
	if len(all) == 1 {
		v = all[0]
	}
	err := a.Show(v, func(t *cli.Table) {
		for i, one := range all {
			t.Line("%s: %s: %s", files[i], one.Verdict, one.Message)
			if one.Standing != "" {
				t.Line("  %s", one.Standing)
			}
			if one.Explanation != nil {
				a.drawDryRun(t, one.Explanation)
			}
		}
	})
	for _, one := range all {
		if err == nil && one.Verdict == rest.VerdictNever {
			return cli.Outcome(cli.ExitFailure)
		}
	}
	return err
}

// submissions are the arguments of job submit.
type submissions struct {
	files    []string
	requests []rest.SubmitRequest
	key      string
	wait     bool
}

func (a *commands) submitAll(ctx context.Context, client *rest.Client, s submissions) error {
	if err := s.check(ctx, client); err != nil {
		return err
	}
	var done []rest.Submitted
	for i, r := range s.requests {
		out, err := a.accept(ctx, client, submission{r, s.key})
		if err == nil {
			a.Warn(s.files[i], out.Warnings)
			done = append(done, out)
			err = ctx.Err()
		}
		if err != nil {
			for _, one := range done {
				fmt.Fprintf(a.Errs, "job %s submitted, id %d\n", one.Name, one.ID)
			}
			if left := s.files[i+1:]; len(left) > 0 {
				fmt.Fprintf(a.Errs, "not tried: %s\n", cli.Clean(strings.Join(left, ", "), false))
			}
			return cli.InFile(s.files[i], err)
		}
	}
	var v any = done
	if len(done) == 1 {
		v = done[0]
	}
	err := a.Show(v, func(t *cli.Table) {
		for _, one := range done {
			t.Line("job %s submitted, id %d", one.Name, one.ID)
		}
	})
	if err != nil || !s.wait {
		return err
	}
	var worst error
	for _, one := range done {
		j, err := a.waitFor(ctx, client, rest.JobRef(one.ID))
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Errs, cli.Clean(ending(&j), false))
		worst = worse(worst, j.Phase)
	}
	return worst
}

func first2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// waitFor waits until a job has ended.
func (a *commands) waitFor(ctx context.Context, client *rest.Client, ref string) (rest.Job, error) {
	j, err := client.Job(ctx, ref)
	if err != nil || j.Phase.Ended() {
		return j, err
	}
	id := rest.JobRef(j.ID)
	err = client.Follow(ctx, id, client.Seen(), rest.Follower{Event: func(rest.Event) error { return nil }})
	if errors.Is(err, context.DeadlineExceeded) {
		return j, fmt.Errorf("job %s goes on: %w", id, err)
	}
	if err != nil {
		return j, err
	}
	return client.Job(ctx, id)
}

// ending says in one sentence how a job ended.
func ending(j *rest.Job) string {
	text := fmt.Sprintf("job %s (%d) %s", j.Ref, j.ID, strings.ToLower(string(j.Phase)))
	if j.Exit != nil && j.Phase == model.Failed {
		text += ", " + narrate.ExitBeside(j.Exit, j.Message)
	}
	if j.Message != "" {
		text += ": " + j.Message
	}
	return text
}

// filter adds the flags that select jobs.
func (a *commands) filter(c *cobra.Command) *Filter {
	f := &jobFilter{}
	set := f.flags(c, []string{"waiting", "active"})
	return &Filter{Used: func() bool { return filtered(set) },
		Query: func() (rest.JobQuery, error) { return f.query(c) }}
}

// filtered reports whether a flag of a filter was given.
func filtered(set *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"state", "vc", "user", "name"}, set.Changed)
}

// jobStates are the values of --state.
var jobStates = []string{"waiting", "held", "active", "succeeded", "failed", "stopped", allStates}

// statesElsewhere maps states of other schedulers and of tasks to the states of jobs that are
// meant.
var statesElsewhere = map[string]string{"running": "active", "r": "active", "starting": "active", "stopping": "active",
	"pending": "waiting", "pd": "waiting", "queued": "waiting",
	"completed": "succeeded", "cd": "succeeded", "done": "succeeded",
	"cancelled": "stopped", "canceled": "stopped", "killed": "stopped", "suspended": "active"}

// allStates is the value of --state that selects every job.
const allStates = "all"

// jobFilter selects the jobs of a command.
type jobFilter struct {
	states, vcs, users []string
	name, tag          string
}

// flags adds the flags of the filter to a command. states is the default of --state.
func (f *jobFilter) flags(c *cobra.Command, states []string) *pflag.FlagSet {
	set := c.Flags()
	set.StringSliceVar(&f.states, "state", states,
		"only these: waiting, held, active, succeeded, failed, stopped, or all")
	set.StringSliceVar(&f.vcs, "vc", nil, "only of these virtual clusters")
	set.StringSliceVar(&f.users, "user", nil, "only of these users")
	set.StringVar(&f.name, "name", "", "only names that contain this")
	set.StringVar(&f.tag, "tag", "", "only jobs that have this tag")
	cli.NeverEmpty(set, "state", "vc", "user", "name", "tag")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(jobStates, cobra.ShellCompDirectiveNoFileComp))
	return set
}

// query is the filter in the server's form.
func (f *jobFilter) query(c *cobra.Command) (rest.JobQuery, error) {
	q, every := rest.JobQuery{Name: f.name, Tag: f.tag}, false
	for _, s := range f.states {
		if !slices.Contains(jobStates, strings.ToLower(s)) {
			if meant := statesElsewhere[strings.ToLower(s)]; meant != "" {
				return q, cli.Usage(c, "--state %q: here it is %s", s, meant)
			}
			return q, cli.Usage(c, "--state %q: want %s", s, strings.Join(jobStates, ", "))
		}
		if strings.EqualFold(s, allStates) {
			every = true
		}
		q.States = append(q.States, model.Phase(s))
	}
	if every {
		q.States = nil
	}
	for _, s := range f.vcs {
		q.VCs = append(q.VCs, cell.VCName(s))
	}
	for _, s := range f.users {
		q.Users = append(q.Users, model.Subject(s))
	}
	return q, nil
}

func (a *commands) jobWait() *cobra.Command {
	filter := jobFilter{}
	c := &cobra.Command{Use: "wait [JOB...]", Short: "Wait until jobs have ended; exit with 0, 10 (one failed) or 11 (one was stopped)",
		Long: `Wait until all the jobs have ended that are named, or that a filter matches now: the
flags --state, --vc, --user and --name are those of job list, but without --state only
jobs match that have not ended. A job that is submitted later is not waited for. It says of
each how it ended. The exit code is 10 when one failed, else 11 when one was stopped, else 0;
also when the filter matches none.`,
		Example:           "  comb job wait prepare train\n  comb job wait --user ann --name sweep- --timeout 2h",
		ValidArgsFunction: a.Complete(cli.JobNames)}
	set := filter.flags(c, []string{"waiting", "active"})
	c.RunE = func(c *cobra.Command, refs []string) error {
		if slices.Contains(refs, "") {
			return cli.Usage(c, "an argument of %s is empty; it wants JOB", c.CommandPath())
		}
		byFilter := filtered(set)
		if byFilter == (len(refs) > 0) {
			return cli.Usage(c, "name jobs, or choose them with --state, --vc, --user and --name")
		}
		q, err := filter.query(c)
		if err != nil {
			return err
		}
		client, err := a.Client()
		if err != nil {
			return err
		}
		v := waiter{a, client}
		var jobs []rest.Job
		if byFilter {
			q.Limit = 1000
			var list rest.JobList
			list, err = listJobs(c.Context(), client, q, true)
			jobs = list.Jobs
		} else {
			jobs, err = v.named(c.Context(), refs)
		}
		if err != nil {
			return err
		}
		return v.all(c.Context(), jobs)
	}
	return c
}

// waiter waits for many jobs.
type waiter struct {
	*commands
	client *rest.Client
}

// named finds all jobs before it waits for the first, and reports every unknown name.
func (v waiter) named(ctx context.Context, refs []string) ([]rest.Job, error) {
	var jobs []rest.Job
	var problems []error
	for _, ref := range refs {
		j, err := v.client.Job(ctx, ref)
		switch {
		case err == nil:
			jobs = append(jobs, j)
		case rest.CodeOf(err) == rest.CodeNotFound:
			problems = append(problems, v.DidYouMean(ctx, v.client, err, cli.Guess{Word: ref, List: cli.JobNames}))
		default:
			return nil, err
		}
	}
	return jobs, errors.Join(problems...)
}

// all waits until the jobs have ended, the oldest first, and prints how each ended.
func (v waiter) all(ctx context.Context, jobs []rest.Job) error {
	slices.SortFunc(jobs, func(x, y rest.Job) int { return int(x.ID - y.ID) })
	jobs = slices.CompactFunc(jobs, func(x, y rest.Job) bool { return x.ID == y.ID })
	var worst error
	for i := range jobs {
		j, err := v.waitFor(ctx, v.client, rest.JobRef(jobs[i].ID))
		if err != nil {
			return err
		}
		jobs[i], worst = j, worse(worst, j.Phase)
		if v.Format == "table" {
			fmt.Fprintln(v.Out, cli.Clean(ending(&j), false))
		}
	}
	if err := v.show(jobs); err != nil {
		return err
	}
	return worst
}

// show prints jobs as objects after they were reported; a single one as itself, like job get.
func (v waiter) show(jobs []rest.Job) error {
	switch {
	case v.Format == "table" && len(jobs) == 0:
		fmt.Fprintln(v.Errs, "no job matches that has not ended")
		return nil
	case v.Format == "table":
		return nil
	case len(jobs) == 1:
		return v.App.Show(jobs[0], nil)
	}
	return v.App.Show(rest.JobList{Jobs: jobs}, nil)
}

// worse is the outcome of several jobs and one more. A failed job counts before a stopped
// one.
func worse(before error, phase model.Phase) error {
	if before == nil || phase == model.Failed {
		return first2(cli.JobOutcome(phase), before)
	}
	return before
}

func (a *commands) jobList() *cobra.Command {
	filter, l := jobFilter{}, listing{commands: a}
	c := &cobra.Command{Use: "list", Short: "List jobs, newest first", Args: cli.Args(cobra.NoArgs),
		Example: "  comb job list --state active --sort left\n  comb job list --since 1d --user alice --watch"}
	f := filter.flags(c, nil)
	f.IntVar(&l.q.Limit, "limit", 100, "at most so many (1 to 1000)")
	f.StringVar(&l.q.Cursor, "cursor", "", "go on where the page before ended")
	f.BoolVar(&l.all, "all", false, "all pages")
	f.StringVar(&l.sort, "sort", "", "list all pages, in order of "+strings.Join(Orders(), ", "))
	f.Var((*cli.DurationFlag)(&l.since), "since", "only jobs submitted within this time, such as 2h or 1d")
	f.BoolVar(&l.watch, "watch", false, "list them again whenever that has changed, until it is interrupted")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(Orders(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if l.q.Limit < 1 || l.q.Limit > 1000 {
			return cli.Usage(c, "--limit %d: want 1 to 1000; --all lists every job", l.q.Limit)
		}
		if l.sort != "" && !slices.Contains(Orders(), l.sort) {
			return cli.Usage(c, "--sort %q: want %s", l.sort, strings.Join(Orders(), ", "))
		}
		q, err := filter.query(c)
		if err != nil {
			return err
		}
		q.Limit, q.Cursor = l.q.Limit, l.q.Cursor
		l.q = q
		client, err := a.Client()
		if err != nil {
			return err
		}
		if !l.watch {
			return l.once(c.Context(), client)
		}
		return l.redraw(c.Context(), func() error { return l.once(c.Context(), client) })
	}
	return c
}

// listing is the arguments of job list.
type listing struct {
	*commands
	q          rest.JobQuery
	all, watch bool
	sort       string
	since      time.Duration
}

// once lists jobs.
func (l *listing) once(ctx context.Context, client *rest.Client) error {
	out, err := listJobs(ctx, client, l.q, l.all || l.sort != "")
	if err != nil {
		return err
	}
	if l.since != 0 {
		Since(&out, model.Time(l.Now().Add(-l.since).UnixMicro()))
	}
	if l.sort != "" {
		Sort(out.Jobs, l.sort)
	}
	err = l.Show(out, func(t *cli.Table) { l.drawJobs(t, out.Jobs) })
	if err == nil && len(out.Jobs) == 0 && l.Format == "table" {
		fmt.Fprintln(l.Errs, "no jobs")
	}
	if err == nil && out.Next != "" && l.Format == "table" {
		fmt.Fprintf(l.Errs, "there are more: --cursor %s, or --all\n", out.Next)
	}
	return err
}

func listJobs(ctx context.Context, client *rest.Client, q rest.JobQuery, all bool) (rest.JobList, error) {
	out, err := client.Jobs(ctx, q)
	for err == nil && all && out.Next != "" {
		q.Cursor = out.Next
		var page rest.JobList
		page, err = client.Jobs(ctx, q)
		out.Jobs, out.Next = append(out.Jobs, page.Jobs...), page.Next
	}
	return out, err
}

// commands are the commands of jobs.
type commands struct{ *cli.App }

// redraw prints again whenever the output has changed.
func (a *commands) redraw(ctx context.Context, once func() error) error {
	out, tty := a.Out, a.TTY
	return Watch(ctx, 2*time.Second, tty, func() (string, error) {
		var text strings.Builder
		a.Out = &text
		err := once()
		return text.String(), err
	}, func(text string, err error) {
		if err != nil {
			fmt.Fprintf(a.Errs, "%v; it is tried again\n", err)
		}
		fmt.Fprint(out, text)
	})
}
