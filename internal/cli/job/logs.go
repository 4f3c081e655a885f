package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

// maxFollowed bounds the logs that are followed at once. Each takes one stream of the server,
// or two if the server does not know the order of both outputs.
const maxFollowed = 32

// maxTail bounds the lines of --tail, as the server does.
const maxTail = 999_999_999

// logFlags are the flags of job logs.
type logFlags struct {
	task    string
	attempt int32
	stream  string
	tail    *int64 // nil is all
	offset  int64
	follow  bool
	zip     string // file of an archive; "-" is standard output
	onto    *cli.Screen
}

func (a *commands) jobLogs() *cobra.Command {
	l := logFlags{}
	c := &cobra.Command{Use: "logs JOB", Short: "Show what a job's tasks print",
		Long: `Show what a job's tasks print. With several tasks every line begins with the
task's name. Standard output of tasks goes to standard output, their standard
error to standard error, line by line in the order in which a task printed them.
With --follow it goes on until the job has ended, also over attempts. A line that
a task overwrites, such as a progress bar, changes in its place on a terminal; of
several tasks in a file or a pipe each of its states is a line.
With --zip the logs of all tasks, of the latest attempt of each, are written to
a zip archive, a file for each task and stream.`,
		Example: "  comb job logs -f train --task worker-0\n  comb job logs train --zip train.zip"}
	f := c.Flags()
	f.StringVar(&l.task, "task", "", "only this task, such as worker-0")
	f.Int32Var(&l.attempt, "attempt", 0, "only this attempt of the task's gang (default: the latest)")
	f.StringVar(&l.stream, "stream", "", "only stdout or stderr (default: both)")
	tail := f.Int64("tail", -1, "only the last so many lines, of both streams together; -1 is all")
	f.Int64Var(&l.offset, "offset", 0, "begin at this byte of each stream")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on until the end")
	f.StringVar(&l.zip, "zip", "", "write the logs of all tasks to this zip archive; - is standard output")
	for _, other := range []string{"task", "attempt", "stream", "tail", "offset", "follow"} {
		c.MarkFlagsMutuallyExclusive("zip", other)
	}
	streams := []string{"stdout", "stderr", rest.BothStreams}
	_ = c.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(streams, cobra.ShellCompDirectiveNoFileComp))
	return a.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		if l.stream != "" && !slices.Contains(streams, l.stream) {
			return cli.Usage(c, "--stream %q: want stdout, stderr or both", l.stream)
		}
		if *tail < -1 || *tail > maxTail || l.offset < 0 || l.attempt < 0 {
			return cli.Usage(c, "--tail is -1 to %d; --offset and --attempt are not negative", maxTail)
		}
		if *tail >= 0 {
			l.tail = tail
		}
		if l.zip != "" {
			return a.zipLogs(ctx, client, ref, l.zip)
		}
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		if !hasRun(&j) {
			text := "no task of job " + j.Ref + " has started yet"
			if j.Phase.Ended() {
				text = "no task of job " + j.Ref + " ever started"
			}
			if j.Reason != nil {
				text += ": " + j.Reason.Message
			}
			fmt.Fprintln(a.Errs, cli.Clean(text, false))
		}
		err = a.logs(ctx, client, &j, l)
		if rest.CodeOf(err) == rest.CodeNotFound && !errors.As(err, &cli.Hint{}) {
			return cli.Hint{Err: err, Next: "see: comb job get " + j.Ref} // the job exists, so no similar name is suggested
		}
		return err
	})
}

