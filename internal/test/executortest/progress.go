package executortest

import (
	"slices"
	"sync"
	"time"

	"github.com/combsched/comb/internal/core/model"
)

// The programs of these tests.
const (
	// Teller says how far it is and that it saved, among lines that are no progress, and goes on.
	Teller Program = `echo '{"step": 3, "total": 10, "loss": 0.5}' >> $COMB_PROGRESS_FILE; sleep 4; echo '{"step": 7, "total": 10, "loss": 0.25, "checkpoint": true}' >> $COMB_PROGRESS_FILE; ` +
		`echo 'step 8' >> $COMB_PROGRESS_FILE; echo '{"step": "many"}' >> $COMB_PROGRESS_FILE; head -c 9000 /dev/zero | tr '\000' 9 >> $COMB_PROGRESS_FILE; echo >> $COMB_PROGRESS_FILE; echo ready; exec sleep 600`
	// Counter says each of its steps.
	Counter Program = `i=0; while :; do i=$((i+1)); echo "{\"step\": $i}" >> $COMB_PROGRESS_FILE; sleep 0.2; done`
	// Resumer ends with 10 and the number of runs before it, which it keeps where checkpoints are.
	Resumer Program = `n=$(cat $COMB_CHECKPOINT_DIR/n 2>/dev/null || echo 0); echo $((n+1)) > $COMB_CHECKPOINT_DIR/n; exit $((10+n))`
)

// Reports are what tasks tell of their progress.
type Reports struct {
	mu   sync.Mutex
	list []model.Progress
}

// Hear keeps a fact that is a report. The reports of all attempts of a harness are kept together.
func (r *Reports) Hear(f model.Fact) {
	if p, ok := f.(model.Progress); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, p)
	}
}

// Of are those of an attempt, in order.
func (r *Reports) Of(id model.AttemptID) []model.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.list), func(p model.Progress) bool { return p.Attempt != id })
}

// progress are the properties of what tasks tell of their progress.
func progress() []test {
	return []test{
		{"Progress and checkpoints are told as they are written, and nothing else is", func(s *suite) {
			a := s.start(attempt(1, 1), Teller, s.h.Nodes[0])
			s.h.Executor.Do(a)
			s.started(a.Attempt, 0)
			s.says(a.Attempt, "step 3 of 10", func(p model.Progress) bool { return p.Step == 3 && p.Total == 10 && p.Loss == "0.5" && !p.Checkpoint })
			s.says(a.Attempt, "a checkpoint of step 7", func(p model.Progress) bool { return p.Step == 7 && p.Total == 10 && p.Loss == "0.25" && p.Checkpoint })
			s.silent() // what was no progress ends no task
			s.end(a.Attempt, 1)
			for _, p := range s.h.Said(a.Attempt) {
				if p.Step != 3 && p.Step != 7 || p.Task != 0 {
					s.Errorf("it told %+v, which it did not write", p)
				}
			}
		}},
		{"Progress is told on behind a restart", func(s *suite) {
			a := s.start(attempt(1, 1), Counter, s.h.Nodes[0])
			s.h.Executor.Do(a)
			s.started(a.Attempt, 0)
			s.says(a.Attempt, "a step", func(p model.Progress) bool { return p.Step > 0 })
			s.h.Restart()
			before := s.h.Said(a.Attempt)
			last := before[len(before)-1].Step
			a.Known = true
			s.h.Executor.Do(a)
			s.says(a.Attempt, "ten steps more", func(p model.Progress) bool { return p.Step >= last+10 })
			for s.h.Next(s.h.Silence) != nil { // its start may be told again
			}
			s.end(a.Attempt, 1)
		}},
	}
}

// kept are the properties of where tasks save their work.
func kept() []test {
	return []test{
		{"A later attempt finds what the one before saved, and other jobs do not", func(s *suite) {
			for _, run := range []struct {
				at   model.AttemptID
				code int32
			}{{attempt(1, 1), 10}, {attempt(1, 2), 11}, {attempt(2, 1), 10}, {attempt(1, 3), 12}} {
				a := s.start(run.at, Resumer, s.h.Nodes[0])
				a.Start.Job.Hints.Checkpoint = true
				s.h.Executor.Do(a)
				s.started(a.Attempt, 0)
				s.wantCode(s.exited(a.Attempt, 0), run.code)
			}
		}},
	}
}

// says waits until an attempt has told something.
func (s *suite) says(id model.AttemptID, what string, is func(model.Progress) bool) {
	s.Helper()
	for end := time.Now().Add(s.h.Patience); !slices.ContainsFunc(s.h.Said(id), is); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%v did not tell %s: it told %+v", id, what, s.h.Said(id))
		}
	}
}
