package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor/task"
	"github.com/combsched/comb/internal/test/testkit"
)

// An image's own program that the kernel does not start is the image's fault, whatever is wrong
// with it: else an image could have nodes put aside. What the machine lacks is the machine's.
func TestProgramsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	run := func(runs ...string) (*spec, error) {
		t.Helper()
		s := &spec{Shell: "/bin/sh", Container: &containerSpec{Runs: runs}}
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		pid, err := startMain(s, &private{}, null, null, nil)
		if err == nil {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
		return s, err
	}
	const cannot = "cannot be run ("
	for what, c := range map[string]struct {
		runs []string
		says string
	}{
		"below a file":      {[]string{put("file", "#!/bin/sh\n") + "/x"}, cannot + "not a directory)"},
		"a loop of links":   {[]string{loop}, cannot + "too many levels of symbolic links)"},
		"a long name":       {[]string{"/" + strings.Repeat("x", 5000)}, "xxx..., cannot be run (file name too long)"},
		"a long word":       {[]string{"/bin/true", strings.Repeat("x", 128<<10)}, cannot + "argument list too long)"},
		"cut off":           {[]string{put("cut", string(self[:100]))}, "a program for this machine"},
		"a folder":          {[]string{dir}, "its user may not run its " + dir},
		"nothing there":     {[]string{dir + "/none"}, "is not there, or lacks what it is started with"},
		"no interpreter":    {[]string{put("script", "#!/none\n")}, "is not there, or lacks what it is started with"},
		"nothing to be run": {[]string{put("text", "x")}, "is not a program for this machine"},
	} {
		s, err := run(c.runs...)
		if err == nil {
			t.Errorf("%s was run", what)
			continue
		}
		fault := starts(s).startFault(err)
		if !strings.HasPrefix(fault, "the image  cannot be used: ") || !strings.Contains(fault, c.says) || strings.Contains(fault, "/bin/sh") {
			t.Errorf("%s: %v is %v, want %q", what, err, fault, c.says)
		}
	}
	if _, err := run("/bin/true"); err != nil {
		t.Errorf("a program: %v", err)
	}
	own := &spec{Container: &containerSpec{Runs: []string{"/x"}}}
	for _, err := range []error{nil, unix.ENOTDIR, task.SpawnFault{Errno: unix.EAGAIN}, task.SpawnFault{Errno: unix.ENOMEM},
		task.SpawnFault{Errno: unix.ENFILE}} {
		if fault := starts(own).startFault(err); fault != "" {
			t.Errorf("%v is the image's: %v", err, fault)
		}
	}
	shell := &spec{Shell: "/bin/sh", Container: &containerSpec{}}
	if fault := starts(shell).startFault(task.SpawnFault{Errno: unix.ELIBBAD}); !strings.Contains(fault, "its /bin/sh cannot be run") {
		t.Errorf("of a shell: %v", fault)
	}
}

// starts is the supervisor of a task that could not be started.
func starts(s *spec) *supervisor { return &supervisor{spec: s, private: &private{}} }

// What keeps the shell of a process from being started is the job's where it starts without what is
// the job's, and else the node's.
func TestShellsThatCannotRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shell string
		err   error
		want  string // "" is that it is the node's
	}{
		{"/bin/sh", task.SpawnFault{Errno: unix.ENOENT}, "/bin/sh starts on this node, and does not in /work with the job's variables (no such file or directory)"},
		{"/bin/sh", task.SpawnFault{Errno: unix.EACCES}, "look at that directory and at the variables"},
		{"/bin/sh", task.SpawnFault{Errno: unix.ENOMEM}, ""}, {"/bin/sh", unix.ENOENT, ""}, {"/bin/sh", nil, ""},
		{"/none/sh", task.SpawnFault{Errno: unix.ENOENT}, ""}, {file, task.SpawnFault{Errno: unix.EACCES}, ""},
	} {
		got := starts(&spec{Shell: c.shell, Dir: "/work"}).startFault(c.err)
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s, %v: %q, want %q", c.shell, c.err, got, c.want)
		}
	}
}

// Variables that are too long for a program are the job's fault, by the limit of its stack: the
// message says how long they are and may be.
func tooLongVariables(t *testing.T, image string, change func(*Options)) {
	w := newWorld(t, change)
	do := doer{w, image}
	start := func(each int, lengths ...int) model.TaskRefused {
		a := w.action(1, "true")
		for i, n := range lengths {
			v := model.EnvVar{Name: fmt.Sprintf("LONG%d", i), Value: strings.Repeat("x", n)}
			role(a).Env = append(role(a).Env, v)
		}
		role(a).Limits = cell.TaskLimits{StackMB: int64(each)}
		do.Do(a)
		return wantRefused(w)
	}
	const six = 50 << 10
	if r := start(1, six, six, six, six, six, six); !r.Job || !strings.Contains(r.Reason,
		"KiB, and a program is started with 256 KiB at most, as the limit of its stack is 1024 KiB: set fewer or shorter ones") {
		t.Errorf("%+v", r)
	}
	if r := start(64, 1, longestVariable); !r.Job || !strings.Contains(r.Reason,
		"the variable LONG1 has 131077 bytes with its name, and Linux takes 131071 at most") {
		t.Errorf("%+v", r)
	}
}

func TestVariablesOfAProcess(t *testing.T) { tooLongVariables(t, "", func(*Options) {}) }

func TestVariablesOfAContainer(t *testing.T) {
	if !testkit.Live(t, "container") {
		return
	}
	engine := openBoxes(t)
	tooLongVariables(t, boxImage, func(o *Options) { o.Engine = engine })
}

// A node that lost its shell is at fault, not the job.
func TestNodeWithoutAShell(t *testing.T) {
	w := newWorld(t)
	w.e.shell = filepath.Join(t.TempDir(), "none")
	w.e.Do(w.action(1, "true"))
	if r := wantRefused(w); r.Job || r.Fetch || !strings.Contains(r.Reason, "start "+w.e.shell) {
		t.Errorf("%+v", r)
	}
}
