package executortest

import (
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/executor"
)

// The programs of these tests.
const (
	// Watcher prints which members it sees whenever that changes; before it is a member itself
	// there may be none. A signal that tells it wakes it.
	Watcher Program = "trap : USR2; was=none; while :; do now=$(grep -o '\"index\":[0-9]*' \"$COMB_MEMBERS_FILE\" | tr -dc '0-9\\n' | tr '\\n' ,); " +
		"[ -z \"$now\" ] || [ \"$now\" = \"$was\" ] || echo \"sees $now\"; was=$now; sleep 0.05; done"
	// Spoiler puts folders where the files of its supervisor are, as far as it can reach them.
	Spoiler Program = "d=$(dirname $COMB_PROGRESS_FILE); for f in stop.json stop.json.new outcome.json inside.json box.json; do mkdir -p $d/$f/x; done; " +
		"rm -f $d/started; echo ready; exec sleep 600"
)

// members are the properties of jobs whose tasks come and go.
func members() []test {
	return []test{
		{"Members see each other come and go", (*suite).comeAndGo},
		{"A task that spoils the files around it is stopped", func(s *suite) {
			a := s.start(attempt(1, 1), Spoiler, s.h.Nodes[0])
			s.h.Executor.Do(a)
			s.started(a.Attempt, 0)
			s.h.Ready(a.Attempt, 1)
			s.h.Executor.Do(model.Action{Attempt: a.Attempt, Grace: model.Second})
			if e := s.exited(a.Attempt, 0); e.Own {
				s.Fatalf("exit %+v, which is not the end of a stop", e)
			}
		}},
	}
}

// member is the start of one gang of a job of two, each with one task.
func (s *suite) member(gang int32) model.Action {
	a := s.start(attempt(1, 1), Watcher, s.h.Nodes[0])
	a.Attempt.Gang = gang
	job := a.Start.Job
	job.Roles[0].Tasks = 2
	job.Gangs = []model.Gang{{Tasks: []int32{0}}, {Tasks: []int32{1}, Extra: true}}
	job.Hints.MembersSignal = "USR2"
	t := &a.Start.Tasks[0]
	t.Task, t.Index, t.Place.Devices = gang, gang, []int32{gang}
	return a
}

func (s *suite) comeAndGo() {
	one, two := s.member(0), s.member(1)
	s.h.Executor.Do(one)
	s.started(one.Attempt, 0)
	s.sees("sees 0,\n")
	s.h.Executor.Do(two)
	s.started(two.Attempt, 1)
	s.sees("sees 0,\nsees 0,1,\n")
	s.end(two.Attempt, 1)
	s.sees("sees 0,\nsees 0,1,\nsees 0,\n")
	s.end(one.Attempt, 1)
}

// sees waits until the first gang of the first job has printed this and no more.
func (s *suite) sees(want string) {
	s.Helper()
	got := ""
	for end := time.Now().Add(s.h.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = s.h.Log(attempt(1, 1), 0, executor.Stdout); got == want {
			return
		}
		if !strings.HasPrefix(want, got) {
			break
		}
	}
	s.Fatalf("it printed %q, want %q", got, want)
}
