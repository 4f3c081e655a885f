package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
	"github.com/combsched/comb/internal/executor/process"
)

// beside runs a command beside the only task of an attempt to its end.
func (w *world) beside(a model.AttemptID, input string, argv ...string) (stdout, stderr string, end executor.Ended) {
	w.Helper()
	s := w.enter(a, executor.Command{Argv: argv})
	errs := make(chan string, 1)
	go func() {
		_, _ = io.WriteString(s.Stdin, input) // a command need not read it
		s.Stdin.Close()
	}()
	go func() {
		text, _ := io.ReadAll(s.Stderr)
		errs <- string(text)
	}()
	text, err := io.ReadAll(s.Stdout)
	if err != nil {
		w.Fatal(err)
	}
	if end, err = s.Wait(); err != nil {
		w.Fatal(err)
	}
	return string(text), <-errs, end
}

func (w *world) enter(a model.AttemptID, c executor.Command) *executor.Session {
	w.Helper()
	s, err := w.e.Exec(w.Context(), executor.TaskRef{Attempt: a}, c)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(s.Close)
	return s
}

// A command beside a task has its streams, its exit code, its folder, its environment and its
// marker.
func TestExec(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "export MINE=no", "echo ready", "exec sleep 600")
	w.e.Do(a)
	w.ready(a.Attempt, 1)
	out, errs, end := w.beside(a.Attempt, "some words", "sh", "-c", `cat; echo " of $COMB_JOB_NAME $MINE $COMB_TASK in $(basename "$PWD")"; echo wrong >&2; exit 7`)
	if want := fmt.Sprintf("some words of job-1  %s/1.0.1/0 in work\n", w.o.Cluster); out != want || errs != "wrong\n" || end != (executor.Ended{Code: 7}) {
		t.Errorf("it printed %q and %q and ended with %+v; want %q", out, errs, end, want)
	}
	if _, errs, end := w.beside(a.Attempt, "", "no-such-program"); end.Code != 127 || !strings.Contains(errs, "not found") {
		t.Errorf("a program that is not there: %+v, %q", end, errs)
	}
	if _, _, end := w.beside(a.Attempt, "", "sh", "-c", "kill -9 $$"); end.Code != 137 || end.Signal != 9 {
		t.Errorf("a signal: %+v", end)
	}
	w.e.Do(stopOf(a, time.Second))
	w.exit()
	if _, err := w.e.Exec(t.Context(), executor.TaskRef{Attempt: a.Attempt}, executor.Command{Argv: []string{"true"}}); !errors.Is(err, executor.ErrNotRunning) {
		t.Errorf("a command beside a task that is over: %v", err)
	}
}

func stopOf(a model.Action, grace time.Duration) model.Action {
	return model.Action{Attempt: a.Attempt, Grace: model.Duration(grace.Microseconds())}
}

