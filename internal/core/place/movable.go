package place

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Movable reports whether a gang may be stopped to run elsewhere: it is guaranteed and not
// elastic, runs since before this decision, and saves its work when told to stop.
func (s *Finder) Movable(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return j.Spec.Hints.Checkpoint && !j.Spec.Partial() && !j.Quarantined && a.State == model.AttemptRunning &&
		a.Cause == 0 && a.Alive > 0 &&
		a.SinceSeq <= s.InputsThrough && !a.Orphaned && !s.Cluster.Alloc(a.Alloc).Opportunistic()
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

// MaxNotYet bounds how many failed searches for better cells are remembered (NotYet).
const MaxNotYet = 4096

// Used is a checksum of how many leaves the VC uses in each preassigned cell of a reservation.
// When it changes the search is worth repeating: a cell that the reservation alone uses may be
// bound elsewhere.
func (s *Finder) Used(a *tables.Attempt) (sum uint64) {
	al := s.Cluster.Alloc(a.Alloc)
	for _, b := range al.Placement.Binds {
		if b.Space == 0 {
			sum = (sum ^ uint64(s.Cluster.Space(al.Space).Roots[b.Root].Used)) * 0x100000001b3
		}
	}
	return sum
}

// Missing is how many leaves a gang with a reservation still lacks: the reserved ones that are
// held.
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
