package rest

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// VCStatus is a VC's guarantee and use.
type VCStatus struct {
	Name          cell.VCName    `json:"name"`
	Parent        cell.VCName    `json:"parent,omitempty"`   // the VC to whose cells its own belong
	Children      []cell.VCName  `json:"children,omitempty"` // VCs inside it; its guarantee is then what is left for its own jobs
	Policy        string         `json:"policy"`
	Params        []Param        `json:"params,omitempty"`         // of its policy
	Failed        *PolicyFailed  `json:"failed,omitempty"`         // its own policy failed, and fifo replaces it until a configuration is applied
	Backfill      string         `json:"backfill,omitempty"`       // none is left out
	MinRun        model.Duration `json:"min_run,omitempty"`        // run time of an attempt before jobs of the same priority may preempt it
	Budget        *int32         `json:"budget,omitempty"`         // of preemptions within one priority; nil without one in the cluster file
	Moves         int32          `json:"moves_per_hour,omitempty"` // of its gangs, for one that waits
	SKUs          []VCUse        `json:"skus"`                     // its guarantee and its use by SKU
	Guaranteed    int32          `json:"guaranteed"`               // leaves of all SKUs, as below
	Used          int32          `json:"used"`                     // leaves within the guarantee
	Opportunistic int32          `json:"opportunistic"`            // leaves beyond the guarantee
	Orphaned      int32          `json:"orphaned,omitempty"`       // devices that its jobs use and that the configuration no longer contains
	Gone          bool           `json:"gone,omitempty"`           // no longer in the configuration, but has jobs
	Lent          int32          `json:"lent"`                     // unused leaves of its guarantee that opportunistic jobs of other VCs hold
	Bad           int32          `json:"bad"`                      // leaves of its bound cells that are bad, or on nodes that are down or suspect
	// HeldByOthers are leaves of its bound cells that no job uses, and that get no new work since a
	// program that is no job's has devices of their node.
	HeldByOthers int32      `json:"held_by_others,omitempty"`
	Waiting      int32      `json:"waiting"` // jobs
	Active       int32      `json:"active"`
	Cells        []QuotaUse `json:"cells"`
}

// VCUse counts a VC's leaves of one SKU.
type VCUse struct {
	model.Carry
	Guaranteed    int32 `json:"guaranteed"`
	Used          int32 `json:"used"`          // leaves within the guarantee
	Opportunistic int32 `json:"opportunistic"` // leaves beyond the guarantee
	Lent          int32 `json:"lent"`          // see VCStatus
	Bad           int32 `json:"bad"`           // see VCStatus
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
	Suspect  model.Time    `json:"suspect,omitempty"` // until when; 0 is not suspect
	Drain    model.Time    `json:"drain,omitempty"`   // what runs there leaves by then; 0 is none
	Dead     bool          `json:"dead,omitempty"`    // declared so by a user
	By       model.Subject `json:"by,omitempty"`      // the user that cordoned it; "": see Reason,
	Since    model.Time    `json:"since,omitempty"`   // and when
	Reason   string        `json:"reason,omitempty"`
	Gone     bool          `json:"gone,omitempty"`     // no longer in the configuration, but tasks run there
	Orphaned int32         `json:"orphaned,omitempty"` // devices in use that the configuration no longer contains
	SKUs     []NodeSKU     `json:"skus"`
}

// NodeSKU counts one SKU's leaves on a node. Carry is what one leaf has.
type NodeSKU struct {
	model.Carry
	Chain cell.ChainName `json:"chain"`
	Total int32          `json:"total"`
	Used  int32          `json:"used"`
	Bad   int32          `json:"bad"`
	// HeldByOthers are leaves that get no new work since a program that is no job's has devices of
	// the node. They are not bad.
	HeldByOthers int32  `json:"held_by_others,omitempty"`
	Fault        string `json:"fault,omitempty"`   // why one of them is bad; "" is unknown
	Holders      string `json:"holders,omitempty"` // which pods have what, such as "8 GPUs held by tenant/thief"
	// Pretended says that its GPUs do not exist.
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
	VC       cell.VCName   `json:"vc,omitempty"`      // of the preassigned cell at or around this
	Virtual  string        `json:"virtual,omitempty"` // that preassigned cell: "<vc>/<root>"
	Pinned   cell.PinnedID `json:"pinned,omitempty"`
	Job      model.JobID   `json:"job,omitempty"` // holder of a used leaf
	Children []CellStatus  `json:"children,omitempty"`
}

// Param is a parameter of a policy.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PolicyFailed says which policy of a VC failed.
type PolicyFailed struct {
	VC     cell.VCName `json:"vc"`
	Policy string      `json:"policy"`          // the one that failed
	Stack  string      `json:"stack,omitempty"` // hash of the stack
	Why    string      `json:"why,omitempty"`   // why the policy could not be created
}
