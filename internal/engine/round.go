package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// tentative is a round that is applied in memory but not durable yet.
type tentative struct {
	batch   Batch
	replies []Reply // by input
	actions []model.Action
	keys    map[model.Meta]int // index in batch.Answers
}

// roundMemory is what a round uses that the one before used, too.
type roundMemory struct {
	records []model.Record // of an engine alone: nobody keeps them
	replies []Reply
	actions []model.Action
}

// begin lays out a round of n inputs.
func (e *Engine) begin(n int) (t tentative) {
	m := &e.mem
	clear(m.actions)
	if cap(m.replies) < n {
		m.replies = make([]Reply, n, 2*n)
	}
	t.replies, t.actions = m.replies[:n], m.actions[:0]
	clear(t.replies)
	t.batch = Batch{First: e.durable + 1, Epoch: e.o.Epoch, Records: m.records[:0]}
	return t
}

// keep remembers the memory that a round took.
func (e *Engine) keep(t *tentative) {
	e.mem.actions = t.actions
	if e.o.Alone {
		e.mem.records = t.batch.Records
	}
}

// Blamer is what a panic value implements that knows the job it broke on.
// State.Decide and State.Actions wrap their panics in one where they can tell. Where a
// policy's code panicked State.Failing knows its VC.
type Blamer interface {
	BlamedJob() model.JobID
}

// fault is a bug of ours that showed as a panic while a round was built.
type fault struct {
	at    int         // the input it broke on; -1: Decide
	job   model.JobID // 0 if it cannot be told
	value any
	stack string // hash
	// policy is whose code panicked, where it was a policy's.
	policy *model.PolicyFailed
}

// isPolicy reports whether that policy of that VC panicked, wherever.
func (f *fault) isPolicy(p model.PolicyFailed) bool {
	return p.VC == f.policy.VC && p.Policy == f.policy.Policy
}

func (f *fault) Error() string {
	return fmt.Sprintf("internal error (stack %s): %v", f.stack, f.value)
}

// build checks and applies all inputs in order, decides once, and collects what
// must happen when all of it is durable.
func (e *Engine) build(now model.Time, in []Input) (t tentative, f *fault) {
	at := 0
	defer func() {
		if v := recover(); v != nil {
			f = e.newFault(v, at, in)
		}
	}()
	t = e.begin(len(in))
	e.replace(&t, now)
	full := e.room(in)
	for at = range in {
		e.take(&t, now, at, &in[at], full)
		e.replace(&t, now)
	}
	at = -1
	before := e.core.Steps()
	t.batch.Records = append(t.batch.Records, e.decide(now, in)...)
	e.count(before)
	if e.o.DropEnded {
		e.core.DropEnded()
	} else {
		t.batch.Ended = e.core.TakeEnded()
	}
	t.complete(e.core, in)
	for i := range t.batch.Records {
		t.actions = e.core.Actions(t.actions, t.batch.Records[i].Event)
	}
	e.keep(&t)
	return t, nil
}

// decide takes the decisions of a round. After a configuration that is all that follows at once, so
// that the answer can tell it.
func (e *Engine) decide(now model.Time, in []Input) []model.Record {
	for i := range in {
		if _, ok := in[i].Command.(model.Reconfigure); ok {
			return e.core.Settle(now)
		}
	}
	return e.core.Decide(now)
}

// count notes the steps of one check or decision.
func (e *Engine) count(before int64) { e.heaviest = max(e.heaviest, e.core.Steps()-before) }

// Heaviest returns the most steps that one check or decision took since it was asked last. Only who
// holds up the loop may ask.
func (e *Engine) Heaviest() int64 {
	n := e.heaviest
	e.heaviest = 0
	return n
}

// take checks and applies one input. Commands of one round see each other.
func (e *Engine) take(t *tentative, now model.Time, at int, in *Input, full error) {
	if in.Fact != nil {
		e.apply(t, now, e.core.Accept(in.Fact))
		return
	}
	if in.Command == nil {
		t.replies[at].Err = errors.New("an input without command or fact")
		return
	}
	if r, ok := e.recall(t, in); ok {
		t.replies[at] = r
		return
	}
	_, submit := in.Command.(model.Submit)
	defer e.count(e.core.Steps())
	events, answer, refusal := e.core.Check(in.Command, now)
	switch {
	case refusal != nil:
		t.replies[at].Refusal = refusal
	case submit && full != nil && len(events) > 0:
		t.replies[at].Refusal = busy(full)
	default:
		if t.replies[at].Err = t.remember(now, in, answer); t.replies[at].Err != nil {
			return
		}
		t.replies[at].Answer, t.replies[at].Note = answer, in.Note
		t.audit(now, in.Audit, len(events) > 0)
		e.apply(t, now, events)
		if submit && len(events) > 0 && len(in.Secrets) > 0 {
			t.batch.Secrets = append(t.batch.Secrets, JobSecrets{Job: answer.Job, Values: in.Secrets})
		}
	}
}

