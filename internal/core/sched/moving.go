package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// A gang that moves has two attempts: one that leaves, and the next, to which its new
// cells are promised meanwhile. So nobody can take them, of its own VC or of another,
// and where it goes does not depend on who else is in the cluster. The promise is one
// like others: it becomes the gang's attempt when the gang waits again, it gives way
// to higher priorities, and it is taken back when it cannot be kept.

// slotOf returns the slot of a live attempt.
func (s *tables) slotOf(a *attempt) int32 {
	g := &s.jobs[a.job].gangs[a.id.Gang]
	if g.next != none && s.attempts[g.next].id == a.id {
		return g.next
	}
	return g.attempt
}

// moving reports whether an attempt is the promise to a gang that has not left yet.
func (s *tables) moving(a *attempt) bool {
	g := &s.jobs[a.job].gangs[a.id.Gang]
	return g.next != none && s.attempts[g.next].id == a.id
}

// sendTo stops a gang so that it runs again on other cells, which are promised to it;
// by is for whom it moves, nil when it does for itself.
func (s *pass) sendTo(a *attempt, to cell.Placement, by *model.AttemptID) {
	s.assertOlder(a)
	id := a.id
	s.emit(StopSent{Attempt: id, Cause: model.EndMigrated, Grace: s.jobs[a.job].spec.Grace, By: by, Nodes: nodesOf(to.Tasks)})
	id.N++
	s.emit(Reserved{Attempt: id, Placement: to})
}

// settleMove takes a promise back to which a gang cannot move any more.
func (s *pass) settleMove(g *gang) {
	if g.next == none {
		return
	}
	if g.attempt != none && s.attempts[g.attempt].state == model.AttemptUnknown {
		s.stay(g, fmt.Sprintf("attempt %v may be alive on a lost node", s.attempts[g.attempt].id))
		return
	}
	s.settleReservation(&s.attempts[g.next])
}

// stay takes back the promise to which a gang was to move, if there is one.
func (s *pass) stay(g *gang, why string) {
	if g.next != none {
		s.emit(Unreserved{Attempt: s.attempts[g.next].id, Reason: why})
	}
}

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

// notYet is a gang that is promised cells and found no free ones: it does not until more are free,
// more of its own are, or others have left the preassigned cells that are promised to it.
type notYet struct {
	idle    uint64 // of looks, then
	missing int32  // leaves, beside its own
	used    uint64 // of the leaves that its VC uses in each preassigned cell of the promise
}

// maxNotYet bounds how many are remembered.
const maxNotYet = 4096

// improve starts a gang that waits for victims when they have left, or at once
// when free cells appeared.
func (s *pass) improve(w want) {
	a := &s.attempts[w.gang().attempt]
	if s.fulfil(a) || s.cl.Rest() == 0 {
		return // asked whenever one of many victims has left
	}
	now := notYet{s.looks.idle, s.missing(a), s.used(a)}
	if now.missing > s.cl.Rest() || s.notYet[a.id] == now {
		return
	}
	r := s.request(w)
	early := s.cl.Work().Early()
	res, ok := s.cl.PlaceInstead(a.alloc, &r)
	if !ok {
		if s.cl.Work().Early() == early && len(r.Avoided) == 0 && w.only == nil && r.Reach == nil && !slices.Contains(w.blocked, true) {
			if s.notYet == nil || len(s.notYet) >= maxNotYet {
				s.notYet = map[model.AttemptID]notYet{}
			}
			s.notYet[a.id] = now
		}
		return
	}
	id := a.id
	s.emit(Unreserved{Attempt: id, Reason: "free cells appeared"})
	s.emit(Placed{Attempt: id, Placement: res.Placement})
}

// used tells apart how many leaves a VC uses in each preassigned cell of a promise: where that is
// alone in one, another cell may be bound instead.
func (s *tables) used(a *attempt) (sum uint64) {
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
func (s *tables) missing(a *attempt) int32 {
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
