package local

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	askPause = 20 * time.Millisecond // between looks whether those that were asked have ended
	// lastCommand is how long a shell has to end with the exit code of the program that
	// was asked and has ended. One that goes on with another command is told then.
	lastCommand = 200 * time.Millisecond
)

// terminate asks the task to end. SIGTERM goes to the topmost processes with a handler
// for it, as the notice before a suspension does: they can save their work, and their
// helpers (the workers of a data loader, a shell around them) must not die of it before.
// Where none has a handler all are told. Whatever is suspended is woken.
func (s *supervisor) terminate() {
	s.asked, s.rest = s.catchers(unix.SIGTERM), time.Time{}
	if len(s.asked) == 0 {
		s.tellAll(unix.SIGTERM)
		return
	}
	for _, p := range s.asked {
		p.signal(unix.SIGTERM)
	}
	s.tellAll(0)
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

// nextAsk is when to look again whether the processes that were asked have ended;
// zero is never.
func (s *supervisor) nextAsk() time.Time {
	switch {
	case s.killing || len(s.asked) == 0:
		return time.Time{}
	case !s.rest.IsZero():
		return s.rest
	}
	return s.looked.Add(askPause)
}

// followUp tells the rest of the task to end once all that were asked have: nothing is
// left to be saved then.
func (s *supervisor) followUp() {
	switch {
	case len(s.asked) == 0 || s.killing:
	case slices.ContainsFunc(s.asked, proc.alive):
	case s.rest.IsZero():
		s.rest = time.Now().Add(lastCommand)
	case !time.Now().Before(s.rest):
		s.asked = nil
		s.tellAll(unix.SIGTERM)
	}
}
