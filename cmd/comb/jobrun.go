package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/rest"
)

func (a *app) jobRun() *cobra.Command {
	q := rest.QuickJob{}
	var detach bool
	var env []string
	c := &cobra.Command{Use: "run [flags] -- PROGRAM [ARGUMENT...]", Short: "Run a command as a job and follow it",
		Long: `Run a command as a job: submit it, follow what it prints, and exit with its
outcome (0, 10 failed, 11 stopped). Ctrl-C asks to stop the job; a second one
leaves it. Each argument reaches the program as it is.`,
		Example: "  comb job run --gpus 2 -- nvidia-smi\n  comb job run -d --name nightly --tasks 4 --gpus 1 -- python train.py",
		Args:    args(cobra.MinimumNArgs(1))}
	f := c.Flags()
	f.SetInterspersed(false)
	f.Int64Var(&q.GPUs, "gpus", 0, "GPUs of each task")
	f.StringVar(&q.CPUs, "cpus", "", "CPUs of each task, such as 0.5")
	f.Int64Var(&q.MemoryMB, "memory", 0, "memory of each task in MiB")
	f.Int32Var(&q.Tasks, "tasks", 1, "how many equal tasks, started together")
	f.StringVar(&q.Name, "name", "", "job name (default: made of the program's)")
	f.StringVar(&q.VC, "vc", "", "virtual cluster")
	f.StringVar(&q.SKU, "sku", "", "SKU to run on (default: any)")
	f.StringVar(&q.Priority, "priority", "", "crit, prod, test, oppo or a number")
	f.StringVar(&q.WorkDir, "workdir", "", "working directory (default: the attempt's own)")
	f.StringVar(&q.TimeLimit, "time-limit", "", "end it after this running time, such as 90m")
	f.StringVar(&q.Grace, "grace", "", "between SIGTERM and SIGKILL, such as 30s")
	f.StringArrayVar(&env, "env", nil, "NAME=VALUE in its environment; NAME alone takes this shell's (may repeat)")
	f.BoolVarP(&detach, "detach", "d", false, "only submit")
	c.RunE = func(c *cobra.Command, command []string) error {
		q.Command = command
		if command[0] == "" {
			return usage(c, "the name of the program is empty")
		}
		if q.Tasks < 1 {
			return usage(c, "--tasks %d: want 1 or more", q.Tasks)
		}
		var err error
		if q.Env, err = environment(c, env); err != nil {
			return err
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		out, err := client.Submit(c.Context(), rest.SubmitRequest{Quick: &q}, "")
		if err != nil {
			return byFlag(err)
		}
		a.warn(string(out.Name), out.Warnings)
		if detach {
			return a.show(out, func(t *table) { t.line("job %s submitted, id %d", out.Name, out.ID) })
		}
		fmt.Fprintf(a.errs, "job %s submitted, id %d\n", out.Name, out.ID)
		return a.attend(c.Context(), client, rest.JobRef(out.ID))
	}
	return c
}

// flagOfKey are the flags of job run by the key of the job file that they become.
var flagOfKey = map[string]string{
	"name": "--name", "defaults.virtualCluster": "--vc", "taskRoles.main.instances": "--tasks",
	"taskRoles.main.resourcePerInstance.gpu":       "--gpus",
	"taskRoles.main.resourcePerInstance.cpu":       "--cpus",
	"taskRoles.main.resourcePerInstance.memoryMB":  "--memory",
	"extras.hivedScheduler.taskRoles.main.skuType": "--sku",
	"extras.hivedScheduler.jobPriorityClass":       "--priority",
	"extras.comb.priority":                         "--priority",
	"extras.comb.timeLimit":                        "--time-limit",
	"extras.comb.grace":                            "--grace",
	"extras.comb.taskRoles.main.workDir":           "--workdir",
}

// byFlag names the flags where a refusal names the keys of a job file: who called
// job run has never seen that file.
func byFlag(err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Errors {
		e := &p.Errors[i]
		e.Line, e.Column = 0, 0
		if name, ok := strings.CutPrefix(e.Pointer, "extras.comb.taskRoles.main.env."); ok {
			e.Pointer = "--env " + name
		} else if flag := flagOfKey[e.Pointer]; flag != "" {
			e.Pointer = flag
		}
	}
	return err
}

func environment(c *cobra.Command, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, one := range list {
		name, value, ok := strings.Cut(one, "=")
		if name == "" {
			return nil, usage(c, "--env %q: want NAME=VALUE", one)
		}
		if !ok {
			value = os.Getenv(name)
		}
		out[name] = value
	}
	return out, nil
}

// attend follows a job to its end. An interrupt asks to stop it and goes on
// following; what it prints while it ends is still shown.
func (a *app) attend(ctx context.Context, client *rest.Client, ref string) error {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.followJob(follow, client, ref) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if !a.wasInterrupted() {
		return fmt.Errorf("job %s goes on: %w", ref, ctx.Err())
	}
	fmt.Fprintf(a.errs, "stopping job %s; interrupt again to leave it\n", ref)
	again := a.again()
	stop, release := context.WithTimeout(follow, 30*time.Second)
	defer release()
	if _, err := client.Stop(stop, ref, "interrupted by its user"); err != nil && rest.CodeOf(err) != rest.CodeConflict {
		return err
	}
	select {
	case <-done:
	case <-again:
	}
	return outcome(exitInterrupted)
}

func (a *app) followJob(ctx context.Context, client *rest.Client, ref string) error {
	j, err := client.Job(ctx, ref)
	if err != nil {
		return err
	}
	if j.Reason != nil {
		fmt.Fprintf(a.errs, "waiting: %s\n", clean(j.Reason.Message, false))
	}
	if err := a.logs(ctx, client, &j, logFlags{follow: true}); err != nil {
		return err
	}
	j, err = a.waitFor(ctx, client, ref)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.errs, clean(ending(&j), false))
	return jobOutcome(j.Phase)
}

// again is a channel for the next interrupt.
func (a *app) again() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}
