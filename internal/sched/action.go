package sched

import "github.com/combsched/comb/internal/cell"

// Action is what the executor is asked to do. Actions are idempotent by
// identity: the same start twice starts one set of processes.
type Action struct {
	Attempt AttemptID
	// Start is set for a start, nil for a stop.
	Start *Start
	// Grace is how long a stop waits between asking and killing.
	Grace Duration
	// Known is true when the action repeats, after a restart, one that may have
	// been carried out before; a start of something that ran and is gone must
	// then end in a TaskExited or TaskUnknown, never in a second run.
	Known bool
}

// Start is a gang with its placement.
type Start struct {
	ID    JobID
	Job   *Job
	Retry int32 // the job's attempt, from 0
	Tasks []TaskStart
}

// TaskStart is one task of a gang.
type TaskStart struct {
	Task  int32 // ordinal in the job
	Role  int32 // index into Job.Roles
	Index int32 // index in the role
	Place cell.Task
	SKU   cell.SKU
	// Chain-wide numbers would not tell a process which device it owns:
	// Place.Devices are the device indices on Place.Node.
}
