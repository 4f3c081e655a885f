package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Defragmentation: enough leaves may be free for a gang, but not where it can use them. Then
// gangs of its VC that save their work may move to make room in one place. This happens in VCs
// that allow a number of moves per hour, whatever the policy, and where a policy wishes it. A
// gang moves only if, in the same decision, cells are reserved for the waiting gang and for
// every gang that moves. So each move lets a gang start that could not otherwise, and none is
// in vain or back and forth.

const (
	maxMissed   = 2                 // waiting gangs for which a walk of a VC moves others
	clearRounds = 4                 // tries for one waiting gang
	settled     = 10 * model.Minute // minimum run time before a move, if the VC sets none
)

// Moves implements View.
func (v view) Moves() []model.Time { return v.s.MovesOf(v.VC(), v.now) }

// miss remembers a gang that found no cells though enough leaves are free.
func (w *walker) miss(j *tables.Job, wish model.Wish, blocked []bool) {
	g := &j.Gangs[wish.Gang.Gang]
	if len(w.missed) == maxMissed || w.bookings != nil || w.s.VC(w.space).Moves == 0 ||
		j.Spec.Priority < cell.MinGuaranteed || int64(g.Leaves) > w.s.AvailableTo(w.space, j.Spec.Priority) {
		return
	}
	w.missed = append(w.missed, missed{wish, blocked})
}

// defragment moves gangs for those that the walk missed, within the VC's moves per hour.
func (w *walker) defragment() {
	for _, m := range w.missed {
		vc := w.s.VC(w.space)
		m.wish.MoveOthers = &model.MoveOthers{MinRun: settleOf(vc), MaxMoves: int(vc.Moves) - len(w.s.MovesOf(vc.Name, w.s.Now))}
		w.relocateFor(&m.wish, m.blocked)
	}
}

// settleOf is how long a gang of a VC must have run before it moves for another.
func settleOf(c *model.VCConfig) model.Duration { return cmp.Or(c.MinRun, settled) }

// relocateFor moves gangs so that the gang of a wish gets cells.
func (w *walker) relocateFor(wish *model.Wish, blocked []bool) {
	defer w.s.BlameJob(wish.Gang.Job)
	s := w.s
	j := s.Find(wish.Gang.Job)
	if j == nil || wish.Gang.Gang < 0 || int(wish.Gang.Gang) >= len(j.Gangs) || w.bookings != nil {
		return
	}
	g := &j.Gangs[wish.Gang.Gang]
	if !g.Waiting || g.Attempt != tables.None || !s.Eligible(j, wish.Gang.Gang) ||
		j.Spec.Gangs[wish.Gang.Gang].Extra || j.Spec.Priority < cell.MinGuaranteed ||
		int64(g.Leaves) > s.AvailableTo(w.space, j.Spec.Priority) || w.pinBlocked(j.ID, g) {
		return
	}
	r := s.Request(place.Want{J: j, G: wish.Gang.Gang, Only: wish.OnlyNodes, Within: wish.Within, Blocked: blocked})
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := s.Holder(id)
		return s.OrderCost(a, int64(s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves))
	}
	var stay []cell.AllocID
	for range clearRounds {
		r.Preempt = &cell.Preemptible{Also: func(id cell.AllocID) bool {
			return !slices.Contains(stay, id) && s.mayMoveFor(s.Holder(id), j.Spec, wish.MoveOthers.MinRun)
		}}
		res, ok := s.Cluster.Place(&r)
		movers := s.stayers(res.Victims)
		n := len(movers)
		if !ok || len(res.Victims) == 0 || n > wish.MoveOthers.MaxMoves || n > maxMoves {
			return
		}
		if w.moves+n > maxMoves {
			s.LookAgain.By(w.space) // retried at the next look, which is at once
			return
		}
		places, stuck := s.relocate(j, res.Placement, movers)
		if stuck == cell.None {
			w.moves += n
			s.makeRoom(model.AttemptID{Job: j.ID, Gang: wish.Gang.Gang, N: g.N + 1}, &res, movers, places)
			return
		}
		stay = append(stay, stuck)
	}
}

// mayMoveFor reports whether an attempt may move for a job. It must be of the same VC and of no
// higher priority, not share its leaves, and have run for settle.
func (s *Pass) mayMoveFor(a *tables.Attempt, by *model.Job, settle model.Duration) bool {
	j := &s.Jobs[a.Job]
	return j.Spec.VC == by.VC && j.Spec.Priority <= by.Priority && s.Movable(a) && !s.Shared(a) && a.Started > 0 &&
		a.Started.Add(settle) <= s.Now && !s.anchored(a)
}

// anchored reports whether the policy keeps an attempt from moving for others.
func (s *Pass) anchored(a *tables.Attempt) bool {
	p, some := s.Policies[s.Jobs[a.Job].Space].(model.KeepsInPlace)
	if !some {
		return false
	}
	g := s.GangView(s.Entry(a))
	was := s.EnterPolicy(s.Jobs[a.Job].Space)
	stays := p.Stays(&g)
	s.EnterPolicy(was)
	return stays
}

// stayers returns the holders that are not leaving anyway.
func (s *Pass) stayers(ids []cell.AllocID) []cell.AllocID {
	return slices.DeleteFunc(slices.Clone(ids), func(id cell.AllocID) bool { return s.Cluster.Alloc(id).Intent() == cell.Leaving })
}

