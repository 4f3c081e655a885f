package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// proc names a process beyond the reuse of its number: Start is its start time
// in clock ticks since boot.
type proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// stat is what /proc/<pid>/stat says about a process.
type stat struct {
	state   byte
	parent  int
	group   int
	session int
	start   uint64
}

// stopped is true for a process that a signal or a debugger holds.
func (s stat) stopped() bool { return s.state == 'T' || s.state == 't' }

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// readStat returns false when there is no such process.
func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	return parseStat(string(data))
}

// parseStat skips the command's name, which may hold anything, by its last ")".
func parseStat(text string) (stat, bool) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, false
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(f[1+i])
		if err != nil {
			return stat{}, false
		}
		n[i] = v
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return stat{state: f[0][0], parent: n[0], group: n[1], session: n[2], start: start}, err == nil
}

// procOf names a running process.
func procOf(pid int) proc {
	s, _ := readStat(pid)
	return proc{PID: pid, Start: s.start}
}

// alive reports whether that very process still runs.
func (p proc) alive() bool {
	if p.PID <= 0 {
		return false
	}
	s, ok := readStat(p.PID)
	return ok && s.start == p.Start && !s.dead()
}

// signal reaches that very process or none: a pidfd pins the number before the
// start time is compared.
func (p proc) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if s, ok := readStat(p.PID); !ok || s.start != p.Start {
		return
	}
	if err != nil {
		_ = unix.Kill(p.PID, sig) // a kernel without pidfd; a process that is gone is what is wanted
		return
	}
	_ = unix.PidfdSendSignal(fd, sig, nil, 0)
}

// processes returns all living processes of the machine.
func processes() (map[int]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok && !s.dead() {
			all[pid] = s
		}
	}
	return all, nil
}

// descend adds to found all descendants of its members.
func descend(all map[int]stat, found map[int]bool) {
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			if !found[pid] && found[s.parent] {
				found[pid], grown = true, true
			}
		}
	}
}

// waitsForStart reports whether a process that was told to stop, and sleeps inside the
// kernel, waits for a stopped child to start its program: after vfork, which shells,
// Python and Go use, a parent takes no signal before that.
func waitsForStart(pid int, members map[int]stat) bool {
	for child, st := range members {
		if st.parent == pid && st.stopped() && oneMemory(pid, child) {
			return true
		}
	}
	return false
}

// oneMemory reports whether two processes share their address space; where the kernel
// does not tell, whether they run the same program.
func oneMemory(a, b int) bool {
	const kcmpVM = 1
	differ, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	if errno == 0 {
		return differ == 0
	}
	one, err := os.Readlink("/proc/" + itoa(a) + "/exe")
	other, err2 := os.Readlink("/proc/" + itoa(b) + "/exe")
	return err == nil && err2 == nil && one == other
}

// maxEnviron bounds what is read of a process's environment: the kernel allows
// arguments and environment of 6 MiB together.
const maxEnviron = 8 << 20

// markerIn returns the marker in a process's first environment, "" without one.
func markerIn(pid int) string {
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
		if v, ok := bytes.CutPrefix(entry, []byte(markerName+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// hidden reports whether a process of our own user may not be looked into: such
// a one could be anybody's.
func hidden(pid int) bool {
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if !os.IsPermission(err) {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Getuid()
}

// bootID names this boot of the machine: what ran before another one is dead.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot tell one boot of this machine from another: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// watcher waits for the end of a process that need not be a child.
type watcher struct {
	p    proc
	file *os.File // a pidfd; nil on a kernel without
}

// watch returns false when that very process is gone already.
func watch(p proc) (*watcher, bool) {
	w := &watcher{p: p}
	if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
		if unix.SetNonblock(fd, true) == nil {
			w.file = os.NewFile(uintptr(fd), "pidfd")
		} else {
			unix.Close(fd)
		}
	}
	if !p.alive() {
		w.close()
		return nil, false
	}
	return w, true
}

func (w *watcher) close() {
	if w.file != nil {
		w.file.Close()
	}
}

// wait returns true when the process has ended, false when d has passed.
func (w *watcher) wait(d time.Duration) bool {
	if w.file == nil || w.file.SetReadDeadline(time.Now().Add(d)) != nil {
		time.Sleep(min(d, 50*time.Millisecond))
		return !w.p.alive()
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return !w.p.alive()
	}
	ended := false
	err = conn.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = n > 0
		return ended
	})
	return ended || err != nil && !w.p.alive()
}

// interrupt ends a wait early.
func (w *watcher) interrupt() {
	if w.file != nil {
		_ = w.file.SetReadDeadline(time.Unix(1, 0)) // a pidfd that takes no deadline is polled instead
	}
}
