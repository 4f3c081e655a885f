// Package attend is process 1 of a task's pod: it fetches the code of the job, runs the task, hands on what it is told, tells
// its progress, and ends as the task does. It must not know Kubernetes.
package attend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/line"
	"github.com/combsched/comb/internal/upload"
)

// Exits of its own, as shells have them.
const (
	exitUnable = 125
	exitNoFile = 127
)

// What it finds in its environment. They are taken from the task's.
const (
	DigestVariable = "COMB_LINE_CODE"
	DirVariable    = "COMB_LINE_DIR"   // where the code is unpacked
	RunVariable    = "COMB_LINE_FROM"  // the working directory of the task, made if it is missing; "" is where this process is
	LimitVariable  = "COMB_LINE_LIMIT" // of the code, in bytes
	FileVariable   = "COMB_PROGRESS_FILE"
	ownVariables   = "COMB_LINE_"
)

// Lay puts this program into a folder, where the task's container finds it: `comb lay FOLDER`, the first container of a pod.
func Lay(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "lay takes a folder; Kubernetes starts it")
		return exitUnable
	}
	if err := lay(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "comb: lay this program for the task:", err)
		return exitUnable
	}
	return 0
}

func lay(folder string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	f, err := os.OpenFile(filepath.Join(folder, "comb"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, self)
	return errors.Join(err, f.Close())
}

// Attend is `comb attend COMMAND...`.
func Attend(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "attend takes a command; Kubernetes starts it")
		return exitUnable
	}
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := line.Open()
	if err != nil {
		return unable(err)
	}
	if digest := os.Getenv(DigestVariable); digest != "" {
		if err := withCode(ctx, server, digest, stops); err != nil {
			return unable(err)
		}
	}
	t := &teller{server: server, file: os.Getenv(FileVariable)}
	stopTelling := t.begin(ctx)
	code := run(args, stops)
	stopTelling()
	return code
}

func unable(err error) int {
	fmt.Fprintln(os.Stderr, "comb:", err)
	return exitUnable
}

// errStopped says that the task was to end before it began.
var errStopped = errors.New("the task was stopped before it began")

// withCode fetches and unpacks the job's code. A server that is away is waited for.
func withCode(ctx context.Context, server *line.Client, digest string, stops <-chan os.Signal) error {
	dir := os.Getenv(DirVariable)
	said := time.Now()
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		err := fetch(ctx, server, digest, dir)
		if err == nil {
			return nil
		}
		if errors.Is(err, line.ErrNone) || errors.Is(err, errDamaged) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return err
		}
		if time.Since(said) > time.Minute || pause == 200*time.Millisecond {
			fmt.Fprintln(os.Stderr, "comb: the code of the job does not come; it is asked for again:", err)
			said = time.Now()
		}
		select {
		case <-stops:
			return errStopped
		case <-time.After(pause):
		}
	}
}

// errDamaged says that what came is not what was sent.
var errDamaged = errors.New("the code of the job is damaged")

func fetch(ctx context.Context, server *line.Client, digest, dir string) error {
	body, err := server.Code(ctx)
	if err != nil {
		return fmt.Errorf("fetch the code of the job: %w", err)
	}
	defer body.Close()
	if err := empty(dir); err != nil {
		return err
	}
	most := upload.Default.Bytes
	if text := os.Getenv(LimitVariable); text != "" {
		if _, err := fmt.Sscan(text, &most); err != nil {
			return fmt.Errorf("%s: %w", LimitVariable, err)
		}
	}
	held, err := upload.Unpack(body, dir, upload.Limits{Bytes: most, Files: int(most / 512)})
	switch {
	case err != nil:
		return fmt.Errorf("unpack the code of the job: %w", err)
	case held.Digest != digest:
		return fmt.Errorf("%w: its digest is %s and was %s", errDamaged, held.Digest, digest)
	}
	return nil
}

// empty removes what a try before left.
func empty(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// run runs the task to its end. What it leaves behind ends with this process.
func run(args []string, stops <-chan os.Signal) int {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = nil, os.Stdout, os.Stderr
	c.Dir = os.Getenv(RunVariable)
	c.Env = taskEnv()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "comb: start the task:", err)
		return exitNoFile
	}
	main, ended := c.Process.Pid, make(chan unix.WaitStatus, 1)
	go reap(main, ended)
	for {
		select {
		case s := <-stops:
			_ = unix.Kill(main, s.(syscall.Signal))
		case status := <-ended:
			if status.Signaled() {
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		}
	}
}

// reap takes the ends of all processes, as process 1 must, and tells that of the task.
func reap(main int, ended chan<- unix.WaitStatus) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case pid == main && (status.Exited() || status.Signaled()):
			ended <- status
		case err == unix.ECHILD:
			return
		}
	}
}

// taskEnv is this process's environment without what is for it alone.
func taskEnv() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, ownVariables) {
			env = append(env, v)
		}
	}
	return env
}
