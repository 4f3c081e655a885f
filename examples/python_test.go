package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/combsched/comb/internal/test/testkit"
)

// A run is a program of this folder.
type run struct {
	*testing.T
	cmd *exec.Cmd
	out testkit.Output
}

func start(t *testing.T, env []string, words ...string) *run {
	t.Helper()
	r := &run{T: t, cmd: exec.Command(words[0], words[1:]...)}
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// ends waits for the end, and returns what the program printed.
func (r *run) ends(code int) string {
	r.Helper()
	_ = r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.Fatalf("%v ends with %d; want %d: %s", r.cmd.Args, got, code, &r.out)
	}
	return r.out.String()
}

// until waits for something that the program does.
func (r *run) until(what string, done func() bool) {
	r.Helper()
	testkit.WaitFor(r, func() string { return fmt.Sprintf("%s: %s", what, &r.out) }, done)
}

func (r *run) signal(s syscall.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

var parameters = regexp.MustCompile(`(?m)^parameters .+$`)

// resume.py saves when it is asked to stop, and comes to the parameters of a run that was not
// stopped.
func TestPythonResume(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	folder := func() string { return "COMB_CHECKPOINT_DIR=" + t.TempDir() }
	const steps = "STEPS=300" // of 20 ms, so that a busy machine stops it in time
	whole := start(t, []string{folder(), steps}, "python3", "resume.py")
	progress := filepath.Join(t.TempDir(), "progress")
	env := []string{folder(), steps, "COMB_PROGRESS_FILE=" + progress}
	first := start(t, env, "python3", "resume.py")
	first.until("its tenth step", func() bool {
		data, _ := os.ReadFile(progress)
		return bytes.Count(data, []byte("\n")) >= 10
	})
	first.signal(syscall.SIGTERM)
	saved := first.ends(143)
	out := start(t, env, "python3", "resume.py").ends(0)
	want := parameters.FindString(whole.ends(0))
	step, _ := strings.CutPrefix(strings.TrimSpace(saved), "saved at step ")
	if !strings.HasPrefix(out, "goes on at step "+step+"\n") || want == "" || parameters.FindString(out) != want {
		t.Errorf("it says %q, then %q; undisturbed %q", saved, out, want)
	}
}

// suspend.py and suspend.sh answer, wait, and do all their work.
func TestPythonSuspend(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	const python, shell = "STEPS=250", "STEPS=50" // of 20 ms and 100 ms, so that a busy machine asks in time
	whole := start(t, []string{python}, "python3", "suspend.py")
	for _, one := range []struct {
		steps string
		words []string
		want  func() string
	}{
		{python, []string{"python3", "suspend.py"}, func() string { return parameters.FindString(whole.ends(0)) }},
		{shell, []string{"sh", "suspend.sh"}, func() string { return "did 50" }},
	} {
		ack := filepath.Join(t.TempDir(), "ack")
		r := start(t, []string{"COMB_SUSPEND_FILE=" + ack, one.steps}, one.words...)
		r.until("it catches the signal", func() bool { return catches(r.cmd.Process.Pid, syscall.SIGUSR1) })
		r.signal(syscall.SIGUSR1)
		r.until("it acknowledges", func() bool { return exists(ack) })
		time.Sleep(300 * time.Millisecond) // the turn of others: it takes time, and nothing is waited for
		if err := os.Remove(ack); err != nil {
			t.Fatal(err)
		}
		out, want := r.ends(0), one.want()
		if want == "" || !strings.Contains(out, want) {
			t.Errorf("%v prints %q; want %q", one.words, out, want)
		}
	}
}

// catches reports whether a process has a handler for a signal.
func catches(pid int, s syscall.Signal) bool {
	data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	_, rest, _ := strings.Cut(string(data), "\nSigCgt:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(line, 16, 64)
	return err == nil && mask&(1<<(s-1)) != 0
}

// progress.py finds the line, and reports each step.
func TestPythonProgress(t *testing.T) {
	if !testkit.Live(t, "python") {
		return
	}
	progress := filepath.Join(t.TempDir(), "progress")
	out := start(t, []string{"COMB_PROGRESS_FILE=" + progress}, "python3", "progress.py").ends(0)
	data, err := os.ReadFile(progress)
	if out != "fitted 3.0 1.0\n" || err != nil || bytes.Count(data, []byte("\n")) != 200 {
		t.Errorf("%q, %d lines, %v", out, bytes.Count(data, []byte("\n")), err)
	}
}
