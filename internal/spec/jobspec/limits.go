package jobspec

import (
	"github.com/combsched/comb/internal/core/model"
)

// The limits of a job file. They are far above real jobs. They keep one file from filling
// memory, the journal or a task's environment.
const (
	maxSource        = 1 << 20 // bytes of the file
	maxRendered      = 1 << 20 // bytes of all commands with their references filled in
	maxRoles         = 64
	maxPrerequisites = 1000
	maxTasks         = 10_000 // of the whole job
	maxName          = 255    // characters of a name
	maxPathName      = 4095   // bytes of the path of a folder, as Linux allows
	maxLeaves        = 1 << 20
	// maxEnvironment bounds the variables of one task. Linux refuses to start a
	// process whose arguments and environment exceed 2 MiB.
	maxEnvironment = 1 << 20
	// maxLegacyEnv bounds the variables with OpenPAI's older names. A job that would need more
	// gets none of the older names.
	maxLegacyEnv = 256 << 10
	maxPorts     = 1000 // of one task
	maxRetries   = 1_000_000
	maxGPU       = 1 << 20 // of one task
	maxCPU       = 1 << 20 // of one task
	maxMemoryMB  = 1 << 40 // of one task
	maxDeadlines = 100

	// MaxTimeLimit bounds the time limit of a job, in microseconds.
	MaxTimeLimit = int64(maxDuration)
	maxDuration  = 10 * 365 * 24 * model.Hour
	maxGrace     = model.Hour
	defaultGrace = 30 * model.Second

	maxSuspendTimeout     = 10 * model.Minute
	defaultSuspendTimeout = 10 * model.Second
)
