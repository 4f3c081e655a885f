package decide

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// sendTo stops a gang so that it runs again on other cells, which are promised to it;
// by is for whom it moves, nil when it does for itself.
func (s *Pass) sendTo(a *tables.Attempt, to cell.Placement, by *model.AttemptID) {
	s.assertOlder(a)
	id := a.ID
	s.emit(model.StopSent{Attempt: id, Cause: model.EndMigrated, Grace: s.Jobs[a.Job].Spec.Grace, By: by,
		Nodes: place.NodesOf(to.Tasks)})
	id.N++
	s.emit(model.Reserved{Attempt: id, Placement: to})
}

// settleMove takes a promise back to which a gang cannot move any more.
func (s *Pass) settleMove(g *tables.Gang) {
	if g.Next == tables.None {
		return
	}
	if g.Attempt != tables.None && s.Attempts[g.Attempt].State == model.AttemptUnknown {
		s.stay(g, fmt.Sprintf("attempt %v may be alive on a lost node", s.Attempts[g.Attempt].ID))
		return
	}
	s.settleReservation(&s.Attempts[g.Next])
}

// stay takes back the promise to which a gang was to move, if there is one.
func (s *Pass) stay(g *tables.Gang, why string) {
	if g.Next != tables.None {
		s.emit(model.Unreserved{Attempt: s.Attempts[g.Next].ID, Reason: why})
	}
}

// improve starts a gang that waits for victims when they have left, or at once
// when free cells appeared.
func (s *Pass) improve(w place.Want) {
	a := &s.Attempts[w.Gang().Attempt]
	if s.fulfil(a) || s.Cluster.Rest() == 0 {
		return // asked whenever one of many victims has left
	}
	now := index.NotYet{Idle: s.Dirty.Idle, Missing: s.Missing(a), Used: s.Used(a)}
	if now.Missing > s.Cluster.Rest() || s.NotYet[a.ID] == now {
		return
	}
	r := s.Request(w)
	early := s.Cluster.Work().Early()
	res, ok := s.Cluster.PlaceInstead(a.Alloc, &r)
	if !ok {
		if s.Cluster.Work().Early() == early && len(r.Avoided) == 0 && w.Only == nil && r.Reach == nil &&
			!slices.Contains(w.Blocked, true) {
			if s.NotYet == nil || len(s.NotYet) >= place.MaxNotYet {
				s.NotYet = map[model.AttemptID]index.NotYet{}
			}
			s.NotYet[a.ID] = now
		}
		return
	}
	id := a.ID
	s.emit(model.Unreserved{Attempt: id, Reason: "free cells appeared"})
	s.emit(model.Placed{Attempt: id, Placement: res.Placement})
}
