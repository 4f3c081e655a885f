package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// stopExtras ends the members above a minimum that ends: promises to them are taken back first.
func (s *pass) stopExtras(slot int32, cause model.EndCause, by *model.AttemptID, lender cell.VCName) {
	j := &s.jobs[slot]
	for g := 1; j.spec.Partial() && g < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && s.attempts[at].state != model.AttemptReserving {
			s.stopFor(&s.attempts[at], cause, by, lender)
		}
	}
}

// demoteExtras makes the members above a minimum opportunistic, since the minimum became that.
func (s *pass) demoteExtras(slot int32, by *model.AttemptID) {
	j := &s.jobs[slot]
	s.unreserveExtras(slot)
	for g := 1; j.spec.Partial() && g < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && !s.attempts[at].lazy {
			s.emit(LazilyPreempted{Attempt: s.attempts[at].id, By: by})
		}
	}
}

// unreserveExtras takes back what was promised to members above a minimum.
func (s *pass) unreserveExtras(slot int32) {
	j := &s.jobs[slot]
	for g := 1; j.spec.Partial() && g < len(j.gangs); g++ {
		if at := j.gangs[g].attempt; at != none && s.attempts[at].state == model.AttemptReserving {
			s.emit(Unreserved{Attempt: s.attempts[at].id, Reason: "the minimum of its job ends"})
		}
	}
}

// extraCause says why a member above a minimum ends whose minimum has ended: for
// the same cause, unless the minimum ended by its own doing.
func (s *pass) extraCause(j *job) model.EndCause {
	if last := j.gangs[0].last; last != nil && !ownEnd(last.Cause) {
		return last.Cause
	}
	return model.EndCompleted
}

// minimumOver reports whether a job's minimum ended by its own doing and will not run again:
// members above it that were stopped then neither failed nor succeeded and keep nobody from
// completing the job.
func (s *pass) minimumOver(j *job) bool {
	g := &j.gangs[0]
	return j.spec.Partial() && g.done && g.last != nil && ownEnd(g.last.Cause)
}

// stoppedExtra reports whether a task belongs to a member above a minimum that is over, and does
// not run any more.
func (s *pass) stoppedExtra(j *job, t *taskRun) bool {
	return t.gang > 0 && s.minimumOver(j) && j.gangs[t.gang].attempt == none
}

// extras places the members above the minimum of one priority that wait, after all full gangs of
// that priority had their chance, and upgrades those that were made opportunistic together with
// their minimum.
func (w *walker) extras(prio cell.Priority) {
	s := w.s
	if s.partials == 0 {
		return
	}
	for _, e := range s.laziesAt(w.space, prio, true) {
		if j := &s.jobs[e.slot]; s.extraEligible(j) {
			w.upgrade(&s.attempts[j.gangs[e.gang].attempt])
		}
	}
	for e := range (view{s: s, space: w.space, prio: prio, now: s.now}).queued() {
		if s.isPostponed() {
			return
		}
		if s.extra(e) {
			w.holdPlaces()
			if w.comeFirst(prio, nil, false); s.isPostponed() {
				return
			}
			w.grantExtra(e)
		}
	}
}

func (w *walker) grantExtra(e queued) {
	defer w.s.blaming(e.job)
	defer w.s.cl.EndBudget(w.s.cl.Budget())
	s := w.s
	j := &s.jobs[e.slot]
	g := &j.gangs[e.gang]
	if !s.extraEligible(j) || !s.eligible(j, e.gang) || w.pinBlocked(j.id, g) {
		return
	}
	if w.outlook != nil {
		w.backfill(j, e.gang, Wish{})
		return
	}
	if g.attempt != none {
		s.improve(want{j: j, g: e.gang, blocked: w.blockedExtra(j)})
		return
	}
	picky := g.avoids() || s.looks.firm[w.space] && len(w.blocked) > 1 // which other members need not be
	if !picky && w.failed[g.shape.text] {
		return
	}
	if !s.hasTurn(GangRef{Job: e.job, Gang: e.gang}) {
		return
	}
	q := want{j: j, g: e.gang, blocked: w.blockedExtra(j)}
	if p, ok := s.plan(q); ok {
		s.carryOut(q, p)
	} else if !picky && !s.isPostponed() {
		w.fails(g.shape.text)
	}
}

