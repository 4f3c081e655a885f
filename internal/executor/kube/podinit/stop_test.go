package podinit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/process"
)

// alone runs a script as process 1 does, and says how often it looked at all processes.
func alone(script string) int {
	err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Println("mount /proc:", err)
		return 1
	}
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, unix.SIGTERM)
	code := run([]string{"/bin/sh", "-c", script}, "", stops, nil)
	fmt.Println("ended", code, process.Looks())
	return code
}

// A task of hundreds of processes in a pod ends at once, with one look at them.
func TestStopOfMany(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const bomb = "f() { [ $1 = 0 ] || { f $(($1-1)) & f $(($1-1)) & }; read x < hold; }; mkfifo hold; f 7 & "
	for name, c := range map[string]struct{ script, want string }{
		"no handler": {bomb + "echo ready; read x < hold", "ended 143 1\n"},
		"a handler":  {bomb + "(trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done); exit 3", "ended 7 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self, "alone", c.script)
			cmd.Dir = t.TempDir()
			cmd.Stderr = t.Output()
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL,
			}
			if id := os.Geteuid(); id != 0 {
				cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: id, Size: 1}}
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said.WriteString(lines.Text() + "\n")
				if lines.Text() == "ready" {
					_ = cmd.Process.Signal(unix.SIGTERM)
				}
			}
			_ = cmd.Wait() // what it said tells more than its code
			if said.String() != "ready\n"+c.want {
				t.Errorf("it said %q, want %q", said.String(), c.want)
			}
		})
	}
}

// A working directory that is not there is said, and no other try finds it.
func TestNoWorkingDirectory(t *testing.T) {
	for _, from := range []string{"/no/such/place", "/proc/self/exe"} {
		if code := run([]string{"true"}, from, nil, nil); code != exitNoDir {
			t.Errorf("in %s it ends with %d", from, code)
		}
	}
}
