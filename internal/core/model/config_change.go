package model

import (
	"github.com/combsched/comb/internal/core/cell"
)

// ChangeKind says what a configuration does to a part of the cluster.
type ChangeKind string

// The kinds of change.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Renamed ChangeKind = "renamed"
	Changed ChangeKind = "changed"
)

// VCChange is a VC that is added, removed or changed.
type VCChange struct {
	Name  cell.VCName   `json:"name"`
	Was   cell.VCName   `json:"was,omitempty"` // its older name
	Kind  ChangeKind    `json:"kind"`
	Cells []CellsChange `json:"cells,omitempty"`
	Own   []CellsChange `json:"own,omitempty"` // of Cells, for its own jobs: not divided
	Pins  []PinChange   `json:"pins,omitempty"`
	Rules []RuleChange  `json:"rules,omitempty"`
}

// CellsChange is how many cells of one level a VC is guaranteed, before and after.
type CellsChange struct {
	Chain  cell.ChainName `json:"chain"`
	Type   cell.TypeName  `json:"type"`
	Before int32          `json:"before"`
	After  int32          `json:"after"`
}

// PinChange is a pinned cell that a VC gets, loses, or has at another place.
type PinChange struct {
	ID     cell.PinnedID `json:"id"`
	Before string        `json:"before,omitempty"` // the cell's path; "" when it was not the VC's
	After  string        `json:"after,omitempty"`
}

// RuleChange is a policy or another setting of a VC, or of the whole cluster.
type RuleChange struct {
	Key    string `json:"key"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// ChainChange is how many top-level cells and leaves a chain has, before and after.
type ChainChange struct {
	Name         cell.ChainName `json:"name"`
	Kind         ChangeKind     `json:"kind"`
	CellsBefore  int32          `json:"cells_before"`
	CellsAfter   int32          `json:"cells_after"`
	LeavesBefore int32          `json:"leaves_before"`
	LeavesAfter  int32          `json:"leaves_after"`
	// LackingBefore and LackingAfter are how many top-level cells lack a node: no guarantee can
	// rest on such a cell as a whole.
	LackingBefore int32  `json:"lacking_before,omitempty"`
	LackingAfter  int32  `json:"lacking_after,omitempty"`
	Had           string `json:"had,omitempty"` // what its leaves were, such as "8 GPUs"
	Has           string `json:"has,omitempty"` // what they are
	// LevelsBefore and LevelsAfter are the levels of a chain that stays, leaf first, if they
	// differ.
	LevelsBefore []cell.LevelSpec `json:"levels_before,omitempty"`
	LevelsAfter  []cell.LevelSpec `json:"levels_after,omitempty"`
}

// ThroughputChange is a measured speed that is added, removed or changed; 0 is none.
type ThroughputChange struct {
	Model  string        `json:"model"`
	SKU    cell.TypeName `json:"sku,omitempty"` // "" is all other types
	GPUs   int32         `json:"gpus"`
	Before int64         `json:"before"`
	After  int64         `json:"after"`
}

// SKUChange is a leaf type that is added or removed, or that carries something else.
type SKUChange struct {
	Name   cell.TypeName `json:"name"`
	Kind   ChangeKind    `json:"kind"`
	Fields []RuleChange  `json:"-"` // by their keys in a cluster file, of one that stays
}

// NodeChange is a node that is added, removed or renamed, or that has other leaves.
type NodeChange struct {
	Name   cell.NodeName `json:"name"`
	Was    cell.NodeName `json:"was,omitempty"`
	Kind   ChangeKind    `json:"kind"`
	Before int32         `json:"before"` // leaves
	After  int32         `json:"after"`
	Had    string        `json:"had,omitempty"` // what they were by SKU, such as "8 GPUs"
	Has    string        `json:"has,omitempty"` // what they are
}
