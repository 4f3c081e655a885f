package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// Event is one entry of the stream that is the database. Inputs become events (accepted commands
// and facts), and so do decisions; Apply is the only code that turns events into state. An event
// names everything it changes, so that nothing is decided again at replay.
//
//	inputs:    JobSubmitted StopRequested JobHeld JobRequeued JobUpdated Configured NodeCordoned
//	           Foretold, and every Fact
//	decisions: Placed Joined Rotated Reserved Unreserved Booked Sized StopSent LazilyPreempted
//	           Upgraded Doomed Spared AttemptEnded TaskRetried JobCompleting JobRetried JobEnded
//	           NodeAvoided NodeSuspected Noted Decided Quarantined PolicyFailed
//	repairs:   Lost
type Event interface{ event() Kind }

// Kind names an event's type in the journal. Versions are in codec.go.
type Kind string

// Record is an event with its place in the stream. Seq counts from 1.
type Record struct {
	Seq   uint64
	Time  Time
	Event Event
}

// JobSubmitted accepts a job.
type JobSubmitted struct {
	ID   JobID `json:"id"`
	Job  *Job  `json:"job"`
	Meta Meta  `json:"meta"`
}

// StopRequested accepts a stop.
type StopRequested struct {
	Job    JobID  `json:"job"`
	Reason string `json:"reason,omitempty"`
	Meta   Meta   `json:"meta"`
}

// Configured replaces the configuration. Moves say, for every attempt and
// reservation that holds leaves, where it stands in the new cluster.
type Configured struct {
	Config *Config `json:"config"`
	Moves  []Move  `json:"moves,omitempty"`
	// Renamed VCs take their jobs along, renamed nodes what is known about them.
	Renamed      []Rename     `json:"renamed,omitempty"`
	RenamedNodes []NodeRename `json:"renamed_nodes,omitempty"`
	Meta         Meta         `json:"meta"`
}

// Move carries one attempt or reservation over to a new configuration. Leaves
// that the new cluster lacks are dropped from Placement; an attempt that lost
// some is Orphaned: it runs on, drains and is still accounted to its job. Lazy
// is set when its guarantee did not survive: it becomes opportunistic.
type Move struct {
	Attempt   AttemptID      `json:"attempt"`
	Placement cell.Placement `json:"placement"`
	// Lazy and Regained say that it loses its guarantee, or has it back; else that is as it was.
	Lazy     bool `json:"lazy,omitempty"`
	Regained bool `json:"regained,omitempty"`
	Orphaned bool `json:"orphaned,omitempty"`
	// Drains are leaves of devices that are divided in other parts than when the attempt was
	// started, maybe since an earlier configuration. Other attempts may hold some of them. All
	// count as bad until this attempt has ended.
	Drains []cell.LeafID `json:"drains,omitempty"`
}

