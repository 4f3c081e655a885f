package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Free leaves may be enough for a gang that waits, and yet not be where it could use
// them. Then others of its VC that save their work may move, so that they leave room in
// one place: in any VC that says how many may do so in an hour, whatever its policy, and
// where a policy wishes it. Nobody moves unless the gang that waits is promised the cells
// in the same decision, and everybody who moves a place of his own. So it starts, which it
// otherwise would not, and nobody moves for nothing, or to and fro.

const (
	maxMissed   = 2                 // gangs that a walk of a VC moves others for
	clearRounds = 4                 // tries for one of them
	settled     = 10 * model.Minute // how long a gang runs before it moves where nobody says it
)

// Moves implements View.
func (v view) Moves() []model.Time { return v.s.movesOf(v.VC(), v.now) }

// miss remembers a gang that found no cells though enough leaves are free by number.
func (w *walker) miss(j *job, wish Wish, blocked []bool) {
	g := &j.gangs[wish.Gang.Gang]
	if len(w.missed) == maxMissed || w.outlook != nil || w.s.vc(w.space).Moves == 0 ||
		j.spec.Priority < cell.MinGuaranteed || int64(g.leaves) > w.s.unheld(w.space, j.spec.Priority) {
		return
	}
	w.missed = append(w.missed, missed{wish, blocked})
}

// missed is a wish that was not granted.
type missed struct {
	wish    Wish
	blocked []bool
}

// defragment lets gangs move for those that the walk of a VC missed, as many in an hour
// as its configuration says.
func (w *walker) defragment() {
	for _, m := range w.missed {
		vc := w.s.vc(w.space)
		m.wish.Clear = &Clear{Settle: settleOf(vc), Most: int(vc.Moves) - len(w.s.movesOf(vc.Name, w.s.now))}
		w.clear(&m.wish, m.blocked)
	}
}

// settle is how long a gang of a VC runs before it moves for another.
func settleOf(c *model.VCConfig) model.Duration { return cmp.Or(c.MinRun, settled) }

// clear lets gangs move so that the one of a wish gets its cells.
func (w *walker) clear(wish *Wish, blocked []bool) {
	defer w.s.blaming(wish.Gang.Job)
	s := w.s
	j := s.find(wish.Gang.Job)
	if j == nil || wish.Gang.Gang < 0 || int(wish.Gang.Gang) >= len(j.gangs) || w.outlook != nil {
		return
	}
	g := &j.gangs[wish.Gang.Gang]
	if !g.waiting || g.attempt != none || !s.eligible(j, wish.Gang.Gang) || j.spec.Gangs[wish.Gang.Gang].Extra || j.spec.Priority < cell.MinGuaranteed ||
		int64(g.leaves) > s.unheld(w.space, j.spec.Priority) || w.pinBlocked(j.id, g) {
		return
	}
	r := s.request(want{j: j, g: wish.Gang.Gang, only: wish.Only, near: wish.Within, blocked: blocked})
	r.Cost = func(id cell.AllocID) cell.Cost {
		a := s.holder(id)
		return s.inOrder(a, int64(s.jobs[a.job].gangs[a.id.Gang].leaves))
	}
	var stay []cell.AllocID
	for range clearRounds {
		r.Lift = &cell.Lift{Also: func(id cell.AllocID) bool {
			return !slices.Contains(stay, id) && s.clears(s.holder(id), j.spec, wish.Clear.Settle)
		}}
		res, ok := s.cl.Place(&r)
		movers := s.stayers(res.Victims)
		n := len(movers)
		if !ok || len(res.Victims) == 0 || n > wish.Clear.Most || n > maxMoves {
			return
		}
		if w.moves+n > maxMoves {
			s.grew.by(w.space) // at the next look, which is at once
			return
		}
		places, stuck := s.relocate(j, res.Placement, movers)
		if stuck == cell.None {
			w.moves += n
			s.makeRoom(model.AttemptID{Job: j.id, Gang: wish.Gang.Gang, N: g.n + 1}, &res, movers, places)
			return
		}
		stay = append(stay, stuck)
	}
}

// clears reports whether an attempt may move for a job: it is of the same VC and of no
// higher priority, has its leaves alone, and has run for long enough.
func (s *pass) clears(a *attempt, by *model.Job, settle model.Duration) bool {
	j := &s.jobs[a.job]
	return j.spec.VC == by.VC && j.spec.Priority <= by.Priority && s.movable(a) && !s.shared(a) && a.started > 0 && a.started.Add(settle) <= s.now && !s.anchored(a)
}

