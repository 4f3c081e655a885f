// Package executortest is the one suite that every executor passes: what the
// core may rely on whatever world the tasks run in. It must not know which
// executor it tests.
package executortest

import (
	"fmt"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Program is what a task of the suite does, as the shell line that does it. An
// executor without a shell tells programs apart by their text.
type Program string

// The programs of the suite.
const (
	Succeed  Program = "exit 0"
	Fail     Program = "exit 3"
	Linger   Program = "exec sleep 600"
	Stubborn Program = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
	Brief    Program = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"
)

// Harness is one executor in one fresh world.
type Harness struct {
	Executor engine.Executor
	// Next returns the next task fact about any attempt, or nil when none comes
	// within d. Other facts are left out.
	Next func(d time.Duration) model.Fact
	// Restart replaces the executor by a new one over the same world, as a new
	// process would find it; later calls of Executor.Do go to the new one.
	Restart func()
	// Nodes are two nodes with at least two devices each.
	Nodes []cell.NodeName
	// SKU is the type of those devices.
	SKU cell.SKU
	// Now is the world's time, which rotations go by.
	Now func() model.Time
	// Rotates is false for an executor that cannot suspend yet: its tests are left out.
	Rotates bool
	// Ready returns once the only task of an attempt has printed so many lines "ready". It is
	// nil for an executor whose tasks have no processes: tests of what a signal reaches are
	// left out.
	Ready func(id model.AttemptID, lines int)
	// Log is all that a task of an attempt printed on a stream. It is nil where Ready is.
	Log func(id model.AttemptID, task int32, stream string) string
	// OneStream is that what is printed on either stream is in Stdout, and nothing is in Stderr; in
	// which order is not said.
	OneStream bool
	// Token is the value of each job's secret "token"; "" is that the executor keeps no secrets:
	// their tests are left out.
	Token string
	// Said are the reports of progress of an attempt so far, in order: see Reports. It is nil for
	// an executor whose tasks cannot tell any: their tests are left out.
	Said func(id model.AttemptID) []model.Progress
	// Keeps is that jobs have a place for checkpoints; without it those tests are left out.
	Keeps bool
	// Beside is that each harness has a world of its own, or a part that no other touches: tests
	// run side by side.
	Beside bool
	// Patience is how long to wait for a fact that must come, Silence how long to
	// wait for one that must not.
	Patience, Silence time.Duration
}

// Run runs the suite; each test gets a harness of its own.
func Run(t *testing.T, fresh func(t *testing.T) *Harness) {
	tests := []test{
		{"Start and success", (*suite).success},
		{"Exit code", (*suite).exitCode},
		{"Two tasks of one gang", (*suite).twoTasks},
		{"Stop within the grace", (*suite).stop},
		{"An ignored stop ends in a kill", (*suite).stubborn},
		{"A repeated start runs once", (*suite).duplicateStart},
		{"A repeated stop is one stop", (*suite).duplicateStop},
		{"A stop before the start wins", (*suite).stopFirst},
		{"A stop after the end is told the end again or nothing", (*suite).stopLate},
		{"A known start of a living task finds it", (*suite).adopt},
		{"A known start of something gone never runs again", (*suite).knownGone},
		{"A known start that never ran runs", (*suite).knownNew},
		{"Attempts of one task are told apart", (*suite).attempts},
		{"An unknown node refuses", (*suite).unknownNode},
	}
	able := fresh(t)
	tests = append(tests, where(t, able.Rotates, "it cannot suspend", rotations())...)
	tests = append(tests, where(t, able.Ready != nil, "its tasks have no processes", trees())...)
	tests = append(tests, where(t, able.Log != nil, "its tasks print nothing", words())...)
	tests = append(tests, where(t, able.Log != nil, "its tasks are told nothing", members())...)
	tests = append(tests, where(t, able.Log != nil, "its tasks are told nothing", []test{
		{"A task finds each variable that OpenPAI gives it", (*suite).openPAI}})...)
	tests = append(tests, where(t, able.Said != nil, "its tasks tell no progress", progress())...)
	tests = append(tests, where(t, able.Keeps, "it keeps no checkpoints", kept())...)
	tests = append(tests, where(t, able.Token != "", "it keeps no secrets", secrets())...)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if able.Beside {
				t.Parallel()
			}
			test.run(&suite{T: t, h: fresh(t)})
		})
	}
}

// where returns the tests of an ability; of an executor without it they are named and left out.
func where(t *testing.T, has bool, lack string, tests []test) []test {
	t.Helper()
	if has {
		return tests
	}
	for _, test := range tests {
		t.Logf("not shown of this executor, since %s: %s", lack, test.name)
	}
	return nil
}

// test is one property.
type test struct {
	name string
	run  func(*suite)
}

type suite struct {
	*testing.T
	h *Harness
}

