package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// Streams are the input and the outputs of a command.
type Streams struct {
	In       io.Reader // nil is no input
	Out, Err io.Writer
	// Terminal is the terminal of In and Out; with nil the command's streams are pipes.
	Terminal *os.File
	Term     string // type of the terminal
}

// ExecIn runs a command beside a task to its end, and restores the terminal.
func ExecIn(ctx context.Context, client *rest.Client, task rest.TaskName, command []string,
	s Streams) (end rest.ExecEnd, err error) {
	request := rest.ExecRequest{Command: command}
	if s.Terminal != nil {
		request.Terminal, request.Term = sizeOf(s.Terminal), s.Term
		// The terminal is restored also when this process is told to end.
		told, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
		defer stop()
		ctx = told
		if s.In != nil { // else no key could end it
			restore, err := rawMode(s.Terminal)
			if err != nil {
				return end, fmt.Errorf("the terminal cannot be taken over: %w", err)
			}
			defer restore()
		}
	}
	e, err := client.Exec(ctx, task, request)
	if err != nil {
		return end, err
	}
	defer e.Close()
	if s.Terminal != nil {
		defer follow(s.Terminal, e)()
	}
	go func() {
		if s.In != nil {
			_, _ = io.Copy(e, s.In) // a command that has ended reads nothing
		}
		_ = e.CloseWrite()
	}()
	return e.Follow(s.Out, s.Err)
}

func sizeOf(f *os.File) *rest.TermSize {
	z, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return &rest.TermSize{Rows: 24, Cols: 80}
	}
	return &rest.TermSize{Rows: z.Row, Cols: z.Col}
}

// rawMode passes each key on as it is, also Ctrl-C, until restore is called.
func rawMode(f *os.File) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before) }), nil
}

// follow tells a command each new size of a terminal.
func follow(f *os.File, e *rest.Exec) (stop func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			_ = e.Resize(*sizeOf(f)) // a broken connection is noticed elsewhere
		}
	}()
	return func() {
		signal.Stop(changed)
		close(changed)
	}
}

// ParsePorts reads PORT[:REMOTE].
func ParsePorts(text string) (local, remote uint16, err error) {
	first, second, both := strings.Cut(text, ":")
	if !both {
		second = first
	}
	l, err := strconv.ParseUint(first, 10, 16)
	r, err2 := strconv.ParseUint(second, 10, 16)
	if err != nil || err2 != nil || r == 0 {
		return 0, 0, fmt.Errorf("%q: want PORT or PORT:REMOTE, such as 6006 or 8080:80", text)
	}
	return uint16(l), uint16(r), nil
}

// TaskNames lists the first eight of some tasks.
func TaskNames(tasks []rest.TaskStatus) string {
	var names []string
	for _, t := range tasks[:min(len(tasks), 8)] {
		names = append(names, fmt.Sprintf("%s-%d", t.Role, t.Index))
	}
	text := strings.Join(names, ", ")
	if len(tasks) > 8 {
		text += fmt.Sprintf(" and %d more", len(tasks)-8)
	}
	return text
}

// OnlyTask is the only running one of some tasks of a job. next is what to do where there is
// none.
func OnlyTask(j *rest.Job, tasks []rest.TaskStatus) (task rest.TaskName, next string, err error) {
	var run []rest.TaskStatus
	for _, t := range tasks {
		if t.State == model.TaskRunning || t.State == model.TaskStopping {
			task = rest.TaskName{Job: rest.JobRef(j.ID), Role: t.Role, Index: t.Index}
			run = append(run, t)
		}
	}
	switch {
	case len(run) == 1:
		return task, "", nil
	case len(run) > 1:
		return task, "name one with --task " + TaskNames(run[:1]), fmt.Errorf("%d tasks of job %s run: %s", len(run),
			j.Ref, TaskNames(run))
	}
	text := fmt.Sprintf("no task of job %s runs", j.Ref)
	if len(tasks) == 1 && len(j.Tasks) > 1 {
		text = fmt.Sprintf("task %s-%d of job %s does not run", tasks[0].Role, tasks[0].Index, j.Ref)
	}
	return task, "see: comb job get " + j.Ref, rest.NewProblem(http.StatusConflict, rest.CodeConflict, text)
}

// ForwardPort listens on the first port of this machine's loopback, and connects what comes
// there to the second port, which is the task's, until ctx or the task ends. It prints the
// address, and why connections failed.
func ForwardPort(ctx context.Context, client *rest.Client, task rest.TaskName, ports [2]uint16, s Streams) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0]))))
	if err != nil {
		return fmt.Errorf("cannot listen on port %d: %w; with 0:%d a free one is taken", ports[0], errors.Unwrap(err),
			ports[1])
	}
	defer l.Close()
	use, err := client.Forward(ctx, task, ports[1])
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s -> %s:%d\n", l.Addr(), task, ports[1])
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go carry(ctx, conn, use, s.Err)
		}
	}()
	return use.Wait(ctx)
}

func carry(ctx context.Context, conn net.Conn, use *rest.Forwarding, errs io.Writer) {
	defer conn.Close()
	var p *rest.Problem
	if err := use.Carry(ctx, conn); errors.As(err, &p) {
		fmt.Fprintf(errs, "comb: %s\n", p.Detail)
	}
}
