package sched

import (
	"github.com/combsched/comb/internal/amount"
	"github.com/combsched/comb/internal/cell"
	"github.com/combsched/comb/internal/life"
	"github.com/combsched/comb/internal/why"
)

// Phase is a job's state.
type Phase string

// Job phases: Waiting -> Active -> Succeeded | Failed | Stopped, and from Active
// back to Waiting when nothing of it runs any more.
const (
	Waiting   Phase = "Waiting"
	Active    Phase = "Active"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Stopped   Phase = "Stopped"
)

// Ended reports whether the phase is final.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Stopped }

// What attempts and tasks are and how they end is values of a package of their own (life).
type (
	AttemptState = life.AttemptState
	TaskState    = life.TaskState
	EndCause     = life.EndCause
)

// Their names. A reservation is not an attempt yet.
const (
	AttemptReserving, AttemptStarting, AttemptRunning, AttemptSuspended = life.AttemptReserving, life.AttemptStarting, life.AttemptRunning, life.AttemptSuspended
	AttemptStopping, AttemptUnknown, AttemptOver                        = life.AttemptStopping, life.AttemptUnknown, life.AttemptOver
	TaskWaiting, TaskStarting, TaskRunning, TaskSuspended, TaskStopping = life.TaskWaiting, life.TaskStarting, life.TaskRunning, life.TaskSuspended, life.TaskStopping
	TaskIsUnknown, TaskSucceeded, TaskFailed, TaskEnded                 = life.TaskIsUnknown, life.TaskSucceeded, life.TaskFailed, life.TaskEnded
	EndSucceeded, EndFailed, EndCompleted, EndPreempted, EndMigrated    = life.EndSucceeded, life.EndFailed, life.EndCompleted, life.EndPreempted, life.EndMigrated
	EndResized, EndStopped, EndTimeLimit, EndEarly, EndRefused          = life.EndResized, life.EndStopped, life.EndTimeLimit, life.EndEarly, life.EndRefused
	EndPlatform, EndNeverAlive, EndRequeued, EndDrained                 = life.EndPlatform, life.EndNeverAlive, life.EndRequeued, life.EndDrained
)

// JobStatus is a job as users see it: computed from State, and kept as it is in
// the table of finished jobs.
type JobStatus struct {
	ID        JobID           `json:"id"`
	Name      JobName         `json:"name"`
	User      Subject         `json:"user"`
	VC        cell.VCName     `json:"vc"`
	Priority  cell.Priority   `json:"priority"`
	Phase     Phase           `json:"phase"`
	Submitted Time            `json:"submitted"`
	Started   Time            `json:"started,omitempty"` // first task of the first attempt
	Ended     Time            `json:"ended,omitempty"`
	Ran       Duration        `json:"ran,omitempty"` // how long its longest gang ran, in all attempts: not while it waited or was suspended
	Leaves    int32           `json:"leaves"`        // of all tasks
	GPUs      int64           `json:"gpus"`          // that all tasks take; CPU slots have none
	Retry     int32           `json:"retry"`         // the job's attempt, from 0
	Counted   int32           `json:"counted"`       // retries that counted
	Preempted int32           `json:"preempted"`
	Yielded   int32           `json:"yielded,omitempty"`  // stops by its own priority, which its VC's budget bounds
	Stopping  bool            `json:"stopping,omitempty"` // a stop was asked
	Cause     EndCause        `json:"cause,omitempty"`
	Exit      *Exit           `json:"exit,omitempty"`
	Message   string          `json:"message,omitempty"`
	Outlook   *JobOutlook     `json:"outlook,omitempty"` // of one that runs or is being stopped
	Tasks     []TaskStatus    `json:"tasks"`
	Attempts  []AttemptStatus `json:"attempts"`       // live ones and the last ended of each gang
	Held      *HoldStatus     `json:"held,omitempty"` // by a user: it does not start
	Notices   []string        `json:"notices,omitempty"`
}

// JobOutlook is how far a job is, and when it ends.
type JobOutlook struct {
	Done  int32  `json:"done,omitempty"`  // of its steps, in parts per thousand: the mean of the tasks that report a total
	At    Time   `json:"at,omitempty"`    // of the last step that was reported; 0 where none reports a total
	Ends  Time   `json:"ends,omitempty"`  // likely, or at the latest; 0 is not known
	Last  bool   `json:"last,omitempty"`  // Ends is when it ends at the latest
	Basis string `json:"basis,omitempty"` // of Ends, or why it is not known
}