// start is an action that runs a program as a gang with one task on each node.
func (s *suite) start(id model.AttemptID, p Program, nodes ...cell.NodeName) model.Action {
	job := &model.Job{
		Name: model.JobName(fmt.Sprintf("job-%d", id.Job)), User: "tester", VC: "default",
		Roles: []model.Role{{Name: "worker", Tasks: int32(len(nodes)), Leaves: 1, MinFailed: 1, MinSucceeded: -1,
			Launch: model.Launch{Command: []string{string(p)}, MilliCPU: 100, MemoryMB: 64}}},
		Grace: 2 * model.Second,
		Hints: model.Hints{Suspendable: true, Packable: true},
	}
	start := &model.Start{ID: id.Job, Job: job}
	for i, n := range nodes {
		job.Gangs = []model.Gang{{Name: "all", Tasks: append(first(job.Gangs), int32(i))}}
		start.Tasks = append(start.Tasks, model.TaskStart{
			Task: int32(i), Index: int32(i), SKU: s.h.SKU,
			Place: cell.Task{Node: n, SKU: s.h.SKU.Name, Leaves: []cell.LeafID{cell.LeafID(i)}, Devices: []int32{int32(i)}},
		})
	}
	return model.Action{Attempt: id, Start: start}
}

func first(gangs []model.Gang) []int32 {
	if len(gangs) == 0 {
		return nil
	}
	return gangs[0].Tasks
}

func attempt(job, n int) model.AttemptID {
	return model.AttemptID{Job: model.JobID(job), N: int32(n)}
}

// started waits for the start of a task.
func (s *suite) started(id model.AttemptID, task int32) model.TaskStarted {
	s.Helper()
	f := s.h.Next(s.h.Patience)
	got, ok := f.(model.TaskStarted)
	if !ok || got.Attempt != id || got.Task != task {
		s.Fatalf("got %#v, want the start of task %d of attempt %v", f, task, id)
	}
	return got
}

// exited waits for the end of a task; repeats of its start may come before.
func (s *suite) exited(id model.AttemptID, task int32) model.Exit {
	s.Helper()
	for {
		f := s.h.Next(s.h.Patience)
		if again, ok := f.(model.TaskStarted); ok && again.Attempt == id {
			continue
		}
		got, ok := f.(model.TaskExited)
		if !ok || got.Attempt != id || got.Task != task {
			s.Fatalf("got %#v, want the exit of task %d of attempt %v", f, task, id)
		}
		return got.Exit
	}
}

// silent requires that nothing is heard.
func (s *suite) silent() {
	s.Helper()
	if f := s.h.Next(s.h.Silence); f != nil {
		s.Fatalf("got %#v, want silence", f)
	}
}

// wantCode requires an exit by the task itself.
func (s *suite) wantCode(got model.Exit, code int32) {
	s.Helper()
	if got.Code != code || got.Cause != "" {
		s.Fatalf("exit %+v, want code %d without a cause", got, code)
	}
}

