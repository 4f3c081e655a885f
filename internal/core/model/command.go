package model

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/exit"
)

// Meta is a command's giver and idempotency key. A second command with the same subject
// and key gets the same answer and has no effect.
type Meta struct {
	Subject Subject `json:"subject"`
	Key     string  `json:"key,omitempty"`    // "" is never remembered
	Reason  string  `json:"reason,omitempty"` // why the server gave the command by itself
}

// Command is a request from outside. State.Check turns it into events or refuses it.
type Command interface{ command() Meta }

// Submit asks to accept a job.
type Submit struct {
	Meta
	Job *Job
}

// Stop asks to end a job. Reason is shown to users.
type Stop struct {
	Meta
	Job    JobID
	Reason string
}

// Reconfigure asks to replace the configuration while jobs run. Renamed and RenamedNodes
// say which VCs and nodes had another name; renames that are done already are ignored.
type Reconfigure struct {
	Meta
	Config       *Config
	Renamed      []Rename
	RenamedNodes []NodeRename
}

// Cordon takes a node out of placement (On) or back in. What runs there goes on, but if Drain is
// not 0 only until that time.
type Cordon struct {
	Meta
	Node   cell.NodeName
	On     bool
	Drain  Time
	Reason string
}

// MetaOf returns a command's Meta.
func MetaOf(c Command) Meta { return c.command() }

func (m Meta) command() Meta { return m }

// RefusalKind classes a refusal, so that each interface maps it in one place.
type RefusalKind string

// The kinds of refusal.
const (
	Invalid  RefusalKind = "invalid"   // the command is wrong in itself
	NotFound RefusalKind = "not_found" // it names something that does not exist
	Conflict RefusalKind = "conflict"  // it contradicts the present state
	Never    RefusalKind = "never_fits"
	Busy     RefusalKind = "busy" // try again later: a limit is reached
)

// Refusal is why a command was not accepted: the user's error, shown as it is.
type Refusal struct {
	Kind    RefusalKind
	Message string
	// Reason is set when a job can never fit.
	Reason *Reason
}

// Error gives the message alone.
func (r *Refusal) Error() string { return r.Message }

// Answer is what an accepted command did; zero values where it does not apply.
type Answer struct {
	Job JobID `json:"job,omitempty"`
	// Repeated is true when the command changed nothing, since it was given before.
	Repeated bool `json:"repeated,omitempty"`
	// Effects say what a new configuration did to jobs, once State.Report wrote them.
	Effects []string `json:"effects,omitempty"`
	// Warnings are changes of a new configuration that were probably not meant.
	Warnings []string `json:"warnings,omitempty"`

	Plan *ConfigPlan // what the configuration did before anything was decided on it
}

// Fact is something that happened in the world. It cannot be refused; a fact
// about an attempt that is over, or that repeats what is known, is ignored.
type Fact interface{ fact() }

// Each task fact names the attempt and the task's ordinal in its job.

// TaskStarted says that the task's process exists.
type TaskStarted struct {
	Attempt AttemptID `json:"attempt"`
	Task    int32     `json:"task"`
	Host    string    `json:"host,omitempty"` // address at which other tasks reach it
	PID     int32     `json:"pid,omitempty"`
	Ports   []int32   `json:"ports,omitempty"`
}

// TaskExited proves that the task, with all its descendants, is gone.
type TaskExited struct {
	Attempt AttemptID `json:"attempt"`
	Task    int32     `json:"task"`
	Exit    Exit      `json:"exit"`
}

// TaskRefused says that the task could not be started there and never ran.
type TaskRefused struct {
	Attempt AttemptID `json:"attempt"`
	Task    int32     `json:"task"`
	Reason  string    `json:"reason"`
	// Job is true when the fault is the job's own (no such directory, say) and
	// another node would not help; the node is then not blamed.
	Job bool `json:"job,omitempty"`
	// Fetch is true when the image could not be fetched from its registry, when something is wrong
	// that concerns its user alone, such as a folder that is closed to the user, or when others
	// have taken the room of the node. The job avoids the node for a while, and the node, where
	// other users' jobs run, is not blamed.
	Fetch bool `json:"fetch,omitempty"`
}

