package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// movable reports whether a gang may be stopped for another place: it saves its work
// when it is asked to, and it and its leaves are in order.
func (s *finder) movable(a *attempt) bool {
	j := &s.jobs[a.job]
	return j.spec.Hints.Checkpoint && !j.spec.Partial() && !j.quarantined && a.state == model.AttemptRunning && a.cause == 0 && a.alive > 0 &&
		a.since <= s.through && !a.orphaned && !s.cl.Alloc(a.alloc).Opportunistic()
}

// nodesOf returns the nodes of a placement, each once.
func nodesOf(tasks []cell.Task) []cell.NodeName {
	var out []cell.NodeName
	for _, t := range tasks {
		if !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	return out
}

// maxNotYet bounds how many are remembered.
const maxNotYet = 4096

// used tells apart how many leaves a VC uses in each preassigned cell of a promise: where that is
// alone in one, another cell may be bound instead.
func (s *finder) used(a *attempt) (sum uint64) {
	al := s.cl.Alloc(a.alloc)
	for _, b := range al.Placement.Binds {
		if b.Space == 0 {
			sum = (sum ^ uint64(s.cl.Space(al.Space).Roots[b.Root].Used)) * 0x100000001b3
		}
	}
	return sum
}

// missing is how many leaves a gang that is promised some needs beside those of them that were
// left.
func (s *finder) missing(a *attempt) int32 {
	missing := s.jobs[a.job].gangs[a.id.Gang].leaves
	for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
		for _, l := range t.Leaves {
			if hold, _ := s.cl.Holder(l); hold == cell.None {
				missing--
			}
		}
	}
	return missing
}
