package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// AlreadySo reports whether a node already is as a command asks: schedulable (on is false), or
// cordoned with that drain deadline and reason.
func (n *NodeNote) AlreadySo(on bool, drain model.Time, reason string) bool {
	if !on {
		return !n.Cordon && n.Suspect == 0 && len(n.Refused) == 0
	}
	return n.Cordon && !n.Dead && n.Drain == drain && n.Cordoned == reason
}