// TaskStatus is one task's present or last run.
type TaskStatus struct {
	Role          string        `json:"role"`
	Index         int32         `json:"index"`
	Gang          int32         `json:"gang"`
	State         TaskState     `json:"state"`
	Attempt       int32         `json:"attempt"` // N of the gang's attempt, 0 before the first
	Node          cell.NodeName `json:"node,omitempty"`
	SKU           cell.TypeName `json:"sku,omitempty"`
	Devices       []int32       `json:"devices,omitempty"`
	Parts         []int32       `json:"parts,omitempty"` // of each device, where leaves are parts
	Lost          []int32       `json:"lost,omitempty"`  // devices among them that the configuration lacks now: they drain
	Host          string        `json:"host,omitempty"`
	Ports         []int32       `json:"ports,omitempty"`
	PID           int32         `json:"pid,omitempty"`
	Exit          *Exit         `json:"exit,omitempty"`
	Retries       int32         `json:"retries,omitempty"`
	Progress      *TaskProgress `json:"progress,omitempty"`
	amount.Limits               // of one that was started
}

// TaskProgress is the last progress a task reported.
type TaskProgress struct {
	At         Time   `json:"at"`
	Step       int64  `json:"step"`
	StepAt     Time   `json:"step_at,omitempty"` // when that was reported: At may be of something else
	Total      int64  `json:"total,omitempty"`
	From       int64  `json:"from,omitempty"`    // the first step that was reported in the attempt of the last
	FromAt     Time   `json:"from_at,omitempty"` // when that was
	Loss       string `json:"loss,omitempty"`
	LossAt     Time   `json:"loss_at,omitempty"` // when that was reported
	MemoryMB   int64  `json:"memory_mb,omitempty"`
	Checkpoint Time   `json:"checkpoint,omitempty"` // of the last checkpoint
	// Use is what its devices were seen to do; nil where nobody looks.
	Use *DeviceUse `json:"use,omitempty"`
}

// DeviceUse is a sample of the devices of one task.
type DeviceUse struct {
	Util     int32 `json:"util"`      // mean, in parts per thousand
	MemoryMB int64 `json:"memory_mb"` // in use on the fullest of them; of a task, the most that was seen while nobody shared them
}

// AttemptStatus is one attempt or reservation of a gang.
type AttemptStatus struct {
	ID            AttemptID    `json:"id"`
	State         AttemptState `json:"state"`
	Opportunistic bool         `json:"opportunistic,omitempty"` // by priority or lazily preempted
	Lazy          bool         `json:"lazy,omitempty"`
	Orphaned      bool         `json:"orphaned,omitempty"`
	Cause         EndCause     `json:"cause,omitempty"`
	Placed        Time         `json:"placed,omitempty"`
	Started       Time         `json:"started,omitempty"`
	Told          Time         `json:"told,omitempty"` // when it was told to stop
	Ended         Time         `json:"ended,omitempty"`
	Victims       []AttemptID  `json:"victims,omitempty"` // of a reservation, still alive
	By            *AttemptID   `json:"by,omitempty"`      // the preemptor
	Message       string       `json:"message,omitempty"`
}

// ReasonCode says why a job waits.
type ReasonCode = why.Code

// The reasons, from the most to the least final.
const (
	NeverFits         ReasonCode = "NeverFits"         // no cell of this cluster, empty and healthy, has the shape
	QuotaExceeded     ReasonCode = "QuotaExceeded"     // more than the VC's whole guarantee
	QuarantinedJob    ReasonCode = "Quarantined"       // set aside after an internal error
	OnHold            ReasonCode = "OnHold"            // a user holds it, until it is released
	HeldUnknown       ReasonCode = "HeldUnknown"       // its last attempt is not proven dead
	UserLimit         ReasonCode = "UserLimit"         // its user has all that one user may have in the VC
	BackOff           ReasonCode = "BackOff"           // refused starts or a retry delay, until a time
	BadHardware       ReasonCode = "BadHardware"       // it would fit if what is bad were healthy
	Draining          ReasonCode = "Draining"          // it would fit if tasks had left devices that the configuration lacks
	WaitingPreemption ReasonCode = "WaitingPreemption" // its cells are reserved, victims are leaving
	HeldBack          ReasonCode = "HeldBack"          // it would fit, but its VC's policy keeps it waiting, such as for a limit
	PriorityAhead     ReasonCode = "PriorityAhead"     // it would fit, but jobs before it in the order come first
	VCBusy            ReasonCode = "VCBusy"            // too few free leaves in its VC
	ClusterBusy       ReasonCode = "ClusterBusy"       // opportunistic: too few free leaves anywhere
	Fragmented        ReasonCode = "Fragmented"        // enough free leaves, but not in the shape
	NotYetDecided     ReasonCode = "NotYetDecided"     // it fits; the next decision starts it
)

