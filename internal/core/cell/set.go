package cell

import (
	"github.com/combsched/comb/internal/base/collections"
)

// NodeSet is a set of node indices, LeafSet one of leaves.
type (
	NodeSet = collections.Set[int32]
	LeafSet = collections.Set[LeafID]
)