// relocate finds new places for movers, beside the placement of the gang they make room for,
// and sorts movers like the places. If one finds none it returns that one, else None.
func (s *Pass) relocate(j *tables.Job, beside cell.Placement, movers []cell.AllocID) ([]cell.Placement, cell.AllocID) {
	real := s.Cluster
	defer func() { s.Cluster = real }()
	s.Cluster = real.Clone()
	s.Cluster.CountWith(real)
	s.Cluster.Take(j.Space, j.Spec.Priority, beside, true)
	slices.SortFunc(movers, func(x, y cell.AllocID) int { // the hardest to place first
		a, b := s.Holder(x), s.Holder(y)
		return cmp.Or(cmp.Compare(s.Jobs[b.Job].Gangs[b.ID.Gang].Leaves, s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves),
			model.CompareAttempts(a.ID, b.ID))
	})
	var out []cell.Placement
	for _, id := range movers {
		a := s.Holder(id)
		m := &s.Jobs[a.Job]
		r := s.Request(place.Want{J: m, G: a.ID.Gang})
		r.Blocked = s.ofOtherTypes(id) // a mover keeps its type, which its policy may have chosen
		to, ok := s.Cluster.Place(&r)
		if !ok {
			return nil, id
		}
		s.Cluster.Take(m.Space, m.Spec.Priority, to.Placement, true)
		out = append(out, to.Placement)
	}
	return out, cell.None
}

// makeRoom reserves the waiting gang's cells and moves the gangs on them.
func (s *Pass) makeRoom(id model.AttemptID, res *cell.Result, movers []cell.AllocID, places []cell.Placement) {
	var victims, move []model.AttemptID
	for _, v := range res.Victims {
		victims = append(victims, s.Holder(v).ID)
	}
	for _, v := range movers {
		move = append(move, s.Holder(v).ID)
	}
	slices.SortFunc(victims, model.CompareAttempts)
	s.emit(model.Reserved{Attempt: id, Placement: res.Placement, Victims: victims})
	for i, m := range move {
		s.sendTo(s.Live(m), places[i], &id)
	}
}

// nextClear is when more gangs of a VC may move than at the last decision, if a gang waits
// there; 0 is never.
func (s *Pass) nextClear(space int32) (next model.Time) {
	vc := model.ConfigOfVC(s.Config, s.Cluster.Space(space).Name)
	if vc.Moves == 0 || len(s.Queues[space]) == 0 {
		return 0
	}
	// With each move that is an hour old, one more may be made. That may be enough for a gang
	// that needs several.
	switch times := s.MovesOf(vc.Name, s.DecidedAt); {
	case len(times) >= int(vc.Moves):
		return times[len(times)-int(vc.Moves)].Add(model.Hour)
	case len(times) > 0:
		next = times[0].Add(model.Hour)
	}
	for a := range s.AttemptsIn(space) {
		if t := a.Started.Add(settleOf(vc)); a.Started > 0 && t > s.DecidedAt && s.Jobs[a.Job].Spec.Hints.Checkpoint {
			next = index.Sooner(next, t)
		}
	}
	return next
}

// sendTo stops a gang and reserves the cells on which it will run again. by is the gang it
// moves for, nil if it moves for itself.
func (s *Pass) sendTo(a *tables.Attempt, to cell.Placement, by *model.AttemptID) {
	s.assertOlder(a)
	id := a.ID
	s.emit(model.StopSent{Attempt: id, Cause: model.EndMigrated, Grace: s.Jobs[a.Job].Spec.Grace, By: by,
		Nodes: place.NodesOf(to.Tasks)})
	id.N++
	s.emit(model.Reserved{Attempt: id, Placement: to})
}

// settleMove revokes the reservation of a moving gang if it cannot use it any more.
func (s *Pass) settleMove(g *tables.Gang) {
	if g.Next == tables.None {
		return
	}
	if g.Attempt != tables.None && s.Attempts[g.Attempt].State == model.AttemptUnknown {
		s.cancelMove(g, fmt.Sprintf("attempt %v may be alive on a lost node", s.Attempts[g.Attempt].ID))
		return
	}
	s.settleReservation(&s.Attempts[g.Next])
}

// cancelMove revokes the reservation to which a gang was to move, if there is one.
func (s *Pass) cancelMove(g *tables.Gang, why string) {
	if g.Next != tables.None {
		s.emit(model.Unreserved{Attempt: s.Attempts[g.Next].ID, Reason: why})
	}
}

// startSooner starts a gang with a reservation once its victims have left, or earlier on other
// cells that came free.
func (s *Pass) startSooner(w place.Want) {
	a := &s.Attempts[w.Gang().Attempt]
	if s.startReserved(a) || s.Cluster.IdleCount() == 0 {
		return // this is called whenever one of many victims has left
	}
	now := index.NoFreeCells{IdleChanges: s.Dirty.IdleChanges, Missing: s.Missing(a), Used: s.Used(a)}
	if now.Missing > s.Cluster.IdleCount() || s.NoFreeCells[a.ID] == now {
		return
	}
	r := s.Request(w)
	early := s.Cluster.Work().Early()
	res, ok := s.Cluster.PlaceInstead(a.Alloc, &r)
	if !ok {
		if s.Cluster.Work().Early() == early && len(r.Avoided) == 0 && w.Only == nil && r.Reach == nil &&
			!slices.Contains(w.Blocked, true) {
			if s.NoFreeCells == nil || len(s.NoFreeCells) >= place.MaxNotYet {
				s.NoFreeCells = map[model.AttemptID]index.NoFreeCells{}
			}
			s.NoFreeCells[a.ID] = now
		}
		return
	}
	id := a.ID
	s.emit(model.Unreserved{Attempt: id, Reason: "free cells appeared"})
	s.emit(model.Placed{Attempt: id, Placement: res.Placement})
}
