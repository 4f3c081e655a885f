package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// stopExtras ends the members above a minimum that ends: promises to them are taken back first.
func (s *Pass) stopExtras(slot int32, cause model.EndCause, by *model.AttemptID, lender cell.VCName) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State != model.AttemptReserving {
			s.stopFor(&s.Attempts[at], cause, by, lender)
		}
	}
}

// demoteExtras makes the members above a minimum opportunistic, since the minimum became that.
func (s *Pass) demoteExtras(slot int32, by *model.AttemptID) {
	j := &s.Jobs[slot]
	s.unreserveExtras(slot)
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !s.Attempts[at].Lazy {
			s.emit(model.LazilyPreempted{Attempt: s.Attempts[at].ID, By: by})
		}
	}
}

// unreserveExtras takes back what was promised to members above a minimum.
func (s *Pass) unreserveExtras(slot int32) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "the minimum of its job ends"})
		}
	}
}

// extraCause says why a member above a minimum ends whose minimum has ended: for
// the same cause, unless the minimum ended by its own doing.
func (s *Pass) extraCause(j *tables.Job) model.EndCause {
	if last := j.Gangs[0].Last; last != nil && !ownEnd(last.Cause) {
		return last.Cause
	}
	return model.EndCompleted
}

// minimumOver reports whether a job's minimum ended by its own doing and will not run again:
// members above it that were stopped then neither failed nor succeeded and keep nobody from
// completing the job.
func (s *Pass) minimumOver(j *tables.Job) bool {
	g := &j.Gangs[0]
	return j.Spec.Partial() && g.Done && g.Last != nil && ownEnd(g.Last.Cause)
}

// stoppedExtra reports whether a task belongs to a member above a minimum that is over, and does
// not run any more.
func (s *Pass) stoppedExtra(j *tables.Job, t *tables.TaskRun) bool {
	return t.Gang > 0 && s.minimumOver(j) && j.Gangs[t.Gang].Attempt == tables.None
}

// extras places the members above the minimum of one priority that wait, after all full gangs of
// that priority had their chance, and upgrades those that were made opportunistic together with
// their minimum.
func (w *walker) extras(prio cell.Priority) {
	s := w.s
	if s.PartialJobs == 0 {
		return
	}
	for _, e := range s.LaziesAt(w.space, prio, true) {
		if j := &s.Jobs[e.Slot]; s.ExtraEligible(j) {
			w.upgrade(&s.Attempts[j.Gangs[e.Gang].Attempt])
		}
	}
	for e := range (view{s: s, space: w.space, prio: prio, now: s.Now}).queued() {
		if s.IsPostponed() {
			return
		}
		if s.Extra(e) {
			w.holdPlaces()
			if w.comeFirst(prio, nil, false); s.IsPostponed() {
				return
			}
			w.grantExtra(e)
		}
	}
}

func (w *walker) grantExtra(e index.Queued) {
	defer w.s.Blaming(e.Job)
	defer w.s.Cluster.EndBudget(w.s.Cluster.Budget())
	s := w.s
	j := &s.Jobs[e.Slot]
	g := &j.Gangs[e.Gang]
	if !s.ExtraEligible(j) || !s.Eligible(j, e.Gang) || w.pinBlocked(j.ID, g) {
		return
	}
	if w.outlook != nil {
		w.backfill(j, e.Gang, model.Wish{})
		return
	}
	if g.Attempt != tables.None {
		s.improve(place.Want{J: j, G: e.Gang, Blocked: w.blockedExtra(j)})
		return
	}
	picky := g.Avoids() || s.Dirty.Firm[w.space] && len(w.blocked) > 1 // which other members need not be
	if !picky && w.failed[g.Shape.Text] {
		return
	}
	if !s.HasTurn(model.GangRef{Job: e.Job, Gang: e.Gang}) {
		return
	}
	q := place.Want{J: j, G: e.Gang, Blocked: w.blockedExtra(j)}
	if p, ok := s.Plan(q); ok {
		s.carryOut(q, p)
	} else if !picky && !s.IsPostponed() {
		w.fails(g.Shape.Text)
	}
}

// blockedExtra returns the chains that a member above a minimum must leave alone.
func (w *walker) blockedExtra(j *tables.Job) []bool {
	return eitherOf(w.blockedFor(j.ID), w.s.OtherTypes(j, 1))
}

// OtherTypes returns the chains of types that a job's minimum has not, for a member above it
// that must stand with it (Firm); nil where any will do.
func (s *Pass) OtherTypes(j *tables.Job, g int32) []bool {
	least := j.Gangs[0].Attempt
	if !j.Spec.Gangs[g].Extra || least == tables.None || !s.Dirty.Firm[j.Space] || len(s.Cluster.Forest().Chains) == 1 {
		return nil
	}
	return s.ofOtherTypes(s.Attempts[least].Alloc)
}

