package local

import (
	"os"
	"slices"
	"time"

	"github.com/combsched/comb/internal/executor/process"
	"github.com/combsched/comb/internal/executor/task"
	"golang.org/x/sys/unix"
)

const (
	askPause = 20 * time.Millisecond // between looks whether the asked processes have ended
	// othersEndWithin is how long other processes of the script have to end after the program that
	// was asked, such as a nested shell with the program's exit code.
	othersEndWithin = 200 * time.Millisecond
)

// stopRequest is a stop that waits for the processes that have a handler for it.
type stopRequest struct {
	asked      []process.ID // that were asked; empty when none was, or when all were told since
	shellChild process.ID   // the child of the script's shell that the only one of progs is, or is below
	tellAllAt  time.Time    // when to tell the other processes; zero while one of progs lives
	said       *unix.WaitStatus
}

// terminate asks the task to end. SIGTERM goes to the topmost processes with a handler for it, as
// does the notice before a suspension: they can save their work, and their helpers (such as the
// workers of a data loader) must not die before them. The script's shell is held meanwhile, so
// that it does not go on with the next command. Where no process has a handler, all are signaled.
// Whatever is suspended is woken.
func (s *supervisor) terminate() {
	all, err := process.All()
	if err != nil {
		s.note("list processes: %v", err)
	}
	members := s.among(all)
	s.killer.Know(members)
	s.ask = stopRequest{asked: process.CatchersBelow(s.entry.WithoutCommands(all), os.Getpid(), unix.SIGTERM)}
	if len(s.ask.asked) == 0 {
		tellGroups(members, unix.SIGTERM)
		return
	}
	tellGroups(members, 0)
	if one := s.ask.asked[0]; len(s.ask.asked) == 1 {
		s.ask.shellChild = process.Below(all, one.PID, s.main)
	}
	if shell := process.Of(s.main); !slices.Contains(s.ask.asked, shell) {
		shell.Hold()
	}
	for _, p := range s.ask.asked {
		p.Signal(unix.SIGTERM)
	}
}

// tellAll sends a signal to every process of the task, and wakes it so that it can act on it.
// Where the task has a namespace or a cgroup of its own, no list of all processes is needed.
func (s *supervisor) tellAll(sig unix.Signal) {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, sig) // there may be none left
		_ = unix.Kill(-1, unix.SIGCONT)
		return
	}
	members := map[int]process.Stat{}
	for _, pid := range s.grouped() {
		if st, ok := process.ReadStat(pid); ok && !st.Dead() {
			members[pid] = st
		}
	}
	if len(members) == 0 {
		members = s.descendants()
	}
	s.killer.Know(members)
	tellGroups(members, sig)
}

// tellGroups sends a signal to the process groups of some processes, and wakes them; 0 only
// wakes.
func tellGroups(members map[int]process.Stat, sig unix.Signal) {
	groups := map[int]bool{}
	for _, st := range members {
		if st.Group > 1 && st.Group != unix.Getpgrp() {
			groups[st.Group] = true
		}
	}
	for g := range groups {
		if sig != 0 {
			_ = unix.Kill(-g, sig) // a group that is gone is what is wanted
		}
		_ = unix.Kill(-g, unix.SIGCONT)
	}
}

// nextAsk is when to look again whether the asked processes have ended; zero is never.
func (s *supervisor) nextAsk() time.Time {
	if s.killing || len(s.ask.asked) == 0 {
		return time.Time{}
	}
	return s.looked.Add(askPause)
}

// left is the exit of a process of the task that has ended and was not reaped; nil when that
// cannot be read.
func (s *supervisor) left(p process.ID) (status *unix.WaitStatus) {
	if s.account == nil {
		return p.UnreapedExit()
	}
	task.RunAs(s.account, func() { status = p.UnreapedExit() })
	return status
}

// followUp tells the other processes of the task to end once all that were asked have ended:
// nothing is left to be saved then.
func (s *supervisor) followUp() {
	a := &s.ask
	if s.killing || len(a.asked) == 0 || slices.ContainsFunc(a.asked, process.ID.Alive) {
		return
	}
	if a.tellAllAt.IsZero() {
		a.tellAllAt = time.Now().Add(othersEndWithin)
	}
	if a.shellChild.Alive() && time.Now().Before(a.tellAllAt) {
		return
	}
	a.said, a.asked = s.left(a.shellChild), nil
	s.tellAll(unix.SIGTERM)
}
