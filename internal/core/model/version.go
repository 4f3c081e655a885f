package model

import (
	"fmt"
)

// Version is that of the deciding code. `journal verify` replays journal entries of other versions,
// but does not decide them again. 44: when gangs of one VC cease to wait, gangs of others
// look whether bad hardware can be charged to that VC (index.MayMoveCharges).
const Version = "44"

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