// ofOtherTypes names the chains of types of which an allocation has nothing.
func (s *Pass) ofOtherTypes(id cell.AllocID) []bool {
	chains, tasks := s.Cluster.Forest().Chains, s.Cluster.Alloc(id).Placement.Tasks
	out := make([]bool, len(chains))
	for i := range chains {
		out[i] = !slices.ContainsFunc(tasks, func(t cell.Task) bool { return t.SKU == chains[i].SKU })
	}
	return out
}

// placeWhole places a minimum with the members above it that its size gives it at once on free
// cells, so that they are packed together; false when there is no room, or when others of its
// priority wait: then those come before the members above it, unless its policy asked for the size.
func (s *Pass) placeWhole(w place.Want) bool {
	p, ok := s.planWhole(w)
	if ok {
		s.startWhole(w, p)
	}
	return ok
}

// whole is where a minimum and members above it go together.
type whole struct {
	gangs     []int32
	placement cell.Placement // the tasks of the gangs, one gang after the other
}

func (s *Pass) planWhole(w place.Want) (whole, bool) {
	j, size := w.J, w.Members()
	if !j.Spec.Partial() || w.Size == 0 && s.others(j) {
		return whole{}, false
	}
	r := s.Request(w.Of(0))
	r.Members = slices.Clone(r.Members)
	gangs, left := []int32{0}, s.LeftOfLimit(j)-int64(j.Gangs[0].Leaves)
	for g := 1; g < len(j.Gangs); g++ {
		if gg := &j.Gangs[g]; !gg.Done && gg.Attempt == tables.None && j.Within(int32(g), size) &&
			s.Eligible(j, int32(g)) && int64(gg.Leaves) <= left {
			left -= int64(gg.Leaves)
			q := s.Request(w.Of(int32(g)))
			r.Members = append(r.Members, q.Members...)
			r.Avoided = r.Avoided.With(q.Avoided)
			gangs = append(gangs, int32(g))
		}
	}
	if len(gangs) == 1 {
		return whole{}, false
	}
	res, ok := s.Cluster.Place(&r)
	return whole{gangs, res.Placement}, ok
}

func (s *Pass) startWhole(w place.Want, p whole) {
	s.setSize(w)
	j, first := w.J, 0
	for _, g := range p.gangs {
		n := first + len(j.Spec.Gangs[g].Tasks)
		s.emit(model.Placed{Attempt: model.AttemptID{Job: j.ID, Gang: g, N: j.Gangs[g].N + 1},
			Placement: s.cut(p.placement, first, n)})
		first = n
	}
}

// startWhole is placeWhole beside the bookings of others.
func (o *bookings) startWhole(a asking) bool {
	if a.g != 0 || !a.j.Spec.Partial() {
		return false
	}
	w := o.want(a, o.kept(a, o.s.Now, a.until(o.s.Now)))
	p, ok := o.s.planWhole(w)
	if ok {
		o.release()
		o.s.startWhole(w, p)
		o.started(a)
	}
	return ok
}

// cut returns some tasks of a placement, with the preassigned cells around them.
func (s *Pass) cut(pl cell.Placement, from, to int) cell.Placement {
	f := s.Cluster.Forest()
	out := cell.Placement{Tasks: pl.Tasks[from:to:to]}
	for _, b := range pl.Binds {
		inside := func(l cell.LeafID) bool { return f.Contains(b.Cell, f.Leaves[l]) }
		if slices.ContainsFunc(out.Tasks, func(t cell.Task) bool { return slices.ContainsFunc(t.Leaves, inside) }) {
			out.Binds = append(out.Binds, b)
		}
	}
	return out
}

// others reports whether full gangs of other jobs wait at a job's priority, in its
// VC or, when it is opportunistic, in any.
func (s *Pass) others(j *tables.Job) bool {
	for space := range int32(len(s.Queues)) {
		if j.Spec.Priority >= cell.MinGuaranteed && space != s.Space(j.Spec.VC) {
			continue
		}
		for e := range (view{s: s, space: space, prio: j.Spec.Priority, now: s.Now}).queued() {
			if e.Job != j.ID && !s.Extra(e) && s.Eligible(&s.Jobs[e.Slot], e.Gang) {
				return true
			}
		}
	}
	return false
}

// endedWithMinimum reports whether a member above a minimum was stopped only
// because its minimum ended, and that runs again.
func (s *Pass) endedWithMinimum(j *tables.Job, g int32) bool {
	spec := &j.Spec.Gangs[g]
	return spec.Extra && j.Gangs[g].Last.Cause == model.EndCompleted && !j.Gangs[0].Done &&
		j.Tasks[spec.Tasks[0]].State == model.TaskEnded
}
