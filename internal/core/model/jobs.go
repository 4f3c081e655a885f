// Package model has the values that the core and its users share: jobs and their
// gangs, attempts and how they end, events and commands, the configuration and the
// differences between two, reasons, status, resources, what a change does to jobs, and
// the contract of policies. It has no decisions: other packages make and store these.
package model

import (
	"fmt"
	"strings"

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

// ShownTo is how a reader refers to a user's job: NAME if the reader is that user, else
// USER~NAME. user is "" if the reader may not know it; then it is NAME, too.
func (n JobName) ShownTo(reader, user Subject) string {
	if reader == user || user == "" {
		return string(n)
	}
	return string(user) + "~" + string(n)
}

// Subject is the one that gives a command: a user, or "system".
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
	LazyPreempt bool     `json:"lazy_preempt,omitempty"` // may be demoted instead of stopped
	Grace       Duration `json:"grace"`                  // between SIGTERM and SIGKILL
	TimeLimit   Duration `json:"time_limit,omitempty"`   // of one attempt's running time; 0 is none
	// Size is how many members an elastic job begins with if its VC's policy does not say,
	// and for which it declares its run time; 0 is all.
	Size int32 `json:"size,omitempty"`
	// AllowedNodes restricts placement; empty allows every node. AvoidedNodes are
	// never used, PreferredNodes are used first among equally good ones.
	AllowedNodes   []cell.NodeName `json:"allowed_nodes,omitempty"`
	AvoidedNodes   []cell.NodeName `json:"avoided_nodes,omitempty"`
	PreferredNodes []cell.NodeName `json:"preferred_nodes,omitempty"`
	Hints          Hints           `json:"hints"`
	// Storages are names of those that its tasks see, and Upload is the digest of its code. The
	// core only carries them.
	Storages []string `json:"storages,omitempty"`
	Upload   string   `json:"upload,omitempty"`
	// UID and GID are the numbers under which its tasks run on the nodes: those of its user when it
	// was submitted, 0 for not given. Numbered says that they were looked up at submission. Jobs of
	// older journals are not Numbered, and have the numbers of each start. The core only carries
	// them.
	UID      uint32 `json:"uid,omitempty"`
	GID      uint32 `json:"gid,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	// Foreign is the workload of Kubernetes that the job stands for; nil for a job of Comb's own.
	Foreign *Foreign `json:"foreign,omitempty"`
	// Source is the job file as submitted, without the values of its secrets.
	Source string `json:"source,omitempty"`
}

// Foreign names an object of Kubernetes, made by others, whose pods are the tasks of a job. The
// core only carries it.
type Foreign struct {
	Kind      string `json:"kind"` // Pod, or that of the object that makes the pods, such as Job
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String is the object as kubectl names it: "job/train in namespace team".
func (f *Foreign) String() string {
	return strings.ToLower(f.Kind) + "/" + f.Name + " in namespace " + f.Namespace
}

// Restricted reports whether a job may not use all nodes.
func (j *Job) Restricted() bool { return len(j.AllowedNodes)+len(j.AvoidedNodes) > 0 }

// Partial reports whether a job has members above its minimum.
func (j *Job) Partial() bool { return len(j.Gangs) > 1 && j.Gangs[1].Extra }

// Sizes returns the numbers of members that a job can have. The job must be partial.
func (j *Job) Sizes() Sizes {
	least := int32(len(j.Gangs[0].Tasks))
	z := Sizes{Least: least, Most: least + int32(len(j.Gangs)) - 1}
	if z.Usual = j.Size; z.Usual == 0 {
		z.Usual = z.Most
	}
	return z
}

// UsualSize is how many members a job begins with; 0 for a job that is not elastic.
func (j *Job) UsualSize() int32 {
	if !j.Partial() {
		return 0
	}
	return j.Sizes().Usual
}

// Sizes are how many members a job can have; all 0 for a job that is not elastic.
type Sizes struct {
	Least, Most int32
	// Usual is how many it begins with if no policy says, and for which it declares its run
	// time. Now is the size that it was given last.
	Usual, Now   int32
	Live         int32 // members that hold cells; of those above Least also the ones with a promise alone
	Runs         int32 // members of Live that start or run
	MemberLeaves int32 // leaves of the largest member above the least
}

// Role is a set of identical tasks.
type Role struct {
	Name   string `json:"name"`
	Tasks  int32  `json:"tasks"`
	Leaves int32  `json:"leaves"` // leaves per task, at least 1
	// SKUs are those that the role may run on, sorted; none allows any. All of
	// the gang's roles with equal sets go to one chain when they can.
	SKUs []cell.TypeName `json:"skus,omitempty"`
	// OneSKU says that all tasks of a gang whose roles have it run on one SKU, any that all of
	// them may use. Only roles that name no SKU have it.
	OneSKU bool          `json:"one_sku,omitempty"`
	Pinned cell.PinnedID `json:"pinned,omitempty"` // places the role in that pinned cell
	// MinFailed tasks failed fail the job's attempt, MinSucceeded succeeded end
	// it well; -1 disables either (FrameworkController's completion policy).
	MinFailed    int32  `json:"min_failed"`
	MinSucceeded int32  `json:"min_succeeded"`
	TaskRetries  int32  `json:"task_retries,omitempty"` // only for incremental jobs
	Launch       Launch `json:"launch"`
}

// Gang is a set of tasks that start together or not at all. Every task of a job is in
// exactly one gang. An incremental job has a gang for each task.
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
	// Command are shell lines, run in order by one shell with -e off, as OpenPAI does. Without any
	// the image runs its own command.
	Command  []string `json:"command"`
	Image    string   `json:"image,omitempty"`
	Pull     string   `json:"pull,omitempty"` // "always": the job's first start pulls the image anew
	Env      []EnvVar `json:"env,omitempty"`
	Ports    []Port   `json:"ports,omitempty"`
	GPU      int64    `json:"gpu,omitempty"`
	MilliCPU int64    `json:"milli_cpu,omitempty"`
	MemoryMB int64    `json:"memory_mb,omitempty"`
	ShmMB    int64    `json:"shm_mb,omitempty"`
	DiskMB   int64    `json:"disk_mb,omitempty"`  // of a container; 0 is what the runtime gives
	WorkDir  string   `json:"work_dir,omitempty"` // "" is the attempt's own directory
	// Limits are those of each process; where one is 0 the SKU's holds.
	Limits cell.TaskLimits `json:"limits,omitzero"`
	// InfiniBand says that it asks for the RDMA devices of its nodes.
	InfiniBand bool `json:"infiniband,omitempty"`
}

// Asks is what a task asks for.
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
	// ExitZeroMeansDone says that a task which ends with 0 after it was told to stop for others has
	// done its work, also if it keeps checkpoints.
	ExitZeroMeansDone bool `json:"exit_zero_means_done,omitempty"`
	Backfill          bool `json:"backfillable,omitempty"`
	Packable          bool `json:"packable,omitempty"`
	Suspendable       bool `json:"suspendable,omitempty"`
	// Suspend is how its tasks are prepared for a suspension; nil is not at all.
	Suspend *SuspendContract `json:"suspend,omitempty"`
	// MembersSignal tells its tasks that a member came or went; "" tells them nothing.
	MembersSignal string      `json:"members_signal,omitempty"`
	Dedicated     bool        `json:"dedicated,omitempty"`
	Roles         []RoleHints `json:"roles,omitempty"`
}

// SuspendContract is for a job whose tasks reduce their device memory to a minimum before they are
// suspended, and acknowledge that. Such a job keeps hardly any device memory while suspended.
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

// Varies reports whether tasks of a job may start and stop while other tasks of it run.
func (j *Job) Varies() bool { return len(j.Gangs) > 1 }
