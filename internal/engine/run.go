package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

const (
	defaultSnapshotEvery = 50_000
	minPause             = 50 * model.Millisecond
	maxPause             = 5 * model.Second
)

// Options are the parts of an engine.
type Options struct {
	Inputs   Inputs
	Executor Executor
	Journal  Journal
	Policies model.Policies
	// Epoch is the fencing token of this process, one above its predecessor's.
	Epoch uint64
	// SnapshotEvery is how many events pass between snapshots; 0 is 50,000. At the same time the
	// replica is compared with the core.
	SnapshotEvery uint64
	// OnBatch, when set, is called by the loop after each durable batch, and must be quick.
	OnBatch func(Batch)
	// Alone leaves out the read replica and with it snapshots: for simulations, which are not
	// read while they run. A bug of Comb then ends the loop instead of quarantining the job. The
	// records of a batch are in memory that the next round reuses, so Journal and OnBatch must
	// not keep them, only their events.
	Alone bool
	// DropEnded leaves Batch.Ended empty, for callers that only need the events.
	DropEnded bool
	// Log, when set, gets what an operator must know; nil drops it.
	Log *slog.Logger
}

// Engine is the loop with its state. Only the goroutine of Run touches core.
//
// Invariant between rounds: core is exactly the fold of the durable events, and
// durable is the sequence number of the last of them.
type Engine struct {
	o       Options
	core    *core.State
	durable uint64
	// checked is the value of durable at the last comparison with the replica, or the event of
	// the snapshot that the process started from: so the count of events goes on over restarts.
	checked  uint64
	replica  *Replica
	kept     []Input        // facts of rounds whose append failed, to be tried again
	pause    model.Duration // before the next retry of a failed append; 0 when all is well
	last     model.Time     // time of the last round
	trouble  atomic.Pointer[string]
	snapshot snapshotter
	mem      roundMemory
	failing  []model.PolicyFailed // policies that failed in the present round, which has brought them
	heaviest int64                // the most steps of one check or decision
	takenUp  chan struct{}        // closed when the executor was told of all that was live before
}

// Health says what is wrong with an engine; the zero value: nothing.
type Health struct {
	// Journal is the error of the last append when it failed.
	Journal string
	// Diverged is true when the replica once differed from the core.
	Diverged bool
}

// Open recovers the state from the journal: the latest snapshot and the records
// after it. Nothing runs yet.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = defaultSnapshotEvery
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	core, from, err := fold(ctx, &o)
	if err != nil {
		return nil, err
	}
	for _, p := range core.FailedToMake() {
		o.Log.Error(p.Words(), "vc", p.VC, "policy", p.Policy)
	}
	e := &Engine{o: o, core: core, durable: core.Seq(), checked: from, last: core.Now(), takenUp: make(chan struct{})}
	if c, ok := o.Inputs.(interface{ NotBefore(model.Time) }); ok {
		c.NotBefore(core.Now())
	}
	if !o.Alone {
		e.replica = newReplica(core.Clone(), o.Journal)
	}
	e.snapshot = snapshotter{journal: o.Journal, log: o.Log}
	return e, nil
}

// TakenUp is closed when the executor was told of all that was live before the start. Only then
// an attempt that it does not know is a stray.
func (e *Engine) TakenUp() <-chan struct{} { return e.takenUp }

// Replica returns the read replica, nil for an engine with Options.Alone.
func (e *Engine) Replica() *Replica { return e.replica }

// Health reports trouble that the loop survives. It may be called from any goroutine.
func (e *Engine) Health() Health {
	h := Health{Diverged: e.snapshot.diverged.Load()}
	if t := e.trouble.Load(); t != nil {
		h.Journal = *t
	}
	return h
}

// Run repeats the executor's outstanding actions, then loops until ctx is done
// (nil), Inputs end (nil), or the journal is lost (an error). It may be called
// once. At a clean end it leaves a snapshot.
func (e *Engine) Run(ctx context.Context) (err error) {
	if e.replica != nil {
		go e.replica.run()
	}
	defer func() {
		if c, ok := e.o.Inputs.(interface{ Close(error) }); ok {
			c.Close(err)
		}
		if e.replica != nil {
			e.replica.finish()
			e.snapshot.wait()
		}
	}()
	for _, a := range e.core.Outstanding() {
		e.o.Executor.Do(a)
	}
	close(e.takenUp)
	if a, ok := e.o.Executor.(Adopter); ok {
		a.Adopted(ctx)
	}
	// A round that has begun is finished, and never cut off.
	whole := context.WithoutCancel(ctx)
	for {
		wake, err := e.alarm(whole)
		if err != nil {
			e.o.Log.Error("the loop stops; running work goes on", "error", err)
			return err
		}
		now, in, err := e.o.Inputs.Next(ctx, wake)
		switch {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			e.close(whole)
			return nil
		case err != nil:
			return fmt.Errorf("cannot take inputs: %w", err)
		}
		if err := e.round(whole, now, in); err != nil {
			e.o.Log.Error("the loop stops; running work goes on", "error", err)
			return err
		}
	}
}

// alarm is wake, after removing the cause of any panic in it.
func (e *Engine) alarm(ctx context.Context) (model.Time, error) {
	for {
		at, f := e.tryWake()
		if f == nil {
			return at, nil
		}
		if _, err := e.survive(ctx, &pendingRound{}, nil, f); err != nil {
			return 0, e.stop(nil, err)
		}
	}
}

// tryWake is wake; a panic of the core is a fault.
func (e *Engine) tryWake() (at model.Time, f *fault) {
	defer func() {
		if v := recover(); v != nil {
			f = e.newFault(v, -1, nil)
		}
	}()
	return e.wake(), nil
}

