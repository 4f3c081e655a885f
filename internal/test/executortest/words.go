package executortest

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// The programs of these tests.
const (
	// Talker prints on both streams and ends with 4.
	Talker Program = "echo first; echo other >&2; echo ready; printf last; exit 4"
	// Flood prints 50,000 numbers.
	Flood Program = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); echo $i; done"
	// Keeper has the secret "token". It prints its length, and then itself, as careless programs
	// do: a second later, since lines of two streams have no order where these are read one beside
	// the other.
	Keeper Program = "t='<% $secrets.token %>'; echo ${#t}; sleep 1; echo \"the key $t is wrong\" >&2; exit 1"
	// Unknowing asks for a secret that its job does not have.
	Unknowing Program = "echo '<% $secrets.missing %>'"
	// Parent ends with 3 and leaves something behind that left its session, holds its output open
	// and hears no signal.
	Parent Program = "setsid sh -c 'trap \"\" TERM HUP; sleep 600; sleep 600' & echo ready; sleep 0.2; exit 3"
	// Forker does not hear a stop, and starts more and more.
	Forker Program = "trap '' TERM; echo ready; while :; do setsid sleep 600 & sleep 0.05; done"
)

// words are the properties of what tasks print.
func words() []test {
	return []test{
		{"Each stream holds what was printed on it, to the last byte", func(s *suite) {
			s.wantCode(s.through(Talker), 4)
			s.talked()
		}},
		{"No line of many is lost or comes twice", func(s *suite) {
			s.wantCode(s.through(Flood), 0)
			var want strings.Builder
			for i := range 50_000 {
				fmt.Fprintln(&want, i+1)
			}
			s.printed(executor.Stdout, want.String())
		}},
		{"What was printed is there behind a restart, and so is what follows", (*suite).wordsOutlive},
		{"Attempts print apart", func(s *suite) {
			s.through(Talker)
			a := s.start(attempt(1, 2), Succeed, s.h.Nodes[0])
			s.h.Executor.Do(a)
			s.started(a.Attempt, 0)
			s.wantCode(s.exited(a.Attempt, 0), 0)
			s.talked()
			if got := s.h.Log(a.Attempt, 0, executor.Stdout); got != "" {
				s.Fatalf("an attempt that printed nothing has %q", got)
			}
		}},
		{"What a task leaves behind holds up neither its end nor its code", func(s *suite) { s.wantCode(s.through(Parent), 3) }},
		{"A task that forks without end is stopped with all that it started", func(s *suite) {
			a := s.start(attempt(1, 1), Forker, s.h.Nodes[0])
			s.h.Executor.Do(a)
			s.started(a.Attempt, 0)
			s.h.Ready(a.Attempt, 1)
			s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
			if e := s.exited(a.Attempt, 0); e.Signal != 9 || e.Own {
				s.Fatalf("exit %+v, want a kill", e)
			}
			s.silent()
		}},
	}
}

// secrets are the properties of what only a task may know.
func secrets() []test {
	return []test{
		{"A secret reaches the task, and no message about it", func(s *suite) {
			x := s.through(Keeper)
			s.wantCode(x, 1)
			got := s.h.Log(attempt(1, 1), 0, executor.Stdout)
			if s.h.OneStream && !strings.Contains(got, fmt.Sprintln(len(s.h.Token))) {
				s.Fatalf("it printed %q", got)
			} else if !s.h.OneStream {
				s.printed(executor.Stdout, fmt.Sprintln(len(s.h.Token)))
			}
			if strings.Contains(x.Message, s.h.Token) || !strings.Contains(x.Message, "the key *** is wrong") {
				s.Fatalf("the end says %q", x.Message)
			}
		}},
		{"A secret that a job does not have refuses its start", func(s *suite) {
			a := s.start(attempt(1, 1), Unknowing, s.h.Nodes[0])
			s.h.Executor.Do(a)
			f, ok := s.h.Next(s.h.Patience).(model.TaskRefused)
			if !ok || !strings.Contains(f.Reason, "missing") || strings.Contains(f.Reason, s.h.Token) {
				s.Fatalf("got %#v, want a refusal", f)
			}
		}},
	}
}

// through runs a program as the first attempt of the first job, to its end.
func (s *suite) through(p Program) model.Exit {
	s.Helper()
	a := s.start(attempt(1, 1), p, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	return s.exited(a.Attempt, 0)
}

// talked wants that the first attempt of the first job printed what Talker says.
func (s *suite) talked() {
	s.Helper()
	if !s.h.OneStream {
		s.printed(executor.Stdout, "first\nready\nlast")
		s.printed(executor.Stderr, "other\n")
		return
	}
	got := s.h.Log(attempt(1, 1), 0, executor.Stdout)
	if rest := strings.Replace(got, "other\n", "", 1); rest != "first\nready\nlast" || rest == got {
		s.Fatalf("it printed %q", got)
	}
}

// printed wants that the first attempt of the first job printed so on a stream.
func (s *suite) printed(stream, want string) {
	s.Helper()
	got := s.h.Log(attempt(1, 1), 0, stream)
	if got == want {
		return
	}
	if len(got)+len(want) < 500 {
		s.Fatalf("%s is %q, want %q", stream, got, want)
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	s.Fatalf("%s has %d bytes, want %d; they differ from byte %d on", stream, len(got), len(want), at)
}

func (s *suite) wordsOutlive() {
	a := s.start(attempt(1, 1), Stubborn, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.h.Ready(a.Attempt, 1)
	s.h.Restart()
	s.printed(executor.Stdout, "ready\n")
	a.Known = true
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.end(a.Attempt, 1)
	s.printed(executor.Stdout, "ready\n")
}
