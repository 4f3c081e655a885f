package containers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

const helpers = `
say() { echo "$@"; }
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then say $what may; else say $what may not; fi; }
group() { cat /sys/fs/cgroup/$1 2>/dev/null || cat /sys/fs/cgroup/$2; }
put() { echo "$2" > $1; }
top() { mkdir -p /tmp/top && { mount -t cgroup -o memory none /tmp/top || mount -t cgroup2 none /tmp/top; }; }
again() { was=$(cat $1) && echo "$was" > $1; }
memory() { mkdir -p /tmp/memory && mount -t tmpfs none /tmp/memory; }
agent() { top; again /tmp/top/release_agent || again /tmp/top/cgroup.subtree_control; }
`

// open are the tries that nothing but a container's protection keeps from working: in one without
// any they do.
const open = `
try release-agent agent
try disk-node mknod /tmp/disk b 8 0
try mount memory
try namespace unshare -n true
try engine ls $ENGINE
try data ls $DATA
try host-loopback timeout 10 nc -w 2 127.0.0.1 $PORT
try host-shm ls /dev/shm/$MARK
`

// tries runs as root in a container. Each line of what it prints is a name and what was found:
// "may" and "may not" are of something that was tried.
const tries = helpers + `
for k in CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp; do say $k $(grep ^$k: /proc/self/status | cut -f2); done
say processes $(ls -d /proc/[0-9]* | wc -l)
say one $(tr '\0' ' ' < /proc/1/cmdline)
say interfaces $(ls /sys/class/net)
say host $(hostname)
say user $(id -u)
say memory $(group memory/memory.limit_in_bytes memory.max)
say swap $(group memory/memory.memsw.limit_in_bytes memory.swap.max)
say cpu $(group cpu/cpu.cfs_quota_us cpu.max)
say pids $(group pids/pids.max pids.max)
say shm $(df -k /dev/shm | tail -1 | awk '{print $2}')
say files $(ls /proc/self/fd | tr '\n' ' ')
try kill-one kill -9 1
try read-one cat /proc/1/environ
try private ls /comb/private
try locks ls /comb/locks
try addresses ls /comb/gang
try program put /comb/bin/comb x
try top mv /comb /combs
try part mv /comb/bin /comb/bins
try folder mv /comb/private /comb/privates
try new mkdir /comb/new
try gone rm -r /comb/bin
try unmount umount -l /comb/private
try unmount-top umount -l /comb
try over mount --bind /tmp /comb/private
try writable mount -o remount,rw /comb
try core-pattern put /proc/sys/kernel/core_pattern x
try sysrq put /proc/sysrq-trigger h
try wider put $(ls /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null) 1099511627776
try null-node mknod /tmp/null c 1 3
try memory-device head -c1 /dev/mem
try user-namespace unshare -U true
try chown chown 1000 /etc/passwd
try rename hostname other
try shared-memory dd if=/dev/zero of=/dev/shm/x bs=1M count=16
` + open + `
( while :; do :; done ) & ( while :; do :; done ) & sleep 2
say throttled $(group cpu/cpu.stat cpu.stat | grep nr_throttled | cut -d' ' -f2)
`

