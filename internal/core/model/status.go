package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// JobOutlook is how far a job is, and when it ends.
type JobOutlook struct {
	Done  int32  `json:"done,omitempty"`  // of its steps, in parts per thousand: the mean of the tasks that report a total
	At    Time   `json:"at,omitempty"`    // of the last step that was reported; 0 where none reports a total
	Ends  Time   `json:"ends,omitempty"`  // likely, or at the latest; 0 is not known
	Last  bool   `json:"last,omitempty"`  // Ends is when it ends at the latest
	Basis string `json:"basis,omitempty"` // of Ends, or why it is not known
}

// Coming is what will happen to a job that runs: one sentence, and a time.
type Coming struct {
	Kind    string `json:"kind"`         // stop, drain, time limit, lease, configuration or hardware
	At      Time   `json:"at,omitempty"` // 0: it has no time
	Message string `json:"message"`
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
	// Use is what its devices were seen to do; nil where that is not looked at.
	Use *DeviceUse `json:"use,omitempty"`
}

// DeviceUse is a sample of the devices of one task.
type DeviceUse struct {
	Util     int32 `json:"util"`      // mean, in parts per thousand
	MemoryMB int64 `json:"memory_mb"` // in use on the fullest of them; of a task, the most that was seen while no other task shared them
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

// VCUse counts a VC's leaves of one SKU.
type VCUse struct {
	Carry
	Guaranteed    int32 `json:"guaranteed"`
	Used          int32 `json:"used"`          // of the guarantee
	Opportunistic int32 `json:"opportunistic"` // borrowed
	Lent          int32 `json:"lent"`          // to opportunistic jobs of others, see VCStatus
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
	Carry
	Chain cell.ChainName `json:"chain"`
	Total int32          `json:"total"`
	Used  int32          `json:"used"`
	Bad   int32          `json:"bad"`
	Fault string         `json:"fault,omitempty"` // why one of them is bad, where that is known
	// Pretended is that its GPUs do not exist.
	Pretended bool `json:"pretended,omitempty"`
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

// HoldStatus says since when a job is held, by which user and why.
type HoldStatus struct {
	By     Subject `json:"by"`
	Since  Time    `json:"since"`
	Reason string  `json:"reason,omitempty"`
}
