package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// JobOutlook is how far a job is, and when it ends.
type JobOutlook struct {
	// Done is the part of its steps that is done, in parts per thousand: the mean of the tasks that
	// report a total. At is when a step was reported last. Both are 0 if no task reports a total.
	Done  int32  `json:"done,omitempty"`
	At    Time   `json:"at,omitempty"`
	Ends  Time   `json:"ends,omitempty"`  // likely, or at the latest; 0 is not known
	Last  bool   `json:"last,omitempty"`  // Ends is at the latest
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
	StepAt     Time   `json:"step_at,omitempty"` // when Step was reported; At may be of another value
	Total      int64  `json:"total,omitempty"`
	From       int64  `json:"from,omitempty"`    // the first step that the same attempt reported
	FromAt     Time   `json:"from_at,omitempty"` // when From was reported
	Loss       string `json:"loss,omitempty"`
	LossAt     Time   `json:"loss_at,omitempty"` // when Loss was reported
	MemoryMB   int64  `json:"memory_mb,omitempty"`
	Checkpoint Time   `json:"checkpoint,omitempty"` // of the last checkpoint
	// Use is the measured use of its devices; nil if it is not measured.
	Use *DeviceUse `json:"use,omitempty"`
}

// DeviceUse is a sample of the devices of one task.
type DeviceUse struct {
	Util int32 `json:"util"` // mean, in parts per thousand
	// MemoryMB is the memory in use on the fullest device. In TaskProgress it is the most that was
	// measured while no other task shared the devices.
	MemoryMB int64 `json:"memory_mb"`
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
	HeldByOthers  int32 `json:"held_by_others,omitempty"`
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
	Drain    Time          `json:"drain,omitempty"`   // when what still runs there is stopped
	Dead     bool          `json:"dead,omitempty"`    // declared dead by a user
	By       Subject       `json:"by,omitempty"`      // the user that cordoned it; "": not in Comb
	Since    Time          `json:"since,omitempty"`   // when it was cordoned by that user
	Reason   string        `json:"reason,omitempty"`
	Gone     bool          `json:"gone,omitempty"`     // not in the configuration: it drains
	Orphaned int32         `json:"orphaned,omitempty"` // devices that drain: not in the configuration
	SKUs     []NodeSKU     `json:"skus"`
}

// NodeSKU counts one SKU's leaves on a node, beside what one carries.
type NodeSKU struct {
	Carry
	Chain cell.ChainName `json:"chain"`
	Total int32          `json:"total"`
	Used  int32          `json:"used"`
	Bad   int32          `json:"bad"`
	// HeldByOthers are those that get no new work, and are not bad: somebody else's program has
	// devices of the node.
	HeldByOthers int32  `json:"held_by_others,omitempty"`
	Fault        string `json:"fault,omitempty"`   // why one is bad, where that is known
	Holders      string `json:"holders,omitempty"` // which pods have what, such as "8 GPUs held by tenant/thief"
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
	VC       cell.VCName   `json:"vc,omitempty"`      // the VC of the preassigned cell that it is in
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
