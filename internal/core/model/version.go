package model

import (
	"fmt"
)

// Version names the decision code. Journal entries of another version are replayed but not decided
// again by `journal verify`. 42: a task whose program was not found, in the words of any shell, is
// not tried again (internal/core/exit).
const Version = "42"

// Blame is the value of a panic inside Decide when it is known which job was being decided on: a
// bug of ours, which the engine answers by setting the job aside (Quarantined).
type Blame struct {
	Job   JobID
	Value any // of the original panic
}

// BlamedJob returns the job.
func (b Blame) BlamedJob() JobID { return b.Job }

// String gives the original panic.
func (b Blame) String() string { return fmt.Sprintf("deciding on job %d: %v", b.Job, b.Value) }
