package process

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CatchersBelow returns the topmost processes below another that have a handler for a signal. The
// signal would kill the others.
func CatchersBelow(all map[int]Stat, top int, sig unix.Signal) []ID {
	children := map[int][]int{}
	for pid, st := range all {
		children[st.Parent] = append(children[st.Parent], pid)
	}
	var found []ID
	for queue := children[top]; len(queue) > 0; {
		pid := queue[0]
		queue = queue[1:]
		if catches(pid, sig) {
			found = append(found, ID{PID: pid, Start: all[pid].Start})
			continue
		}
		queue = append(queue, children[pid]...)
	}
	return found
}

// catches reads from a process's status whether it has a handler for a signal.
func catches(pid int, sig unix.Signal) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			return hasSignal(strings.TrimSpace(mask), sig)
		}
	}
	return false
}

// heldWithin is how long a process may take to stop.
const heldWithin = 200 * time.Millisecond

// Hold stops a process and waits until it is stopped: on a busy machine it could still see a
// program end, and take its exit code, before the signal reaches it.
func (p ID) Hold() {
	p.Signal(unix.SIGSTOP)
	for end := time.Now().Add(heldWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if st, ok := ReadStat(p.PID); !ok || st.Start != p.Start || st.Stopped() || st.Dead() {
			return
		}
	}
}

// Below is the child of top on the way down to a process; zero where the process is not below
// top.
func Below(all map[int]Stat, pid, top int) ID {
	for st, ok := all[pid]; ok; st, ok = all[pid] {
		if st.Parent == top {
			return ID{PID: pid, Start: st.Start}
		}
		pid = st.Parent
	}
	return ID{}
}

// UnreapedExit is the exit of a process that has ended and was not reaped yet; nil when that cannot
// be read.
func (p ID) UnreapedExit() *unix.WaitStatus {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/stat")
	if p.PID <= 0 || err != nil {
		return nil
	}
	st, ok := parseStat(string(data))
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const exitCode = 49 // proc(5) lists it as field 52, the state as 3
	if !ok || st.State != 'Z' || st.Start != p.Start || len(f) <= exitCode {
		return nil
	}
	code, err := strconv.ParseUint(f[exitCode], 10, 32)
	if err != nil {
		return nil
	}
	status := unix.WaitStatus(code)
	return &status
}

// hasSignal reads one bit of a mask that /proc shows in hexadecimal digits.
func hasSignal(mask string, sig unix.Signal) bool {
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && sig > 0 && sig <= 64 && bits>>(sig-1)&1 == 1
}
