// Package podinit is process 1 of a task's pod. It fetches the code of the job, runs the task,
// forwards signals to it, reports its progress, sends what it prints, and exits as the task does.
// It must not know Kubernetes.
package podinit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/link"
	"github.com/combsched/comb/internal/executor/kube/podinit/early"
	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/spec/upload"
)

// Exit codes of this program's own, as shells use them.
const (
	exitUnable = 125
	exitNoDir  = 126
	exitNoFile = 127
)

// Order says what process 1 of a task's pod is to do. It is its first argument, as JSON.
type Order struct {
	URL string `json:"url"` // of the server
	Pin string `json:"pin"` // of its certificate
	Pod string `json:"pod"` // the pod that it speaks for
	// Code is the digest of the job's code, "" for none. It is unpacked in Dir, and has at most
	// Limit bytes.
	Code  string `json:"code,omitempty"`
	Dir   string `json:"dir"`
	Limit int64  `json:"limit"`
	// From is the working directory of the task; "" is that of this process.
	From     string `json:"from,omitempty"`
	Progress string `json:"progress"` // the file in which the task reports its progress
	// AwaitAddresses says to ask for the addresses of the gang, and to put them in place of the
	// host names.
	AwaitAddresses bool `json:"meets,omitempty"`
	// Members is the file that lists the running tasks of the job, "" where they do not change.
	// Signal is sent to the task after each change, "" for none.
	Members string `json:"members,omitempty"`
	Signal  string `json:"signal,omitempty"`
	Turns   *Turns `json:"turns,omitempty"` // nil: it is never suspended
	// KeepLog is how many bytes of what the task prints are kept until the server has taken them.
	KeepLog int `json:"keepLog"`
}

// Text is the order as an argument.
func (o *Order) Text() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return string(text)
}

