// Package process knows the processes of this machine, safe from the reuse of their numbers:
// which live, which belong to a task, how to end a whole tree and prove its end, and what they
// use of processors, memory and disks. It must not know jobs, and ends nothing that it was not
// told to.
package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ID identifies a process even if its number is reused: Start is its start time in clock ticks
// since boot.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Stat is what /proc/<pid>/stat says about a process.
type Stat struct {
	State   byte
	Parent  int
	Group   int
	Session int
	Start   uint64
}

// Stopped is true for a process that a signal or a debugger has stopped.
func (s Stat) Stopped() bool { return s.State == 'T' || s.State == 't' }

// Dead is true for a process that has ended and was not reaped.
func (s Stat) Dead() bool { return s.State == 'Z' || s.State == 'X' || s.State == 'x' }

// ReadStat returns false when there is no such process.
func ReadStat(pid int) (Stat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, false
	}
	return parseStat(string(data))
}

// parseStat skips the command's name, which may hold anything, up to its last ")".
func parseStat(text string) (Stat, bool) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return Stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, false
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(f[1+i])
		if err != nil {
			return Stat{}, false
		}
		n[i] = v
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return Stat{State: f[0][0], Parent: n[0], Group: n[1], Session: n[2], Start: start}, err == nil
}

// Of names a running process.
func Of(pid int) ID {
	s, _ := ReadStat(pid)
	return ID{PID: pid, Start: s.Start}
}

// Alive reports whether that very process still runs.
func (p ID) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	s, ok := ReadStat(p.PID)
	return ok && s.Start == p.Start && !s.Dead()
}

// Signal reaches that very process or none: a pidfd pins the number before the start time is
// compared. No process has the number 0.
func (p ID) Signal(sig unix.Signal) {
	if p.PID <= 0 {
		return
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if s, ok := ReadStat(p.PID); !ok || s.Start != p.Start {
		return
	}
	if err != nil {
		_ = unix.Kill(p.PID, sig) // a kernel without pidfd; a process that is gone is what is wanted
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0)
}

// looks counts the calls of All.
var looks atomic.Int64

// Looks is how often this process has listed all processes: a list costs some microseconds for
// each process of the machine.
func Looks() int64 { return looks.Load() }

// All returns all living processes of the machine, without those that have ended and were not
// reaped.
func All() (map[int]Stat, error) {
	looks.Add(1)
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]Stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, ok := ReadStat(pid); ok && !s.Dead() {
			all[pid] = s
		}
	}
	return all, nil
}

// Descend adds to found all descendants of its members.
func Descend(all map[int]Stat, found map[int]bool) {
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			if !found[pid] && found[s.Parent] {
				found[pid], grown = true, true
			}
		}
	}
}

// WaitsForStart reports whether a process that was told to stop, and sleeps inside the kernel,
// waits for a stopped child to start its program. After vfork, which shells, Python and Go use, a
// parent takes no signal before that.
func WaitsForStart(pid int, members map[int]Stat) bool {
	for child, st := range members {
		if st.Parent == pid && st.Stopped() && oneMemory(pid, child) {
			return true
		}
	}
	return false
}

// oneMemory reports whether two processes share their address space; where the kernel does not
// tell, whether they run the same program.
func oneMemory(a, b int) bool {
	const kcmpVM = 1
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	if errno == 0 {
		return differ == 0
	}
	one, err := os.Readlink("/proc/" + strconv.Itoa(a) + "/exe")
	other, err2 := os.Readlink("/proc/" + strconv.Itoa(b) + "/exe")
	return err == nil && err2 == nil && one == other
}

// MarkerName is the environment variable that names the task of a process.
const MarkerName = "COMB_TASK"

// maxEnviron bounds what is read of a process's environment: the kernel allows arguments and
// environment of 6 MiB together.
const maxEnviron = 8 << 20

// MarkerIn returns the marker in a process's initial environment, "" without one.
func MarkerIn(pid int) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte(MarkerName+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// hidden reports whether the environment of a process of our own user cannot be read: such a
// process could be any task's.
func hidden(pid int) bool {
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if !os.IsPermission(err) {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Getuid()
}

// BootID identifies this boot of the machine: what ran before another one is dead.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot tell one boot of this machine from another: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Watcher waits for the end of a process that need not be a child.
type Watcher struct {
	p    ID
	file *os.File // a pidfd; nil on a kernel without
}

// Watch returns false when that very process is gone already.
func Watch(p ID) (*Watcher, bool) {
	w := &Watcher{p: p}
	if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
		if unix.SetNonblock(fd, true) == nil {
			w.file = os.NewFile(uintptr(fd), "pidfd")
		} else {
			unix.Close(fd)
		}
	}
	if !p.Alive() {
		w.Close()
		return nil, false
	}
	return w, true
}

// Close stops watching.
func (w *Watcher) Close() {
	if w.file != nil {
		w.file.Close()
	}
}

// Wait returns true when the process has ended, false when d has passed.
func (w *Watcher) Wait(d time.Duration) bool {
	if w.file == nil || w.file.SetReadDeadline(time.Now().Add(d)) != nil {
		time.Sleep(min(d, 50*time.Millisecond))
		return !w.p.Alive()
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return !w.p.Alive()
	}
	ended := false
	err = conn.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = n > 0
		return ended
	})
	return ended || err != nil && !w.p.Alive()
}

// Interrupt ends a wait early.
func (w *Watcher) Interrupt() {
	if w.file != nil {
		_ = w.file.SetReadDeadline(time.Unix(1, 0)) // a pidfd that takes no deadline is polled instead
	}
}
