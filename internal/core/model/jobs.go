// Package model has what the core and its users speak about, as values: jobs and
// their gangs, attempts and how they end, the configuration and what differs
// between two, reasons, status, resources, and what a change does to jobs. It must
// not know how any of it comes about: what decides, explains or stores them does.
package model

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
)

// Time is microseconds since the Unix epoch; 0 is "not yet". It never goes back.
type Time int64

// Add returns t + d, saturating at the ends of the range.
func (t Time) Add(d Duration) Time {
	sum := t + Time(d)
	if d > 0 && sum < t {
		return Time(1<<63 - 1)
	}
	return sum
}

// JobID numbers jobs from 1 in order of acceptance and is never reused.
type JobID int64

// Before implements collections.HeapItem: the earlier accepted job comes out first.
func (id JobID) Before(other JobID) bool { return id < other }

// JobName is what a user calls a job. It is unique among the jobs of that user that
// have not ended; when a job ended, its name may be used again.
type JobName string

// To is how the job of a user is called where a reader meets it: NAME by its own user,
// USER~NAME by all others; one whose user the reader may not know has none.
func (n JobName) To(reader, user Subject) string {
	if reader == user || user == "" {
		return string(n)
	}
	return string(user) + "~" + string(n)
}

// Subject is the giver of a command: a user, or "system".
type Subject string

// AttemptID names one attempt to run one gang. N counts from 1 for each gang and
// never repeats, so a fact about an old attempt can be told from a new one's.
type AttemptID struct {
	Job  JobID `json:"job"`
	Gang int32 `json:"gang"`
	N    int32 `json:"n"`
}

// String gives "job.gang.n", the form used in paths and in what users read.
func (a AttemptID) String() string { return fmt.Sprintf("%d.%d.%d", a.Job, a.Gang, a.N) }