// zipLogs writes the logs of a job into an archive. The file appears only when it is
// complete.
func (a *commands) zipLogs(ctx context.Context, client *rest.Client, ref, name string) error {
	if name == "-" {
		if terminal(a.Out) != nil {
			return errors.New("an archive is not for a terminal: name a file, or put it into a pipe")
		}
		return client.JobLogs(ctx, ref, a.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	if err != nil {
		return fmt.Errorf("cannot write the logs: %w", err)
	}
	defer os.Remove(f.Name()) // if it was not renamed
	err = errors.Join(client.JobLogs(ctx, ref, f), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// hasRun reports whether a task of the job has had an attempt.
func hasRun(j *rest.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t rest.TaskStatus) bool { return t.Attempt > 0 })
}

// logs prints or follows the logs of a job's tasks.
func (a *commands) logs(ctx context.Context, client *rest.Client, j *rest.Job, l logFlags) error {
	tasks, err := chosen(j, l.task)
	if err != nil {
		return err
	}
	if l.follow && len(tasks) > maxFollowed {
		return fmt.Errorf("job %s has %d tasks: name one with --task; at most %d are followed at once", j.Ref,
			len(tasks), maxFollowed)
	}
	onto := cmp.Or(l.onto, cli.NewScreen(terminal(a.Out), terminal(a.Errs)))
	var wg sync.WaitGroup
	errs := make(chan error, len(tasks))
	for _, t := range tasks {
		tail := &logTail{client: client, job: j, follow: l.follow, task: t,
			earlier: func(text string) { fmt.Fprintln(a.Errs, cli.Clean(text, false)) },
			query: rest.LogQuery{Job: rest.JobRef(j.ID), Role: t.Role, Index: t.Index, Attempt: l.attempt,
				Stream: l.stream, Offset: l.offset, Errors: l.offset, Tail: l.tail, Follow: l.follow}}
		for i, out := range []io.Writer{a.Out, a.Errs} {
			prefix := ""
			if len(tasks) > 1 {
				prefix = fmt.Sprintf("%s-%d | ", t.Role, t.Index)
			}
			tail.to.To[i] = onto.Writer(out, terminal(out) != nil, prefix)
		}
		run := func() {
			err := tail.run(ctx, l.attempt > 0)
			errs <- cmp.Or(err, tail.to.Finish())
		}
		if l.follow {
			wg.Go(run)
		} else {
			run() // one after the other, so that their lines stay together
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// terminal is a stream as a terminal; nil if it is none.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && cli.IsTerminal(f) {
		return f
	}
	return nil
}

// chosen returns the tasks that a flag such as "worker-0" names; all for "".
func chosen(j *rest.Job, name string) ([]rest.TaskStatus, error) {
	if name == "" {
		return j.Tasks, nil
	}
	cut := strings.LastIndexByte(name, '-')
	for _, t := range j.Tasks {
		if cut > 0 && t.Role == name[:cut] && strconv.Itoa(int(t.Index)) == name[cut+1:] {
			return []rest.TaskStatus{t}, nil
		}
	}
	return nil, cli.Hint{Err: rest.NewProblem(404, rest.CodeNotFound,
		fmt.Sprintf("job %s has no task %q", j.Ref, name)), Next: "it has " + cli.TaskNames(j.Tasks)}
}

// logTail prints the log of one task, attempt after attempt when it follows.
type logTail struct {
	client *rest.Client
	job    *rest.Job
	task   rest.TaskStatus
	query  rest.LogQuery
	follow bool
	to     cli.StreamPair
	// earlier is called where the requested attempt has no log yet, but an earlier one ran.
	earlier func(string)
}

// tellEarlier says which attempt has a log.
func (l *logTail) tellEarlier() {
	if n := cmp.Or(l.query.Attempt, l.task.Attempt); n > 1 && l.task.Attempt > 0 {
		l.earlier(fmt.Sprintf("attempt %d of task %s-%d has printed nothing; see an earlier one: comb job logs %s --attempt %d",
			n, l.task.Role, l.task.Index, l.job.Ref, min(n-1, l.task.Attempt)))
	}
}

// attempt prints the log of one attempt: both streams in their order, or the requested one.
func (l *logTail) attempt(ctx context.Context) error {
	out := l.to.To[0]
	switch l.query.Stream {
	case "", rest.BothStreams:
		return rest.BothLogs(ctx, l.client, l.query, &l.to)
	case "stderr":
		out = l.to.To[1]
	}
	q := l.query
	q.Errors = 0
	_, err := l.client.Logs(ctx, q, out)
	return err
}

// next goes on to the next attempt.
func (l *logTail) next() {
	l.query.Attempt, l.query.Offset, l.query.Errors, l.query.Tail = l.query.Attempt+1, 0, 0, nil
}

func (l *logTail) run(ctx context.Context, one bool) error {
	if !l.follow {
		if l.query.Attempt == 0 && l.task.Attempt == 0 {
			return nil // it has not run yet
		}
		err := l.attempt(ctx)
		if rest.CodeOf(err) == rest.CodeNotFound {
			l.tellEarlier()
		}
		if rest.CodeOf(err) == rest.CodeNotFound && l.query.Attempt == 0 {
			return nil // the latest attempt has printed nothing yet
		}
		return err
	}
	if l.query.Attempt == 0 {
		l.query.Attempt = max(l.task.Attempt, 1)
	}
	for {
		if err := l.attempt(ctx); err != nil && rest.CodeOf(err) != rest.CodeNotFound {
			return err
		}
		if one {
			return nil
		}
		j, err := l.client.Job(ctx, rest.JobRef(l.job.ID))
		if err != nil {
			return err
		}
		last := int32(0)
		for _, t := range j.Tasks {
			if t.Role == l.task.Role && t.Index == l.task.Index {
				last = t.Attempt
			}
		}
		if last <= l.query.Attempt && j.Phase.Ended() {
			return nil
		}
		if last > l.query.Attempt {
			l.next()
			continue
		}
		if l.ended(&j) {
			l.next()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ended reports whether the followed attempt is over, so that only a later one can print
// more.
func (l *logTail) ended(j *rest.Job) bool {
	for _, t := range j.Tasks {
		if t.Role == l.task.Role && t.Index == l.task.Index && t.Attempt == l.query.Attempt {
			return t.State != model.TaskStarting && t.State != model.TaskRunning && t.State != model.TaskStopping &&
				t.State != model.TaskIsUnknown
		}
	}
	return false
}

func jobExec(a *commands) *cobra.Command {
	var task string
	var interactive, tty bool
	c := &cobra.Command{Use: "exec [flags] JOB -- PROGRAM [ARGUMENT...]", Short: "Run a command beside a running task",
		Long: `Run a command beside a running task: in its container or on its machine, as its user,
in its folder, with its environment and within its limits. It is ended when the task
ends, and when this command does. The exit code is the command's own: 126 and 127 say
that there is no such program that can be run.

With -i it gets this command's input, with -t a terminal, with -it you have a shell.`,
		Example: "  comb job exec -it train -- bash\n  comb job exec train --task worker-1 -- nvidia-smi\n  echo hello | comb job exec -i train -- cat"}
	f := c.Flags()
	f.StringVar(&task, "task", "", "the task, such as worker-0 (default: the only one that runs)")
	f.BoolVarP(&interactive, "interactive", "i", false, "give it this command's input")
	f.BoolVarP(&tty, "tty", "t", false, "give it a terminal")
	return enterJob(a, c, func(list []string) error {
		if at := c.ArgsLenAtDash(); at != 1 || len(list) < 2 || list[0] == "" || list[1] == "" {
			return cli.Usage(c, "%s needs a job and, behind --, a command", c.CommandPath())
		}
		return nil
	}, func(ctx context.Context, client *rest.Client, list []string) error {
		s := cli.Streams{Out: a.Out, Err: a.Errs, Term: a.Env("TERM")}
		if interactive {
			s.In = a.In
		}
		if tty {
			in, _ := a.In.(*os.File)
			if in == nil || !cli.IsTerminal(in) || terminal(a.Out) == nil {
				return cli.Hint{Err: errors.New("-t needs a terminal as input and output, and here is none"),
					Next: "leave -t out: with -i the command gets what is piped in"}
			}
			s.Terminal = in
		}
		name, err := runningTask(ctx, client, list[0], task)
		if err != nil {
			return err
		}
		end, err := cli.ExecIn(ctx, client, name, list[1:], s)
		if err == nil && end.Why != "" {
			fmt.Fprintf(a.Errs, "comb: the command was ended: %s\n", cli.Clean(end.Why, false))
		}
		if err == nil && end.Code != 0 {
			return cli.Outcome(end.Code)
		}
		return err
	})
}

// enterJob makes a command about a running task of the job that is its first argument.
func enterJob(a *commands, c *cobra.Command, check func([]string) error,
	do func(context.Context, *rest.Client, []string) error) *cobra.Command {
	c.ValidArgsFunction = a.Complete(cli.JobNames)
	c.RunE = func(c *cobra.Command, list []string) error {
		if err := check(list); err != nil {
			return err
		}
		client, err := a.Client()
		if err != nil {
			return err
		}
		if err := do(c.Context(), client, list); err != nil {
			return a.DidYouMean(c.Context(), client, err, cli.Guess{Word: list[0], List: cli.JobNames})
		}
		return nil
	}
	return c
}

// runningTask is the task that a flag names, or the only one that runs.
func runningTask(ctx context.Context, client *rest.Client, ref, name string) (rest.TaskName, error) {
	j, err := client.Job(ctx, ref)
	if err != nil {
		return rest.TaskName{}, err
	}
	tasks, err := chosen(&j, name)
	if err != nil {
		return rest.TaskName{}, err
	}
	task, next, err := cli.OnlyTask(&j, tasks)
	if err != nil {
		return task, cli.Hint{Err: err, Next: next}
	}
	return task, nil
}

func jobPortForward(a *commands) *cobra.Command {
	var task string
	c := &cobra.Command{Use: "port-forward JOB PORT[:REMOTE]",
		Short: "Reach a port of a running task from this machine",
		Long: `Listen on a port of this machine's loopback, and carry what connects there to a port on
which a task of the job listens, such as TensorBoard's. In a container any of its
ports is reached, also those of its loopback; of a process only ports on which
a process of the task listens. PORT 0 takes a free one. Ctrl-C ends it, and so does
the end of the task.`,
		Example: "  comb job port-forward train 6006\n  comb job port-forward train 8888:80 --task worker-1"}
	c.Flags().StringVar(&task, "task", "", "the task, such as worker-0 (default: the only one that runs)")
	c.Args = cli.Args(cobra.ExactArgs(2))
	var local, remote uint16
	return enterJob(a, c, func(list []string) (err error) {
		if local, remote, err = cli.ParsePorts(list[1]); err != nil {
			return cli.Usage(c, "%s", err)
		}
		return nil
	}, func(ctx context.Context, client *rest.Client, list []string) error {
		name, err := runningTask(ctx, client, list[0], task)
		if err != nil {
			return err
		}
		return cli.ForwardPort(ctx, client, name, [2]uint16{local, remote}, cli.Streams{Out: a.Out, Err: a.Errs})
	})
}
