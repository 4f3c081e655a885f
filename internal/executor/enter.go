package executor

import (
	"errors"
	"io"

	"github.com/combsched/comb/internal/core/model"
)

// TaskRef names one run of one task.
type TaskRef struct {
	Attempt model.AttemptID
	Task    int32
}

// Usage is what one run of a task took of its machine in the seconds before a moment.
type Usage struct {
	At            model.Time
	CPU           int64 // thousandths of a CPU
	MemoryMB      int64 // MiB that its processes have; what they share is counted with each
	Read, Written int64 // bytes a second, from and to disks
}

// Command is what is run beside a task: as its user, in its folder, with its environment and in
// its limits.
type Command struct {
	Argv []string
	// Terminal is the size of the terminal that it gets; nil is none: then its streams are pipes.
	Terminal *Size
	Term     string // kind of that terminal, for TERM; "" is a plain one
}

// Size is a terminal's, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// MaxCommand bounds a command's arguments, in bytes.
const MaxCommand = 128 << 10

// Session is a command that runs beside a task. It is killed with all that is left of it when the
// session is closed, when the task ends, and when the executor is gone.
type Session struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser // of a command with a terminal, all that it prints
	Stderr io.ReadCloser // nil with a terminal
	// Resize tells the terminal another size.
	Resize func(Size) error
	// Wait waits for the command's end. What it printed can be read for a moment still.
	// ErrNotRunning says that its end was not seen.
	Wait func() (Ended, error)
	// Close ends the command, and gives everything back.
	Close func()
}

// Ended is how a command beside a task ended.
type Ended struct {
	Code   int    `json:"code"` // exit code; 128+signal when a signal ended it
	Signal int    `json:"signal,omitempty"`
	Why    string `json:"why,omitempty"` // it was ended by the platform for this reason
}

var (
	// ErrNotRunning says that a task does not run, or not any more.
	ErrNotRunning = errors.New("the task does not run")
	// ErrNoEntry says that nothing can be run beside a task there.
	ErrNoEntry = errors.New("nothing can be run beside this task")
	// ErrRefused says that a command, or a connection, was not let in, for the reason behind it.
	ErrRefused = errors.New("refused")
)
