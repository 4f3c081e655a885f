// Package executor is the contract between a server and what runs its tasks. A server holds an
// Executor and knows no more of it, so that another kind of executor needs no change there. The
// package must not run anything itself.
package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// Executor runs tasks somewhere. It reports the results of actions as facts; see engine.Executor.
// Its methods may be called from many goroutines.
type Executor interface {
	engine.Executor
	engine.Adopter
	engine.AbilityReporter
	// EndStrays ends what runs for attempts that are not live. It is called once, after the first
	// round of actions that follows a start. It returns the names of the tasks that it ended.
	EndStrays(live []model.AttemptID) []string
	// OpenLog opens a task's log at an offset; see Log. A negative offset counts from the end.
	// ErrNoLog says that there is none (yet), ErrReplaced that something else stands in its place.
	OpenLog(ref LogRef, from int64) (Log, error)
	// Checkpoints is the folder on this machine in which the tasks of a job save their work, over
	// all its attempts; "" where there is none on this machine. The folder exists from the job's
	// first start on.
	Checkpoints(model.JobID) string
	// Exec runs a command beside a running task. ErrNotRunning, ErrNoEntry and ErrRefused say why
	// it does not.
	Exec(ctx context.Context, ref TaskRef, c Command) (*Session, error)
	// Dial connects to a port on which a running task listens, also to one that others cannot
	// reach. It reaches no other port. Its errors are those of Exec.
	Dial(ctx context.Context, ref TaskRef, port uint16) (net.Conn, error)
	// Usage returns what a running task used of its machine in the last minutes, the oldest
	// sample first; none where that is not measured.
	Usage(TaskRef) []Usage
	// Forget deletes everything that a job left. A job with a live attempt is refused.
	Forget(model.JobID) error
	// Close stops watching. Tasks run on, and the next Executor takes them up.
	Close()
}

// Identity is the user and the group of a machine that the tasks of a job run as. The zero
// Identity stands for those of their image, or of their server.
type Identity struct{ UID, GID uint32 }

// IdentityOf returns a function that says as which user the tasks of an attempt run: the one that
// its job keeps. A job of an old journal keeps none: for it ask is called, once, for the present
// numbers of its user. An error says that there is no such user; its tasks must not run as the
// server instead. With a nil ask it is the zero Identity.
func IdentityOf(job *model.Job, ask func(user model.Subject) (Identity, error)) func() (Identity, error) {
	return sync.OnceValues(func() (Identity, error) {
		if job.Numbered || job.UID != 0 || ask == nil {
			return Identity{job.UID, job.GID}, nil
		}
		id, err := ask(job.User)
		if err != nil {
			err = fmt.Errorf("the job was submitted before jobs kept the uid and gid of their users, and those of "+
				"user %s are not known now: %w; submit the job again", job.User, err)
		}
		return id, err
	})
}

// LogRef names one stream of one run of one task.
type LogRef struct {
	Attempt model.AttemptID
	Task    int32
	Stream  string // Stdout or Stderr
}

// The two streams of a task.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// StreamSwitch says that a stream of a task had To bytes when the other one went on.
type StreamSwitch struct {
	Stream string
	To     int64
}

// Log is an open log. It can be read up to where it ended when it was opened, or further, but not
// over a gap: there a read returns ErrCut.
type Log struct {
	io.ReadCloser
	// Start is the offset of the first byte, in the whole stream. It is behind the offset asked
	// for when rotation has dropped what stood there. End is where the log ended.
	Start, End int64
	// GapStart and GapEnd are the part that rotation had dropped by then; both are 0 when there
	// was none. The first lines are before the gap.
	GapStart, GapEnd int64
	// Switches says in which order both streams of the task were printed: each StreamSwitch is how
	// far one stream was when the other went on. Those up to the offsets in behind (of stdout and
	// stderr) are left out, except the last one. What is printed after the last StreamSwitch is not
	// in it. If the lengths of both logs are read first, and Switches after them, no StreamSwitch
	// within these lengths is missing. nil: the order is not known.
	Switches func(behind [2]int64) ([]StreamSwitch, error)
}

// ErrCut says that rotation has dropped what follows in a log. The log can be opened again at
// that offset, and goes on behind the gap.
var ErrCut = errors.New("this part of the log was removed to make room for later output")

// ErrNoLog says that a task has no such log: it has not started, or its files
// were removed. It is also an fs.ErrNotExist.
var ErrNoLog = fmt.Errorf("there is no such log: %w", fs.ErrNotExist)

// ErrReplaced says that what stands in the place of a log, or of a folder above it, was not made
// by the executor: a task can do that where it runs as the same user. It is not followed. The
// error's text names no path outside the job's folder.
var ErrReplaced = errors.New("something else was put in the place of this log")

// FoundWork is what an executor can see of a cluster's attempts without the journal.
type FoundWork struct {
	// Attempts are those that have a folder or processes there. Of a job that has ended, or is
	// known nowhere else, only the number may be set.
	Attempts []model.AttemptID
	// Running are the tasks with processes, by name.
	Running []string
}

// Condition is something that concerns more than one job, such as an API server that does not
// answer. It holds as long as an executor lists it.
type Condition struct {
	Text  string // one sentence without its full stop
	Admin bool   // only administrators can do something about it, and see it
}

// HasConditions is an executor that can tell of conditions.
type HasConditions interface {
	// Conditions are those that hold now, the worst first.
	Conditions() []Condition
}
