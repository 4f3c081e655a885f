package sched

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

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

// improve starts a gang that waits for victims when they have left, or at once
// when free cells appeared.
func (s *pass) improve(w want) {
	a := &s.attempts[w.gang().attempt]
	if s.fulfil(a) || s.cl.Rest() == 0 {
		return // asked whenever one of many victims has left
	}
	now := notYet{idle: s.looks.idle, missing: s.missing(a), used: s.used(a)}
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
