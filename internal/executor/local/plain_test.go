package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

// TestPlainCommandOfAShellWithPrograms: busybox's shell has programs within itself, and gives no
// path of them.
func TestPlainCommandOfAShellWithPrograms(t *testing.T) {
	if !slices.IsSorted(shellWords) {
		t.Errorf("not sorted: %v", shellWords)
	}
	for line, want := range map[string]int{"sh -c 'kill -SEGV $$'": 11, "sh -c 'kill -SEGV $$'; true": 0,
		"test a": 0, "time true": 0} {
		run := exec.Command("/bin/sh", "-c", "command() { echo \"$3\"; }\n"+string(asProgram([]byte(line+"\n"))))
		err := run.Run()
		if run.ProcessState == nil {
			t.Fatal(err)
		}
		status, _ := run.ProcessState.Sys().(syscall.WaitStatus)
		if want > 0 && (!status.Signaled() || int(status.Signal()) != want) || want == 0 && status != 0 {
			t.Errorf("%q ends with %v; want signal %d", line, err, want)
		}
	}
	for line, want := range map[string]bool{
		"python3 train.py": true, "sh -c 'a\nb'": true, `sh -c "a\nb"`: true, `sh -c 'a'\''b'`: true,
		`sh -c '$(a) ` + "`b`" + `; c'`: true, "a\nb": false, "a; b": false, "a 'b": false, "a \"$(b)\"": false,
		`env $'A=it\'s' sh -c "a" ; b it\'s`: false, `sh -c $"a"`: false, `sh -c '$"a"'`: true,
		"a \\": false, "a \\\nb": false, "'a' b": false, "a=b c": false,
	} {
		if _, ok := plainCommand(line); ok != want {
			t.Errorf("plain is %v: %q", ok, line)
		}
	}
}

// A plain command is run by no shell: what ended it is told as it was, a signal as well, and a stop
// that it obeyed with 0 counts. What needs a shell has one.
func TestPlainCommandIsItsProgram(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	crash := write("crash", "#!/bin/sh\nkill -SEGV $$\n")
	three := write("three", "exit 3\n") // without #!: a shell runs it as well
	for _, c := range []struct {
		line string
		want model.Exit
	}{
		{crash, model.Exit{Code: 139, Signal: 11, Own: true}},
		{crash + "; true", model.Exit{Own: true}},
		{three, model.Exit{Code: 3, Own: true}},
		{"sh -c '\n# one; two | $(three)\nkill -SEGV $$'", model.Exit{Code: 139, Signal: 11, Own: true}},
		{`sh -c 'echo '\''it is'\'' >&2; kill -SEGV $$' "a\"b"`,
			model.Exit{Code: 139, Signal: 11, Own: true, Message: "it is"}},
		{"exit 4", model.Exit{Code: 4, Own: true}},
		{"A=5 env sh -c 'exit $A'", model.Exit{Code: 5, Own: true}},
		{"sh -c 'exit 6' # comment", model.Exit{Code: 6, Own: true}},
		{"! false", model.Exit{Own: true}},
		{`test "$(echo a)" = a`, model.Exit{Own: true}},
		{"time true", model.Exit{Own: true}},
	} {
		w := newWorld(t)
		a := w.action(1, c.line)
		w.e.Do(a)
		if got := w.exit(); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.line, got, c.want)
		}
	}
	saves := write("saves", "#!/bin/sh\ntrap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.02; done\n")
	for _, c := range []struct {
		line string
		want model.Exit
	}{
		{saves, model.Exit{}},
		{"sh -c 'trap \"exit 0\" TERM\necho ready\nwhile :; do sleep 0.1 & wait $!; done'", model.Exit{}},
		{"sh -c 'echo ready; while :; do sleep 0.02; done'", model.Exit{Code: 143, Signal: 15}},
		{`sh -c 'trap "" TERM; echo ready; while :; do sleep 0.02; done'`, model.Exit{Code: 137, Signal: 9, Cause: model.GraceOver,
			Message: "it had not ended when its grace of 1s was over, and was killed"}},
	} {
		w := newWorld(t)
		a := w.action(1, c.line)
		w.e.Do(a)
		w.ready(a.Attempt, 1)
		grace := ample
		if c.want.Cause == model.GraceOver {
			grace = model.Second
		}
		w.e.Do(model.Action{Attempt: a.Attempt, Grace: grace})
		if got := w.exit(); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.line, got, c.want)
		}
	}
}
