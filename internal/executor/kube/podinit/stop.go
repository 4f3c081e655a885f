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
	// lastWords is how long other processes of the script have to end after the program that was
	// asked.
	lastWords = 200 * time.Millisecond
)

// stopping asks a task to end, as executor/local does. SIGTERM goes to the topmost processes with
// a handler for it, since these can save their work. The script's shell is held meanwhile, so
// that neither it nor their helpers end before them. Where no process has a handler, all are
// signaled.
type stopping struct {
	main  process.ID // the script's shell
	begun bool
	progs []process.ID // that were asked to end
	under process.ID   // the child of the shell that the only one of progs is, or is below
	rest  time.Time    // when to tell the other processes; zero while one of progs lives
	said  *unix.WaitStatus
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
	if len(s.progs) == 0 {
		return nil
	}
	return time.After(askPause)
}

// follow tells the other processes of the task to end once all that were asked have ended:
// nothing is left to be saved then.
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

// means is how the task ended: by the exit of the program that was asked, where the shell was
// stopped after it. An exit code 0 of that program does not say that the script would have
// succeeded.
func (s *stopping) means(status unix.WaitStatus) unix.WaitStatus {
	if s.said != nil && status.Signaled() && *s.said != 0 {
		return *s.said
	}
	return status
}
