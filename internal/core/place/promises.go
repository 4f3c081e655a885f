package place

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Movable reports whether a gang may be stopped for another place: it saves its work
// when it is asked to, and it and its leaves are in order.
func (s *Finder) Movable(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return j.Spec.Hints.Checkpoint && !j.Spec.Partial() && !j.Quarantined && a.State == model.AttemptRunning &&
		a.Cause == 0 && a.Alive > 0 &&
		a.Since <= s.InputsThrough && !a.Orphaned && !s.Cluster.Alloc(a.Alloc).Opportunistic()
}

// NodesOf returns the nodes of a placement, each once.
func NodesOf(tasks []cell.Task) []cell.NodeName {
	var out []cell.NodeName
	for _, t := range tasks {
		if !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	return out
}

// MaxNotYet bounds how many are remembered.
const MaxNotYet = 4096

// Used tells apart how many leaves a VC uses in each preassigned cell of a promise: where that is
// alone in one, another cell may be bound instead.
func (s *Finder) Used(a *tables.Attempt) (sum uint64) {
	al := s.Cluster.Alloc(a.Alloc)
	for _, b := range al.Placement.Binds {
		if b.Space == 0 {
			sum = (sum ^ uint64(s.Cluster.Space(al.Space).Roots[b.Root].Used)) * 0x100000001b3
		}
	}
	return sum
}

// Missing is how many leaves a gang that is promised some needs beside those of them that were
// left.
func (s *Finder) Missing(a *tables.Attempt) int32 {
	missing := s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves
	for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			if hold, _ := s.Cluster.Holder(l); hold == cell.None {
				missing--
			}
		}
	}
	return missing
}
