// Package engine runs the one loop: take inputs, check, apply, decide, append to
// the journal, and only then let anything leave. It also keeps the read replica.
// It must not decide anything and must not know which executor, journal or
// clock it has.
package engine

import (
	"context"
	"errors"

	"github.com/combsched/comb/internal/core/model"
)

// ErrFenced is returned by Journal.Append when the journal does not end where the
// batch begins, or belongs to a later epoch: somebody else writes. It stops the loop.
var ErrFenced = errors.New("the journal was written by somebody else")

// ErrFull is returned by Journal.Append when the disk is full. Nothing of the
// batch is kept; a journal that has a reserve has freed it, so that a batch
// without new submissions can be tried at once.
var ErrFull = errors.New("the disk is full")

// ErrClosed answers commands that come when the loop has ended.
var ErrClosed = errors.New("the server is shutting down")

// ErrAhead says that a reader asked for events that do not exist yet: its
// position comes from another journal, and it must read everything anew.
var ErrAhead = errors.New("that position is ahead of the journal")

// Input is one command or one fact. Exactly one of Command and Fact is set.
type Input struct {
	Command model.Command
	Fact    model.Fact
	// Secrets are the values that an accepted Submit refers to; they are stored
	// in the same transaction as its events, but never in an event.
	Secrets map[string]string
	// Request tells a repeated command from another one with the same idempotency key;
	// zero: the command itself does. Note comes back with every answer to it.
	Request Request
	Note    []byte
	// Audit, when set, is the line of the audit log about an accepted command: it is durable with
	// the command's events, or neither is. Its time is the round's.
	Audit *Audit
	// Reply, when set, is called once after the batch is durable (or refused).
	// It must not block.
	Reply func(Reply)
}

// Reply is the outcome of a command.
type Reply struct {
	Answer  model.Answer
	Refusal *model.Refusal
	// Err is set when the command's fate could not be made durable.
	Err error
	// Seq is the last event of the batch: a read at Seq or later sees the effect. Note is
	// that of the input; both are those of the first answer when it is repeated.
	Seq  uint64
	Note []byte
}

// Inputs is the seam to the world's time and order. Next blocks until inputs are there, or until
// wake (0: never) has come, and returns the present time. It returns io.EOF when there will be no
// more. Inputs that also have a method Close(error) are told when the loop ends, and why; those
// with a method NotBefore(model.Time) are told, before the first Next, the time of the last event,
// and later the time of decisions that went ahead of it.
//
// What Next returns is read until the next call.
type Inputs interface {
	Next(ctx context.Context, wake model.Time) (now model.Time, in []Input, err error)
}

// Executor carries out actions. Do must not block and must be idempotent by the
// attempt's identity; what comes of it arrives as facts through Inputs.
type Executor interface {
	Do(model.Action)
}

// Adopter is an Executor that takes up work of an engine before. Adopted returns when it
// has told, of all that it was given as known, what is over; or soon, where that takes long. Before
// that the clock would decide about work that ended in time while nobody looked.
type Adopter interface {
	Adopted(context.Context)
}

// Preparer is an Executor that can make ready for a job whose gang has the promise of cells, before
// it gets them. Prepare must not block, and may be called often for one job. The job is not
// changed.
type Preparer interface {
	Prepare(model.JobID, *model.Job)
}

// Batch is what one round of the loop appends: all or nothing.
type Batch struct {
	// First is the sequence number of Records[0]; the journal must end at First-1.
	First   uint64
	Epoch   uint64
	Records []model.Record
	// Ended are the final statuses of jobs that ended in this batch, unless
	// Options.DropEnded leaves them out.
	Ended []model.JobStatus
	// Secrets are the values that came with the jobs submitted in this batch.
	// Those of the jobs in Ended are erased.
	Secrets []JobSecrets
	// Answers are to be remembered by a journal that is an Answers. A batch may have
	// answers and no records: its commands were accepted and changed nothing.
	Answers []Answered
	// Audit are lines for the audit log, for a journal that keeps one.
	Audit []Audit
}

// Empty reports whether nothing is to be appended.
func (b *Batch) Empty() bool { return len(b.Records) == 0 && len(b.Answers) == 0 && len(b.Audit) == 0 }

