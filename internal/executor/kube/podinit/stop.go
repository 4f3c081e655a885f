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
	askPause = 20 * time.Millisecond // between looks whether the asked processes have ended
	// othersEndWithin is how long other processes of the script have to end after the program that
	// was asked.
	othersEndWithin = 200 * time.Millisecond
)

// stopping asks a task to end, as executor/local does. SIGTERM goes to the topmost processes with
// a handler for it, since these can save their work. The script's shell is held meanwhile, so
// that neither it nor their helpers end before them. Where no process has a handler, all are
// signaled.
type stopping struct {
	main       process.ID // the script's shell
	begun      bool
	asked      []process.ID // that were asked to end
	shellChild process.ID   // the child of the shell that the only one of progs is, or is below
	tellAllAt  time.Time    // when to tell the other processes; zero while one of progs lives
	said       *unix.WaitStatus
}

// begin asks the task to end. Later calls do the same again.
func (s *stopping) begin() {
	if s.begun {
		return
	}
	s.begun = true
	all, err := process.All()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comb: list processes:", err)
	}
	s.asked = process.CatchersBelow(all, os.Getpid(), unix.SIGTERM)
	switch {
	case len(s.asked) == 0:
		s.tellAll()
		return
	case len(s.asked) == 1:
		s.shellChild = process.Below(all, s.asked[0].PID, s.main.PID)
	}
	if !slices.Contains(s.asked, s.main) {
		s.main.Hold()
	}
	for _, p := range s.asked {
		p.Signal(unix.SIGTERM)
	}
}

// tellAll sends SIGTERM to every process of the task, and wakes the shell.
func (s *stopping) tellAll() {
	signalAll(unix.SIGTERM)
	s.main.Signal(unix.SIGCONT)
}

// kill kills every process of the task.
func (s *stopping) kill() { signalAll(unix.SIGKILL) }

// signalAll signals all processes of the task. As process 1 of the container it does so in one
// step: no fork escapes it, and it need not list them.
func signalAll(sig unix.Signal) {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, sig) // there may be none left
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

// tick fires when to look again whether the asked processes have ended; nil is never.
func (s *stopping) tick() <-chan time.Time {
	if len(s.asked) == 0 {
		return nil
	}
	return time.After(askPause)
}

// tellRest tells the other processes of the task to end once all that were asked have ended:
// nothing is left to be saved then.
func (s *stopping) tellRest() {
	if len(s.asked) == 0 || slices.ContainsFunc(s.asked, process.ID.Alive) {
		return
	}
	if s.tellAllAt.IsZero() {
		s.tellAllAt = time.Now().Add(othersEndWithin)
	}
	if s.shellChild.Alive() && time.Now().Before(s.tellAllAt) {
		return
	}
	s.said, s.asked = s.shellChild.UnreapedExit(), nil
	s.tellAll()
}

// exitStatus is how the task ended: by the exit of the program that was asked, where the shell was
// stopped after it. An exit code 0 of that program does not say that the script would have
// succeeded.
func (s *stopping) exitStatus(status unix.WaitStatus) unix.WaitStatus {
	if s.said != nil && status.Signaled() && *s.said != 0 {
		return *s.said
	}
	return status
}
