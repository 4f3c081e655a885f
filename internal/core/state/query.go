package state

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// AttemptStatus is an attempt as users see it.
func (s *State) AttemptStatus(a *tables.Attempt) model.AttemptStatus {
	out := model.AttemptStatus{ID: a.ID, State: a.State, Lazy: a.Lazy, Orphaned: a.Orphaned, Cause: a.Cause,
		Placed: a.Placed, Started: a.Started, Told: a.StopSentAt, By: a.By, Message: tables.RareOf(a.Rare).Message}
	if a.State == model.AttemptRunning && s.Suspended(a) {
		out.State = model.AttemptSuspended
	}
	out.Opportunistic = s.Cluster.Alloc(a.Alloc).Opportunistic()
	for _, v := range tables.RareOf(a.Rare).Victims {
		if s.Live(v) != nil {
			out.Victims = append(out.Victims, v)
		}
	}
	return out
}

// Suspended reports whether other members have their turn on an attempt's leaves.
func (s *State) Suspended(a *tables.Attempt) bool {
	r := s.RotationOf(a)
	return r != nil && a.Cause == 0 && !r.Runs(a.ID, s.Now)
}

// LeafOf names a leaf as facts do: node, SKU, device and part.
func (s *State) LeafOf(l cell.LeafID) model.LeafHealth {
	f := s.Cluster.Forest()
	return model.LeafHealth{Node: f.Nodes[f.Cells[f.Leaves[l]].Node].Name, SKU: f.ChainOf(l).SKU, Device: f.Device(l),
		Part: f.Part(l)}
}
