// Package executor is the contract between a server and what runs its tasks. A
// server holds an Executor and knows no more of it, so that another world fits in
// without a change there. The package must not run anything itself.
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

// Executor runs tasks somewhere. What comes of actions arrives as facts; see
// engine.Executor. Methods may be called from many goroutines.
type Executor interface {
	engine.Executor
	engine.Adopter
	engine.Able
	// Sweep ends what runs for attempts that are not live: it is called once, after the
	// first round of actions that follows a start. It returns the names of the tasks that it ended.
	Sweep(live []model.AttemptID) []string
	// OpenLog opens a task's log at an offset; see Log. A negative offset counts from the end.
	// ErrNoLog says that there is none (yet), ErrReplaced that something else stands in its place.
	OpenLog(ref LogRef, from int64) (Log, error)
	// Checkpoints is the folder on this machine in which the tasks of a job save their work, over
	// all its attempts; "" where there is none here. It is there from the job's first start on.
	Checkpoints(model.JobID) string
	// Exec runs a command beside a running task. ErrNotRunning, ErrNoEntry and ErrRefused say why
	// it does not.
	Exec(ctx context.Context, ref TaskRef, c Command) (*Session, error)
	// Dial connects to a port on which a running task listens, also to one that others cannot
	// reach. No other port can be reached by it. Errors are those of Exec.
	Dial(ctx context.Context, ref TaskRef, port uint16) (net.Conn, error)
	// Usage returns what a running task took of its machine in the last minutes, the oldest sample
	// first; none where that is not measured.
	Usage(TaskRef) []Usage
	// Forget deletes everything that a job left. A job with a live attempt is refused.
	Forget(model.JobID) error
	// Close stops watching. Tasks run on, and the next Executor takes them up.
	Close()
}

// Identity is the user and the group of a machine with which the tasks of a job run; the zero
// Identity is that they run as their image, or their server, says.
type Identity struct{ UID, GID uint32 }

// Whose returns what says with which numbers the tasks of an attempt run: those that its job keeps.
// A job of a journal from before jobs kept them has those that its user has now, asked once; an
// error is that there is no such user, whose tasks must not run as the server instead. A nil ask
// says nothing.
func Whose(job *model.Job, ask func(user model.Subject) (Identity, error)) func() (Identity, error) {
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

// Turn says that a stream of a task had so many bytes when the other one went on.
type Turn struct {
	Stream string
	To     int64
}

// Log is an open log: it reads up to where the log ended when it was opened, or further, but not
// over a gap: there it says ErrCut.
type Log struct {
	io.ReadCloser
	// Start is the offset of the first byte, in the whole stream; it is behind the one asked
	// for when rotation has dropped what stood there. End is where the log ended.
	Start, End int64
	// GapStart and GapEnd are the part that rotation had dropped by then; both are 0 when there was
	// none. What stands before it are the first lines.
	GapStart, GapEnd int64
	// Turns says in which order both streams of the task were printed: each is how far one was when
	// the other went on. Those up to offsets of stdout and stderr are left out, but for the last
	// of all. What is behind the last one, or has none, is not told. Lengths that were read
	// before hold nothing of which a turn is still to come. nil is that it is not known.
	Turns func(behind [2]int64) ([]Turn, error)
}

// ErrCut says that rotation has dropped what follows in a log: it can be opened again there, and
// goes on behind it.
var ErrCut = errors.New("this part of the log was removed to make room for later output")

// ErrNoLog says that a task has no such log: it has not started, or its files
// were removed. It is also an fs.ErrNotExist.
var ErrNoLog = fmt.Errorf("there is no such log: %w", fs.ErrNotExist)

// ErrReplaced says that what stands in the place of a log, or of a folder above it, was not made by
// the executor: a task may do that, since it runs as the same user. It is not followed. Its text
// names no path outside the job's folder.
var ErrReplaced = errors.New("something else was put in the place of this log")

// Seen is what a world itself knows of the attempts of a cluster.
type Seen struct {
	// Attempts have a folder or processes there. Of a job that has ended, or that nothing else
	// knows, there may be its number alone.
	Attempts []model.AttemptID
	// Running are the tasks with processes, by name.
	Running []string
}
