package model

import (
	"fmt"
)

// Version is that of the deciding code. `journal verify` replays journal entries of other versions,
// but does not decide them again. 43: under easy a gang's own booking does not keep it from being
// booked again when its cells are free and it cannot start (internal/core/timeline).
const Version = "43"

// Blame is the value of a panic inside Decide that names the job that was being decided on. The
// panic is a bug of the core; the engine sets the job aside (Quarantined).
type Blame struct {
	Job   JobID
	Value any // of the original panic
}

// BlamedJob returns the job.
func (b Blame) BlamedJob() JobID { return b.Job }

// String gives the original panic.
func (b Blame) String() string { return fmt.Sprintf("deciding on job %d: %v", b.Job, b.Value) }
