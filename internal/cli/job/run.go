package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/narrate"
	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/cli"
)

// runFlags are the flags of comb job run.
type runFlags struct {
	job    rest.QuickJob
	env    []string
	ports  []string
	clean  bool
	dryRun bool
	detach bool
	upload string
}

func (a *commands) jobRun() *cobra.Command {
	r := runFlags{}
	q := &r.job
	c := &cobra.Command{Use: "run [flags] [-- PROGRAM [ARGUMENT...]]", Short: "Run a command as a job and follow it",
		Long: `Run a command as a job: submit it, follow what it prints, and exit with its
outcome (0, 10 failed, 11 stopped). Ctrl-C asks to stop the job; a second one
leaves it. Each argument reaches the program as it is, and must be UTF-8 text.
With --image and without a program the image's own runs: its ENTRYPOINT and CMD.

A server that you started on this machine runs it in the present folder and with
this shell's environment, which is kept like a secret of the job. With another
server, which is told, or with --clean, it gets a folder of its own and a few
variables of the server's. Variables that the system sets for every task, and
those of --env, count before the shell's.

A program that is stopped to make room gets SIGTERM. If it ends with exit code 0
then, that counts as done, and it does not run again; with --checkpoint it waits
and goes on later, unless it reported the last of its steps.`,
		Example: "  comb job run --gpus 2 -- nvidia-smi\n  comb job run --image python:3.12 --gpus 2 -- python -c 'print(1)'\n  comb job run --image python:3.12 --upload . --gpus 2 -- python train.py\n  comb job run -d --name nightly --tasks 4 --gpus 1 -- python train.py",
		Args:    cobra.ArbitraryArgs}
	f := c.Flags()
	f.SetInterspersed(false)
	f.Var(rest.GPUs{Of: q}, "gpus", "GPUs of each task; all is as many as one node has that the virtual cluster may use")
	f.StringVar(&q.CPUs, "cpus", "", "CPUs of each task, such as 0.5")
	f.Var((*cli.MemoryFlag)(&q.MemoryMB), "memory", "memory of each task, such as 16Gi or 500M; a bare number is MiB")
	f.Var((*cli.MemoryFlag)(&q.ShmMB), "shm",
		"/dev/shm of each task's container, a part of its memory, such as 8Gi (default: as much as its memory)")
	f.Var((*cli.MemoryFlag)(&q.DiskMB), "disk", "what the container of each task may write to its own disk, such as 20Gi (default: what the server allows)")
	f.Var(cli.LimitsFlag{Of: &q.Limits}, "ulimit", "NAME=LIMIT of each process: nofile=65536, stack=64Mi, memlock=unlimited "+
		"(may repeat; default: what the cluster file says)")
	f.Int32Var(&q.Tasks, "tasks", 1, "how many equal tasks, started together")
	f.StringVar(&q.Name, "name", "", "job name (default: made of the program's)")
	f.StringVar(&q.VC, "vc", "", "virtual cluster")
	f.StringVar(&q.SKU, "sku", "", "SKU to run on (default: any)")
	f.StringVar(&q.Pinned, "pin", "", "pinned cell of the virtual cluster to run in; not with --sku")
	f.StringVar(&q.Priority, "priority", "", "crit, prod, test, oppo or a number")
	f.StringVar(&q.Image, "image", "", "run each task in a container of this image, such as python:3.12: neither this folder nor this shell's environment")
	f.StringVar(&q.Pull, "pull", "", "missing: fetch the image where it is not on the machine; "+
		"always: when the job starts first, though one is there (default: missing)")
	f.StringArrayVar(&q.Storages, "storage", nil, "a storage of the cluster file that its tasks see, in /mnt/NAME of a container and at $COMB_STORAGE_NAME (may repeat)")
	f.StringVar(&r.upload, "upload", "", "run it in a copy of this folder, without what its .gitignore and .combignore leave out: neither in this folder nor with this shell's environment")
	f.StringVar(&q.WorkDir, "workdir", "", "working directory (default: this one; with --clean the attempt's own; with --upload it may be a folder of that)")
	f.StringVar(&q.TimeLimit, "time-limit", "", "end it after this running time, such as 90m")
	f.StringVar(&q.Grace, "grace", "", "between SIGTERM and SIGKILL, such as 30s")
	f.Int32Var(&q.Retries, "retries", 0, "start it again so often after it failed by its own fault; -1 is without end")
	f.BoolVar(&q.Checkpoint, "checkpoint", false,
		"it saves its work when it is asked to stop, in $COMB_CHECKPOINT_DIR: "+
			"exit code 0 to make room then means saved, and it goes on later")
	f.StringArrayVar(&r.ports, "port", nil, "LABEL or LABEL=NUMBER: so many ports for each task, in $PAI_PORT_LIST_main_INDEX_LABEL (may repeat)")
	f.StringArrayVar(&r.env, "env", nil, "NAME=VALUE in its environment; NAME alone takes this shell's (may repeat)")
	f.BoolVar(&r.clean, "clean", false, "neither this folder nor this shell's environment")
	f.BoolVar(&r.dryRun, "dry-run", false, "check only, and say what would happen")
	f.BoolVarP(&r.detach, "detach", "d", false, "only submit")
	cli.NeverEmpty(f, strings.Fields("name vc sku pin priority image pull storage upload workdir time-limit grace")...)
	c.RunE = func(c *cobra.Command, command []string) (err error) {
		q.Command = command
		if err = checkRun(c, q); err != nil {
			return err
		}
		if q.Env, err = environment(c, r.env); err != nil {
			return err
		}
		if q.Ports, err = ports(c, r.ports); err != nil {
			return err
		}
		return a.run(c.Context(), &r)
	}
	return c
}

