// Package place finds cells for one gang: free ones, or those it gets by preempting, demoting
// or moving others, or by moving charges of bad hardware. If there are none it names the
// obstacle. It must not change the state.
package place

import (
	"github.com/combsched/comb/internal/core/status"
)

// Finder finds cells, given the state.
type Finder struct {
	status.Status
	Cache         Cache
	InputsThrough uint64      // the last event before the present decision
	Charges       ChargeMoves // moves of charges of bad hardware in this Decide
	Claims        Claims      // cells that VCs keep for themselves
}
