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

// pendingRound is a round that is applied in memory but not durable yet.
type pendingRound struct {
	batch   Batch
	replies []Reply // by input
	actions []model.Action
	keys    map[model.Meta]int // index in batch.Answers
}

// roundMemory is memory that each round reuses.
type roundMemory struct {
	records []model.Record // only of an engine with Options.Alone: then nothing else keeps them
	replies []Reply
	actions []model.Action
}

// begin prepares a round of n inputs.
func (e *Engine) begin(n int) (t pendingRound) {
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

// keep saves a round's memory for the next.
func (e *Engine) keep(t *pendingRound) {
	e.mem.actions = t.actions
	if e.o.Alone {
		e.mem.records = t.batch.Records
	}
}

// Blamer is a panic value that knows the job at which the panic happened. State.Decide and
// State.Actions wrap their panics in one where they can tell. If a policy's code panicked,
// State.Failing knows its VC.
type Blamer interface {
	BlamedJob() model.JobID
}

// fault is a bug of Comb that showed as a panic while a round was built.
type fault struct {
	at    int         // the input at which it happened; -1: Decide
	job   model.JobID // 0 if it cannot be told
	value any
	stack string // its hash
	// policy is the policy whose code panicked; nil: no policy's.
	policy *model.PolicyFailed
}

// isPolicy reports whether that policy of that VC panicked, at any input.
func (f *fault) isPolicy(p model.PolicyFailed) bool {
	return p.VC == f.policy.VC && p.Policy == f.policy.Policy
}

func (f *fault) Error() string {
	return fmt.Sprintf("internal error (stack %s): %v", f.stack, f.value)
}

// build checks and applies all inputs in order, decides once, and collects what must happen when
// all of it is durable.
func (e *Engine) build(now model.Time, in []Input) (t pendingRound, f *fault) {
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

// decide takes the decisions of a round. After a configuration it takes all that follow at once,
// so that the answer can report their effects.
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

// Heaviest returns the most steps of one check or decision since it was last called. It may be
// called only while the loop does not run.
func (e *Engine) Heaviest() int64 {
	n := e.heaviest
	e.heaviest = 0
	return n
}

// take checks and applies one input. Later commands of a round see the effects of earlier ones.
func (e *Engine) take(t *pendingRound, now model.Time, at int, in *Input, full error) {
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

// audit adds the audit line of an accepted command. changes says whether the command has events.
func (t *pendingRound) audit(now model.Time, line *Audit, changes bool) {
	if line == nil || line.Changes && !changes {
		return
	}
	said := *line
	said.Time = now
	t.batch.Audit = append(t.batch.Audit, said)
}

// replace puts the fallback policy in place of policies that cannot be made, and of those that
// failed before in this round, as soon as an input has brought them.
func (e *Engine) replace(t *pendingRound, now model.Time) {
	for _, p := range e.core.FailedToMake() {
		e.apply(t, now, []model.Event{p})
	}
	for _, p := range e.failing {
		if e.core.Replaceable(p) {
			e.apply(t, now, []model.Event{p})
		}
	}
}

// apply numbers and dates events, applies them, and adds them to the batch.
func (e *Engine) apply(t *pendingRound, now model.Time, events []model.Event) {
	for _, event := range events {
		r := model.Record{Seq: e.core.Seq() + 1, Time: now, Event: event}
		e.core.Apply(r)
		t.batch.Records = append(t.batch.Records, r)
	}
}

// room asks the journal for room if there is a submission among the inputs.
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

// survive rolls back after a fault and removes its cause from the round. A policy that failed is
// replaced, after the input that brought it, if one did. Otherwise the input at which it happened
// is dropped, and the job that it blames is quarantined, durably, before anything is decided
// again. It returns the remaining inputs; an error if no cause could be removed, which ends the
// loop. Each of these can happen to one VC or job only a bounded number of times, so it ends.
func (e *Engine) survive(ctx context.Context, t *pendingRound, in []Input, f *fault) ([]Input, error) {
	e.o.Log.Error("internal error in the core; rolling back", "job", f.job, "error", f)
	if err := e.refold(ctx); err != nil {
		return in, errors.Join(f, err)
	}
	if f.policy != nil && e.core.Replaceable(*f.policy) {
		e.o.Log.Error(f.policy.Words(), "vc", f.policy.VC, "policy", f.policy.Policy, "stack", f.stack)
		return in, e.setRight(ctx, f, *f.policy)
	}
	if f.policy != nil && !slices.ContainsFunc(e.failing, f.isPolicy) {
		// A configuration of this round brought it: it is replaced in the same batch.
		e.o.Log.Error(f.policy.Words(), "vc", f.policy.VC, "policy", f.policy.Policy, "stack", f.stack)
		e.failing = append(e.failing, *f.policy)
		return in, nil
	}
	rest := in
	if f.at >= 0 {
		rest = e.setAside(in, f.at, f)
	}
	if f.job != 0 && f.at < 0 && !e.known(f.job) {
		// The job was accepted in this round: without its submission it never existed.
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

// setAside drops the input at index i: a command is answered with the fault; a fact is logged,
// and its job's leaves stay held.
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

// setRight journals, as a batch of its own, the event that lets the decision go on after a fault:
// a job is quarantined or a policy is replaced.
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

// refold discards the state in memory and restores the last durable one: a copy of the replica,
// once that has caught up, or from the journal if the replica cannot be trusted.
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

// fold restores the state: the latest snapshot and the records after it. A snapshot that this
// program cannot read is skipped, since the log has everything. from is the event of the snapshot
// used, 0 for none.
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

// applyStored applies one record of a journal; a record that does not fit is an error.
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

// newFault makes a fault of a recovered panic. The deferred function itself must call it, while
// the stack still shows where the panic came from, and the core whose code ran.
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

// stackHash hashes the functions and lines of the stack, so that the same bug always has the same
// hash.
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