// wake is when the loop must run without an input. While the journal fails, that is not before
// the pause is over.
func (e *Engine) wake() model.Time {
	w := e.core.Wake()
	if e.pause == 0 {
		return w
	}
	retry := e.last.Add(e.pause)
	if len(e.kept) > 0 {
		return retry
	}
	if w == 0 {
		return 0
	}
	return max(w, retry)
}

// round makes all inputs, and what Decide makes of them, durable together or not at all. Its
// error stops the loop.
func (e *Engine) round(ctx context.Context, now model.Time, in []Input) error {
	now = max(now, e.core.Now())
	e.last, e.failing = now, nil
	if len(e.kept) > 0 {
		in = append(e.kept, in...)
		e.kept = nil
	}
	for {
		t, f := e.build(now, in)
		if f != nil {
			rest, err := e.survive(ctx, &t, in, f)
			if err != nil {
				return e.stop(rest, err)
			}
			in = rest
			continue
		}
		err := e.append(ctx, &t.batch)
		if err == nil {
			e.publish(&t, in)
			return nil
		}
		if errors.Is(err, ErrFenced) {
			return e.stop(in, err)
		}
		if foldErr := e.refold(ctx); foldErr != nil {
			return e.stop(in, errors.Join(err, foldErr))
		}
		rest := in
		if errors.Is(err, ErrFull) {
			rest = refuseSubmits(in, err)
		}
		if len(rest) == len(in) {
			e.putOff(in, err)
			return nil
		}
		in = rest // stops and facts go on, using the freed reserve
	}
}

func (e *Engine) append(ctx context.Context, b *Batch) error {
	if b.Empty() {
		return nil
	}
	if err := e.o.Journal.Append(ctx, *b); err != nil {
		return err
	}
	if e.trouble.Swap(nil) != nil {
		e.o.Log.Info("the journal takes events again")
	}
	e.pause = 0
	return nil
}

// publish publishes a durable batch and answers its commands.
func (e *Engine) publish(t *pendingRound, in []Input) {
	if c, ok := e.o.Inputs.(interface{ NotBefore(model.Time) }); ok && e.core.Now() > e.last {
		c.NotBefore(e.core.Now()) // decisions that followed at once took some microseconds
	}
	if len(t.batch.Records) > 0 {
		e.spread(&t.batch, t.actions)
	}
	for i, r := range t.replies {
		if in[i].Reply != nil {
			if r.Seq == 0 {
				r.Seq = e.durable
			}
			in[i].Reply(r)
		}
	}
}

// spread sends a durable batch to the executor, the replica and OnBatch.
func (e *Engine) spread(b *Batch, actions []model.Action) {
	e.durable = b.Last()
	for _, a := range actions {
		e.o.Executor.Do(a)
	}
	e.prepare(b)
	if e.replica != nil {
		e.copy(b)
	}
	if e.o.OnBatch != nil {
		e.o.OnBatch(*b)
	}
}

// prepare tells an executor that is a Preparer which gangs get reservations in a batch.
func (e *Engine) prepare(b *Batch) {
	p, ok := e.o.Executor.(Preparer)
	if !ok {
		return
	}
	for i := range b.Records {
		var id model.JobID
		switch v := b.Records[i].Event.(type) {
		case model.Reserved:
			id = v.Attempt.Job
		case model.Booked:
			if v.Over == "" {
				id = v.Job
			}
		}
		if job, found := e.core.Spec(id); found {
			p.Prepare(id, job)
		}
	}
}

// copy feeds a durable batch to the replica, and now and then takes a snapshot. It does so only
// after a decision, since pending work of the core would not be in a snapshot.
func (e *Engine) copy(b *Batch) {
	m := message{records: b.Records}
	_, decided := b.Records[len(b.Records)-1].Event.(model.Decided)
	if decided && e.durable-e.checked >= e.o.SnapshotEvery {
		e.checked = e.durable
		cloned := e.core.Clone()
		m.then = func(replica *core.State) *core.State { return e.snapshot.start(cloned, replica) }
	}
	e.replica.feed(m)
}

// putOff ends a round whose append failed: commands are answered with the error, facts are kept
// for the next round.
func (e *Engine) putOff(in []Input, err error) {
	text := err.Error()
	if e.trouble.Swap(&text) == nil {
		e.o.Log.Error("the journal cannot be written; facts are kept and tried again", "error", err)
	}
	e.pause = min(max(2*e.pause, minPause), maxPause)
	err = fmt.Errorf("the command could not be made durable: %w", err)
	for i := range in {
		if in[i].Fact != nil {
			e.kept = append(e.kept, in[i])
		} else {
			reply(&in[i], Reply{Err: err})
		}
	}
}

// stop answers everything with err, which ends the loop.
func (e *Engine) stop(in []Input, err error) error {
	text := err.Error()
	e.trouble.Store(&text)
	for i := range in {
		reply(&in[i], Reply{Err: err})
	}
	return err
}

func reply(in *Input, r Reply) {
	if in.Reply != nil {
		in.Reply(r)
	}
}

// close saves a snapshot of all that is durable, so that the next start is quick. It is the
// replica's: the core's clock may be ahead of its events.
func (e *Engine) close(ctx context.Context) {
	if e.replica == nil {
		return
	}
	e.replica.finish()
	e.snapshot.wait()
	state := e.replica.cloneAt(e.durable)
	if e.durable == 0 || state == nil || e.snapshot.diverged.Load() {
		return
	}
	if err := e.o.Journal.SaveSnapshot(ctx, e.durable, state.Save()); err != nil {
		e.o.Log.Warn("no snapshot at the end; the next start reads more of the log", "error", err)
	}
}
