package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/combsched/comb/internal/amount"
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
	of := Limits{Limits: amount.Limits{MilliCPU: 1500, MemoryMB: 64}, Pids: 100}
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
	for file, text := range map[string]string{"cgroup.procs": "4000000000\n4000000001\n", "pids.events": "max 7\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := Refused(parents, "task"); got != 7 {
		t.Errorf("%d forks refused", got)
	}
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
