package podinit

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/executor/process"
)

const (
	askPause = 20 * time.Millisecond // between looks whether those that were asked have ended
	// lastWords is how long what the script's shell started has to end behind a program that was
	// asked.
	lastWords = 200 * time.Millisecond
)

// stopping asks a task to end, as on one machine: SIGTERM goes to the topmost processes with a
// handler for it, which can save their work; the script's shell is held meanwhile, so that neither
// it nor their helpers end before. Where no process has a handler all are told.
type stopping struct {
	main  process.ID // the script's shell
	begun bool
	progs []process.ID // that were told
	under process.ID   // the child of the shell in which the only one of them runs
	rest  time.Time    // when the rest is told at the latest; zero while one of them lives
	said  *unix.WaitStatus
}

// begin asks. A second time is as the first.
func (s *stopping) begin() {
	if s.begun {
		return
	}
	s.begun = true
	all, err := process.All()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comb: list processes:", err)
	}
	s.progs = process.CatchersBelow(all, os.Getpid(), unix.SIGTERM)
	switch {
	case len(s.progs) == 0:
		s.tellAll()
		return
	case len(s.progs) == 1:
		s.under = process.Below(all, s.progs[0].PID, s.main.PID)
	}
	if !slices.Contains(s.progs, s.main) {
		s.main.Hold()
	}
	for _, p := range s.progs {
		p.Signal(unix.SIGTERM)
	}
}

// tellAll asks every process of the task, and wakes the shell.
func (s *stopping) tellAll() {
	signalAll(unix.SIGTERM)
	s.main.Signal(unix.SIGCONT)
}

// kill ends every process of the task.
func (s *stopping) kill() { signalAll(unix.SIGKILL) }

// signalAll signals all processes of the task. As process 1 of the pod's container it does so in
// one step, which no fork escapes and which needs no look at them, however many they are.
func signalAll(sig unix.Signal) {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, sig) // there may be none any more
		return
	}
	all, err := process.All()
	if err != nil {
		return
	}
	found := map[int]bool{os.Getpid(): true}
	process.Descend(all, found)
	for pid := range found {
		if pid != os.Getpid() {
			process.ID{PID: pid, Start: all[pid].Start}.Signal(sig)
		}
	}
}

// tick is when to look again whether those that were asked have ended; nil is never.
func (s *stopping) tick() <-chan time.Time {
	if len(s.progs) == 0 {
		return nil
	}
	return time.After(askPause)
}

// follow tells the rest of the task to end once all that were asked have: nothing is left to be
// saved then.
func (s *stopping) follow() {
	if len(s.progs) == 0 || slices.ContainsFunc(s.progs, process.ID.Alive) {
		return
	}
	if s.rest.IsZero() {
		s.rest = time.Now().Add(lastWords)
	}
	if s.under.Alive() && time.Now().Before(s.rest) {
		return
	}
	s.said, s.progs = s.under.Left(), nil
	s.tellAll()
}

// means is how the task ended: by what the program said that was asked, where the shell was stopped
// behind it. A 0 there says nothing of what was to come.
func (s *stopping) means(status unix.WaitStatus) unix.WaitStatus {
	if s.said != nil && status.Signaled() && *s.said != 0 {
		return *s.said
	}
	return status
}