func (s *suite) success() {
	a := s.start(attempt(1, 1), Succeed, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.wantCode(s.exited(a.Attempt, 0), 0)
	s.silent()
}

func (s *suite) exitCode() {
	a := s.start(attempt(1, 1), Fail, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.wantCode(s.exited(a.Attempt, 0), 3)
}

func (s *suite) twoTasks() {
	a := s.start(attempt(1, 1), Linger, s.h.Nodes[0], s.h.Nodes[1])
	s.h.Executor.Do(a)
	seen := map[int32]bool{}
	for range 2 {
		f, ok := s.h.Next(s.h.Patience).(model.TaskStarted)
		if !ok || f.Attempt != a.Attempt {
			s.Fatalf("got %#v, want a start", f)
		}
		seen[f.Task] = true
	}
	if !seen[0] || !seen[1] {
		s.Fatalf("started %v, want tasks 0 and 1", seen)
	}
	s.end(a.Attempt, 2)
}

// end stops an attempt and waits until its tasks are gone.
func (s *suite) end(id model.AttemptID, tasks int) {
	s.Helper()
	s.h.Executor.Do(model.Action{Attempt: id, Grace: 2 * model.Second})
	seen := map[int32]bool{}
	for len(seen) < tasks {
		f := s.h.Next(s.h.Patience)
		if f == nil {
			s.Fatalf("%d of %d tasks of attempt %v ended", len(seen), tasks, id)
		}
		if e, ok := f.(model.TaskExited); ok && e.Attempt == id {
			seen[e.Task] = true
		}
	}
}

func (s *suite) stop() {
	a := s.start(attempt(1, 1), Linger, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.silent()
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: 60 * model.Second})
	e := s.exited(a.Attempt, 0)
	if e.Signal != 15 || e.Code != 143 {
		s.Fatalf("exit %+v, want signal 15", e)
	}
}

func (s *suite) stubborn() {
	a := s.start(attempt(1, 1), Stubborn, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	if s.silent(); s.h.Ready != nil {
		s.h.Ready(a.Attempt, 1)
	}
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	e := s.exited(a.Attempt, 0)
	if e.Signal != 9 || e.Code != 137 || e.Cause != model.GraceOver {
		s.Fatalf("exit %+v, want signal 9 at the end of its grace", e)
	}
	s.silent()
}

func (s *suite) duplicateStart() {
	a := s.start(attempt(1, 1), Linger, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.silent()
	s.end(a.Attempt, 1)
	s.h.Executor.Do(a)
	for f := s.h.Next(s.h.Silence); f != nil; f = s.h.Next(s.h.Silence) {
		if again, ok := f.(model.TaskExited); !ok || again.Attempt != a.Attempt {
			s.Fatalf("got %#v after a start that was over", f)
		}
	}
}

func (s *suite) duplicateStop() {
	a := s.start(attempt(1, 1), Stubborn, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	if s.silent(); s.h.Ready != nil {
		s.h.Ready(a.Attempt, 1)
	}
	stop := model.Action{Attempt: a.Attempt, Grace: model.Second}
	s.h.Executor.Do(stop)
	s.h.Executor.Do(stop)
	if e := s.exited(a.Attempt, 0); e.Signal != 9 {
		s.Fatalf("exit %+v, want signal 9", e)
	}
}

// stopFirst: the stop of an attempt may overtake its start.
func (s *suite) stopFirst() {
	a := s.start(attempt(1, 1), Linger, s.h.Nodes[0])
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	s.h.Executor.Do(a)
	if e := s.exited(a.Attempt, 0); e.Cause != model.NeverStarted && e.Signal == 0 {
		s.Fatalf("exit %+v, want one that never started or was stopped", e)
	}
	s.silent()
}

func (s *suite) stopLate() {
	a := s.start(attempt(1, 1), Fail, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.wantCode(s.exited(a.Attempt, 0), 3)
	s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
	for f := s.h.Next(s.h.Silence); f != nil; f = s.h.Next(s.h.Silence) {
		again, ok := f.(model.TaskExited)
		if !ok {
			s.Fatalf("got %#v after the end", f)
		}
		s.wantCode(again.Exit, 3)
	}
}

func (s *suite) adopt() {
	a := s.start(attempt(1, 1), Linger, s.h.Nodes[0])
	s.h.Executor.Do(a)
	before := s.started(a.Attempt, 0)
	s.h.Restart()
	a.Known = true
	s.h.Executor.Do(a)
	after := s.started(a.Attempt, 0)
	if before.PID != after.PID {
		s.Fatalf("process %d became %d", before.PID, after.PID)
	}
	s.end(a.Attempt, 1)
}

func (s *suite) knownGone() {
	a := s.start(attempt(1, 1), Fail, s.h.Nodes[0])
	s.h.Executor.Do(a)
	s.started(a.Attempt, 0)
	s.wantCode(s.exited(a.Attempt, 0), 3)
	s.h.Restart()
	a.Known = true
	s.h.Executor.Do(a)
	s.wantCode(s.exited(a.Attempt, 0), 3)
}

func (s *suite) knownNew() {
	a := s.start(attempt(1, 1), Succeed, s.h.Nodes[0])
	a.Known = true
	s.h.Executor.Do(a)
	s.wantCode(s.exited(a.Attempt, 0), 0)
}

func (s *suite) attempts() {
	one := s.start(attempt(1, 1), Linger, s.h.Nodes[0])
	s.h.Executor.Do(one)
	s.started(one.Attempt, 0)
	s.end(one.Attempt, 1)
	two := s.start(attempt(1, 2), Linger, s.h.Nodes[0])
	s.h.Executor.Do(two)
	s.started(two.Attempt, 0)
	// A late stop of the first attempt leaves the second alone.
	s.h.Executor.Do(model.Action{Attempt: one.Attempt, Grace: model.Second})
	for f := s.h.Next(s.h.Silence); f != nil; f = s.h.Next(s.h.Silence) {
		if e, ok := f.(model.TaskExited); !ok || e.Attempt != one.Attempt {
			s.Fatalf("got %#v, want nothing about attempt %v", f, two.Attempt)
		}
	}
	s.end(two.Attempt, 1)
}

func (s *suite) unknownNode() {
	a := s.start(attempt(1, 1), Linger, "no-such-node")
	s.h.Executor.Do(a)
	f, ok := s.h.Next(s.h.Patience).(model.TaskRefused)
	if !ok || f.Attempt != a.Attempt || f.Reason == "" {
		s.Fatalf("got %#v, want a refusal with a reason", f)
	}
	s.silent()
}
