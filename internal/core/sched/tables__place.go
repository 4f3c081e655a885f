package sched

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

func (a *attempt) mood() cell.Mood {
	switch a.state {
	case model.AttemptUnknown:
		return cell.Stuck
	case model.AttemptStopping:
		return cell.Leaving
	}
	return cell.Staying
}