// VCStatus is a VC's guarantee and use.
type VCStatus struct {
	Name          cell.VCName   `json:"name"`
	Parent        cell.VCName   `json:"parent,omitempty"`   // whose cells it is a part of
	Children      []cell.VCName `json:"children,omitempty"` // that have a part of its cells; what it is guaranteed is for its own jobs then
	Policy        string        `json:"policy"`
	Params        []Param       `json:"params,omitempty"`         // of the policy
	Failed        *PolicyFailed `json:"failed,omitempty"`         // its own policy, which fifo replaces until a configuration is applied
	Backfill      string        `json:"backfill,omitempty"`       // none is left out
	MinRun        Duration      `json:"min_run,omitempty"`        // of an attempt, before its own priority may preempt it
	Budget        *int32        `json:"budget,omitempty"`         // of preemptions within its priority, when the cluster file has one
	Moves         int32         `json:"moves_per_hour,omitempty"` // of its gangs, for one that waits
	SKUs          []VCUse       `json:"skus"`                     // what it is guaranteed and uses, by SKU
	Guaranteed    int32         `json:"guaranteed"`               // leaves, of whatever SKU, as in what follows
	Used          int32         `json:"used"`                     // of the guarantee
	Opportunistic int32         `json:"opportunistic"`            // leaves borrowed
	Orphaned      int32         `json:"orphaned,omitempty"`       // devices that its jobs still use and the configuration lacks
	Gone          bool          `json:"gone,omitempty"`           // no longer in the configuration; its jobs are
	Lent          int32         `json:"lent"`                     // leaves of its bound cells used by opportunistic jobs
	Bad           int32         `json:"bad"`                      // leaves of its bound cells that are bad, or on nodes that are down or suspect; cordoned is not bad
	Waiting       int32         `json:"waiting"`                  // jobs
	Active        int32         `json:"active"`
	Cells         []QuotaUse    `json:"cells"`
}

// VCUse counts a VC's leaves of one SKU.
type VCUse struct {
	amount.Carry
	Guaranteed    int32 `json:"guaranteed"`
	Used          int32 `json:"used"`          // of the guarantee
	Opportunistic int32 `json:"opportunistic"` // borrowed
	Lent          int32 `json:"lent"`          // of its bound cells, used by opportunistic jobs
	Bad           int32 `json:"bad"`           // of its bound cells, see VCStatus
}

// QuotaUse is one line of a VC's guarantee.
type QuotaUse struct {
	Chain  cell.ChainName `json:"chain"`
	Type   cell.TypeName  `json:"type"`
	Level  cell.Level     `json:"level"`
	Pinned cell.PinnedID  `json:"pinned,omitempty"`
	Total  int32          `json:"total"` // cells
	Bound  int32          `json:"bound"` // cells in use
}

// NodeStatus is one node.
type NodeStatus struct {
	Name     cell.NodeName `json:"name"`
	Up       bool          `json:"up"`
	Cordoned bool          `json:"cordoned,omitempty"`
	Suspect  Time          `json:"suspect,omitempty"` // until
	Drain    Time          `json:"drain,omitempty"`   // what runs there leaves it by then
	Dead     bool          `json:"dead,omitempty"`    // a user says so
	By       Subject       `json:"by,omitempty"`      // which user cordoned it,
	Since    Time          `json:"since,omitempty"`   // and when
	Reason   string        `json:"reason,omitempty"`
	Gone     bool          `json:"gone,omitempty"`     // no longer in the configuration; tasks still run there
	Orphaned int32         `json:"orphaned,omitempty"` // devices in use that the configuration lacks: they drain
	SKUs     []NodeSKU     `json:"skus"`
}

// NodeSKU counts one SKU's leaves on a node, beside what one carries.
type NodeSKU struct {
	amount.Carry
	Chain cell.ChainName `json:"chain"`
	Total int32          `json:"total"`
	Used  int32          `json:"used"`
	Bad   int32          `json:"bad"`
	Fault string         `json:"fault,omitempty"` // why one of them is bad, where that is known
}

// CellStatus is one physical cell with its children.
type CellStatus struct {
	Type     cell.TypeName `json:"type"`
	Address  string        `json:"address"` // path from the top, joined by "/"
	Level    cell.Level    `json:"level"`
	Node     cell.NodeName `json:"node,omitempty"` // at and below node level
	State    string        `json:"state"`          // Free, Used, Reserving, Reserved
	Healthy  bool          `json:"healthy"`
	Priority cell.Priority `json:"priority"`
	VC       cell.VCName   `json:"vc,omitempty"`      // whose preassigned cell it is, or is inside
	Virtual  string        `json:"virtual,omitempty"` // that preassigned cell: "<vc>/<root>"
	Pinned   cell.PinnedID `json:"pinned,omitempty"`
	Job      JobID         `json:"job,omitempty"` // of a used leaf
	Children []CellStatus  `json:"children,omitempty"`
}