// NodeCordoned takes a node out of placement (On) or back in. If Drain is not 0, what still runs
// there at that time is stopped with its grace and waits again. Dead declares the node dead: the
// ends of its tasks follow.
type NodeCordoned struct {
	Node   cell.NodeName `json:"node"`
	On     bool          `json:"on"`
	Drain  Time          `json:"drain,omitempty"`
	Dead   bool          `json:"dead,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Meta   Meta          `json:"meta"`
}

// Placed gives a gang its cells and starts its attempt. A gang that had a
// reservation takes exactly its cells.
type Placed struct {
	Attempt   AttemptID      `json:"attempt"`
	Placement cell.Placement `json:"placement"`
}

// Reserved promises cells to a gang, which starts when all Victims are dead. The
// victims' StopSent events follow in the same batch. Without victims the gang is
// relocated to these cells, and its own StopSent came right before. The attempt id is
// the one that Placed will use.
type Reserved struct {
	Attempt   AttemptID      `json:"attempt"`
	Placement cell.Placement `json:"placement"`
	Victims   []AttemptID    `json:"victims"`
}

// Unreserved takes a promise back: the gang waits again. Stops already sent go on.
type Unreserved struct {
	Attempt AttemptID `json:"attempt"`
	Reason  string    `json:"reason"`
}

// Booked books cells of its VC for a waiting gang, at a time that declared limits
// imply: gangs may be backfilled only where that does not delay it. A later Booked
// replaces it; it is over when the gang gets cells or stops waiting.
type Booked struct {
	Job  JobID `json:"job"`
	Gang int32 `json:"gang"`
	// Start is the latest time at which its cells are free, unless gangs that run or are booked
	// there before it take a while to start. 0 is not known: jobs in After have no limit.
	Start Time `json:"start,omitempty"`
	// Turn numbers bookings in the order in which they were made: gangs that were booked later, or
	// are not, do not delay it. Since is when it was made. First is the earliest Start since then,
	// if that is another: gangs that came later must be gone by then, or by when those before it
	// are.
	Turn  int64   `json:"turn,omitempty"`
	Since Time    `json:"since,omitempty"`
	First Time    `json:"first,omitempty"`
	After []JobID `json:"after,omitempty"` // jobs without a limit that hold its cells
	// Leaves and Binds are the cells kept; without them they are found anew at
	// each decision.
	Leaves []cell.LeafID `json:"leaves,omitempty"`
	Binds  []cell.Bind   `json:"binds,omitempty"`
	Over   string        `json:"over,omitempty"` // why it is taken back
}

// Sized says how many members an elastic job may have from now on: the first so many.
// It comes with a start and when a policy gives the job another size.
type Sized struct {
	Job  JobID `json:"job"`
	Size int32 `json:"size"`
}

// StopSent asks the executor to end an attempt. It is irrevocable.
type StopSent struct {
	Attempt AttemptID  `json:"attempt"`
	Cause   EndCause   `json:"cause"`
	Grace   Duration   `json:"grace"`
	By      *AttemptID `json:"by,omitempty"` // the preemptor
	// For is the VC whose cells the attempt has, which lends nothing any more.
	For cell.VCName `json:"for,omitempty"`
	// Nodes are where a gang that is migrated runs next; Reserved says it in full.
	Nodes []cell.NodeName `json:"nodes,omitempty"`
}

// Joined starts an attempt on the leaves that Host holds, and maybe others already: the
// same leaves for the same tasks, with no bindings of its own. A Rotated that names all
// of them follows in the same batch.
type Joined struct {
	Attempt   AttemptID      `json:"attempt"`
	Host      AttemptID      `json:"host"`
	Placement cell.Placement `json:"placement"`
}

// Rotated says how the attempts that share leaves take turns from now on. Each live
// attempt is in it once. It comes when one joins or has ended, and when the turns
// change. A single attempt that is left has the only turn.
type Rotated struct {
	Rotation
}

// LazilyPreempted makes a guaranteed attempt opportunistic: it keeps its leaves
// and gives its VC's cells back.
type LazilyPreempted struct {
	Attempt AttemptID   `json:"attempt"`
	With    []AttemptID `json:"with,omitempty"` // attempts that share its leaves: demoted as well
	By      *AttemptID  `json:"by,omitempty"`
}

// Upgraded gives a lazily preempted attempt its guarantee back, on the leaves
// that it runs on: Binds are the preassigned cells around them.
type Upgraded struct {
	Attempt AttemptID   `json:"attempt"`
	With    []AttemptID `json:"with,omitempty"` // attempts that share its leaves: upgraded as well
	Binds   []cell.Bind `json:"binds"`
}

// Doomed charges bad hardware to a VC: one of its unbound preassigned cells is
// bound to a bad cell, since there are fewer healthy cells than are guaranteed.
type Doomed struct {
	VC   cell.VCName `json:"vc"`
	Root cell.RootID `json:"root"`
	Cell cell.CellID `json:"cell"`
	// Container is set when the cell is one that the VC's children divide.
	Container bool `json:"container,omitempty"`
}

// Spared is the inverse of Doomed: enough healthy cells exist again.
type Spared struct {
	VC        cell.VCName `json:"vc"`
	Root      cell.RootID `json:"root"`
	Container bool        `json:"container,omitempty"`
}

// AttemptEnded frees the attempt's cells: every task is proven dead.
type AttemptEnded struct {
	Attempt AttemptID `json:"attempt"`
	Cause   EndCause  `json:"cause"`
	Message string    `json:"message,omitempty"`
}

// TaskRetried lets a gang run again after its attempt ended, within the same
// attempt of the job: after a preemption, a refusal, a platform fault, or (an
// incremental task) a failure with task retries left.
type TaskRetried struct {
	Job     JobID `json:"job"`
	Gang    int32 `json:"gang"`
	Counted bool  `json:"counted,omitempty"`
	After   Time  `json:"after,omitempty"` // not before
}

// JobCompleting decides how the job's present attempt ends; what still runs of
// it is stopped, and then the job is retried or ends.
type JobCompleting struct {
	Job     JobID    `json:"job"`
	Phase   Phase    `json:"phase"` // Succeeded, Failed or Stopped
	Cause   EndCause `json:"cause"`
	Exit    Exit     `json:"exit"`
	Task    int32    `json:"task"` // the task that decided it, -1 if none
	Message string   `json:"message,omitempty"`
}

// JobRetried starts the job's next attempt: every gang waits again.
type JobRetried struct {
	Job     JobID  `json:"job"`
	Counted bool   `json:"counted"`
	After   Time   `json:"after,omitempty"`
	Message string `json:"message,omitempty"`
}

// JobEnded is final. The job leaves State for the table of finished jobs.
type JobEnded struct {
	Job     JobID    `json:"job"`
	Phase   Phase    `json:"phase"` // Succeeded, Failed or Stopped
	Cause   EndCause `json:"cause"`
	Exit    Exit     `json:"exit"` // of the task that decided it
	Message string   `json:"message,omitempty"`
}

// NodeAvoided makes a gang avoid a node after a refusal, for a growing time.
type NodeAvoided struct {
	Job   JobID         `json:"job"`
	Gang  int32         `json:"gang"`
	Node  cell.NodeName `json:"node"`
	Until Time          `json:"until"`
}

// NodeSuspected takes a node that refused several jobs out of placement.
type NodeSuspected struct {
	Node   cell.NodeName `json:"node"`
	Until  Time          `json:"until"` // 0 ends the suspicion
	Reason string        `json:"reason,omitempty"`
}

// Noted is what a policy must remember of a job, or with job 0 of its VC.
type Noted struct {
	VC     cell.VCName `json:"vc"`
	Policy string      `json:"policy"`
	Job    JobID       `json:"job"`
	Data   []byte      `json:"data"`
}

// Decided marks that Decide ran. Digest covers the decision events of the batch,
// so that a journal can be verified by deciding again with the same Version.
type Decided struct {
	Now     Time   `json:"now"`
	Through uint64 `json:"through"` // the last input event that Decide saw
	Digest  string `json:"digest"`
	Version string `json:"version"`
	// Again asks for another decision right after this one.
	Again bool `json:"again,omitempty"`
	// For names the VCs that it is for, in order; none is all.
	For []cell.VCName `json:"for,omitempty"`
}

// Quarantined sets a job aside since a decision on it panicked. The first time it loses
// its promises, is never placed again and can only be stopped. The second time its attempts
// may only end, by facts or a stop. The third time nothing is decided on it any more, and it
// keeps the cells that it holds.
type Quarantined struct {
	Job   JobID  `json:"job"`
	Stack string `json:"stack"`           // hash of the stack
	Times int32  `json:"times,omitempty"` // how often by now; left out is once
}

// PolicyFailed says that the policy of a VC panicked, or was accepted by another version of the
// program and cannot be made by this one. Until the next configuration fifo without parameters
// serves the VC. The policy's notes are forgotten.
type PolicyFailed struct {
	VC     cell.VCName `json:"vc"`
	Policy string      `json:"policy"`          // the one that failed
	Stack  string      `json:"stack,omitempty"` // hash of the stack
	Why    string      `json:"why,omitempty"`   // it cannot be made
}

// Lost stands in place of an event that is lost: the journal was damaged, and the operator chose to
// go on without the events First to Last. There is one for each of them, so that no sequence number
// is given twice. The last one has the numbers below which jobs and attempts are not new.
type Lost struct {
	First uint64 `json:"first,omitempty"` // 0: nothing is known to be gone
	Last  uint64 `json:"last,omitempty"`
	// NextJob is above every job that was ever seen.
	NextJob JobID `json:"next_job,omitempty"`
	// Attempts are, of gangs whose jobs are known, the last attempts that were seen. Their
	// numbers are not given again.
	Attempts []AttemptID `json:"attempts,omitempty"`
	Reason   string      `json:"reason,omitempty"`
}

func (JobSubmitted) event() Kind { return "JobSubmitted" }

func (StopRequested) event() Kind { return "StopRequested" }

func (Configured) event() Kind { return "Configured" }

func (NodeCordoned) event() Kind { return "NodeCordoned" }

func (TaskStarted) event() Kind { return "TaskStarted" }

func (TaskExited) event() Kind { return "TaskExited" }

func (TaskRefused) event() Kind { return "TaskRefused" }

func (TaskUnknown) event() Kind { return "TaskUnknown" }

func (NodeHealth) event() Kind { return "NodeHealth" }

func (LeafHealth) event() Kind { return "LeafHealth" }

func (Progress) event() Kind { return "Progress" }

func (Notice) event() Kind { return "Notice" }

func (Placed) event() Kind { return "Placed" }

func (Reserved) event() Kind { return "Reserved" }

func (Unreserved) event() Kind { return "Unreserved" }

func (Booked) event() Kind { return "Booked" }

func (Sized) event() Kind { return "Sized" }

func (StopSent) event() Kind { return "StopSent" }

func (Joined) event() Kind { return "Joined" }

func (Rotated) event() Kind { return "Rotated" }

func (LazilyPreempted) event() Kind { return "LazilyPreempted" }

func (Upgraded) event() Kind { return "Upgraded" }

func (Doomed) event() Kind { return "Doomed" }

func (Spared) event() Kind { return "Spared" }

func (AttemptEnded) event() Kind { return "AttemptEnded" }

func (TaskRetried) event() Kind { return "TaskRetried" }

func (JobCompleting) event() Kind { return "JobCompleting" }

func (JobRetried) event() Kind { return "JobRetried" }

func (JobEnded) event() Kind { return "JobEnded" }

func (NodeAvoided) event() Kind { return "NodeAvoided" }

func (NodeSuspected) event() Kind { return "NodeSuspected" }

func (Noted) event() Kind { return "Noted" }

func (Decided) event() Kind { return "Decided" }

func (Quarantined) event() Kind { return "Quarantined" }

func (PolicyFailed) event() Kind { return "PolicyFailed" }

func (Lost) event() Kind { return "Lost" }

// KindOf returns the name under which an event is journalled.
func KindOf(e Event) Kind { return e.event() }

// Foretold tells the owner of a running job what will happen to it and when, or that it will not
// happen. It changes no state: what is to come as of now is in the job's status (Coming).
type Foretold struct {
	Job JobID `json:"job"`
	Coming
}

func (Foretold) event() Kind { return "Foretold" }
