package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/lines"
	"github.com/combsched/comb/internal/rest"
	"github.com/combsched/comb/internal/sched"
)

// maxFollowed bounds the tasks whose logs are followed at once: each takes two
// streams of the server.
const maxFollowed = 32

// maxTail bounds the lines of --tail, as the server does.
const maxTail = 999_999_999

// logFlags are what job logs was asked.
type logFlags struct {
	task    string
	attempt int32
	stream  string
	tail    *int64 // nil is all
	offset  int64
	follow  bool
}

func (a *app) jobLogs() *cobra.Command {
	l := logFlags{}
	c := &cobra.Command{Use: "logs JOB", Short: "Show what a job's tasks print",
		Long: `Show what a job's tasks print. With several tasks every line begins with the
task's name. Standard output of tasks goes to standard output, their standard
error to standard error. With --follow it goes on until the job has ended, also
over attempts. A line that a task overwrites, such as a progress bar, changes in its place on
a terminal; of several tasks in a file or a pipe each of its states is a line.`,
		Example: "  comb job logs -f train --task worker-0"}
	f := c.Flags()
	f.StringVar(&l.task, "task", "", "only this task, such as worker-0")
	f.Int32Var(&l.attempt, "attempt", 0, "only this attempt of the task's gang (default: the latest)")
	f.StringVar(&l.stream, "stream", "", "only stdout or stderr")
	tail := f.Int64("tail", -1, "only the last so many lines; -1 is all")
	f.Int64Var(&l.offset, "offset", 0, "begin at this byte")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on until the end")
	_ = c.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions([]string{"stdout", "stderr"}, cobra.ShellCompDirectiveNoFileComp))
	return a.withJob(c, func(ctx context.Context, client *rest.Client, ref string) error {
		if l.stream != "" && l.stream != "stdout" && l.stream != "stderr" {
			return usage(c, "--stream %q: want stdout or stderr", l.stream)
		}
		if *tail < -1 || *tail > maxTail || l.offset < 0 || l.attempt < 0 {
			return usage(c, "--tail is -1 to %d; --offset and --attempt are not negative", maxTail)
		}
		if *tail >= 0 {
			l.tail = tail
		}
		j, err := client.Job(ctx, ref)
		if err != nil {
			return err
		}
		if !hasRun(&j) {
			text := "no task of job " + string(j.Name) + " has started yet"
			if j.Phase.Ended() {
				text = "no task of job " + string(j.Name) + " ever started"
			}
			if j.Reason != nil {
				text += ": " + j.Reason.Message
			}
			fmt.Fprintln(a.errs, clean(text, false))
		}
		err = a.logs(ctx, client, &j, l)
		if rest.CodeOf(err) == rest.CodeNotFound && !errors.As(err, &hint{}) {
			return hint{err, "see: comb job get " + string(j.Name)} // the job is known: no other name is meant
		}
		return err
	})
}

// hasRun reports whether a task of the job has had an attempt.
func hasRun(j *rest.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t sched.TaskStatus) bool { return t.Attempt > 0 })
}

// logs prints or follows the logs of a job's tasks.
func (a *app) logs(ctx context.Context, client *rest.Client, j *rest.Job, l logFlags) error {
	tasks, err := chosen(j, l.task)
	if err != nil {
		return err
	}
	if l.follow && len(tasks) > maxFollowed {
		return fmt.Errorf("job %s has %d tasks: name one with --task; at most %d are followed at once", j.Name, len(tasks), maxFollowed)
	}
	onto := lines.NewScreen(terminal(a.out), terminal(a.errs))
	var wg sync.WaitGroup
	errs := make(chan error, 2*len(tasks))
	for _, t := range tasks {
		for _, s := range []string{"stdout", "stderr"} {
			if l.stream != "" && l.stream != s {
				continue
			}
			out, prefix := a.out, ""
			if s == "stderr" {
				out = a.errs
			}
			if len(tasks) > 1 {
				prefix = fmt.Sprintf("%s-%d | ", t.Role, t.Index)
			}
			w := onto.Writer(out, terminal(out) != nil, prefix)
			tail := &logTail{client: client, job: j, out: w, follow: l.follow, task: t,
				query: rest.LogQuery{Job: rest.JobRef(j.ID), Role: t.Role, Index: t.Index, Attempt: l.attempt,
					Stream: s, Offset: l.offset, Tail: l.tail, Follow: l.follow}}
			run := func() {
				errs <- tail.run(ctx, l.attempt > 0)
				w.Finish()
			}
			if l.follow {
				wg.Go(run)
			} else {
				run() // one after the other: their lines stay together
			}
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

// terminal is a stream as the terminal that it is, or nil.
func terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return f
	}
	return nil
}

// chosen returns the tasks that a flag such as "worker-0" names; all for "".
func chosen(j *rest.Job, name string) ([]sched.TaskStatus, error) {
	if name == "" {
		return j.Tasks, nil
	}
	cut := strings.LastIndexByte(name, '-')
	for _, t := range j.Tasks {
		if cut > 0 && t.Role == name[:cut] && strconv.Itoa(int(t.Index)) == name[cut+1:] {
			return []sched.TaskStatus{t}, nil
		}
	}
	var known []string
	for _, t := range j.Tasks {
		known = append(known, fmt.Sprintf("%s-%d", t.Role, t.Index))
	}
	text := strings.Join(known[:min(len(known), 8)], ", ")
	if len(known) > 8 {
		text += fmt.Sprintf(" and %d more", len(known)-8)
	}
	return nil, hint{rest.NewProblem(404, rest.CodeNotFound, fmt.Sprintf("job %s has no task %q", j.Name, name)), "it has " + text}
}

// logTail prints one stream of one task, attempt after attempt when it follows.
type logTail struct {
	client *rest.Client
	job    *rest.Job
	task   sched.TaskStatus
	query  rest.LogQuery
	follow bool
	out    io.Writer
}

func (l *logTail) run(ctx context.Context, one bool) error {
	if !l.follow {
		if l.query.Attempt == 0 && l.task.Attempt == 0 {
			return nil // it has not run yet
		}
		_, err := l.client.Logs(ctx, l.query, l.out)
		if rest.CodeOf(err) == rest.CodeNotFound && l.query.Attempt == 0 {
			return nil // the latest attempt has printed nothing yet
		}
		return err
	}
	if l.query.Attempt == 0 {
		l.query.Attempt = max(l.task.Attempt, 1)
	}
	for {
		if _, err := l.client.Logs(ctx, l.query, l.out); err != nil && rest.CodeOf(err) != rest.CodeNotFound {
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
			l.query.Attempt, l.query.Offset, l.query.Tail = l.query.Attempt+1, 0, nil
			continue
		}
		if l.ended(&j) {
			l.query.Attempt, l.query.Offset, l.query.Tail = l.query.Attempt+1, 0, nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ended reports whether the attempt that was followed is over, so that only a
// later one can print more.
func (l *logTail) ended(j *rest.Job) bool {
	for _, t := range j.Tasks {
		if t.Role == l.task.Role && t.Index == l.task.Index && t.Attempt == l.query.Attempt {
			return t.State != sched.TaskStarting && t.State != sched.TaskRunning && t.State != sched.TaskStopping && t.State != sched.TaskIsUnknown
		}
	}
	return false
}
