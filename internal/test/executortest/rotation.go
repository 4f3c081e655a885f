package executortest

import (
	"github.com/combsched/comb/internal/core/model"
)

// rotations are the tests of executors that can suspend and pack.
func rotations() []test {
	return []test{
		{"Packed attempts run side by side", (*suite).packed},
		{"A task out of turn waits for its turn", (*suite).outOfTurn},
		{"A task that runs is suspended and goes on", (*suite).suspended},
		{"A rotation outlives a restart", (*suite).rotationOutlives},
		{"A suspended task is stopped within the grace", (*suite).stopSuspended},
		{"Two attempts take turns until both are done", (*suite).takeTurns},
	}
}

// rotation begins now; each attempt has a turn of its own.
func (s *suite) rotation(quantum model.Duration, ids ...model.AttemptID) *model.Rotation {
	r := &model.Rotation{Quantum: quantum, Epoch: s.h.Now()}
	for _, id := range ids {
		r.Turns = append(r.Turns, []model.AttemptID{id})
	}
	return r
}

// packed: a second attempt starts on the devices of the first.
func (s *suite) packed() {
	one, two := s.start(attempt(1, 1), Linger, s.h.Nodes[0]), s.start(attempt(2, 1), Brief, s.h.Nodes[0])
	s.h.Executor.Do(one)
	s.started(one.Attempt, 0)
	r := &model.Rotation{Turns: [][]model.AttemptID{{one.Attempt, two.Attempt}}, Epoch: s.h.Now()}
	two.Start.Rotation = r
	s.h.Executor.Do(two)
	s.h.Executor.Do(model.Action{Attempt: one.Attempt, Rotation: r})
	s.wantCode(s.exited(two.Attempt, 0), 0)
	s.end(one.Attempt, 1)
}

// outOfTurn: the start is told, but nothing happens before the turn.
func (s *suite) outOfTurn() {
	a, b := s.start(attempt(1, 1), Brief, s.h.Nodes[0]), s.start(attempt(2, 1), Linger, s.h.Nodes[0])
	r := s.rotation(model.Hour, b.Attempt, a.Attempt)
	a.Start.Rotation, b.Start.Rotation = r, r
	s.h.Executor.Do(b)
	s.started(b.Attempt, 0)
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	for range 4 {
		s.silent()
	}
	s.end(b.Attempt, 1)
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Rotation: s.rotation(0, a.Attempt)})
	s.wantCode(s.exited(a.Attempt, 0), 0)
}

// suspended: a rotation reaches tasks that run, and the same again changes nothing.
func (s *suite) suspended() {
	a, b := s.start(attempt(1, 1), Brief, s.h.Nodes[0], s.h.Nodes[1]), s.start(attempt(2, 1), Linger, s.h.Nodes[0], s.h.Nodes[1])
	first := s.rotation(model.Hour, b.Attempt, a.Attempt)
	a.Start.Rotation, b.Start.Rotation = first, first
	s.h.Executor.Do(b)
	s.h.Executor.Do(a)
	s.bothStarted(a.Attempt, b.Attempt)
	for range 4 {
		s.silent()
	}
	for range 2 {
		s.h.Executor.Do(model.Action{Attempt: a.Attempt, Rotation: first})
	}
	s.silent()
	turned := s.rotation(model.Hour, a.Attempt, b.Attempt)
	s.h.Executor.Do(model.Action{Attempt: b.Attempt, Rotation: turned})
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Rotation: turned})
	seen := map[int32]bool{}
	for range 2 {
		e, ok := s.h.Next(s.h.Patience).(model.TaskExited)
		if !ok || e.Attempt != a.Attempt || seen[e.Task] {
			s.Fatalf("got %#v, want the exits of attempt %v", e, a.Attempt)
		}
		seen[e.Task] = true
		s.wantCode(e.Exit, 0)
	}
	s.end(b.Attempt, 2)
}

// bothStarted waits for two tasks of each of two attempts.
func (s *suite) bothStarted(ids ...model.AttemptID) {
	s.Helper()
	for range 2 * len(ids) {
		if f, ok := s.h.Next(s.h.Patience).(model.TaskStarted); !ok {
			s.Fatalf("got %#v, want a start", f)
		}
	}
}

// beside starts an attempt whose turn comes in an hour, and the one that has it.
func (s *suite) beside(p Program) (waits, runs model.Action) {
	waits, runs = s.start(attempt(1, 1), p, s.h.Nodes[0]), s.start(attempt(2, 1), Linger, s.h.Nodes[0])
	r := s.rotation(model.Hour, runs.Attempt, waits.Attempt)
	waits.Start.Rotation, runs.Start.Rotation = r, r
	for _, x := range []model.Action{runs, waits} {
		s.h.Executor.Do(x)
		s.started(x.Attempt, 0)
	}
	return waits, runs
}

// rotationOutlives: it holds without the executor, and the next one may change it.
func (s *suite) rotationOutlives() {
	a, b := s.beside(Brief)
	s.h.Restart()
	for _, x := range []model.Action{b, a} {
		x.Known = true
		s.h.Executor.Do(x)
		s.started(x.Attempt, 0)
	}
	for range 4 {
		s.silent()
	}
	s.h.Restart()
	a.Start.Rotation, b.Start.Rotation = s.rotation(0, a.Attempt), s.rotation(0, b.Attempt) // they are alone by now, each
	a.Known, b.Known = true, true
	s.h.Executor.Do(a)
	s.wantCode(s.exited(a.Attempt, 0), 0)
	s.h.Executor.Do(b)
	s.started(b.Attempt, 0)
	s.end(b.Attempt, 1)
}

// stopSuspended: it obeys SIGTERM, so it was woken for that.
func (s *suite) stopSuspended() {
	a, b := s.beside(Linger)
	s.silent()
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: 60 * model.Second})
	if e := s.exited(a.Attempt, 0); e.Signal != 15 || e.Cause != "" {
		s.Fatalf("exit %+v, want signal 15", e)
	}
	s.end(b.Attempt, 1)
}

// takeTurns: both get on.
func (s *suite) takeTurns() {
	a, b := s.start(attempt(1, 1), Brief, s.h.Nodes[0]), s.start(attempt(2, 1), Brief, s.h.Nodes[0])
	r := s.rotation(300*model.Millisecond, a.Attempt, b.Attempt)
	a.Start.Rotation, b.Start.Rotation = r, r
	s.h.Executor.Do(a)
	s.h.Executor.Do(b)
	runs, done := map[model.AttemptID]bool{}, map[model.AttemptID]bool{}
	for len(done) < 2 {
		switch e := s.h.Next(s.h.Patience).(type) { // one may be done before the other has started
		case model.TaskStarted:
			runs[e.Attempt] = true
		case model.TaskExited:
			if !runs[e.Attempt] || done[e.Attempt] {
				s.Fatalf("got %#v, want a start and an exit of each", e)
			}
			done[e.Attempt] = true
			s.wantCode(e.Exit, 0)
		default:
			s.Fatalf("got %#v, want a start and an exit of each", e)
		}
	}
}
