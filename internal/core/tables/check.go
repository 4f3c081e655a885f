package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// So reports whether a node is in placement, or out of it, as a command wants to have it.
func (n *NodeNote) So(on bool, drain model.Time, reason string) bool {
	if !on {
		return !n.Cordon && n.Suspect == 0 && len(n.Refused) == 0
	}
	return n.Cordon && !n.Dead && n.Drain == drain && n.Cordoned == reason
}
