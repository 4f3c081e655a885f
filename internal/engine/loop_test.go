package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy"
	"github.com/combsched/comb/internal/engine"
)

func TestJobsRunToTheirEnd(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	var one, two, three engine.Reply
	r.give(submit(job("one", "a", 2, model.Minute)), &one)
	r.give(submit(job("two", "a", 1, model.Minute)), &two)
	r.give(submit(job("one", "b", 1, 0)), &three) // the name is taken within the round
	if err := r.run(r.pass(90*model.Second), func() {
		if a, b := r.phase(1), r.phase(2); a != "" || b != model.Active {
			t.Errorf("after 90 s: one is %q, two is %q", a, b)
		}
	}, r.pass(model.Hour)); err != nil {
		t.Fatal(err)
	}
	if one.Err != nil || one.Answer.Job != 1 || two.Answer.Job != 2 || one.Seq != two.Seq || one.Seq == 0 {
		t.Errorf("replies %+v %+v", one, two)
	}
	if three.Refusal == nil || three.Refusal.Kind != model.Conflict {
		t.Errorf("the second job of a name: %+v", three)
	}
	ended := m.Ended()
	if len(ended) != 2 || ended[0].Phase != model.Succeeded || ended[1].Phase != model.Succeeded {
		t.Errorf("ended: %+v", ended)
	}
	if err := r.world.Err(); err != nil {
		t.Error(err)
	}
	report := sound(t, m, policy.New, r.engine.Replica())
	if report.Decisions == 0 || report.Snapshots == 0 {
		t.Errorf("nothing was compared: %+v", report)
	}
}

func TestIdempotencyKeyGivesTheSameAnswer(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	s := submit(job("one", "a", 1, 0))
	s.Key = "k1"
	var replies [3]engine.Reply
	r.give(s, &replies[0])
	r.give(s, &replies[1]) // in the same round
	if err := r.run(func() { r.give(s, &replies[2]) }); err != nil {
		t.Fatal(err)
	}
	for i, got := range replies {
		if got.Answer.Job != 1 || got.Answer.Repeated != (i > 0) {
			t.Errorf("reply %d: %+v", i, got)
		}
	}
}

// TestKeyOfACommandThatChangedNothing: it was accepted, so it is remembered, though it left
// no event; another command with its key is refused.
func TestKeyOfACommandThatChangedNothing(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	stop := func(id model.JobID, key string) model.Command {
		return model.Stop{Meta: model.Meta{Subject: "ann", Key: key}, Job: id}
	}
	var first, again, other, late engine.Reply
	err := r.run(
		func() { r.give(submit(job("one", "a", 1, 0)), nil) },
		func() {
			r.give(stop(1, "k1"), nil)
			r.give(stop(1, "k2"), &first)
		},
		r.pass(model.Minute),
		func() {
			if p := r.phase(1); p != "" {
				t.Errorf("one is still there, %s", p)
			}
			r.give(stop(1, "k2"), &again)
			r.give(stop(2, "k2"), &other)
			r.give(stop(1, "k3"), &late)
		})
	if err != nil {
		t.Fatal(err)
	}
	if first.Refusal != nil || again.Refusal != nil || again.Answer.Job != 1 || !again.Answer.Repeated || again.Seq != first.Seq {
		t.Errorf("the same key: %+v, then %+v", first, again)
	}
	for what, r := range map[string]engine.Reply{"another job with the key": other, "another key": late} {
		if r.Refusal == nil || r.Refusal.Kind != model.Conflict {
			t.Errorf("%s: %+v; want a conflict", what, r)
		}
	}
}

