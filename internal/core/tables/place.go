package tables

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Mood is what an attempt is about to do, as the cells see it.
func (a *Attempt) Mood() cell.Mood {
	switch a.State {
	case model.AttemptUnknown:
		return cell.Stuck
	case model.AttemptStopping:
		return cell.Leaving
	}
	return cell.Staying
}
