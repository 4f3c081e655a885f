package engine

import (
	"context"

	"github.com/combsched/comb/internal/sched"
)

// Options are the parts of an engine.
type Options struct {
	Inputs   Inputs
	Executor Executor
	Journal  Journal
	Policies sched.Policies
	// Epoch is the fencing token of this process, one above its predecessor's.
	Epoch uint64
	// SnapshotEvery is how many events pass between snapshots; 0 is 50,000.
	SnapshotEvery uint64
	// OnBatch, when set, is called by the loop after each durable batch.
	OnBatch func(Batch)
}

// Engine is the loop with its state.
type Engine struct{}

// Open recovers the state from the journal: the latest snapshot and the records
// after it. Nothing runs yet.
func Open(ctx context.Context, o Options) (*Engine, error) { panic("wip") }

// Run repeats the executor's outstanding actions, then loops until ctx is done
// (nil), Inputs end (nil), or the journal is lost (an error).
func (e *Engine) Run(ctx context.Context) error { panic("wip") }

// Replica returns the read replica.
func (e *Engine) Replica() *Replica { panic("wip") }

// Replica is a second fold of the same batches, for reads: lists, explanations
// and dry runs never run in the loop.
type Replica struct{}

// Read waits until the replica has applied event seq (0: no wait), then calls f
// with the state, which f must neither change nor keep.
func (r *Replica) Read(ctx context.Context, seq uint64, f func(*sched.State)) error { panic("wip") }

// Live is the Inputs of a real server: commands and facts from any goroutine,
// wall time from the given clock.
type Live struct{}

// NewLive returns an empty Live. now gives the wall time.
func NewLive(now func() sched.Time) *Live { panic("wip") }

// Do hands a command in and waits for its durable outcome. A full queue refuses
// with kind Busy at once.
func (l *Live) Do(ctx context.Context, c sched.Command, secrets map[string]string) Reply {
	panic("wip")
}

// Tell hands a fact in. It never blocks for longer than the loop's round.
func (l *Live) Tell(f sched.Fact) { panic("wip") }

// Next implements Inputs.
func (l *Live) Next(ctx context.Context, wake sched.Time) (sched.Time, []Input, error) {
	panic("wip")
}
