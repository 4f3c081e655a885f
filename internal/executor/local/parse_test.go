package local

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/sched"
)

func TestParseStat(t *testing.T) {
	line := "4242 (a) S) b) R 1 4240 4239 0 -1 4194560 91 0 0 0 0 0 0 0 20 0 1 0 123456 2 3"
	got, ok := parseStat(line)
	if want := (stat{state: 'R', parent: 1, group: 4240, session: 4239, start: 123456}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) R 1", "1 (x) R a b c 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5", strings.Replace(line, "123456", "-1", 1)} {
		if got, ok := parseStat(bad); ok {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}

func TestParseCgroups(t *testing.T) {
	mounts := parseCgroupMounts(`31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
broken line
`)
	want := []cgroupMount{
		{root: "/docker/abc", dir: "/sys/fs/cgroup/cpu,cpuacct", options: []string{"rw", "cpu", "cpuacct"}},
		{root: "/", dir: "/sys/fs/cgroup/unified", v2: true, options: []string{"rw", "nsdelegate"}},
	}
	if !reflect.DeepEqual(mounts, want) {
		t.Fatalf("%+v", mounts)
	}
	own := parseOwnCgroups("4:memory:/m\n3:cpu,cpuacct:/docker/abc/job\n0::/system.slice/a:b.service\n")
	if own["memory"] != "/m" || own["cpuacct"] != "/docker/abc/job" || own[""] != "/system.slice/a:b.service" {
		t.Errorf("%v", own)
	}
	if got := mounts[0].below(own["cpu"]); got != "/sys/fs/cgroup/cpu,cpuacct/job" {
		t.Error(got)
	}
	if got := mounts[0].below("/elsewhere"); got != "/sys/fs/cgroup/cpu,cpuacct" {
		t.Error(got)
	}
}

// TestCgroup2 makes groups in a folder that looks like a version 2 hierarchy:
// what is written where is all that can be seen without one.
func TestCgroup2(t *testing.T) {
	base := t.TempDir()
	s := &spec{Parents: []cgroupParent{{Dir: filepath.Join(base, "comb"), V2: true, Controllers: wanted()}},
		Limits: limits{Limits: sched.Limits{MilliCPU: 1500, MemoryMB: 64}, Pids: 100}}
	if got := makeGroups(s); len(got) > 0 {
		t.Fatal(got)
	}
	dir := groupDirs(s)[0]
	for file, want := range map[string]string{"cpu.max": "150000 100000", "memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "100"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := outOfMemory(s); got != 2 {
		t.Errorf("%d kills", got)
	}
	killGroup(dir)
	if got, err := os.ReadFile(filepath.Join(dir, "cgroup.kill")); err != nil || string(got) != "1" {
		t.Errorf("%q, %v", got, err)
	}
	// A place where nothing can be written is said, limit by limit.
	s.Parents[0].Dir = "/proc/no-cgroup"
	if got := makeGroups(s); len(got) != 3 || !strings.HasPrefix(got[0], "cpu limit: ") {
		t.Errorf("%q", got)
	}
}

func TestDiscover(t *testing.T) {
	m, err := Discover(t.Context())
	if err != nil || m.Host == "" || m.Boot == "" || m.Cores < 1 || m.MemoryMB < 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if kb, err := parseMemory("MemFree: 1 kB\nMemTotal:  2048 kB\n"); kb != 2 || err != nil {
		t.Errorf("%d, %v", kb, err)
	}
	if _, err := parseMemory("nothing"); err == nil {
		t.Error("no MemTotal is no error")
	}
}

func TestReadPrivate(t *testing.T) {
	for _, p := range []private{{script: []byte("abc\n\n")}, {script: []byte("x"), surroundings: []string{"A=1\n2", "B=caf\xe9"}}, {script: []byte{}}} {
		got, err := readPrivate(io.MultiReader(bytes.NewReader(p.encode()), strings.NewReader("rest")))
		if err != nil || !reflect.DeepEqual(*got, p) {
			t.Errorf("%+v came as %+v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "5", "5\nabcde", "5 0\nabc", "1 5\nxA=1", "-1 0\n", "0 -1\n", "x 0\n", "99999999999 0\n", "0 99999999999\n"} {
		if got, err := readPrivate(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Dir: "relative", Cluster: "c", Self: "/bin/true"}, {Dir: t.TempDir(), Cluster: "c", Self: "/bin/true"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
