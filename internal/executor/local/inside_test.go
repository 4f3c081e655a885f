package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/local/spawn"
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
		s := &spec{Shell: "/bin/sh", Boxed: &boxed{Runs: runs}}
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
		fault := startFault(s, err)
		if !errors.Is(fault, errImage) || !strings.Contains(fault.Error(), c.says) || strings.Contains(fault.Error(), "/bin/sh") {
			t.Errorf("%s: %v is %v, want %q", what, err, fault, c.says)
		}
	}
	if _, err := run("/bin/true"); err != nil {
		t.Errorf("a program: %v", err)
	}
	own := &spec{Boxed: &boxed{Runs: []string{"/x"}}}
	for _, err := range []error{nil, unix.ENOTDIR, spawn.Fault{Errno: unix.EAGAIN}, spawn.Fault{Errno: unix.ENOMEM},
		spawn.Fault{Errno: unix.ENFILE}} {
		if fault := startFault(own, err); fault != nil {
			t.Errorf("%v is the image's: %v", err, fault)
		}
	}
	if fault := startFault(&spec{Shell: "/bin/sh"}, spawn.Fault{Errno: unix.ENOTDIR}); fault != nil {
		t.Errorf("of a process: %v", fault)
	}
	shell := &spec{Shell: "/bin/sh", Boxed: &boxed{}}
	if fault := startFault(shell, spawn.Fault{Errno: unix.ELIBBAD}); !errors.Is(fault, errImage) ||
		!strings.Contains(fault.Error(), "its /bin/sh cannot be run") {
		t.Errorf("of a shell: %v", fault)
	}
}