// checkRun reports mistakes in a command line before a server is asked.
func checkRun(c *cobra.Command, q *rest.QuickJob) error {
	switch {
	case len(q.Command) == 0 && q.Image == "":
		return cli.Usage(c, "%s needs a program behind --, or an --image whose own program runs", c.CommandPath())
	case len(q.Command) > 0 && q.Command[0] == "":
		return cli.Usage(c, "the name of the program is empty")
	case q.Pull != "" && q.Image == "":
		return cli.Usage(c, "--pull %s: it is for the image of --image", q.Pull)
	case q.Tasks < 1:
		return cli.Usage(c, "--tasks %d: want 1 or more", q.Tasks)
	case q.Image == "" && c.ArgsLenAtDash() < 0 && imageName.MatchString(q.Command[0]) && !exists(q.Command[0]):
		return cli.Usage(c, "%s looks like an image: %s --image %s -- %s", q.Command[0], c.CommandPath(), q.Command[0],
			cli.First(strings.Join(q.Command[1:], " "), "PROGRAM"))
	case q.ShmMB > 0 && q.Image == "":
		return cli.Usage(c, "--shm: it is for the container of an --image; "+
			"what runs as a process has the machine's /dev/shm")
	}
	if text := clockOf(q.TimeLimit); text != "" {
		return cli.Usage(c, "--time-limit %q: write %s", q.TimeLimit, text)
	}
	for _, life := range [][2]string{{"--time-limit", q.TimeLimit}, {"--grace", q.Grace}} {
		if err := document.Unitless(life[1]); err != nil {
			return cli.Usage(c, "%s %s: %w", life[0], life[1], err)
		}
	}
	return nil
}