// Job is what was submitted, resolved and checked; it never changes afterwards.
type Job struct {
	Name     JobName       `json:"name"`
	User     Subject       `json:"user"`
	VC       cell.VCName   `json:"vc"`
	Priority cell.Priority `json:"priority"`
	Roles    []Role        `json:"roles"`
	Gangs    []Gang        `json:"gangs"`
	// Retries is OpenPAI's jobRetryCount: n accountable failures are retried;
	// -1 any number; -2 for ever, even after success, without classification.
	Retries     int32    `json:"retries,omitempty"`
	LazyPreempt bool     `json:"lazy_preempt,omitempty"` // may become opportunistic instead of being stopped
	Grace       Duration `json:"grace"`                  // between SIGTERM and SIGKILL
	TimeLimit   Duration `json:"time_limit,omitempty"`   // of one attempt's running time; 0 is none
	// Size is how many members an elastic job begins with where its VC's policy does not
	// say, and those for which it declares its run time; 0 is all.
	Size int32 `json:"size,omitempty"`
	// AllowedNodes restricts placement; empty allows every node. AvoidedNodes are
	// never used, PreferredNodes are used first among equally good ones.
	AllowedNodes   []cell.NodeName `json:"allowed_nodes,omitempty"`
	AvoidedNodes   []cell.NodeName `json:"avoided_nodes,omitempty"`
	PreferredNodes []cell.NodeName `json:"preferred_nodes,omitempty"`
	Hints          Hints           `json:"hints"`
	Storages       []string        `json:"storages,omitempty"` // those that its tasks see; the core only carries them
	Upload         string          `json:"upload,omitempty"`   // the digest of its code; the core only carries it
	// UID and GID are the numbers of the machines with which its tasks run, those of its user when
	// it was submitted; 0 is that nothing is said. Numbered is that they were asked for then: jobs
	// of journals from before that are not, and have those of each start. The core only carries
	// them.
	UID      uint32 `json:"uid,omitempty"`
	GID      uint32 `json:"gid,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	// Source is the job file as submitted, without the values of its secrets.
	Source string `json:"source,omitempty"`
}

// Restricted reports whether a job may not use all nodes.
func (j *Job) Restricted() bool { return len(j.AllowedNodes)+len(j.AvoidedNodes) > 0 }

// Partial reports whether a job has members above its minimum.
func (j *Job) Partial() bool { return len(j.Gangs) > 1 && j.Gangs[1].Extra }

// Sizes returns what a job can have; only of a partial one.
func (j *Job) Sizes() Sizes {
	least := int32(len(j.Gangs[0].Tasks))
	z := Sizes{Least: least, Most: least + int32(len(j.Gangs)) - 1}
	if z.Usual = j.Size; z.Usual == 0 {
		z.Usual = z.Most
	}
	return z
}

// UsualSize is with how many members a job begins; 0 of one that has one size.
func (j *Job) UsualSize() int32 {
	if !j.Partial() {
		return 0
	}
	return j.Sizes().Usual
}

// Sizes are how many members a job can have; all 0 of a job that is not elastic.
type Sizes struct {
	Least, Most int32
	// Usual is how many it begins with where no policy says, and those for which it
	// declares its run time; Now is what it was given last.
	Usual, Now int32
	Live       int32 // how many hold cells; those above the least also where they were promised some
	Runs       int32 // of these, those that start or run
	Each       int32 // leaves of a member above the least, of the largest
}

// Role is a set of identical tasks.
type Role struct {
	Name   string `json:"name"`
	Tasks  int32  `json:"tasks"`
	Leaves int32  `json:"leaves"` // leaves per task, at least 1
	// SKUs are those that the role may run on, sorted; none allows any. All of
	// the gang's roles with equal sets go to one chain when they can.
	SKUs []cell.TypeName `json:"skus,omitempty"`
	// OneSKU is of a role that names no SKU: all such tasks of a gang run on one, whichever
	// of those it is that all may use.
	OneSKU bool          `json:"one_sku,omitempty"`
	Pinned cell.PinnedID `json:"pinned,omitempty"` // places the role in that pinned cell
	// MinFailed tasks failed fail the job's attempt, MinSucceeded succeeded end
	// it well; -1 disables either (FrameworkController's completion policy).
	MinFailed    int32  `json:"min_failed"`
	MinSucceeded int32  `json:"min_succeeded"`
	TaskRetries  int32  `json:"task_retries,omitempty"` // only for incremental jobs
	Launch       Launch `json:"launch"`
}

// Gang is a set of tasks that start together or not at all. An incremental job
// has one gang per task. Every task of a job is in exactly one gang.
type Gang struct {
	Name string `json:"name"`
	// Tasks are ordinals: tasks are numbered through all roles in their order.
	Tasks []int32 `json:"tasks"`
	// Extra gangs are the members above a partial gang's minimum, one task each:
	// gang 0 is the minimum, an extra one starts only while that lives, ends with
	// it, and is the first to be preempted.
	Extra bool `json:"extra,omitempty"`
}

// Port is a named block of ports that each task of a role asks for.
type Port struct {
	Label string `json:"label"`
	Count int32  `json:"count"`
}

// Launch is what the executor needs to start a task; the core only carries it.
// Command may hold <% $secrets.x %> references, which only the executor fills.
type Launch struct {
	// Command are shell lines, run in order by one shell with -e off, as OpenPAI does; none is what
	// the image runs by itself.
	Command  []string `json:"command"`
	Image    string   `json:"image,omitempty"`
	Pull     string   `json:"pull,omitempty"` // "always": the job's first start fetches it though it is there
	Env      []EnvVar `json:"env,omitempty"`
	Ports    []Port   `json:"ports,omitempty"`
	GPU      int64    `json:"gpu,omitempty"`
	MilliCPU int64    `json:"milli_cpu,omitempty"`
	MemoryMB int64    `json:"memory_mb,omitempty"`
	ShmMB    int64    `json:"shm_mb,omitempty"`
	DiskMB   int64    `json:"disk_mb,omitempty"`  // of a container; 0 is what the runtime gives
	WorkDir  string   `json:"work_dir,omitempty"` // "" is the attempt's own directory
	// Limits are of each process; what is 0 is that of the SKU.
	Limits cell.TaskLimits `json:"limits,omitzero"`
	// InfiniBand is that it asks for the devices of RDMA networks that its nodes have.
	InfiniBand bool `json:"infiniband,omitempty"`
}

// Asks is what a task asks of its machine.
func (l *Launch) Asks() Ask {
	return Ask{GPU: l.GPU, Limits: Limits{MilliCPU: l.MilliCPU, MemoryMB: l.MemoryMB}}
}

// EnvVar is one variable of a task's environment.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Hints are the keys of extras.comb that policies read; the core keeps them.
type Hints struct {
	Class       string     `json:"class,omitempty"` // strict, soft or besteffort
	Deadlines   []Deadline `json:"deadlines,omitempty"`
	Duration    Duration   `json:"duration,omitempty"`
	Iterations  int64      `json:"iterations,omitempty"`
	Model       string     `json:"model,omitempty"`
	GPUMemoryMB int64      `json:"gpu_memory_mb,omitempty"`
	Queue       string     `json:"queue,omitempty"`
	App         string     `json:"app,omitempty"`
	Checkpoint  bool       `json:"checkpoint,omitempty"`
	// ExitZeroMeansDone says that a task which ends with 0 after it was told to make room has done
	// its work, whatever it keeps.
	ExitZeroMeansDone bool `json:"exit_zero_means_done,omitempty"`
	Backfill          bool `json:"backfillable,omitempty"`
	Packable          bool `json:"packable,omitempty"`
	Suspendable       bool `json:"suspendable,omitempty"`
	// Suspend is how its tasks are asked before they are suspended; nil asks for nothing.
	Suspend *SuspendContract `json:"suspend,omitempty"`
	// MembersSignal tells its tasks that a member came or went; "" tells them nothing.
	MembersSignal string      `json:"members_signal,omitempty"`
	Dedicated     bool        `json:"dedicated,omitempty"`
	Roles         []RoleHints `json:"roles,omitempty"`
}

// SuspendContract is of a job whose tasks bring themselves to their memory minimum
// before they are suspended, and acknowledge that. A job that has one leaves
// hardly anything in the memory of its devices while it is suspended.
type SuspendContract struct {
	Signal  string   `json:"signal"`  // asks a task, such as "USR1"
	Timeout Duration `json:"timeout"` // for the acknowledgement
}

// RoleHints are the per-role keys of extras.comb; 0 is "not given".
type RoleHints struct {
	Role         string `json:"role"`
	MinInstances int32  `json:"min_instances,omitempty"`
	ElasticMin   int32  `json:"elastic_min,omitempty"`
	ElasticMax   int32  `json:"elastic_max,omitempty"`
}

// Deadline is one step of a job's value over time since submission.
type Deadline struct {
	After Duration `json:"after"`
	Value int64    `json:"value"`
}

// Varies reports whether tasks of a job may come and go while others of it run.
func (j *Job) Varies() bool { return len(j.Gangs) > 1 }
