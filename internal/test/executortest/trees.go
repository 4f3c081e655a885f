package executortest

import (
	"github.com/combsched/comb/internal/core/model"
)

// The programs of these tests. Each says when it can be asked to stop.
const (
	// Saver needs its helper to save: 5 is saved, 6 is that the helper died first.
	Saver Program = "sleep 600 & helper=$!; trap 'sleep 0.3; kill -0 $helper && exit 5; exit 6' TERM; echo ready; while :; do sleep 0.05; done"
	// Wrapped is a program that saves and ends with 7, inside a shell that does nothing
	// about signals and ends with the program's code.
	Wrapped Program = "sh -c 'trap \"sleep 0.2; exit 7\" TERM; echo ready; while :; do sleep 0.05; done'"
	// Chained would go on with another command when the first one has saved.
	Chained Program = "sh -c 'trap \"exit 7\" TERM; echo ready; while :; do sleep 0.05; done'; exit 0"
	// Saved ends with 0 when it has saved, and the script goes on.
	Saved Program = "sh -c 'trap \"exit 0\" TERM; echo ready; while :; do sleep 0.05; done'; echo more to do"
	// Family are two programs that save by themselves, one of which takes longer.
	Family Program = "for t in 0.1 0.6; do sh -c \"trap 'sleep $t; exit 0' TERM; echo ready; while :; do sleep 0.05; done\" & done; wait; wait; exit 0"
	// Crowd are 199 processes, none of which does anything about signals.
	Crowd Program = "mkfifo hold; f() { if [ $1 -gt 1 ]; then f $(($1/2)) & f $(($1-$1/2)) & " +
		"else echo ready; fi; read x < hold; }; f 100"
)

// trees are the properties of what a stop reaches in a task's tree of processes.
func trees() []test {
	return []test{
		{"A stop reaches the program that saves, not its helpers", func(s *suite) { s.stopped(Saver, 1, model.Exit{Code: 5}) }},
		{"A shell around the program ends with the program's code", func(s *suite) { s.stopped(Wrapped, 1, model.Exit{Code: 7}) }},
		{"A shell does not go on with another command", func(s *suite) { s.stopped(Chained, 1, model.Exit{Code: 7}) }},
		{"A crowd of processes ends at once", func(s *suite) {
			s.stopped(Crowd, 100, model.Exit{Code: 143, Signal: 15})
		}},
		{"Of several programs that save each has its time", func(s *suite) { s.stopped(Family, 2, model.Exit{Code: 143, Signal: 15}) }},
		{"A program that saves does not end the script as a success", func(s *suite) { s.stopped(Saved, 1, model.Exit{Code: 143, Signal: 15}) }},
	}
}

// stopped wants that a program of so many parts, stopped with much grace once all are ready,
// ends so, and long before the grace is over.
func (s *suite) stopped(p Program, parts int, want model.Exit) {
	a := s.start(attempt(1, 1), p, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.h.Ready(a.Attempt, parts)
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: 600 * model.Second})
	if e := s.exited(a.Attempt, 0); e.Code != want.Code || e.Signal != want.Signal || e.Own {
		s.Fatalf("exit %+v, want code %d, signal %d", e, want.Code, want.Signal)
	}
}