// imageName matches what is an image with its tag, and hardly a program.
var imageName = regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9._-]*$`)

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// clock matches times in slurm's form: [DAYS-]HOURS:MINUTES[:SECONDS], and MINUTES:SECONDS.
var clock = regexp.MustCompile(`^(?:(\d{1,3})-)?(\d{1,4}):(\d{1,2})(?::(\d{1,2}))?$`)

// clockOf converts such a time into the form of job files; "" if it is not one.
func clockOf(text string) string {
	part := clock.FindStringSubmatch(text)
	if part == nil {
		return ""
	}
	n := func(i int) time.Duration {
		v, _ := strconv.Atoi(part[i]) // "" becomes 0
		return time.Duration(v)
	}
	if part[1] == "" && part[4] == "" {
		return narrate.Short(n(2)*time.Minute + n(3)*time.Second)
	}
	return narrate.Short(n(1)*24*time.Hour + n(2)*time.Hour + n(3)*time.Minute + n(4)*time.Second)
}

// run submits a command and follows it.
func (a *commands) run(ctx context.Context, r *runFlags) error {
	server, err := a.Reach()
	if err != nil {
		return err
	}
	client := server.Client
	if r.job.Upload, err = sendCode(ctx, a, client, r.upload); err != nil {
		return err
	}
	if !r.clean && r.job.Image == "" && r.upload == "" {
		if client, err = a.addCaller(ctx, &server, &r.job); err != nil {
			return err
		}
	}
	request := rest.SubmitRequest{Quick: &r.job}
	if r.dryRun {
		if r.job.Caller != nil {
			r.job.Caller.Env = nil
		}
		called := cli.First(r.job.Name, append(r.job.Command, r.job.Image)[0])
		return a.dryRun(ctx, client, []string{called}, []rest.SubmitRequest{request})
	}
	out, err := a.accept(ctx, client, submission{request, ""})
	if err != nil {
		return byFlag(err)
	}
	a.Warn(string(out.Name), flagsWarned(out.Warnings))
	if r.detach && ctx.Err() == nil {
		return a.Show(out, func(t *cli.Table) { t.Line("job %s submitted, id %d", out.Name, out.ID) })
	}
	fmt.Fprintf(a.Errs, "job %s submitted, id %d\n", out.Name, out.ID)
	return a.followToEnd(ctx, client, rest.JobRef(out.ID), r.job.Image != "")
}

// sendCode uploads a folder and returns its digest; "" is none.
func sendCode(ctx context.Context, a *commands, client *rest.Client, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	return rest.SendFolder(ctx, client, dir, func(text string) {
		fmt.Fprintln(a.Errs, "upload:",
			cli.Clean(text, false))
	})
}

// addCaller adds the present folder and environment to a job, and returns the client over which
// they may be sent: it reaches only a process of this user. For a server of another user, or
// on another machine, it says so and leaves the job as it is.
func (a *commands) addCaller(ctx context.Context, server *cli.Reached, q *rest.QuickJob) (*rest.Client, error) {
	client, err := server.Local(ctx)
	if err != nil {
		fmt.Fprintf(a.Errs, "comb: the job gets a folder of its own and the server's environment, not yours (--clean asks for that): %s\n", cli.Clean(err.Error(), false))
		return server.Client, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, cli.Hint{Err: fmt.Errorf("cannot tell the present folder: %v", err),
			Next: "go to another one, or use --clean"}
	}
	folder, err := rest.FolderAt(dir)
	if err != nil {
		return nil, cli.Hint{Err: fmt.Errorf("cannot use the present folder: %v", err),
			Next: "go to another one, or use --clean"}
	}
	var env []byte
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COMB_") && !strings.HasPrefix(v, "PAI_") {
			env = append(append(env, v...), 0)
		}
	}
	if len(env) > rest.MaxCallerEnv {
		return nil, fmt.Errorf("this shell's environment has %d KiB, more than the %d KiB that a job can take; use --clean, with --env for what it needs",
			len(env)>>10, rest.MaxCallerEnv>>10)
	}
	q.Caller = &rest.Caller{Folder: folder, Env: env}
	if q.WorkDir != "" && !filepath.IsAbs(q.WorkDir) {
		q.WorkDir = filepath.Join(dir, q.WorkDir)
	}
	return client, nil
}

// flagOfKey maps keys of the job file to the flags of job run from which they come.
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
	"extras.comb.pull":                             "--pull",
	"taskRoles.main.commands":                      "the program",
	"jobRetryCount":                                "--retries",
	"taskRoles.main.resourcePerInstance.ports":     "--port",
	"extras.comb.taskRoles.main.workDir":           "--workdir",
	"extras.comb.upload":                           "--upload",
	"extras.comb.taskRoles.main.disk":              "--disk",
	"taskRoles.main.extraContainerOptions.shmMB":   "--shm",
	"extras.comb.taskRoles.main.limits":            "--ulimit",
	"extras.comb.taskRoles.main.limits.nofile":     "--ulimit nofile",
	"extras.comb.taskRoles.main.limits.stack":      "--ulimit stack",
	"extras.comb.taskRoles.main.limits.memlock":    "--ulimit memlock",
	"quick.caller.folder":                          "the present folder",
	"quick.caller.folder.path":                     "the present folder",
	"taskRoles.main":                               "--image",
	"taskRoles.main.dockerImage":                   "--image",
	"prerequisites[0].uri":                         "--image",
	"quick.name":                                   "--name",
	"quick.vc":                                     "--vc",
	"quick.cpus":                                   "--cpus",
	"quick.sku":                                    "--sku",
	"quick.priority":                               "--priority",
	"quick.work_dir":                               "--workdir",
	"quick.time_limit":                             "--time-limit",
	"quick.grace":                                  "--grace",
	"quick.env":                                    "the name of --env",
	"quick.command[0]":                             "the program",
}

// byFlag names flags where a refusal names keys of a job file, which the user of job run has
// never seen.
func byFlag(err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i := range p.Errors {
		e := &p.Errors[i]
		e.Line, e.Column, e.Pointer = 0, 0, flagOf(e.Pointer)
	}
	return err
}

// flagOf is the flag from which a key of a job file comes; other keys stay.
func flagOf(key string) string {
	if flag := flagOfKey[key]; flag != "" {
		return flag
	}
	for prefix, flag := range map[string]string{"extras.comb.taskRoles.main.env.": "--env ", "taskRoles.main.resourcePerInstance.ports.": "--port ", "quick.env.": "--env ", "quick.command[": "argument "} {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return flag + strings.TrimSuffix(name, "]")
		}
	}
	return key
}

// flagsWarned replaces the keys of a job file in warnings by flags.
func flagsWarned(warnings []string) (out []string) {
	for _, w := range warnings {
		if key, text, ok := strings.Cut(w, ": "); ok {
			w = flagOf(key) + ": " + text
		}
		out = append(out, w)
	}
	return out
}

func environment(c *cobra.Command, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, one := range list {
		name, value, ok := strings.Cut(one, "=")
		if name == "" {
			return nil, cli.Usage(c, "--env %q: want NAME=VALUE", one)
		}
		if !ok {
			value = os.Getenv(name)
		}
		out[name] = value
	}
	return out, nil
}

func ports(c *cobra.Command, list []string) (map[string]int32, error) {
	out := map[string]int32{}
	for _, one := range list {
		label, number, some := strings.Cut(one, "=")
		n := int64(1)
		var err error
		if some {
			n, err = strconv.ParseInt(number, 10, 32)
		}
		if label == "" || err != nil || n < 1 {
			return nil, cli.Usage(c, "--port %q: want LABEL or LABEL=NUMBER", one)
		}
		if _, twice := out[label]; twice {
			return nil, cli.Usage(c, "--port %s is given twice: --port %s=2 asks for two", label, label)
		}
		out[label] = int32(n)
	}
	return out, nil
}

// submission is one job that is sent to the server. With key "" a new key is made.
type submission struct {
	request rest.SubmitRequest
	key     string
}

// mostChecked bounds how many files are checked before the first is submitted, since each
// check costs as much as comb job explain.
const mostChecked = 50

// check reports all that is wrong with several files before the first is submitted.
func (s *submissions) check(ctx context.Context, client *rest.Client) error {
	if len(s.files) == 1 || len(s.files) > mostChecked {
		return nil
	}
	var wrong []error
	for i, r := range s.requests {
		v, err := client.ValidateJob(ctx, r)
		code := rest.CodeOf(err)
		switch {
		case err == nil && v.Verdict == rest.VerdictNever:
			wrong = append(wrong, fmt.Errorf("%s: job %s: %s", s.files[i], v.Job.Name, v.Message))
		case code == rest.CodeInvalid || code == rest.CodeNeverFits || code == rest.CodeConflict ||
			code == rest.CodeNotFound:
			wrong = append(wrong, cli.InFile(s.files[i], err))
		case err != nil:
			return cli.InFile(s.files[i], err) // the server did not check the file
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.Hint{Err: errors.Join(wrong...), Next: "no job was submitted"}
}

// learnWithin is how long an interrupted submission asks a server that does not answer
// whether it accepted the job.
const learnWithin = 30 * time.Second

// accept submits a job. If the user interrupts it while the request is sent, the server may
// accept the job or not. So it waits for the answer, and repeats the request under the same
// key, which cannot make a second job. With ctx done and no error the job was accepted.
func (a *commands) accept(ctx context.Context, client *rest.Client, s submission) (rest.Submitted, error) {
	if ctx.Err() != nil {
		return rest.Submitted{}, ctx.Err() // nothing was sent
	}
	if s.key == "" {
		s.key = rest.NewKey()
	}
	under, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var out rest.Submitted
	done := make(chan error, 1)
	go func() {
		var err error
		out, err = client.Submit(under, s.request, s.key)
		for end := time.Now().Add(learnWithin); unsure(err) && ctx.Err() != nil && time.Now().Before(end); {
			time.Sleep(time.Second)
			out, err = client.Submit(under, s.request, s.key)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return out, err
	case <-ctx.Done():
	}
	unknown := errors.New("it is not known whether the server took the job; see: comb job list")
	if !a.WasInterrupted() {
		return rest.Submitted{}, fmt.Errorf("%w: %w", unknown, ctx.Err())
	}
	fmt.Fprintln(a.Errs, "Ctrl-C: waiting for the server to confirm the job. Press Ctrl-C again to leave it running.")
	select {
	case err := <-done:
		if unsure(err) {
			return rest.Submitted{}, fmt.Errorf("%w: %w", unknown, err)
		}
		return out, err
	case <-a.again():
		return rest.Submitted{}, unknown
	}
}

// unsure reports whether a submission with this error may have been accepted.
func unsure(err error) bool {
	var lost *rest.Unreachable
	return errors.As(err, &lost) && !lost.Refused() || rest.CodeOf(err) == rest.CodeUnavailable ||
		errors.Is(err, context.DeadlineExceeded)
}

// followToEnd follows a job to its end. boxed says that it runs in containers. After an interrupt
// it stops the job and goes on, so that the last output is still printed.
func (a *commands) followToEnd(ctx context.Context, client *rest.Client, ref string, boxed bool) error {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.followJob(follow, client, ref, boxed) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if !a.WasInterrupted() {
		return fmt.Errorf("job %s goes on: %w", ref, ctx.Err())
	}
	fmt.Fprintf(a.Errs, "stopping job %s; interrupt again to leave it\n", ref)
	again := a.again()
	stop, release := context.WithTimeout(follow, 30*time.Second)
	defer release()
	if _, err := client.Stop(stop, ref, "interrupted by its user"); err != nil &&
		rest.CodeOf(err) != rest.CodeConflict {
		return err
	}
	select {
	case <-done:
	case <-again:
		fmt.Fprintf(a.Errs, "job %s was asked to stop, and lives on until it ends or its grace is over; see: comb job get %s\n",
			ref, ref)
	}
	return cli.Outcome(cli.ExitInterrupted)
}

func (a *commands) followJob(ctx context.Context, client *rest.Client, ref string, boxed bool) error {
	j, err := client.Job(ctx, ref)
	if err != nil {
		return err
	}
	onto := cli.NewScreen(terminal(a.Out), terminal(a.Errs))
	w := NewWaitLines(onto, a.Errs, boxed)
	w.Show(&j)
	look, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := make(chan struct{})
	go func() {
		w.Follow(look, client, ref)
		close(shown)
	}()
	if err := a.logs(ctx, client, &j, logFlags{follow: true, onto: onto}); err != nil {
		return err
	}
	cancel()
	<-shown
	j, err = a.waitFor(ctx, client, ref)
	if err != nil {
		return err
	}
	w.Show(&j) // what it was told since the last look
	fmt.Fprintln(a.Errs, cli.Clean(ending(&j), false))
	return cli.JobOutcome(j.Phase)
}

// NewWaitLines returns lines that show why a job waits.
func NewWaitLines(onto *cli.Screen, out io.Writer, boxed bool) *WaitLines {
	w := &WaitLines{Terminal: terminal(out) != nil, Boxed: boxed,
		Clean: func(text string) string { return cli.Clean(text, false) }}
	return w.On(onto, out)
}

// again is a channel for the next interrupt.
func (a *commands) again() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}
