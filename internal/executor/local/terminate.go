package local

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	askPause = 20 * time.Millisecond // between looks whether those that were asked have ended
	// lastWords is how long what the script's shell started has to end behind a program
	// that was asked, such as a shell of its own with the program's exit code.
	lastWords = 200 * time.Millisecond
)

// asking is a stop that waits for the programs which can do something about it.
type asking struct {
	progs []proc    // that were told; empty when none was, or the rest was told as well
	under proc      // the child of the script's shell in which the only one of them runs
	rest  time.Time // when the rest is told at the latest; zero while one of them lives
	said  *unix.WaitStatus
}

// terminate asks the task to end. SIGTERM goes to the topmost processes with a handler
// for it, as the notice before a suspension does: they can save their work, and their
// helpers (the workers of a data loader) must not die of it before. The script's shell
// is held meanwhile, so that it does not go on with the next command. Where no process
// has a handler all are told. Whatever is suspended is woken.
func (s *supervisor) terminate() {
	all, err := processes()
	if err != nil {
		s.note("list processes: %v", err)
	}
	s.ask = asking{progs: catchersBelow(all, os.Getpid(), unix.SIGTERM)}
	if len(s.ask.progs) == 0 {
		s.tellAll(unix.SIGTERM)
		return
	}
	s.tellAll(0)
	if one := s.ask.progs[0]; len(s.ask.progs) == 1 {
		s.ask.under = below(all, one.PID, s.main)
	}
	if shell := procOf(s.main); !slices.Contains(s.ask.progs, shell) {
		shell.signal(unix.SIGSTOP)
	}
	for _, p := range s.ask.progs {
		p.signal(unix.SIGTERM)
	}
}

// below is the child of top on the way down to a process; zero where it is not below.
func below(all map[int]stat, pid, top int) proc {
	for st, ok := all[pid]; ok; st, ok = all[pid] {
		if st.parent == top {
			return proc{PID: pid, Start: st.start}
		}
		pid = st.parent
	}
	return proc{}
}

// tellAll sends a signal to every process group of the task, and wakes it so that it
// can act on it; 0 only wakes.
func (s *supervisor) tellAll(sig unix.Signal) {
	groups := map[int]bool{}
	for _, st := range s.descendants() {
		if st.group > 1 && st.group != unix.Getpgrp() {
			groups[st.group] = true
		}
	}
	for g := range groups {
		if sig != 0 {
			_ = unix.Kill(-g, sig) // a group that is gone is what is wanted
		}
		_ = unix.Kill(-g, unix.SIGCONT)
	}
}

// nextAsk is when to look again whether those that were asked have ended; zero is never.
func (s *supervisor) nextAsk() time.Time {
	if s.killing || len(s.ask.progs) == 0 {
		return time.Time{}
	}
	return s.looked.Add(askPause)
}

// followUp tells the rest of the task to end once all that were asked have: nothing is
// left to be saved then.
func (s *supervisor) followUp() {
	a := &s.ask
	if s.killing || len(a.progs) == 0 || slices.ContainsFunc(a.progs, proc.alive) {
		return
	}
	if a.rest.IsZero() {
		a.rest = time.Now().Add(lastWords)
	}
	if a.under.alive() && time.Now().Before(a.rest) {
		return
	}
	a.said, a.progs = a.under.left(), nil
	s.tellAll(unix.SIGTERM)
}

// left is how a process ended that its parent has not asked for yet; nil when that
// cannot be read.
func (p proc) left() *unix.WaitStatus {
	data, err := os.ReadFile("/proc/" + itoa(p.PID) + "/stat")
	if p.PID <= 0 || err != nil {
		return nil
	}
	st, ok := parseStat(string(data))
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const exitCode = 49 // proc(5) counts it as 52, the state as 3
	if !ok || st.state != 'Z' || st.start != p.Start || len(f) <= exitCode {
		return nil
	}
	code, err := strconv.ParseUint(f[exitCode], 10, 32)
	if err != nil {
		return nil
	}
	status := unix.WaitStatus(code)
	return &status
}
