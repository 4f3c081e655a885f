package docker

import (
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unlimited is the value of a limit that is none.
const Unlimited = int64(-1)

// Ulimit is a limit of each process of a container: nofile, memlock in bytes, stack in bytes.
type Ulimit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"` // Unlimited is none
}

// Most is how much of a limit the engine can give: a start beyond its own hard limit fails,
// unless it has the capability CAP_SYS_RESOURCE. No process gets more open files than the kernel
// allows. It is Unlimited where it cannot be found out.
func (e *Engine) Most(name string) int64 {
	most := e.most(name)
	if name == "nofile" {
		if all := kernelFiles("/proc/sys/fs/nr_open"); Exceeds(most, all) {
			return all
		}
	}
	return most
}

// kernelFiles is how many open files a kernel allows a process.
func kernelFiles(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return Unlimited
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return Unlimited
	}
	return n
}

// most is the engine's own hard limit.
func (e *Engine) most(name string) int64 {
	pid := e.pid()
	if pid <= 0 {
		return Unlimited
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || mayExceed(string(status)) {
		return Unlimited
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return Unlimited
	}
	return hardLimit(string(limits), name)
}

// pid is the process that listens on the engine's socket; 0: unknown.
func (e *Engine) pid() (pid int32) {
	c, err := net.Dial("unix", strings.TrimPrefix(e.host, "unix://"))
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = cred.Pid
		}
	})
	return pid
}

// mayExceed reads from /proc/PID/status whether a process has CAP_SYS_RESOURCE.
func mayExceed(status string) bool {
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && caps&(1<<unix.CAP_SYS_RESOURCE) != 0
		}
	}
	return false
}

// hardLimit reads a line of /proc/PID/limits: its name, the soft limit, the hard one, a unit.
func hardLimit(limits, name string) int64 {
	title := map[string]string{
		"nofile": "Max open files", "memlock": "Max locked memory", "stack": "Max stack size"}[name]
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, title+" ")
		f := strings.Fields(rest)
		if !ok || len(f) < 2 || f[1] == "unlimited" {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil && n <= math.MaxInt64 {
			return int64(n)
		}
	}
	return Unlimited
}

// Exceeds reports whether a limit is more than another.
func Exceeds(value, most int64) bool {
	return most != Unlimited && (value == Unlimited || value > most)
}

// LimitOf is the name of the limit that an engine could not give, read from its words on a failed
// start; "": they are about something else. runc gives the kernel's number of the limit, crun its
// name.
func LimitOf(words string) string {
	words = strings.ToLower(words)
	for _, l := range []struct {
		name   string
		number int
	}{{"nofile", unix.RLIMIT_NOFILE}, {"stack", unix.RLIMIT_STACK}, {"memlock", unix.RLIMIT_MEMLOCK}} {
		number := fmt.Sprintf("rlimit type %d:", l.number)
		if strings.Contains(words, number) || strings.Contains(words, "rlimit_"+l.name) {
			return l.name
		}
	}
	return ""
}
