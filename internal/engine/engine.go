// Package engine runs the one loop: take inputs, check, apply, decide, append to the journal, and
// only then publish. It also keeps the read replica. It must not decide anything and must not
// know which executor, journal or clock it has.
package engine

import (
	"context"
	"errors"

	"github.com/combsched/comb/internal/core/model"
)

// ErrFenced is returned by Journal.Append when the journal does not end where the batch begins,
// or belongs to a later epoch: another process writes it. It stops the loop.
var ErrFenced = errors.New("the journal was written by somebody else")

// ErrFull is returned by Journal.Append when the disk is full. Nothing of the batch is kept. A
// journal with a reserve has freed it, so that a batch without new submissions can be tried at
// once.
var ErrFull = errors.New("the disk is full")

// ErrClosed answers commands that come when the loop has ended.
var ErrClosed = errors.New("the server is shutting down")

// ErrAhead says that a reader asked for events that do not exist yet: its position is from
// another journal, and it must read everything anew.
var ErrAhead = errors.New("that position is ahead of the journal")

// Input is one command or one fact. Exactly one of Command and Fact is set.
type Input struct {
	Command model.Command
	Fact    model.Fact
	// Secrets are the values that an accepted Submit refers to; they are stored
	// in the same transaction as its events, but never in an event.
	Secrets map[string]string
	// Request tells a repeated command from another one with the same idempotency key; zero: it
	// is computed from the command. Note is returned with every answer to it.
	Request Request
	Note    []byte
	// Audit, when set, is the line of the audit log about an accepted command. It becomes durable
	// together with the command's events. Its time is the round's.
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
	// Seq is the last event of the batch: a read at Seq or later sees the effect. Note is that of
	// the input. For a repeated command both are those of the first answer.
	Seq  uint64
	Note []byte
}

// Inputs supplies time and inputs, in order. Next blocks until there are inputs, or until wake
// (0: never), and returns the present time. It returns io.EOF when there will be no more. If
// Inputs has a method Close(error), it is called when the loop ends, with the reason. If it has a
// method NotBefore(model.Time), it is called before the first Next with the time of the last
// event, and later with the time of decisions that went ahead of it.
//
// What Next returns is read until the next call.
type Inputs interface {
	Next(ctx context.Context, wake model.Time) (now model.Time, in []Input, err error)
}

// Executor carries out actions. Do must not block, and must be idempotent by the attempt's
// identity. Results arrive as facts through Inputs.
type Executor interface {
	Do(model.Action)
}

// Adopter is an Executor that takes over work from before a restart. Adopted returns once it has
// told which of the attempts given as known are over, or soon if that takes long. Otherwise the
// clock would decide about work that had ended in time while no server ran.
type Adopter interface {
	Adopted(context.Context)
}

// Preparer is an Executor that can prepare for a job whose gang has a reservation, before the
// gang starts. Prepare must not block or change the job, and may be called often for one job.
type Preparer interface {
	Prepare(model.JobID, *model.Job)
}

// Batch is what one round of the loop appends: all or nothing.
type Batch struct {
	// First is the sequence number of Records[0]; the journal must end at First-1.
	First   uint64
	Epoch   uint64
	Records []model.Record
	// Ended are the final statuses of jobs that ended in this batch, unless Options.DropEnded
	// leaves them out.
	Ended []model.JobStatus
	// Secrets are the values that came with the jobs submitted in this batch.
	// Those of the jobs in Ended are erased.
	Secrets []JobSecrets
	// Answers must be remembered by a journal that is an AnswerJournal. A batch may have answers
	// and no records: then its commands were accepted and changed nothing.
	Answers []Answered
	// Audit are lines for the audit log, for a journal that has one.
	Audit []Audit
}

// Empty reports whether there is nothing to append.
func (b *Batch) Empty() bool { return len(b.Records) == 0 && len(b.Answers) == 0 && len(b.Audit) == 0 }

// Audit is a line of the audit log: which subject did what to which object, from which address,
// and what changed.
type Audit struct {
	Time                                         model.Time
	Subject, Verb, Object, Outcome, Detail, From string
	// Changes leaves the line out if the command has no events.
	Changes bool
}

// Last is the sequence number of the batch's last record.
func (b *Batch) Last() uint64 { return b.First + uint64(len(b.Records)) - 1 }

// JobSecrets are the secret values of one job, by key.
type JobSecrets struct {
	Job    model.JobID
	Values map[string]string
}

// FinishedFilter selects jobs that have ended; zero values select all.
type FinishedFilter struct {
	Users  []string // any of them; empty: all, as for VCs and Phases
	VCs    []string
	Phases []model.Phase
	Name   string // a part of the name
	Tag    string // "": with any tag or none
	// Within, if not nil, selects the jobs in its VCs, and those of its user in any VC.
	Within *Within
	// Before is the cursor: only jobs with a smaller id.
	Before model.JobID
	// Order, if not nil, is another order than by latest submission. It has a cursor of its own.
	Order *FinishedOrder
	// Limit is at most 1,000; 0 is 100.
	Limit int
}

// FinishedOrder is an order of ended jobs: by a name, and by number where names are equal.
type FinishedOrder struct {
	By   string // name, user or vc; "": by number alone
	Down bool
	// After, if not nil, is the cursor: only jobs behind it.
	After *FinishedPlace
}

// FinishedPlace is the position of a job in an order.
type FinishedPlace struct {
	Key string // the value it is ordered by; "" by number
	Job model.JobID
}

// Within bounds a list to what its reader may see.
type Within struct {
	VCs  []string
	User string
}

// Journal is the durable stream of events. Append returns after the batch is durable, or with an
// error and nothing of it kept. errors.Is tells ErrFenced and ErrFull apart.
type Journal interface {
	Append(ctx context.Context, b Batch) error
	// Replay calls f for every record after seq, in order.
	Replay(ctx context.Context, after uint64, f func(model.Record) error) error
	// Snapshot returns the latest snapshot (nil if none) and the sequence number
	// of the last event in it.
	Snapshot(ctx context.Context) (state []byte, seq uint64, err error)
	// SaveSnapshot keeps a snapshot and may archive the log before it. It may run at the same
	// time as Append.
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
