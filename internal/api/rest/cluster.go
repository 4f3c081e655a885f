package rest

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// VCStatus is a VC's guarantee and use.
type VCStatus struct {
	Name          cell.VCName    `json:"name"`
	Parent        cell.VCName    `json:"parent,omitempty"`   // whose cells it is a part of
	Children      []cell.VCName  `json:"children,omitempty"` // that have a part of its cells; what it is guaranteed is for its own jobs then
	Policy        string         `json:"policy"`
	Params        []Param        `json:"params,omitempty"`         // of the policy
	Failed        *PolicyFailed  `json:"failed,omitempty"`         // its own policy, which fifo replaces until a configuration is applied
	Backfill      string         `json:"backfill,omitempty"`       // none is left out
	MinRun        model.Duration `json:"min_run,omitempty"`        // of an attempt, before its own priority may preempt it
	Budget        *int32         `json:"budget,omitempty"`         // of preemptions within its priority, when the cluster file has one
	Moves         int32          `json:"moves_per_hour,omitempty"` // of its gangs, for one that waits
	SKUs          []VCUse        `json:"skus"`                     // what it is guaranteed and uses, by SKU
	Guaranteed    int32          `json:"guaranteed"`               // leaves, of whatever SKU, as in what follows
	Used          int32          `json:"used"`                     // of the guarantee
	Opportunistic int32          `json:"opportunistic"`            // leaves borrowed
	Orphaned      int32          `json:"orphaned,omitempty"`       // devices that its jobs still use and the configuration lacks
	Gone          bool           `json:"gone,omitempty"`           // no longer in the configuration; its jobs are
	Lent          int32          `json:"lent"`                     // leaves that it does not use, and opportunistic jobs of others have
	Bad           int32          `json:"bad"`                      // leaves of its bound cells that are bad, or on nodes that are down or suspect; cordoned is not bad
	Waiting       int32          `json:"waiting"`                  // jobs
	Active        int32          `json:"active"`
	Cells         []QuotaUse     `json:"cells"`
}

// VCUse counts a VC's leaves of one SKU.
type VCUse struct {
	model.Carry
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
	Suspect  model.Time    `json:"suspect,omitempty"` // until
	Drain    model.Time    `json:"drain,omitempty"`   // what runs there leaves it by then
	Dead     bool          `json:"dead,omitempty"`    // a user says so
	By       model.Subject `json:"by,omitempty"`      // which user cordoned it,
	Since    model.Time    `json:"since,omitempty"`   // and when
	Reason   string        `json:"reason,omitempty"`
	Gone     bool          `json:"gone,omitempty"`     // no longer in the configuration; tasks still run there
	Orphaned int32         `json:"orphaned,omitempty"` // devices in use that the configuration lacks: they drain
	SKUs     []NodeSKU     `json:"skus"`
}

// NodeSKU counts one SKU's leaves on a node, beside what one carries.
type NodeSKU struct {
	model.Carry
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
	Job      model.JobID   `json:"job,omitempty"` // of a used leaf
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
	Why    string      `json:"why,omitempty"`   // it cannot be made
}
