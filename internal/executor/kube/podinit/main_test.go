package podinit

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/kube/podinit/early"
	"github.com/combsched/comb/internal/executor/task"
)

// TestMain makes the test binary process 1 of a task, without a server to speak to; alone also that
// of a namespace, as in a pod.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "alone" {
		os.Exit(alone(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "astray" {
		os.Exit(astray(os.Args[2]))
	}
	if len(os.Args) == 4 && os.Args[1] == "capturing" {
		os.Exit(capturing(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == "attend" {
		os.Exit(run(os.Args[2:], "", early.Received, nil))
	}
	os.Exit(m.Run())
}

// Whatever the image says of how it is stopped, the task is asked by SIGTERM; other signals are
// handed on.
func TestTaskIsAskedByEachStopSignal(t *testing.T) {
	const task = `trap 'echo asked; exit 7' TERM; trap 'echo told one; exit 7' USR1; ` +
		`trap 'echo told two; exit 7' USR2; echo ready; while :; do sleep 0.02; done`
	for sig, want := range map[unix.Signal]string{
		unix.SIGTERM: "asked", unix.SIGINT: "asked", unix.SIGHUP: "asked", unix.SIGQUIT: "asked",
		unix.SIGWINCH: "asked", unix.Signal(37): "asked", unix.SIGUSR1: "told one", unix.SIGUSR2: "told two"} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			c := exec.Command(self, "attend", "/bin/sh", "-c", task)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
			}
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if lines.Scan(); lines.Text() != want {
				t.Errorf("it printed %q, want %q", lines.Text(), want)
			}
			var exit *exec.ExitError
			if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A task begins where its job says, else in the WORKDIR of its image, else in its own folder.
func TestWhereATaskBegins(t *testing.T) {
	for _, c := range []struct{ from, here, want string }{
		{"", "/app", ""}, // where process 1 is
		{"", "/", "/comb/work"},
		{"/data", "/app", "/data"}, {"/data", "/", "/data"},
	} {
		o := Order{Dir: "/comb/work", From: c.from}
		if got := o.begins(c.here); got != c.want {
			t.Errorf("from %q, at %q: %q, want %q", c.from, c.here, got, c.want)
		}
	}
}

// astray runs a task from the WORKDIR of an image that the image's user may not enter.
func astray(dir string) int {
	err := errors.Join(os.Chdir(dir), os.Chmod(dir, 0))
	if os.Geteuid() == 0 {
		err = errors.Join(err, syscall.Setuid(65534))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return run([]string{"/bin/true"}, "", early.Received, nil)
}

// A task that cannot begin where it should is told where that is.
func TestNoSuchDirectory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	defer os.Chmod(dir, 0o700)
	text, err := exec.Command(self, "astray", dir).CombinedOutput()
	want := "the working directory " + dir + " does not exist, is no directory or cannot be entered"
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitNoDir || !strings.Contains(string(text), want) {
		t.Errorf("it ended with %v and %q, want %q", err, text, want)
	}
}

func TestWhatIsToldOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "progress")
	tell := &teller{file: file}
	next := func() string {
		t.Helper()
		lines, size, _, err := tell.next()
		if err != nil {
			t.Fatal(err)
		}
		tell.at += size
		return string(lines)
	}
	write := func(text string, flag int) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		text string
		flag int
		want string
	}{
		{"", os.O_APPEND, ""},
		{"{1}\n{2", os.O_APPEND, "{1}\n"},
		{"", os.O_APPEND, ""},
		{"}\n", os.O_APPEND, "{2}\n"},
		{"{3}\n", os.O_TRUNC, "{3}\n"}, // begun anew, and shorter
		{strings.Repeat("x", task.LongestProgress+1), os.O_APPEND, ""},
		{"\n{4}\n", os.O_APPEND, "\n{4}\n"},
	} {
		write(step.text, step.flag)
		if got := next(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if lines, _, _, err := tell.next(); err == nil || lines != nil {
		t.Errorf("a link is followed: %q, %v", lines, err)
	}
}

func TestAddressesStandForNames(t *testing.T) {
	t.Setenv("MASTER_ADDR", "comb-a-1-0-1-1.comb-a")
	t.Setenv("HOSTS", "comb-a-1-0-1-1.comb-a:20,comb-a-1-0-1-11.comb-a:20")
	putAddresses(map[string]string{"comb-a-1-0-1-1.comb-a": "10.0.0.1", "comb-a-1-0-1-11.comb-a": "10.0.0.2"})
	if a, b := os.Getenv("MASTER_ADDR"), os.Getenv("HOSTS"); a != "10.0.0.1" || b != "10.0.0.1:20,10.0.0.2:20" {
		t.Errorf("they are %q and %q", a, b)
	}
}