// Install copies this program into a folder, where the task's container finds it: `comb lay
// FOLDER`, the first container of a pod.
func Install(args []string) int {
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

// Main is `comb attend ORDER COMMAND...`.
func Main(args []string) int {
	var o Order
	if len(args) < 2 || json.Unmarshal([]byte(args[0]), &o) != nil {
		fmt.Fprintln(os.Stderr, "attend takes an order and a command; Kubernetes starts it")
		return exitUnable
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := link.Open(o.URL, o.Pin, o.Pod)
	if err != nil {
		return unable(err)
	}
	output, err := capturePrinted(ctx, server, o.KeepLog)
	if err != nil {
		return unable(err)
	}
	defer output.finish() // it comes after all that is printed below
	return o.attend(ctx, server, args[1:])
}

// attend runs the task of a pod, and returns its exit code.
func (o *Order) attend(ctx context.Context, server *link.Client, command []string) int {
	stops := early.Received
	if o.Code != "" {
		if err := o.withCode(ctx, server, stops); err != nil {
			return unable(err)
		}
	}
	if o.AwaitAddresses && !awaitAddresses(ctx, server, stops) {
		return unable(errStopped)
	}
	if o.Members != "" {
		m := &members{server: server, file: o.Members, signal: o.Signal}
		if err := m.begin(ctx); err != nil {
			return unable(err)
		}
	}
	t := &teller{server: server, file: o.Progress}
	turns := o.turner(ctx, server)
	if turns != nil && !turns.await(stops) {
		return 128 + int(unix.SIGTERM)
	}
	go measure(ctx, server)
	stopTelling := t.begin(ctx)
	here, _ := os.Getwd()
	code := run(command, o.begins(here), stops, turns)
	stopTelling()
	if turns != nil {
		turns.line.last()
	}
	return code
}

// begins is the directory in which the task starts. A pod without a working directory starts in
// the WORKDIR of its image. Where the image has none that is the root: then the task starts in
// its own folder.
func (o *Order) begins(here string) string {
	if o.From == "" && (here == "/" || here == "") {
		return o.Dir
	}
	return o.From
}

// turner returns what suspends and wakes the task; nil where it never shares its devices.
func (o *Order) turner(ctx context.Context, server *link.Client) *suspender {
	if o.Turns == nil {
		return nil
	}
	t := &suspender{o: *o.Turns, line: newTurnLine(server)}
	t.line.turns = len(t.o.Rotation.Turns) > 1
	go t.line.run(ctx)
	return t
}

func unable(err error) int {
	fmt.Fprintln(os.Stderr, "comb:", err)
	return exitUnable
}

// errStopped says that the task was stopped before it began.
var errStopped = errors.New("the task was stopped before it began")

// tokenWithin is how long a task waits whose token the server does not take. It may just be
// renewed, or clocks may differ for a while.
const tokenWithin = 5 * time.Minute

// withCode fetches and unpacks the job's code. It waits for a server that is away.
func (o *Order) withCode(ctx context.Context, server *link.Client, stops <-chan os.Signal) error {
	said, taken := time.Now(), time.Now()
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		err := o.fetch(ctx, server)
		if err == nil {
			return nil
		}
		if !errors.Is(err, link.ErrToken) {
			taken = time.Now()
		}
		if time.Since(taken) > tokenWithin || errors.Is(err, link.ErrNoTask) || errors.Is(err, errDamaged) ||
			errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
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

// errDamaged says that the code that came is not what was sent.
var errDamaged = errors.New("the code of the job is damaged")

func (o *Order) fetch(ctx context.Context, server *link.Client) error {
	body, err := server.Code(ctx)
	if err != nil {
		return fmt.Errorf("fetch the code of the job: %w", err)
	}
	defer body.Close()
	if err := empty(o.Dir); err != nil {
		return err
	}
	held, err := upload.Unpack(body, o.Dir, upload.Limits{Bytes: o.Limit, Files: int(o.Limit / 512)})
	switch {
	case err != nil:
		return fmt.Errorf("unpack the code of the job: %w", err)
	case held.Digest != o.Code:
		return fmt.Errorf("%w: its digest is %s and was %s", errDamaged, held.Digest, o.Code)
	}
	return nil
}

// empty removes what an earlier try left.
func empty(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// run runs the task to its end. Processes that it leaves end with this process.
func run(args []string, from string, stops <-chan os.Signal, turns *suspender) int {
	if st, err := os.Stat(cmp.Or(from, ".") + "/."); err != nil || !st.IsDir() {
		here, _ := unix.Getwd() // os.Getwd fails where the directory cannot be entered
		fmt.Fprintf(os.Stderr, "comb: the task did not start: the working directory %s does not exist, "+
			"is no directory or cannot be entered\n", cmp.Or(from, here, "of its image"))
		return exitNoDir
	}
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = nil, os.Stdout, os.Stderr
	c.Dir = from
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "comb: start the task:", err)
		return exitNoFile
	}
	main, ended := c.Process.Pid, make(chan unix.WaitStatus, 1)
	go reap(main, ended)
	stop := stopping{main: process.Of(main)}
	wheel := newWheel(turns, &stop)
	for {
		select {
		case got := <-stops:
			if slices.Contains(early.StopSignals(), got) {
				wheel.end()
				stop.begin()
			} else {
				_ = unix.Kill(main, got.(syscall.Signal))
			}
		case says := <-wheel.says:
			turns.take(says)
			wheel.turn()
		case <-wheel.next:
			wheel.turn()
		case <-wheel.kill:
			stop.kill()
		case <-stop.tick():
			stop.tellRest()
		case status := <-ended:
			status = stop.exitStatus(status)
			if status.Signaled() {
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		}
	}
}

// turnDriver drives a task's turns while it runs; without turns it does nothing.
type turnDriver struct {
	turns *suspender
	stop  *stopping
	says  <-chan link.TurnAnswer
	next  <-chan time.Time
	kill  <-chan time.Time // for a task that was stopped as it could not be suspended
}

func newWheel(turns *suspender, stop *stopping) *turnDriver {
	w := &turnDriver{turns: turns, stop: stop}
	if turns != nil {
		w.says, w.next = turns.line.says, time.After(0)
	}
	return w
}

// turn brings the task to what its rotation says, and stops it where that fails.
func (w *turnDriver) turn() {
	pause, why := w.turns.step()
	w.next = time.After(pause)
	if why == "" {
		return
	}
	fmt.Fprintln(os.Stderr, "comb: the task is stopped:", why)
	w.turns.line.give(why)
	w.end()
	w.kill = time.After(time.Duration(w.turns.o.Grace) * time.Microsecond)
	w.stop.begin()
}

// end ends the turns of a task that is being stopped.
func (w *turnDriver) end() {
	if w.turns != nil && !w.turns.finished {
		w.turns.end()
	}
	w.next = nil
}

// reap reaps all processes, as process 1 must, and reports how the task ended.
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