// Exit is how a task ended that never ran: as the job's own failure, or the node's.
func (e TaskRefused) Exit() Exit {
	if e.Job {
		return Exit{Code: 126, Message: e.Reason}
	}
	return Exit{Cause: StartRefused, Message: e.Reason, Fetch: e.Fetch}
}

// TaskUnknown says that nothing proves whether the task still lives; its leaves
// stay held until a TaskExited or TaskStarted says more.
type TaskUnknown struct {
	Attempt AttemptID `json:"attempt"`
	Task    int32     `json:"task"`
	Reason  string    `json:"reason"`
}

// NodeHealth says whether a node can run tasks. Tasks on a node that goes down
// become unknown.
type NodeHealth struct {
	Node   cell.NodeName `json:"node"`
	Up     bool          `json:"up"`
	Reason string        `json:"reason,omitempty"`
}

// LeafHealth says whether one device works. What runs there goes on.
type LeafHealth struct {
	Node   cell.NodeName `json:"node"`
	SKU    cell.TypeName `json:"sku"`
	Device int32         `json:"device"`
	Part   int32         `json:"part,omitempty"` // of a device in parts
	Good   bool          `json:"good"`
	// HeldByOthers says that it is not broken: somebody else's program has it.
	HeldByOthers bool `json:"held_by_others,omitempty"`
	// Cordoned says that it is not broken: what Comb runs on keeps new work from its node, such as
	// after kubectl cordon.
	Cordoned bool   `json:"cordoned,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Progress is what a task reported about itself. Zero values were not given.
type Progress struct {
	Attempt    AttemptID `json:"attempt"`
	Task       int32     `json:"task"`
	Step       int64     `json:"step,omitempty"`
	Total      int64     `json:"total,omitempty"`
	Loss       string    `json:"loss,omitempty"` // decimal text, as reported
	Iteration  Duration  `json:"iteration,omitempty"`
	MemoryMB   int64     `json:"memory_mb,omitempty"`
	Checkpoint bool      `json:"checkpoint,omitempty"` // all work up to now is saved
	// Use is what its devices were seen to do: the executor's own observation.
	Use *DeviceUse `json:"use,omitempty"`
}

// Notice is a warning about a job for its user, such as a limit not enforced. One that is about
// something holds while that lasts: until another one about the same, until one without a
// message says that it is over, or to the end of the job's last attempt that lives.
type Notice struct {
	Job     JobID  `json:"job"`
	Message string `json:"message"`
	About   string `json:"about,omitempty"` // such as "the image python:3.12"
}

func (TaskStarted) fact() {}

func (TaskExited) fact() {}

func (TaskRefused) fact() {}

func (TaskUnknown) fact() {}

func (NodeHealth) fact() {}

func (LeafHealth) fact() {}

func (Progress) fact() {}

func (Notice) fact() {}

// Exit is how a task ended.
type Exit struct {
	Code   int32 `json:"code"`             // exit code; 128+signal when a signal ended it
	Signal int32 `json:"signal,omitempty"` // the signal, 0 if none
	// Cause is set when the platform, not the task, made it end.
	Cause   ExitCause `json:"cause,omitempty"`
	Message string    `json:"message,omitempty"`
	// Own is true when the task had ended by itself before any stop reached it.
	// An exit of a stopping attempt without Own counts as caused by the stop.
	Own bool `json:"own,omitempty"`
	// At is when the task itself ended, by the clock of its machine: facts of several tasks may
	// come together, or late. 0 is not known.
	At Time `json:"at,omitempty"`
	// Rule is the rule of the cluster file that fits the exit. It is set when the fact is accepted.
	Rule *exit.Ruling `json:"rule,omitempty"`
	// Saved says that the task ended with 0 since it was told to stop for others, and has work left
	// as far as is known. It is set when the fact is accepted, so that older journals keep their
	// meaning.
	Saved bool `json:"saved,omitempty"`
	// Fetch is TaskRefused.Fetch of a refused start: not the node's fault.
	Fetch bool `json:"fetch,omitempty"`
}

// ExitCause is a platform's reason for a task's end.
type ExitCause string

// The platform's causes; "" is the task's own doing (or a stop that was asked).
const (
	SupervisorLost ExitCause = "supervisor lost" // its supervisor died; the tree was killed
	NodeRebooted   ExitCause = "node rebooted"
	OutOfMemory    ExitCause = "out of memory" // the task's own limit
	NeverStarted   ExitCause = "never started" // stopped before it was started
	StartRefused   ExitCause = "start refused" // the node refused it: it never ran
	NodeLost       ExitCause = "node lost"
	// PodDeleted is of a task whose pod somebody else deleted. Its node is there and is not blamed.
	PodDeleted ExitCause = "pod deleted"
	GraceOver  ExitCause = "grace over" // it had not ended when its grace was over, and was killed
	// SuspendTimeout is of a task that did not acknowledge its suspension in time: it
	// was given its grace for a checkpoint and stopped. No retry is counted.
	SuspendTimeout ExitCause = "suspend timed out"
	// TooManyProcesses is the task's own limit, too: it refused a process, and the task failed.
	TooManyProcesses ExitCause = "too many processes"
)

// Accountable reports whether a failure with this cause counts as the job's.
func (c ExitCause) Accountable() bool {
	return c == "" || c == OutOfMemory || c == GraceOver || c == TooManyProcesses
}

// DeclareDead says that a node is dead, on a user's word: unknown tasks there count as ended though
// nothing proves it.
type DeclareDead struct {
	Meta
	Node   cell.NodeName
	Reason string
}

// OnNode is what one job has on one node.
type OnNode struct {
	Job     JobID        `json:"job"`
	Leaves  int32        `json:"leaves"`
	State   AttemptState `json:"state"`
	Attempt AttemptID    `json:"attempt"`
}

// Commands about jobs that have not ended, besides Stop.

// Hold keeps a waiting job from starting (On), or lets it start again.
type Hold struct {
	Meta
	Job    JobID
	On     bool
	Reason string
}

// Requeue asks to stop what runs of a job, with its grace, so that it waits again; with Hold it is
// held from then on.
type Requeue struct {
	Meta
	Job    JobID
	Hold   bool
	Reason string
}

// Update gives a job another priority or time limit; nil leaves it as it is. A time limit of 0 is
// none.
type Update struct {
	Meta
	Job       JobID
	Priority  *cell.Priority
	TimeLimit *Duration
}

// JobHeld accepts a hold, or its end.
type JobHeld struct {
	Job    JobID  `json:"job"`
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"`
	Meta   Meta   `json:"meta"`
}