// audit adds what is to be said of an accepted command, which changes something or does not.
func (t *tentative) audit(now model.Time, line *Audit, changes bool) {
	if line == nil || line.Changes && !changes {
		return
	}
	said := *line
	said.Time = now
	t.batch.Audit = append(t.batch.Audit, said)
}

// replace lets the fallback serve those whose policies cannot be made, and those whose policies
// broke this round before, as soon as an input gave them these policies.
func (e *Engine) replace(t *tentative, now model.Time) {
	for _, p := range e.core.Unmade() {
		e.apply(t, now, []model.Event{p})
	}
	for _, p := range e.failing {
		if e.core.Replaceable(p) {
			e.apply(t, now, []model.Event{p})
		}
	}
}

// apply stamps events, folds them in, and adds them to the batch.
func (e *Engine) apply(t *tentative, now model.Time, events []model.Event) {
	for _, event := range events {
		r := model.Record{Seq: e.core.Seq() + 1, Time: now, Event: event}
		e.core.Apply(r)
		t.batch.Records = append(t.batch.Records, r)
	}
}

// room asks the journal for room when there is a submission among the inputs.
func (e *Engine) room(in []Input) error {
	roomy, ok := e.o.Journal.(Roomy)
	if !ok {
		return nil
	}
	for i := range in {
		if _, submit := in[i].Command.(model.Submit); submit {
			return roomy.Room()
		}
	}
	return nil
}

func busy(full error) *model.Refusal {
	return &model.Refusal{Kind: model.Busy, Message: fmt.Sprintf(
		"no new jobs are accepted for now, running jobs go on: %v; free some space on the server and try again", full)}
}

// refuseSubmits refuses the submissions among in and returns the rest.
func refuseSubmits(in []Input, full error) []Input {
	var rest []Input
	for i := range in {
		if _, submit := in[i].Command.(model.Submit); submit {
			reply(&in[i], Reply{Refusal: busy(full)})
		} else {
			rest = append(rest, in[i])
		}
	}
	return rest
}

// survive rolls back after a fault and takes out of the round what caused it: the
// policy it broke in is replaced (behind the input that brought it, if one did), or else
// the input it broke on is set aside and the job it blames is quarantined, durably, before
// anything is decided again. It returns the inputs that are left; an error if nothing could
// be taken out, which ends the loop. Each of these happens only so often to one VC or job,
// so it ends.
func (e *Engine) survive(ctx context.Context, t *tentative, in []Input, f *fault) ([]Input, error) {
	e.o.Log.Error("internal error in the core; rolling back", "job", f.job, "error", f)
	if err := e.refold(ctx); err != nil {
		return in, errors.Join(f, err)
	}
	if f.policy != nil && e.core.Replaceable(*f.policy) {
		e.o.Log.Error(f.policy.Words(), "vc", f.policy.VC, "policy", f.policy.Policy, "stack", f.stack)
		return in, e.setRight(ctx, f, *f.policy)
	}
	if f.policy != nil && !slices.ContainsFunc(e.failing, f.isPolicy) {
		// A configuration of this very round brought it: it is replaced in the same batch.
		e.o.Log.Error(f.policy.Words(), "vc", f.policy.VC, "policy", f.policy.Policy, "stack", f.stack)
		e.failing = append(e.failing, *f.policy)
		return in, nil
	}
	rest := in
	if f.at >= 0 {
		rest = e.setAside(in, f.at, f)
	}
	if f.job != 0 && f.at < 0 && !e.known(f.job) {
		// Accepted in this very round: without its submission it never existed.
		for i := range t.replies {
			if _, submit := in[i].Command.(model.Submit); submit && t.replies[i].Answer.Job == f.job {
				return e.setAside(in, i, f), nil
			}
		}
	}
	event, more := e.core.Aside(f.job, f.stack)
	switch {
	case more:
		return rest, e.setRight(ctx, f, event)
	case f.at >= 0:
		return rest, nil
	case e.known(f.job):
		return rest, fmt.Errorf("job %d is quarantined and still breaks the decision: %w", f.job, f)
	}
	return rest, f
}