// blockedExtra returns the chains that a member above a minimum must leave alone.
func (w *walker) blockedExtra(j *job) []bool {
	return eitherOf(w.blockedFor(j.id), w.s.otherTypes(j, 1))
}

// otherTypes returns the chains of types that a job's minimum has not, for a member above it
// that must stand with it (Firm); nil where any will do.
func (s *pass) otherTypes(j *job, g int32) []bool {
	least := j.gangs[0].attempt
	if !j.spec.Gangs[g].Extra || least == none || !s.looks.firm[j.space] || len(s.cl.Forest().Chains) == 1 {
		return nil
	}
	return s.ofOtherTypes(s.attempts[least].alloc)
}

// ofOtherTypes names the chains of types of which an allocation has nothing.
func (s *pass) ofOtherTypes(id cell.AllocID) []bool {
	chains, tasks := s.cl.Forest().Chains, s.cl.Alloc(id).Placement.Tasks
	out := make([]bool, len(chains))
	for i := range chains {
		out[i] = !slices.ContainsFunc(tasks, func(t cell.Task) bool { return t.SKU == chains[i].SKU })
	}
	return out
}

// placeWhole places a minimum with the members above it that its size gives it at once on free
// cells, so that they are packed together; false when there is no room, or when others of its
// priority wait: then those come before the members above it, unless its policy asked for the size.
func (s *pass) placeWhole(w want) bool {
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

func (s *pass) planWhole(w want) (whole, bool) {
	j, size := w.j, w.members()
	if !j.spec.Partial() || w.size == 0 && s.others(j) {
		return whole{}, false
	}
	r := s.request(w.of(0))
	r.Members = slices.Clone(r.Members)
	gangs, left := []int32{0}, s.leftOfLimit(j)-int64(j.gangs[0].leaves)
	for g := 1; g < len(j.gangs); g++ {
		if gg := &j.gangs[g]; !gg.done && gg.attempt == none && j.within(int32(g), size) && s.eligible(j, int32(g)) && int64(gg.leaves) <= left {
			left -= int64(gg.leaves)
			q := s.request(w.of(int32(g)))
			r.Members = append(r.Members, q.Members...)
			r.Avoided = r.Avoided.With(q.Avoided)
			gangs = append(gangs, int32(g))
		}
	}
	if len(gangs) == 1 {
		return whole{}, false
	}
	res, ok := s.cl.Place(&r)
	return whole{gangs, res.Placement}, ok
}

func (s *pass) startWhole(w want, p whole) {
	s.setSize(w)
	j, first := w.j, 0
	for _, g := range p.gangs {
		n := first + len(j.spec.Gangs[g].Tasks)
		s.emit(Placed{Attempt: model.AttemptID{Job: j.id, Gang: g, N: j.gangs[g].n + 1}, Placement: s.cut(p.placement, first, n)})
		first = n
	}
}

// startWhole is placeWhole beside the bookings of others.
func (o *outlook) startWhole(a asking) bool {
	if a.g != 0 || !a.j.spec.Partial() {
		return false
	}
	w := o.want(a, o.kept(a, o.s.now, a.until(o.s.now)))
	p, ok := o.s.planWhole(w)
	if ok {
		o.release()
		o.s.startWhole(w, p)
		o.started(a)
	}
	return ok
}

// cut returns some tasks of a placement, with the preassigned cells around them.
func (s *pass) cut(pl cell.Placement, from, to int) cell.Placement {
	f := s.cl.Forest()
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
func (s *pass) others(j *job) bool {
	for space := range int32(len(s.queues)) {
		if j.spec.Priority >= cell.MinGuaranteed && space != s.space(j.spec.VC) {
			continue
		}
		for e := range (view{s: s, space: space, prio: j.spec.Priority, now: s.now}).queued() {
			if e.job != j.id && !s.extra(e) && s.eligible(&s.jobs[e.slot], e.gang) {
				return true
			}
		}
	}
	return false
}

// endedWithMinimum reports whether a member above a minimum was stopped only
// because its minimum ended, and that runs again.
func (s *pass) endedWithMinimum(j *job, g int32) bool {
	spec := &j.spec.Gangs[g]
	return spec.Extra && j.gangs[g].last.Cause == model.EndCompleted && !j.gangs[0].done && j.tasks[spec.Tasks[0]].state == model.TaskEnded
}
