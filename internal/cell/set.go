package cell

import "github.com/combsched/comb/internal/bitset"

// NodeSet is a set of node indices, LeafSet one of leaves.
type (
	NodeSet = bitset.Set[int32]
	LeafSet = bitset.Set[LeafID]
)
