package place

import (
	"github.com/combsched/comb/internal/core/state"
)

// finder finds cells in a fold.
type Finder struct {
	state.State
	Cache   Cache
	Through uint64  // the last event before the present decision
	Charges Moving  // of bad hardware
	Claims  Claimed // of VCs that lend nothing
}