// JobRequeued accepts that what runs of a job is stopped and waits again.
type JobRequeued struct {
	Job    JobID  `json:"job"`
	Hold   bool   `json:"hold,omitempty"`
	Reason string `json:"reason,omitempty"`
	Meta   Meta   `json:"meta"`
}

// JobUpdated accepts another priority or time limit.
type JobUpdated struct {
	Job       JobID          `json:"job"`
	Priority  *cell.Priority `json:"priority,omitempty"`
	TimeLimit *Duration      `json:"time_limit,omitempty"`
	Meta      Meta           `json:"meta"`
}

// On returns a copy of a job with the update.
func (e JobUpdated) On(spec *Job) *Job {
	out := *spec
	if e.Priority != nil {
		out.Priority = *e.Priority
	}
	if e.TimeLimit != nil {
		out.TimeLimit = *e.TimeLimit
	}
	return &out
}

func (JobHeld) event() Kind { return "JobHeld" }

func (JobRequeued) event() Kind { return "JobRequeued" }

func (JobUpdated) event() Kind { return "JobUpdated" }

// Seen is the exit in the form that exit rules judge.
func (x *Exit) Seen() exit.Observed {
	return exit.Observed{Code: x.Code, Signal: x.Signal, Cause: string(x.Cause), EndedItself: x.Own, LastLine: x.Message, Rule: x.Rule}
}

// Zero reports whether a task's program ended with exit code 0, and not by the platform; false for
// nil.
func (x *Exit) Zero() bool { return x != nil && x.Code == 0 && x.Cause == "" }
