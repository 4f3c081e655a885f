// Package engine runs the one loop: take inputs, check, apply, decide, append to
// the journal, and only then let anything leave. It also keeps the read replica.
// It must not decide anything and must not know which executor, journal or
// clock it has.
package engine

import (
	"context"

	"github.com/combsched/comb/internal/sched"
)

// Input is one command or one fact. Exactly one of Command and Fact is set.
type Input struct {
	Command sched.Command
	Fact    sched.Fact
	// Secrets are the values that an accepted Submit refers to; they are stored
	// in the same transaction as its events, but never in an event.
	Secrets map[string]string
	// Reply, when set, is called once after the batch is durable (or refused).
	Reply func(Reply)
}

// Reply is the outcome of a command.
type Reply struct {
	Answer  sched.Answer
	Refusal *sched.Refusal
	// Err is set when the command's fate could not be made durable.
	Err error
	// Seq is the last event of the batch: a read at Seq or later sees the effect.
	Seq uint64
}

// Inputs is the seam to the world's time and order. Next blocks until inputs
// are there, or until wake (0: never) has come, and returns the present time.
// It returns io.EOF when there will be no more.
type Inputs interface {
	Next(ctx context.Context, wake sched.Time) (now sched.Time, in []Input, err error)
}

// Executor carries out actions. Do must not block and must be idempotent by the
// attempt's identity; what comes of it arrives as facts through Inputs.
type Executor interface {
	Do(sched.Action)
}

// Batch is what one round of the loop appends: all or nothing.
type Batch struct {
	// First is the sequence number of Records[0]; the journal must end at First-1.
	First   uint64
	Epoch   uint64
	Records []sched.Record
	// Ended are the final statuses of jobs that ended in this batch.
	Ended []sched.JobStatus
	// Secrets are the values that came with the jobs submitted in this batch.
	// Those of the jobs in Ended are erased.
	Secrets []JobSecrets
}

// JobSecrets are the secret values of one job, by key.
type JobSecrets struct {
	Job    sched.JobID
	Values map[string]string
}

// Journal is the durable stream. Append returns only after the batch is durable,
// or with an error and nothing of it kept.
type Journal interface {
	Append(ctx context.Context, b Batch) error
	// Replay calls f for every record after seq, in order.
	Replay(ctx context.Context, after uint64, f func(sched.Record) error) error
	// Snapshot returns the latest snapshot (nil if none) and the sequence number
	// of the last event in it.
	Snapshot(ctx context.Context) (state []byte, seq uint64, err error)
	// SaveSnapshot keeps a snapshot and may archive the log behind it.
	SaveSnapshot(ctx context.Context, seq uint64, state []byte) error
}
