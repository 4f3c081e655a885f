package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/test/testkit"
)

// pair is a pseudo terminal: the user's side, and the one of a program.
func pair(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, user.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	program = os.NewFile(fd, "/dev/pts")
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 41, Col: 121}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// TestExecAtTerminal: a shell beside a task gets all keys, the size of the terminal and each new
// one; the terminal is as it was when the command ends, also when it is told to.
func TestExecAtTerminal(t *testing.T) {
	client, _ := served(t, "1")
	out, err := client.Submit(t.Context(), rest.SubmitRequest{Quick: &rest.QuickJob{Name: "held", GPUs: 1, Command: []string{"sleep", "600"}, Grace: "1s"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "the job runs", func() bool {
		j, err := client.Job(t.Context(), rest.JobRef(out.ID))
		if err != nil {
			t.Fatal(err)
		}
		return j.Tasks[0].State == model.TaskRunning
	})
	user, program := pair(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(user)
	say := func(text, want string) {
		t.Helper()
		if _, err := io.WriteString(user, text); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.HasSuffix(strings.TrimRight(lines.Text(), "\r"), want) {
				return
			}
		}
		t.Fatalf("%q: never %q", text, want)
	}
	begin := func(size string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("comb", "job", "exec", "-it", "held", "--", "sh")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		say("stty size | sed s/^/si''ze./\n", "size."+size)
		return cmd
	}
	same := func(when string) {
		t.Helper()
		after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("%s the terminal is not as it was: %v", when, err)
		}
	}
	cmd := begin("41 121")
	say("trap 'echo cau''ght' INT; echo se''t\n", "set")
	say("\x03\n", "caught") // Ctrl-C
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 42, Col: 122}); err != nil {
		t.Fatal(err)
	}
	say("until test \"$(stty size)\" = '42 122'; do sleep 0.05; done; echo gro''wn\n", "grown")
	say("exit 9\n", "exit 9")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("it ended with %v", err)
	}
	same("behind its end")
	cmd = begin("42 122")
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // with 130
	same("behind a signal")
	if _, err := client.Stop(t.Context(), "held", ""); err != nil {
		t.Fatal(err)
	}
}
