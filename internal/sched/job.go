// Package sched is the decision core: jobs, gangs and attempts, the commands
// and facts that change them, and State, which checks, applies, decides and
// explains. It is pure: it takes time, ids and randomness, it never fetches
// them, and the same events give the same decisions bit for bit. It must not
// know how tasks run, how events are stored or how users reach the system.
package sched

import (
	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/habit"
	"github.com/combsched/comb/internal/jobs"
	"github.com/combsched/comb/internal/setting"
)

// What users ask for is values of a package of their own (jobs).
type (
	Time            = jobs.Time
	JobID           = jobs.JobID
	JobName         = jobs.JobName
	Subject         = jobs.Subject
	AttemptID       = jobs.AttemptID
	Job             = jobs.Job
	Role            = jobs.Role
	Gang            = jobs.Gang
	Port            = jobs.Port
	Launch          = jobs.Launch
	EnvVar          = jobs.EnvVar
	Hints           = jobs.Hints
	SuspendContract = jobs.SuspendContract
	RoleHints       = jobs.RoleHints
	Deadline        = jobs.Deadline
	Sizes           = jobs.Sizes
)

// Measured are the run times of earlier jobs.
type Measured = habit.Measured

// Duration is microseconds.
type Duration = setting.Duration

// Units of Duration.
const (
	Millisecond = setting.Millisecond
	Second      = setting.Second
	Minute      = setting.Minute
	Hour        = setting.Hour
)

// The configuration of the core is a value of its own (setting).
type (
	Config     = setting.Config
	VCConfig   = setting.VCConfig
	Param      = setting.Param
	Throughput = setting.Throughput
	Rename     = setting.Rename
	NodeRename = setting.NodeRename
)

// AnyModel stands for models that a table of throughputs does not name.
const AnyModel = setting.AnyModel

// Room counts the leaves of one SKU that a gang may use.
type Room = amount.Room