// Audit is a line of the audit log: which subject did what to what, from which address, and what
// changed.
type Audit struct {
	Time                                         model.Time
	Subject, Verb, Object, Outcome, Detail, From string
	// Changes has a line left out whose command has no events.
	Changes bool
}

// Last is the sequence number of the batch's last record.
func (b *Batch) Last() uint64 { return b.First + uint64(len(b.Records)) - 1 }

// JobSecrets are the secret values of one job, by key.
type JobSecrets struct {
	Job    model.JobID
	Values map[string]string
}

// Past chooses jobs that have ended; zero values choose all.
type Past struct {
	Users  []string // of any of them; none is of all, as for VCs and Phases
	VCs    []string
	Phases []model.Phase
	Name   string // a part of the name
	Tag    string // "" is any or none
	// Within, if not nil, are those in its VCs, and those of its user in any.
	Within *Within
	// Before is the cursor: only jobs with a smaller id.
	Before model.JobID
	// Order, if not nil, is another order than that of the latest submission first. It has a cursor
	// of its own.
	Order *PastOrder
	// Limit is at most 1,000; 0 is 100.
	Limit int
}

// PastOrder is an order of a list of ended jobs: by a name, and of several of one name by number.
type PastOrder struct {
	By   string // name, user or vc; "" is by number alone
	Down bool
	// After, if not nil, is the cursor: only jobs that come behind this one.
	After *PastPlace
}

// PastPlace is where a job stands in an order.
type PastPlace struct {
	Key string // what it is ordered by; "" by number
	Job model.JobID
}

// Within bounds a list by what its reader may see.
type Within struct {
	VCs  []string
	User string
}

// Journal is the durable stream. Append returns only after the batch is durable,
// or with an error and nothing of it kept; ErrFenced and ErrFull are told apart
// with errors.Is.
type Journal interface {
	Append(ctx context.Context, b Batch) error
	// Replay calls f for every record after seq, in order.
	Replay(ctx context.Context, after uint64, f func(model.Record) error) error
	// Snapshot returns the latest snapshot (nil if none) and the sequence number
	// of the last event in it.
	Snapshot(ctx context.Context) (state []byte, seq uint64, err error)
	// SaveSnapshot keeps a snapshot and may archive the log behind it. It may run
	// beside Append.
	SaveSnapshot(ctx context.Context, seq uint64, state []byte) error
}

// Roomy is a Journal that knows whether its disk has room for new submissions.
type Roomy interface {
	// Room returns nil, or an error that says what is full.
	Room() error
}

// JobOf returns the job that an event is about; 0 if it is about none, or
// about many (Configured).
func JobOf(e model.Event) model.JobID {
	switch e := e.(type) {
	case model.JobSubmitted:
		return e.ID
	case model.StopRequested:
		return e.Job
	case model.JobHeld:
		return e.Job
	case model.JobRequeued:
		return e.Job
	case model.JobUpdated:
		return e.Job
	case model.Notice:
		return e.Job
	case model.Foretold:
		return e.Job
	case model.Booked:
		return e.Job
	case model.Sized:
		return e.Job
	case model.TaskRetried:
		return e.Job
	case model.JobCompleting:
		return e.Job
	case model.JobRetried:
		return e.Job
	case model.JobEnded:
		return e.Job
	case model.NodeAvoided:
		return e.Job
	case model.Noted:
		return e.Job
	case model.Quarantined:
		return e.Job
	}
	return attemptOf(e).Job
}

// attemptOf returns the attempt that an event is about; zero if none.
func attemptOf(e any) model.AttemptID {
	switch e := e.(type) {
	case model.TaskStarted:
		return e.Attempt
	case model.TaskExited:
		return e.Attempt
	case model.TaskRefused:
		return e.Attempt
	case model.TaskUnknown:
		return e.Attempt
	case model.Progress:
		return e.Attempt
	case model.Placed:
		return e.Attempt
	case model.Reserved:
		return e.Attempt
	case model.Unreserved:
		return e.Attempt
	case model.StopSent:
		return e.Attempt
	case model.Joined:
		return e.Attempt
	case model.LazilyPreempted:
		return e.Attempt
	case model.Upgraded:
		return e.Attempt
	case model.AttemptEnded:
		return e.Attempt
	}
	return model.AttemptID{}
}
