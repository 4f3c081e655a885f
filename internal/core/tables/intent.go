package tables

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Intent is what the cells know of an attempt's intent: it stays, it is leaving, or its state is
// unknown.
func (a *Attempt) Intent() cell.Intent {
	switch a.State {
	case model.AttemptUnknown:
		return cell.Unknown
	case model.AttemptStopping:
		return cell.Leaving
	}
	return cell.Staying
}