// TestFailedAppend lets the disk fail in the middle of everything: facts are
// kept, commands are told, and nothing that failed leaves a trace.
func TestFailedAppend(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	var lost, again engine.Reply
	failures := 0
	err := r.run(
		func() { r.give(submit(job("one", "a", 1, model.Minute)), nil) },
		func() {
			m.Fail(func(engine.Batch) error { failures++; return errors.New("input/output error") })
			r.give(submit(job("two", "b", 1, 0)), &lost)
		},
		r.pass(2*model.Minute), // one's exit cannot be written
		func() {
			if r.phase(1) != model.Active || r.engine.Health().Journal == "" {
				t.Errorf("with a broken disk: one is %s, health %+v", r.phase(1), r.engine.Health())
			}
			m.Fail(nil)
		},
		r.pass(model.Minute),
		func() {
			if got := r.phase(1); got != "" {
				t.Errorf("when the disk works again, the exit is taken up: one is %s", got)
			}
			r.give(submit(job("two", "b", 1, 0)), &again)
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if lost.Err == nil || !strings.Contains(lost.Err.Error(), "could not be made durable") {
		t.Errorf("the reply to a lost command: %+v", lost)
	}
	if again.Err != nil || again.Answer.Job != 2 {
		t.Errorf("the repeated command: %+v", again)
	}
	// The exit is tried for a minute, with a pause that grows to five seconds.
	if failures < 15 || failures > 25 {
		t.Errorf("%d tries", failures)
	}
	if h := r.engine.Health(); h != (engine.Health{}) {
		t.Errorf("health in the end: %+v", h)
	}
	sound(t, m, policy.New, r.engine.Replica())
}

// TestFullDisk: submissions are refused, stops and exits go on.
func TestFullDisk(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	full := func(b engine.Batch) error {
		for _, rec := range b.Records {
			if model.KindOf(rec.Event) == "JobSubmitted" {
				return fmt.Errorf("%w: no space left", engine.ErrFull)
			}
		}
		return nil
	}
	var refused, stopped engine.Reply
	err := r.run(
		func() { r.give(submit(job("one", "a", 1, 0)), nil) },
		func() {
			m.Fail(full)
			r.give(submit(job("two", "b", 1, 0)), &refused)
			r.give(model.Stop{Job: 1}, &stopped)
		},
		r.pass(model.Minute),
	)
	if err != nil {
		t.Fatal(err)
	}
	if refused.Refusal == nil || refused.Refusal.Kind != model.Busy || !strings.Contains(refused.Refusal.Message, "no space left") {
		t.Errorf("the submission: %+v", refused)
	}
	if stopped.Err != nil || stopped.Refusal != nil {
		t.Errorf("the stop of the same round: %+v", stopped)
	}
	if ended := m.Ended(); len(ended) != 1 || ended[0].Phase != model.Stopped {
		t.Errorf("ended: %+v", ended)
	}
	sound(t, m, policy.New, r.engine.Replica())
}

func TestAnotherWriterStopsTheLoop(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	var reply engine.Reply
	err := r.run(func() {
		end := m.Ended()
		other := engine.Batch{First: r.seq + 1, Epoch: 2, Records: []model.Record{{Seq: r.seq + 1, Time: start, Event: model.Notice{}}}, Ended: end}
		if err := m.Append(ctx, other); err != nil {
			t.Fatal(err)
		}
		r.give(submit(job("one", "a", 1, 0)), &reply)
	})
	if !errors.Is(err, engine.ErrFenced) || !errors.Is(reply.Err, engine.ErrFenced) {
		t.Errorf("loop: %v; reply %+v", err, reply)
	}
	if r.world.Launches() != 0 {
		t.Error("a fenced engine started a task")
	}
}

// bomb is a policy that breaks when it sees a waiting job of a certain name.
type bomb struct {
	model.Policy
	tell bool // which job it was
}

type brokenOn struct{ job model.JobID }

func (b brokenOn) BlamedJob() model.JobID { return b.job }

func (b bomb) Rank(v model.View) iter.Seq[model.Wish] {
	for g := range v.Waiting() {
		if g.Hints.Model == "bomb" {
			if b.tell {
				panic(brokenOn{g.Ref.Job})
			}
			panic("broken")
		}
	}
	return b.Policy.Rank(v)
}

func bombs(tell bool) model.Policies {
	return func(c model.VCConfig) (model.Policy, error) {
		p, err := policy.New(c)
		return bomb{p, tell}, err
	}
}

func bombJob(vc cell.VCName) *model.Job {
	j := job("bomb", vc, 1, 0)
	j.Hints.Model = "bomb"
	return j
}

// TestQuarantine: a job that breaks the decision is set aside, durably, and all
// others go on.
func TestQuarantine(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	r.options.Policies = policy.New
	var before, after engine.Reply
	if err := r.run(
		func() { // it must wait, so that it is there when the broken policy comes
			r.give(submit(job("first", "a", 2, 0)), nil)
			r.give(submit(bombJob("a")), nil)
		},
	); err != nil {
		t.Fatal(err)
	}
	r.options.Policies = bombs(true)
	r.world.Reopen(true)
	if err := r.run(
		func() {
			r.give(submit(job("before", "b", 1, 0)), &before)
			r.give(model.Stop{Job: 1}, nil)
			r.give(submit(job("after", "a", 2, 0)), &after)
		},
		r.pass(model.Minute),
		func() {
			if p := r.phase(2); p != model.Waiting {
				t.Errorf("the bomb is %s", p)
			}
			if a, b := r.phase(3), r.phase(4); a != model.Active || b != model.Active {
				t.Errorf("the others are %s and %s (%+v %+v)", a, b, before, after)
			}
			r.state(func(s *core.State) {
				x, _ := s.Explain(2)
				if len(x.Gangs) != 1 || x.Gangs[0].Reason.Code != model.QuarantinedJob {
					t.Errorf("the bomb's reason: %+v", x)
				}
			})
		},
	); err != nil {
		t.Fatal(err)
	}
	quarantines := 0
	err := m.Replay(ctx, 0, func(rec model.Record) error {
		if q, ok := rec.Event.(model.Quarantined); ok {
			quarantines++
			if q.Job != 2 || len(q.Stack) != 16 {
				t.Errorf("%+v", q)
			}
		}
		return nil
	})
	if err != nil || quarantines != 1 {
		t.Errorf("%d quarantines, %v", quarantines, err)
	}
	sound(t, m, policy.New, r.engine.Replica())
}

// TestBombInItsFirstRound: a job that was only just accepted is not quarantined
// but never accepted.
func TestBombInItsFirstRound(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	r.options.Policies = bombs(true)
	var broken, fine engine.Reply
	r.give(submit(bombJob("a")), &broken)
	r.give(submit(job("fine", "a", 1, 0)), &fine)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if broken.Err == nil || !strings.Contains(broken.Err.Error(), "internal error") {
		t.Errorf("the bomb: %+v", broken)
	}
	if fine.Err != nil || r.phase(fine.Answer.Job) != model.Active {
		t.Errorf("the other: %+v", fine)
	}
	sound(t, m, policy.New, r.engine.Replica())
}

// TestUnknownCulpritStopsTheLoop: when nobody can be blamed, nothing is guessed.
func TestUnknownCulpritStopsTheLoop(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 3)
	r.options.Policies = bombs(false)
	var broken engine.Reply
	err := r.run(
		func() { r.give(submit(job("one", "b", 1, 0)), nil) },
		func() { r.give(submit(bombJob("a")), &broken) },
	)
	if err == nil || !strings.Contains(err.Error(), "internal error") || broken.Err == nil {
		t.Errorf("loop: %v; reply: %+v", err, broken)
	}
	if r.world.Living() != 1 {
		t.Errorf("%d tasks live on", r.world.Living())
	}
	sound(t, m, policy.New, nil)
}

func TestSnapshotsShortenTheStart(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	var steps []func()
	for i := range 30 {
		steps = append(steps, func() { r.give(submit(job(fmt.Sprint("job", i), "a", 1, model.Second)), nil) }, r.pass(2*model.Second))
	}
	if err := r.run(steps...); err != nil {
		t.Fatal(err)
	}
	kept := 0 // on a busy machine only the first one and the one of the end: none is begun while one is written
	if err := m.Snapshots(ctx, func(k engine.KeptSnapshot) error { kept++; return nil }); err != nil || kept < 2 {
		t.Fatalf("%d snapshots, %v", kept, err)
	}
	state, seq, err := m.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.state(func(s *core.State) {
		if seq != s.Seq() || string(state) != string(s.Save()) {
			t.Errorf("the last snapshot is of event %d and not the state at %d", seq, s.Seq())
		}
	})
	sound(t, m, policy.New, r.engine.Replica())

	// A snapshot that cannot be read costs time, not the start.
	if err := m.SaveSnapshot(ctx, seq, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	digest := ""
	r.state(func(s *core.State) { digest = s.Digest() })
	r.open()
	r.state(func(s *core.State) {
		if s.Digest() != digest {
			t.Error("the whole log gives another state than the snapshot")
		}
	})
}

// TestVerifyFindsWhatWasChanged changes a journal in ways that replay alone
// does not notice.
func TestVerifyFindsWhatWasChanged(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	if err := r.run(
		func() { r.give(submit(job("one", "b", 1, model.Minute)), nil) },
		r.pass(model.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]model.Record) []model.Record{
		"another leaf": func(rs []model.Record) []model.Record {
			for i := range rs {
				if p, ok := rs[i].Event.(model.Placed); ok {
					task := p.Placement.Tasks[0]
					task.Leaves, task.Devices = []cell.LeafID{task.Leaves[0] + 1}, []int32{task.Devices[0] + 1}
					p.Placement.Tasks = []cell.Task{task}
					rs[i].Event = p
				}
			}
			return rs
		},
		"another digest": func(rs []model.Record) []model.Record {
			for i := range rs {
				if d, ok := rs[i].Event.(model.Decided); ok {
					d.Digest = "0000000000000000"
					rs[i].Event = d
				}
			}
			return rs
		},
		"a gap": func(rs []model.Record) []model.Record { return append(rs[:3:3], rs[4:]...) },
	} {
		t.Run(name, func(t *testing.T) {
			report, err := engine.Verify(ctx, changed{m, change}, policy.New)
			if err != nil || len(report.Problems) != 1 {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
	other, err := engine.Verify(ctx, changed{m, func(rs []model.Record) []model.Record {
		for i := range rs {
			if d, ok := rs[i].Event.(model.Decided); ok {
				d.Version = "0"
				rs[i].Event = d
			}
		}
		return rs
	}}, policy.New)
	if err != nil || len(other.Problems) != 0 || other.Other == 0 || other.Decisions != 0 {
		t.Errorf("decisions of another version: %+v %v", other, err)
	}
}

// changed is a journal with a change.
type changed struct {
	*engine.Memory
	change func([]model.Record) []model.Record
}

func (c changed) Replay(_ context.Context, _ uint64, f func(model.Record) error) error {
	var rs []model.Record
	if err := c.Memory.Replay(ctx, 0, func(r model.Record) error { rs = append(rs, r); return nil }); err != nil {
		return err
	}
	for _, r := range c.change(rs) {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// TestTail: no gap and no repeat, from memory and from the journal alike, however slow the
// reader is, and never more than it asks for.
func TestTail(t *testing.T) {
	m := engine.NewMemory()
	r := newRig(t, m, 2)
	r.open()
	replica := r.engine.Replica()
	results := make(chan error, 3)
	for i, limit := range []int{1, 3, 1000} {
		go func() { results <- readTail(replica, m, limit, time.Duration(i)*100*time.Microsecond) }()
	}
	for i := range 40 {
		r.steps = append(r.steps, func() { r.give(submit(job(fmt.Sprint("job", i), "a", 1, model.Second)), nil) }, r.pass(2*model.Second))
	}
	if err := r.engine.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	var end uint64
	r.state(func(s *core.State) { end = s.Seq() })
	for _, after := range []uint64{0, 7, end - 1, end} {
		tail, err := replica.Tail(ctx, after, int(end))
		if n := uint64(len(tail.Records)); err != nil || tail.Older || tail.End != end || n != end-after || n > 0 && tail.Records[0].Seq != after+1 {
			t.Errorf("after %d: %d events of %d, %v", after, n, end-after, err)
		}
	}
	if _, err := replica.Tail(ctx, end+1, 1); !errors.Is(err, engine.ErrAhead) {
		t.Errorf("ahead: %v", err)
	}
}

// readTail reads all events to the end of the loop.
func readTail(replica *engine.Replica, m *engine.Memory, limit int, delay time.Duration) error {
	after := uint64(0)
	take := func(rec model.Record) error {
		if rec.Seq != after+1 {
			return fmt.Errorf("event %d after %d", rec.Seq, after)
		}
		after = rec.Seq
		return nil
	}
	for {
		tail, err := replica.Tail(ctx, after, limit)
		if err != nil || len(tail.Records) > limit {
			return fmt.Errorf("%d events of %d: %w", len(tail.Records), limit, err)
		}
		if tail.Older {
			enough := errors.New("enough")
			if err := m.Replay(ctx, after, func(r model.Record) error { return errors.Join(take(r), enough) }); !errors.Is(err, enough) {
				return err
			}
		}
		for _, rec := range tail.Records {
			if err := take(rec); err != nil {
				return err
			}
		}
		time.Sleep(delay) // the pace of the reader
		if after < tail.End {
			continue
		}
		select {
		case <-tail.Changed:
		case <-tail.Ended:
			if tail, err := replica.Tail(ctx, after, 1); err != nil || after == tail.End {
				return err
			}
		}
	}
}
