package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// Action is what the executor is asked to do. Actions are idempotent by
// identity: the same start twice starts one set of processes.
type Action struct {
	Attempt AttemptID
	// Start is set for a start; without it, a Rotation and Lost it is a stop.
	Start *Start
	// Rotation is set when the tasks of an attempt that runs must follow it from now on.
	Rotation *Rotation
	// Lost are tasks, by ordinal, that count as ended by the loss of their node, also if only a
	// user says so. What is left of them must end before the node is reported up again, and the
	// executor reports nothing about it.
	Lost []int32
	// Grace is how long a stop waits between asking and killing. Cause says why it is asked for,
	// and By is the attempt that it makes room for; nil: for none.
	Grace Duration
	Cause EndCause
	By    *AttemptID
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
	// Rotation is what its tasks follow from the start; nil lets them run all the time.
	Rotation *Rotation
}

// Ability is something that not every executor can do.
type Ability string

// The abilities that a policy may need.
const (
	CanSuspend Ability = "suspend" // several attempts take turns on the same leaves
	CanPack    Ability = "pack"    // several attempts run on the same leaves at once
)

// Words says what the ability is, behind "can".
func (a Ability) Words() string {
	switch a {
	case CanSuspend:
		return "suspend tasks and let them go on"
	case CanPack:
		return "run the tasks of several jobs on one device"
	}
	return string(a)
}

// TaskStart is one task of a gang.
type TaskStart struct {
	Task  int32 // ordinal in the job
	Role  int32 // index into Job.Roles
	Index int32 // index in the role
	// Place says where it runs. Its Devices are device indices on its Node, as a process needs
	// them, and not numbers in the chain.
	Place cell.Task
	SKU   cell.SKU
	// Division says in how many parts each of Place.Devices was when the task was started,
	// in their order; 0 is not known. It is nil when they were whole.
	Division []int32
}