// anchored reports whether the policy of an attempt's VC lets it move for nobody.
func (s *pass) anchored(a *attempt) bool {
	p, some := s.pol[s.jobs[a.job].space].(Anchorer)
	if !some {
		return false
	}
	g := s.gangView(s.entry(a))
	was := s.ask(s.jobs[a.job].space)
	stays := p.Stays(&g)
	s.ask(was)
	return stays
}

// stayers are those of some holders who do not leave anyway, as one does that moved for
// somebody who found a better place since.
func (s *pass) stayers(ids []cell.AllocID) []cell.AllocID {
	return slices.DeleteFunc(slices.Clone(ids), func(id cell.AllocID) bool { return s.cl.Alloc(id).Mood() == cell.Leaving })
}

// relocate finds places for those who would make room, beside the gang for which they do,
// and sorts them as the places; it returns the one that found none, if there is one.
func (s *pass) relocate(j *job, beside cell.Placement, movers []cell.AllocID) ([]cell.Placement, cell.AllocID) {
	real := s.cl
	defer func() { s.cl = real }()
	s.cl = real.Clone()
	s.cl.CountWith(real)
	s.cl.Take(j.space, j.spec.Priority, beside, true)
	slices.SortFunc(movers, func(x, y cell.AllocID) int { // the largest is the hardest to place
		a, b := s.holder(x), s.holder(y)
		return cmp.Or(cmp.Compare(s.jobs[b.job].gangs[b.id.Gang].leaves, s.jobs[a.job].gangs[a.id.Gang].leaves), compareAttempts(a.id, b.id))
	})
	var out []cell.Placement
	for _, id := range movers {
		a := s.holder(id)
		m := &s.jobs[a.job]
		r := s.request(want{j: m, g: a.id.Gang})
		r.Blocked = s.ofOtherTypes(id) // who moves for another keeps its type, which its policy may have chosen
		to, ok := s.cl.Place(&r)
		if !ok {
			return nil, id
		}
		s.cl.Take(m.space, m.spec.Priority, to.Placement, true)
		out = append(out, to.Placement)
	}
	return out, cell.None
}

// makeRoom promises an attempt its cells and lets those move who stand there.
func (s *pass) makeRoom(id model.AttemptID, res *cell.Result, movers []cell.AllocID, places []cell.Placement) {
	var victims, move []model.AttemptID
	for _, v := range res.Victims {
		victims = append(victims, s.holder(v).id)
	}
	for _, v := range movers {
		move = append(move, s.holder(v).id)
	}
	slices.SortFunc(victims, compareAttempts)
	s.emit(Reserved{Attempt: id, Placement: res.Placement, Victims: victims})
	for i, m := range move {
		s.sendTo(s.live(m), places[i], &id)
	}
}

// movesText says how many gangs of a VC may still move for one that waits.
func (s *pass) movesText(name cell.VCName) string {
	vc := model.OfVC(s.cfg, name)
	if vc.Moves == 0 {
		return ""
	}
	left := max(int(vc.Moves)-len(s.movesOf(name, s.now)), 0)
	return fmt.Sprintf("; %d of %d moves of this hour are left, but no movable job makes room", left, vc.Moves)
}

// nextClear is when more gangs of a VC may move than at the last decision, if somebody
// waits there; 0 is never.
func (s *pass) nextClear(space int32) (next model.Time) {
	vc := model.OfVC(s.cfg, s.cl.Space(space).Name)
	if vc.Moves == 0 || len(s.queues[space]) == 0 {
		return 0
	}
	// With each move that is an hour ago one more may be made, and so one may be enough for
	// whom those that were left were too few.
	switch times := s.movesOf(vc.Name, s.decided); {
	case len(times) >= int(vc.Moves):
		return times[len(times)-int(vc.Moves)].Add(model.Hour)
	case len(times) > 0:
		next = times[0].Add(model.Hour)
	}
	for a := range s.holding(space) {
		if t := a.started.Add(settleOf(vc)); a.started > 0 && t > s.decided && s.jobs[a.job].spec.Hints.Checkpoint {
			next = sooner(next, t)
		}
	}
	return next
}
