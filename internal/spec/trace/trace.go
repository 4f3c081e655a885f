// Package trace reads the published traces of GPU clusters (Philly, Helios, Alibaba,
// Tiresias, Gavel, Chronus) and Comb's own format into one type, Job. It writes some of them,
// sums them up, and generates traces from a seed. It knows files and units. It must not know
// policies, clusters' cells or the core's State: a replayer makes jobs of the core from it.
//
// Everything in a file is taken for hostile. Lengths, numbers and the size after
// decompression are bounded, and an error is an *Error with file, line and column.
package trace

import (
	"github.com/combsched/comb/internal/core/model"
)

// Job is one submission of a trace. Zero is "the trace does not say", except where
// a field says otherwise. Times are in microseconds, as in the core.
type Job struct {
	ID   string // as in the trace, unique there
	User string // who submitted it
	VC   string // virtual cluster, queue or team
	App  string // the group of jobs that it belongs to, such as a hyper-parameter search

	// Submit counts from the trace's start; 0 is a time like any other.
	Submit model.Time
	// Duration is how long the job runs at full speed on its GPUs. 0 is unknown: it may have
	// been running still when the trace was taken.
	Duration model.Duration
	// Estimate is what its user expected Duration to be.
	Estimate model.Duration

	GPUs int32 // of the whole gang, at least 1
	// MinGPUs and MaxGPUs bound the GPUs of an elastic job, and Duration is for GPUs. Both
	// are 0 for a job of one size.
	MinGPUs, MaxGPUs int32
	GPUMilli         int32    // thousandths of a GPU that it uses of each of GPUs; 0 is whole GPUs
	SKUs             []string // GPU types that it may run on, sorted; none is any
	MilliCPU         int64    // thousandths of a CPU, of the whole gang
	MemoryMB         int64    // main memory in MiB, of the whole gang
	Nodes            int32    // on how many nodes it ran
	Tasks            []Task   // the parts of the gang, where the trace has them

	Priority int32
	Weight   int64  // thousandths of a share; 1000 is the usual one
	Class    string // Strict, Soft or BestEffort, as in model.Hints
	// Deadlines count from Submit and rise. Their values do not rise.
	Deadlines []model.Deadline

	Model      string
	Iterations int64
	Interval   model.Duration // between two reports of progress
	Loss       *Curve         // what a training reports

	Attempts []Attempt
	Outcome  Outcome
	Failure  string // class of a failure: "timeout", "node" or "memory"
}

// The classes of a job: one deadline that counts, deadlines of falling value, no deadline.
const (
	Strict     = "strict"
	Soft       = "soft"
	BestEffort = "besteffort"
)

// Task is a set of equal instances of a gang, such as the workers.
type Task struct {
	Name      string
	Instances int32 // at least 1
	// GPUMilli, MilliCPU and MemoryMB are those of one instance; 1000 is a whole
	// GPU or CPU.
	GPUMilli int32
	MilliCPU int64
	MemoryMB int64
	SKU      string
}

// Attempt is one start of a job.
type Attempt struct {
	Start    model.Time     // like Job.Submit
	Duration model.Duration // 0 is unknown
	GPUs     int32
	Nodes    int32
}

// Curve is the loss of a training, in billionths. It begins at First, and has gone half of
// the way to Last after Half of work, two thirds after twice that, and so on: Last + (First -
// Last) * Half / (Half + work). So trainings can be compared early.
type Curve struct {
	First, Last int64
	Half        model.Duration
}

// At is the loss after an amount of work, which must not be negative.
func (c *Curve) At(work model.Duration) int64 {
	if c.Half <= 0 {
		return c.Last
	}
	gap := big128(max(c.First-c.Last, 0), int64(c.Half), int64(c.Half)+int64(work))
	return c.Last + gap
}

// Outcome is how a job ended; "" is unknown.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	Killed Outcome = "killed" // by its user
)

// Bounds on what a trace may say. They are far above every public trace, and keep
// sums of a million jobs inside 64 bits.
const (
	MaxGPUs     = 1 << 20
	maxTime     = int64(100*365*24) * int64(model.Hour) // a century
	maxCount    = int64(1) << 50                        // iterations, memory, processors
	maxText     = 4096                                  // bytes of one text
	maxLine     = 1 << 20                               // bytes of one line
	maxEntry    = 8 << 20                               // bytes of one entry of a JSON array
	maxList     = 4096                                  // entries of a list inside a job
	maxFields   = 256                                   // columns
	maxPriority = 1 << 20
	// DefaultMaxBytes bounds a file's size after decompression.
	DefaultMaxBytes = int64(16) << 30
)
