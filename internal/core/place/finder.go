// Package place finds cells for one gang: free ones, or such as others hold that may be stopped,
// become opportunistic or move, or that charges of bad hardware keep from it. Where there are none
// it names the obstacle. It must not change the state.
package place

import (
	"github.com/combsched/comb/internal/core/status"
)

// Finder finds cells in a fold.
type Finder struct {
	status.Status
	Cache         Cache
	InputsThrough uint64  // the last event before the present decision
	Charges       Moving  // of bad hardware
	Claims        Claimed // of VCs that lend nothing
}
