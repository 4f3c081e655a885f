package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/core/model"
)

func TestParseCgroups(t *testing.T) {
	mounts := ParseMounts(`31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
broken line
`)
	want := []Mount{
		{root: "/docker/abc", dir: "/sys/fs/cgroup/cpu,cpuacct", Options: []string{"rw", "cpu", "cpuacct"}},
		{root: "/", dir: "/sys/fs/cgroup/unified", V2: true, Options: []string{"rw", "nsdelegate"}},
	}
	if !reflect.DeepEqual(mounts, want) {
		t.Fatalf("%+v", mounts)
	}
	own := ParseOwn("4:memory:/m\n3:cpu,cpuacct:/docker/abc/job\n0::/system.slice/a:b.service\n")
	if own["memory"] != "/m" || own["cpuacct"] != "/docker/abc/job" || own[""] != "/system.slice/a:b.service" {
		t.Errorf("%v", own)
	}
	if got := mounts[0].Below(own["cpu"]); got != "/sys/fs/cgroup/cpu,cpuacct/job" {
		t.Error(got)
	}
	if got := mounts[0].Below("/elsewhere"); got != "/sys/fs/cgroup/cpu,cpuacct" {
		t.Error(got)
	}
}

// TestCgroup2 makes groups in a folder that looks like a version 2 hierarchy:
// what is written where is all that can be seen without one.
func TestCgroup2(t *testing.T) {
	base := t.TempDir()
	parents := []Parent{{Dir: filepath.Join(base, "comb"), V2: true, Controllers: Wanted()}}
	of := Limits{Limits: model.Limits{MilliCPU: 1500, MemoryMB: 64}, Pids: 100}
	if got := Make(parents, "task", of); len(got) > 0 {
		t.Fatal(got)
	}
	dir := Dirs(parents, "task")[0]
	for file, want := range map[string]string{"cpu.max": "150000 100000", "memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "100"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := OutOfMemory(parents, "task"); got != 2 {
		t.Errorf("%d kills", got)
	}
	lay(t, dir, map[string]string{"cgroup.procs": "4000000000\n4000000001\n"})
	if n := Kill(Dirs(parents, "task")); n != 2 {
		t.Errorf("it found %d processes", n)
	}
	for file, want := range map[string]string{"cgroup.kill": "1", "pids.max": "0"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	// A place where nothing can be written is said, limit by limit.
	parents[0].Dir = "/proc/no-cgroup"
	if got := Make(parents, "task", of); len(got) != 3 || !strings.HasPrefix(got[0], "cpu limit: ") {
		t.Errorf("%q", got)
	}
}

// lay writes files that the kernel would have. One without text cannot be read.
func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		path := filepath.Join(dir, file)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if text == "" {
			err = errors.Join(err, os.MkdirAll(path, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What is below a task's group is the task's, too, whatever the list of the group says.
func TestGroupsBelow(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		found int
		left  bool
	}{
		"a member below":           {map[string]string{"a/b/cgroup.procs": "4000000000\n", "cgroup.events": "populated 1\n"}, 1, true},
		"below, of version 1":      {map[string]string{"a/b/cgroup.procs": "4000000000\n"}, 1, true},
		"a threaded one below":     {map[string]string{"a/cgroup.procs": "", "a/cgroup.threads": "4000000000\n", "cgroup.events": "populated 1\n"}, 1, true},
		"nothing can be read":      {map[string]string{"cgroup.procs": "", "cgroup.events": "populated 1\nfrozen 0\n"}, 0, true},
		"empty":                    {map[string]string{"cgroup.procs": "\n", "cgroup.events": "populated 0\nfrozen 0\n"}, 0, false},
		"empty, of version 1":      {map[string]string{"a/b/": ""}, 0, false},
		"empty, and not removable": {map[string]string{"cgroup.procs": "\n"}, 0, true},
		"gone":                     {nil, 0, false},
	} {
		dir := filepath.Join(t.TempDir(), "comb", "task")
		lay(t, dir, c.files)
		if left := NotEmpty([]string{dir}); (left != "") != c.left {
			t.Errorf("%s: left is %q", name, left)
		}
		if found := Kill([]string{dir}); found != c.found {
			t.Errorf("%s: it found %d processes", name, found)
		}
		told, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill"))
		if _, v2 := c.files["cgroup.events"]; v2 && string(told) != "1" {
			t.Errorf("%s: the kernel was not told to kill the group", name)
		}
	}
}

// Only a fork that a group's own limit refused counts.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":                      {nil, 0},
		"no limit":                  {map[string]string{"pids.max": "max\n", "pids.events": "max 7\n"}, 0},
		"its own":                   {map[string]string{"pids.max": "100\n", "pids.peak": "100\n", "pids.events": "max 7\n"}, 7},
		"one above it":              {map[string]string{"pids.max": "100\n", "pids.peak": "40\n", "pids.events": "max 7\n"}, 0},
		"one below it":              {map[string]string{"pids.max": "100\n", "pids.peak": "100\n", "pids.events": "max 7\n", "pids.events.local": "max 0\n"}, 0},
		"its own, of all":           {map[string]string{"pids.max": "100\n", "pids.peak": "100\n", "pids.events": "max 7\n", "pids.events.local": "max 2\n"}, 2},
		"a kernel without peak":     {map[string]string{"pids.max": "100\n", "pids.events": "max 7\n", "../pids.max": "max\n"}, 7},
		"without peak, one above":   {map[string]string{"pids.max": "100\n", "pids.events": "max 7\n", "../../pids.max": "max\n", "../pids.max": "90\n"}, 0},
		"a limit of Kill":           {map[string]string{"pids.max": "0\n", "pids.peak": "40\n", "pids.events": "max 7\n"}, 0},
		"a limit that refused none": {map[string]string{"pids.max": "100\n", "pids.peak": "100\n", "pids.events": "max 0\n"}, 0},
	} {
		dir := filepath.Join(t.TempDir(), "top", "comb")
		lay(t, filepath.Join(dir, "task"), c.files)
		if got := Refused([]Parent{{Dir: dir, V2: true}}, "task"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A process is in a group where that is its own or above its own.
func TestWithin(t *testing.T) {
	for text, want := range map[string]bool{
		"4:pids:/comb-1/task\n0::/other\n": true, "0::/a/comb-1/task/x/y\n": true,
		"4:pids:/comb-1/task2\n": false, "4:pids:/comb-1\n0::/task\n": false, "": false,
	} {
		if within(text, "/sys/fs/cgroup/pids/comb-1/task") != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// A process that a list of members names, and that is in another group by now, is not killed.
func TestKillMember(t *testing.T) {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	killMember(other.Process.Pid, filepath.Join(t.TempDir(), "comb", "task"))
	if err := other.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // its state says how it ended
	if got := other.ProcessState.Sys().(syscall.WaitStatus); got.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v", got.Signal())
	}
}

// The groups of tasks stand beside the server's, where they stood before a restart: also for a
// server that systemd starts in the child that the one before moved into.
func TestServerStartsBesideItsTasks(t *testing.T) {
	top := t.TempDir()
	unit := filepath.Join(top, "system.slice", "comb.service")
	lay(t, unit, map[string]string{"cgroup.procs": fmt.Sprintln(os.Getpid())})
	all := Mount{root: "/", dir: top, V2: true}
	dirOf := func(m Mount, own string) string {
		t.Helper()
		parents := openV2(m, own, "comb-tasks", map[string]string{})
		if len(parents) != 1 {
			t.Fatalf("%s: %+v", own, parents)
		}
		return parents[0].Dir
	}
	tasks := filepath.Join(unit, "comb-tasks")
	if dir := dirOf(all, "/system.slice/comb.service"); dir != tasks {
		t.Errorf("at the first start: %s", dir)
	}
	moved := filepath.Join(unit, serverGroup, "cgroup.procs")
	if _, err := os.Stat(moved); err != nil {
		t.Errorf("the server stays where controllers are handed down: %v", err)
	}
	// From now on the unit's own group holds no process, and the next server begins in the child.
	lay(t, unit, map[string]string{"cgroup.procs": "\n"})
	if dir := dirOf(all, "/system.slice/comb.service/comb-server"); dir != tasks {
		t.Errorf("at the second start: %s", dir)
	}
	// A server that sees nothing above its own group has its tasks below that.
	alone := Mount{root: "/system.slice/comb.service/comb-server", dir: filepath.Dir(moved), V2: true}
	if dir := dirOf(alone, alone.root); dir != filepath.Join(alone.dir, "comb-tasks") {
		t.Errorf("in a namespace of its own: %s", dir)
	}
}
