package state

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/tables"
)

// charged is the space of a VC, or of its container: that to which an event charges a cell.
func (s *State) charged(vc cell.VCName, container bool) int32 {
	if container {
		return s.Cluster.ContainerOf(vc)
	}
	return s.Cluster.SpaceOf(vc)
}

// DrainDue reports whether an attempt has a task on a node that it must have left by now.
func (s *State) DrainDue(a *tables.Attempt) bool {
	if s.Dirty.DrainingNodes == 0 {
		return false
	}
	j := &s.Jobs[a.Job]
	for _, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if t := &j.Tasks[o]; t.Place != nil && !t.Dead {
			if n := s.NodeNote(t.Place.Node); n.Cordon && n.Drain > 0 && n.Drain <= s.Now {
				return true
			}
		}
	}
	return false
}

// markDraining makes leaves count as bad until an attempt has ended that runs on their devices
// without holding them.
func (s *State) markDraining(a *tables.Attempt, leaves []cell.LeafID) {
	if leaves != nil || tables.RareOf(a.Rare).DrainingLeaves != nil {
		tables.SetRare(&a.Rare).DrainingLeaves = leaves
	}
	for _, l := range leaves {
		s.setLeafBad(l, true)
	}
}

// unmarkDraining puts leaves back into service when an attempt that ran on their devices without
// holding them has ended, unless another one does or they are bad themselves.
func (s *State) unmarkDraining(leaves []cell.LeafID) {
	for _, l := range leaves {
		s.setLeafBad(l, s.NotedBad(l) || s.isDraining(l))
		s.DirtyAll()
	}
}

// NotedBad reports whether a leaf is itself bad.
func (s *State) NotedBad(l cell.LeafID) bool {
	_, noted := s.FindLeafNote(s.LeafOf(l))
	return noted
}

// HeldByOthers reports whether a leaf gets no new work only since a program that is no job's has
// devices of its node.
func (s *State) HeldByOthers(l cell.LeafID) bool {
	i, noted := s.FindLeafNote(s.LeafOf(l))
	return noted && s.Leaves[i].HeldByOthers
}

// CordonedElsewhere reports whether a leaf gets no new work only since its node was cordoned in
// what Comb runs on.
func (s *State) CordonedElsewhere(l cell.LeafID) bool {
	i, noted := s.FindLeafNote(s.LeafOf(l))
	return noted && s.Leaves[i].Cordoned
}

// isDraining reports whether some attempt runs on a leaf's device without holding the leaf.
func (s *State) isDraining(l cell.LeafID) bool {
	return slices.ContainsFunc(s.Attempts, func(a tables.Attempt) bool {
		return a.Job != tables.None && a.Rare != nil && slices.Contains(a.Rare.DrainingLeaves, l)
	})
}