// setAside drops the input at index i: it is answered with the fault, or, if a
// fact, logged, and its job's leaves stay held.
func (e *Engine) setAside(in []Input, i int, f *fault) []Input {
	if in[i].Fact != nil {
		e.o.Log.Error("a fact is set aside after an internal error", "fact", fmt.Sprintf("%+v", in[i].Fact), "error", f)
	}
	reply(&in[i], Reply{Err: f})
	rest := make([]Input, 0, len(in)-1)
	rest = append(rest, in[:i]...)
	return append(rest, in[i+1:]...)
}

func (e *Engine) known(id model.JobID) bool {
	_, ok := e.core.Job(id)
	return ok
}

// setRight journals what lets the decision go on after a fault, that a job is set aside or
// that a policy is replaced, as a batch of its own.
func (e *Engine) setRight(ctx context.Context, f *fault, event model.Event) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.Join(f, e.newFault(v, -1, nil))
		}
	}()
	r := model.Record{Seq: e.core.Seq() + 1, Time: e.last, Event: event}
	e.core.Apply(r)
	b := Batch{First: r.Seq, Epoch: e.o.Epoch, Records: []model.Record{r}, Ended: e.core.TakeEnded()}
	if err := e.append(ctx, &b); err != nil {
		return errors.Join(f, err)
	}
	e.spread(&b, nil)
	return nil
}

// refold throws memory away and restores the last durable state. A copy of the
// replica is exactly that once it has caught up; the journal is read only when
// the replica cannot be trusted.
func (e *Engine) refold(ctx context.Context) error {
	if e.replica != nil && !e.snapshot.diverged.Load() {
		if s := e.replica.cloneAt(e.durable); s != nil {
			e.core = s
			return nil
		}
	}
	s, _, err := fold(ctx, &e.o)
	if err != nil {
		return fmt.Errorf("cannot restore the last durable state: %w", err)
	}
	if s.Seq() != e.durable {
		return fmt.Errorf("%w: it ends at event %d instead of %d", ErrFenced, s.Seq(), e.durable)
	}
	e.core = s
	return nil
}

// fold reads the state back: the latest snapshot and the records after it. A
// snapshot that this program cannot read is passed over; the log has it all. It also returns the
// event of the snapshot that it used, 0 for none.
func fold(ctx context.Context, o *Options) (s *core.State, from uint64, err error) {
	snapshot, seq, err := o.Journal.Snapshot(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the latest snapshot: %w", err)
	}
	s = core.New(o.Policies)
	if snapshot != nil {
		loaded, err := core.Load(snapshot, o.Policies)
		switch {
		case err != nil:
			o.Log.Warn("the snapshot cannot be used; the whole log is read", "seq", seq, "error", err)
		case loaded.Seq() != seq:
			o.Log.Warn("the snapshot is not of its event; the whole log is read", "seq", seq, "holds", loaded.Seq())
		default:
			s = loaded
		}
	}
	from = s.Seq()
	if err := o.Journal.Replay(ctx, s.Seq(), func(r model.Record) error { return applyStored(s, r) }); err != nil {
		return nil, from, fmt.Errorf("cannot replay the journal: %w", err)
	}
	s.DropEnded() // they are in the table of finished jobs already
	return s, from, nil
}

// applyStored folds one record of a journal; one that does not fit is an error.
func applyStored(s *core.State, r model.Record) (err error) {
	if want := s.Seq() + 1; r.Seq != want {
		return fmt.Errorf("event %d is missing: event %d follows", want, r.Seq)
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("event %d (%s) does not fit the events before it: %v", r.Seq, model.KindOf(r.Event), v)
		}
	}()
	s.Apply(r)
	return nil
}

// newFault makes a fault of a recovered panic; it must be called by the
// deferred function itself, while the stack still shows where it came from and the core
// whose code it was.
func (e *Engine) newFault(v any, at int, in []Input) *fault {
	f := &fault{at: at, value: v, stack: stackHash()}
	if b, ok := v.(Blamer); ok {
		f.job = b.BlamedJob()
		return f
	}
	if p, ok := e.core.Failing(); ok {
		p.Stack = f.stack
		f.policy = &p
	}
	if at >= 0 && at < len(in) && in[at].Fact != nil {
		f.job = attemptOf(in[at].Fact).Job
	}
	return f
}

// stackHash hashes the functions and lines of the stack, so that the same bug
// has the same hash wherever it shows.
func stackHash() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	h := sha256.New()
	for {
		frame, more := frames.Next()
		if _, err := io.WriteString(h, fmt.Sprintf("%s:%d\n", frame.Function, frame.Line)); err != nil || !more {
			break
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
