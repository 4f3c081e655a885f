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

// Usage is what one run of a task used of its machine in the seconds before At.
type Usage struct {
	At            model.Time
	CPU           int64 // thousandths of a CPU
	MemoryMB      int64 // MiB that its processes have; shared memory is counted with each
	Read, Written int64 // bytes a second, from and to disks
}

// Command is run beside a task: as its user, in its folder, with its environment and within its
// limits.
type Command struct {
	Argv []string
	// Terminal is the size of the terminal that it gets. nil: none, so its streams are pipes.
	Terminal *Size
	Term     string // kind of that terminal, for TERM; "" is a plain one
}

// Size is the size of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// MaxCommand bounds a command's arguments, in bytes.
const MaxCommand = 128 << 10

// Session is a command that runs beside a task. The command and all that is left of it is killed
// when the session is closed, when the task ends, and when the executor is gone.
type Session struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser // with a terminal: all that the command prints
	Stderr io.ReadCloser // nil with a terminal
	// Resize changes the size of the terminal.
	Resize func(Size) error
	// Wait waits for the command's end. What it printed can still be read for a moment.
	// ErrNotRunning says that its end was not seen.
	Wait func() (Ended, error)
	// Close ends the command, and frees everything.
	Close func()
}

// Ended is how a command beside a task ended.
type Ended struct {
	Code   int    `json:"code"` // exit code; 128+signal when a signal ended it
	Signal int    `json:"signal,omitempty"`
	Why    string `json:"why,omitempty"` // why the platform ended it; "": it did not
}

var (
	// ErrNotRunning says that a task does not run, or not any more.
	ErrNotRunning = errors.New("the task does not run")
	// ErrNoEntry says that nothing can be run beside a task on this executor.
	ErrNoEntry = errors.New("nothing can be run beside this task")
	// ErrRefused says that a command or a connection was refused; the reason follows it.
	ErrRefused = errors.New("refused")
)