// A command with a terminal sees one, of the size that it was given and then told, and its keys.
func TestExecTerminal(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo ready", "exec sleep 600")
	w.e.Do(a)
	w.ready(a.Attempt, 1)
	s := w.enter(a.Attempt, executor.Command{Argv: []string{"sh"}, Terminal: &executor.Size{Rows: 33, Cols: 77}, Term: "vt100"})
	lines := bufio.NewScanner(s.Stdout)
	say := func(line, want string) {
		t.Helper()
		if _, err := io.WriteString(s.Stdin, line+"\n"); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.HasSuffix(strings.TrimRight(lines.Text(), "\r"), want) { // a prompt may stand before it
				return
			}
		}
		t.Fatalf("%q: never %q", line, want)
	}
	say("test -t 0 && test -t 2 && echo t''ty $(stty size) $TERM", "tty 33 77 vt100")
	if err := s.Resize(executor.Size{Rows: 10, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	say("echo n''ow $(stty size)", "now 10 20")
	say("trap 'echo cau''ght' INT; echo se''t", "set")
	say("\x03", "caught") // as Ctrl-C
	say("exit 5", "exit 5")
	if end, err := s.Wait(); err != nil || end.Code != 5 {
		t.Errorf("it ended with %+v: %v", end, err)
	}
	w.e.Do(stopOf(a, time.Second))
	w.exit()
}

// A command beside a task is killed with what it started when its session is closed, when the
// server is gone, and when the task ends; it holds the task's end up by no moment.
func TestExecEnds(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo ready", "read line < go || exit 3; exit 0")
	a.Start.Job.Roles[0].Launch.Command = []string{"mkfifo go; echo ready; read line < go; exit 3"}
	w.e.Do(a)
	w.ready(a.Attempt, 1)
	stubborn := executor.Command{Argv: []string{"sh", "-c", `trap '' TERM HUP; (trap '' TERM HUP; exec sleep 611) & echo $!; exec sleep 612`}}
	child := func(s *executor.Session) process.ID {
		t.Helper()
		text, err := bufio.NewReader(s.Stdout).ReadString('\n')
		var pid int
		if _, scanErr := fmt.Sscan(text, &pid); err != nil || scanErr != nil {
			t.Fatal(text, err, scanErr)
		}
		return process.Of(pid)
	}
	closed := w.enter(a.Attempt, stubborn)
	one := child(closed)
	closed.Close()
	w.eventually("what a closed session ran is gone", func() bool { return !one.Alive() })

	left := w.enter(a.Attempt, stubborn)
	one = child(left)
	if err := os.WriteFile(w.e.place.task(a.Attempt, 0)+"/"+workDir+"/go", []byte("on\n"), 0); err != nil {
		t.Fatal(err)
	}
	if x := w.exit(); x.Code != 3 { // the command would hold it up for longer than this waits
		t.Errorf("the task ended with %+v", x)
	}
	if end, err := left.Wait(); err != nil || end.Why != "the task has ended" || end.Signal != 9 {
		t.Errorf("the command ended with %+v: %v", end, err)
	}
	if one.Alive() {
		t.Error("what it had started lives")
	}
}

// Only a port on which the task itself listens is reached, also when the test's own process listens
// at the same machine.
func TestDial(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	foreign := uint16(l.Addr().(*net.TCPAddr).Port)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := w.action(1, "exec "+self+" listen")
	w.e.Do(a)
	var port uint16
	if _, err := fmt.Sscan(w.line(a.Attempt, "listens "), &port); err != nil {
		t.Fatal(err)
	}
	ref := executor.TaskRef{Attempt: a.Attempt}
	c, err := w.e.Dial(t.Context(), ref, port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "over there"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || string(text) != "over there" {
		t.Errorf("it answered %q: %v", text, err)
	}
	for _, port := range []uint16{foreign, 1} {
		if _, err := w.e.Dial(t.Context(), ref, port); !errors.Is(err, executor.ErrRefused) || !strings.Contains(err.Error(), "nothing of the task listens") {
			t.Errorf("port %d: %v", port, err)
		}
	}
	w.e.Do(stopOf(a, time.Second))
	w.exit()
}

// listen is a task that answers what it is told.
func listen() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("listens %d\n", l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		_, _ = io.Copy(c, c)
		c.Close()
	}
}

// A command beside a task is frozen with it, and one that comes meanwhile waits for the task's
// turn.
func TestExecIsSuspended(t *testing.T) {
	w := newWorld(t)
	a := w.action(1, "echo ready", "exec sleep 600")
	w.e.Do(a)
	w.ready(a.Attempt, 1)
	w.suspendedBeside(a)
	w.end(a.Attempt)
}

func (w *world) suspendedBeside(a model.Action) {
	w.Helper()
	s := w.enter(a.Attempt, executor.Command{Argv: []string{"sh", "-c", "while :; do echo tick; sleep 0.05; done"}})
	var ticks atomic.Int64
	go func() {
		for lines := bufio.NewScanner(s.Stdout); lines.Scan(); {
			ticks.Add(1)
		}
	}()
	grows := func() {
		w.Helper()
		before := ticks.Load()
		w.eventually("it ticks", func() bool { return ticks.Load() > before+2 })
	}
	grows()
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: never(a.Attempt)})
	last, since := int64(-1), time.Now()
	w.eventually("it stands still", func() bool {
		if n := ticks.Load(); n != last {
			last, since = n, time.Now()
		}
		return w.held(a.Attempt.Job) && time.Since(since) > 500*time.Millisecond // what it printed before is on its way
	})
	begun := make(chan error, 1)
	go func() {
		s, err := w.e.Exec(w.Context(), executor.TaskRef{Attempt: a.Attempt}, executor.Command{Argv: []string{"true"}})
		if err == nil {
			_, err = s.Wait()
			s.Close()
		}
		begun <- err
	}()
	select {
	case err := <-begun:
		w.Errorf("a command ran while the task was suspended: %v", err)
	case <-time.After(1500 * time.Millisecond): // nothing tells that it would have run
	}
	if n := ticks.Load(); n != last {
		w.Errorf("it ticked %d times while it was suspended", n-last)
	}
	ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.e.Exec(ctx, executor.TaskRef{Attempt: a.Attempt}, executor.Command{Argv: []string{"true"}}); !errors.Is(err, context.DeadlineExceeded) {
		w.Errorf("a command that does not wait for long: %v", err)
	}
	w.e.Do(model.Action{Attempt: a.Attempt, Rotation: always(a.Attempt)})
	grows()
	if err := <-begun; err != nil {
		w.Errorf("a command that waited: %v", err)
	}
}