// Each row of the table in docs/containers.md, as a task of root sees it, and whether it can be
// exceeded.
func TestIsolation(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	w.engine.Import("local.test/tries:1", map[string]string{"tries.sh": tries})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // whatever reaches it is answered by its end
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			c.Close()
		}
	}()
	mark := fmt.Sprint("comb-test-", os.Getpid())
	if err := os.WriteFile("/dev/shm/"+mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove("/dev/shm/" + mark)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	socket := strings.TrimPrefix(w.engine.Host(), "unix://")
	where := fmt.Sprintf("export DATA=%s PORT=%s MARK=%s ENGINE=%s", w.dir, port, mark, socket)
	bare := strings.ReplaceAll(w.engine.Bare("local.test/tries:1", where+helpers+open, w.dir, filepath.Dir(socket), "/dev/shm"), "\r", "")
	for line := range strings.Lines(strings.TrimSpace(open)) {
		if name := strings.Fields(line)[1]; word(bare, name+" ") != "may" {
			t.Errorf("%s: in a container without protection it is %q, so that the try shows nothing", name, word(bare, name+" "))
		}
	}
	source := strings.Replace(with("tries", "local.test/tries:1", where+"; sh /tries.sh"),
		"memoryMB: 128", "memoryMB: 2048", 1)
	source = strings.Replace(source, "cpu: 1,", "cpu: 0.2,", 1) // so little that it is throttled on a busy machine as well
	source = strings.Replace(source, "dockerImage: box", "dockerImage: box\n    extraContainerOptions: {shmMB: 8}", 1)
	ref := w.submit(source)
	t.Cleanup(func() {
		if t.Failed() {
			files, _ := filepath.Glob(filepath.Join(w.dir, "data", "jobs", ref, "*", "*", "std*"))
			for _, f := range files {
				data, _ := os.ReadFile(f)
				t.Logf("%s:\n%s", f, data)
			}
		}
	})
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	out, _, _ := w.cli("job", "logs", ref)
	own, _ := os.Hostname()
	for name, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000",
		"CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2", "user": "0",
		"memory": fmt.Sprint((2048 + 32) << 20), "shm": "8192", "pids": fmt.Sprint(4096 + 32), "files": "0 1 2 3", // ls has its folder open
		"kill-one": "may not", "read-one": "may not", "private": "may not", "locks": "may not", "addresses": "may not", "program": "may not",
		"top": "may not", "part": "may not", "folder": "may not", "new": "may not", "gone": "may not", "unmount": "may not", "unmount-top": "may not",
		"over": "may not", "writable": "may not",
		"core-pattern": "may not", "sysrq": "may not", "release-agent": "may not", "wider": "may not", "disk-node": "may not", "null-node": "may not",
		"memory-device": "may not", "mount": "may not", "namespace": "may not", "user-namespace": "may not", "chown": "may not", "rename": "may not",
		"shared-memory": "may not", "engine": "may not", "data": "may not", "host-loopback": "may not", "host-shm": "may not",
	} {
		if got := word(out, name+" "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, bad := range map[string]string{"host": own, "throttled": "0", "swap": "max"} {
		if got := word(out, name+" "); got == "" || strings.HasPrefix(got, bad) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := word(out, "one "); !strings.HasPrefix(got, "/comb/bin/comb inside 64789 /comb/") {
		t.Errorf("process 1 is %q", got)
	}
	if got := word(out, "cpu "); !strings.HasPrefix(got, "20000") {
		t.Errorf("CPU time of each 100,000 us: %q", got)
	}
	if n, err := strconv.Atoi(word(out, "processes ")); err != nil || n < 1 || n > 12 {
		t.Errorf("it sees %q processes", word(out, "processes "))
	}
	if got := word(out, "interfaces "); got != "eth0 lo" {
		t.Errorf("interfaces %q", got)
	}
}

// A task that needs more memory than it may have is ended, with that reason, and the one beside it
// is not.
func TestMemoryOfContainers(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	beside := w.submit(waiting("beside"))
	w.until(beside, "it runs", running(2))
	ref := w.submit(with("greedy", image, "x=x; while :; do x=$x$x; done", "echo never"))
	j := w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if x := j.Tasks[0].Exit; x == nil || x.Cause != model.OutOfMemory || !strings.Contains(x.Message, "128 MiB") {
		t.Errorf("it ended with %+v", x)
	}
	// /dev/shm is as large as the memory, of which it is a part.
	ref = w.submit(with("shares", image, "df -k /dev/shm | tail -1 | awk '{print \"shm\", $2}'",
		"dd if=/dev/zero of=/dev/shm/x bs=1M count=96 2>/dev/null && echo fits"))
	j = w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
	if out, _, _ := w.cli("job", "logs", ref); j.Phase != model.Succeeded || out != "shm 131072\nfits\n" {
		t.Errorf("%s, and it said %q", j.Phase, out)
	}
	w.until(beside, "it still runs", running(2))
	w.letGo(beside)
	w.until(beside, "it ends", func(j *rest.Job) bool { return j.Phase.Ended() })
}

// What an image says about how it is run reaches its task at most, and never process 1: no check of
// its own runs beside it, and no variable of it is there. A VOLUME elsewhere is the task's to write
// to.
func TestImageReachesItsTaskOnly(t *testing.T) {
	w := newWorld(t, plain, "--live-restore")
	w.engine.Import("local.test/says:1", map[string]string{"lib/evil.so": "x", "data/kept": "x"}, "HEALTHCHECK --interval=1s --timeout=1s CMD touch /tmp/checked",
		"ENV GODEBUG=inittrace=1 GOMAXPROCS=7 GOGC=7 LD_PRELOAD=/lib/evil.so OWN=own NVIDIA_VISIBLE_DEVICES=all HOSTNAME=other", "ENV PATH=/sbin:/bin:/own", `VOLUME ["/data"]`)
	ref := w.submit(with("says", "local.test/says:1", "echo ready", "touch /data/own && echo \"volume $(ls /data | tr '\\n' ' ')\"",
		`echo "variables $GODEBUG $LD_PRELOAD $OWN $PATH $GOMAXPROCS $GOGC <$NVIDIA_VISIBLE_DEVICES>"`, `test "$HOSTNAME" = "$(hostname)" && echo "hostname own"`,
		"while [ ! -e /comb/checkpoint/go ]; do sleep 0.1; done", `ls /tmp/checked; echo over`))
	j := w.until(ref, "it runs", running(1))
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.Tasks[0].PID))
	if err != nil {
		t.Fatal(err)
	}
	// GOMAXPROCS and GOGC are there, with values of Comb's own.
	for _, set := range []string{"GODEBUG=", "GOMAXPROCS=7", "GOGC=7", "LD_PRELOAD=", "OWN=", "PATH="} {
		if strings.Contains("\x00"+string(env), "\x00"+set) {
			t.Errorf("process 1 has %s of its image: %q", set, env)
		}
	}
	if !strings.Contains(string(env), "NVIDIA_VISIBLE_DEVICES=void") {
		t.Errorf("a runtime that gives devices by variables finds %q", env)
	}
	time.Sleep(3 * time.Second) // for the check, which would come each second, and which nothing tells of that does not come
	w.letGo(ref)
	w.until(ref, "it ends", func(j *rest.Job) bool { return j.Phase == model.Succeeded })
	out, _, _ := w.cli("job", "logs", ref)
	for _, want := range []string{"variables inittrace=1 /lib/evil.so own /sbin:/bin:/own 7 7 <void>\n", "volume kept own \n", "hostname own\n", "over\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("not there: %q\n%s", want, out)
		}
	}
	if strings.Contains(out, "/tmp/checked") {
		t.Errorf("the image's check ran:\n%s", out)
	}
	w.noContainers()
}
