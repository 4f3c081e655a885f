package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
)

// stopExtras stops the members above a minimum that ends.
func (s *Pass) stopExtras(slot int32, cause model.EndCause, by *model.AttemptID, lender cell.VCName) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State != model.AttemptReserving {
			s.stopFor(&s.Attempts[at], cause, by, lender)
		}
	}
}

// demoteExtras makes the members above a minimum opportunistic after the minimum was demoted.
func (s *Pass) demoteExtras(slot int32, by *model.AttemptID) {
	j := &s.Jobs[slot]
	s.unreserveExtras(slot)
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !s.Attempts[at].Lazy {
			s.emit(model.LazilyPreempted{Attempt: s.Attempts[at].ID, By: by})
		}
	}
}

// unreserveExtras revokes the reservations of members above a minimum.
func (s *Pass) unreserveExtras(slot int32) {
	j := &s.Jobs[slot]
	for g := 1; j.Spec.Partial() && g < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "the minimum of its job ends"})
		}
	}
}

// extraCause is why a member above an ended minimum ends: for the same cause, unless the
// minimum's tasks ended by themselves.
func (s *Pass) extraCause(j *tables.Job) model.EndCause {
	if last := j.Gangs[0].Last; last != nil && !ownEnd(last.Cause) {
		return last.Cause
	}
	return model.EndCompleted
}

// minimumOver reports whether a job's minimum ended by itself and will not run again. Members
// above it that were stopped then count neither as failed nor as succeeded, and the job
// completes without them.
func (s *Pass) minimumOver(j *tables.Job) bool {
	g := &j.Gangs[0]
	return j.Spec.Partial() && g.Done && g.Last != nil && ownEnd(g.Last.Cause)
}

// stoppedExtra reports whether a task belongs to a member whose minimum is over, and does not
// run.
func (s *Pass) stoppedExtra(j *tables.Job, t *tables.TaskRun) bool {
	return t.Gang > 0 && s.minimumOver(j) && j.Gangs[t.Gang].Attempt == tables.None
}

// extras places the waiting members above minimums of one priority, after all its full gangs
// were tried. It first upgrades those that were demoted with their minimum.
func (w *walker) extras(prio cell.Priority) {
	s := w.s
	if s.PartialJobs == 0 {
		return
	}
	for _, e := range s.LazyGangs(w.space, prio, true) {
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
			if w.reserveReturning(prio, nil, false); s.IsPostponed() {
				return
			}
			w.grantExtra(e)
		}
	}
}

func (w *walker) grantExtra(e index.Queued) {
	defer w.s.BlameJob(e.Job)
	defer w.s.Cluster.EndBudget(w.s.Cluster.Budget())
	s := w.s
	j := &s.Jobs[e.Slot]
	g := &j.Gangs[e.Gang]
	if !s.ExtraEligible(j) || !s.Eligible(j, e.Gang) || w.pinBlocked(j.ID, g) {
		return
	}
	if w.bookings != nil {
		w.backfill(j, e.Gang, model.Wish{})
		return
	}
	if g.Attempt != tables.None {
		s.startSooner(place.Want{J: j, G: e.Gang, Blocked: w.blockedExtra(j)})
		return
	}
	picky := g.Avoids() || s.Dirty.Firm[w.space] && len(w.blocked) > 1 // tied to one type
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
	return place.EitherOf(w.blockedFor(j.ID), w.s.OtherTypes(j, 1))
}

// OtherTypes returns the chains of types that the minimum does not use, for a member that must
// stay with it (model.MembersFollowMinimum); nil if any type will do.
func (s *Pass) OtherTypes(j *tables.Job, g int32) []bool {
	least := j.Gangs[0].Attempt
	if !j.Spec.Gangs[g].Extra || least == tables.None || !s.Dirty.Firm[j.Space] || len(s.Cluster.Forest().Chains) == 1 {
		return nil
	}
	return s.ofOtherTypes(s.Attempts[least].Alloc)
}

// ofOtherTypes returns the chains of types that an allocation does not use.
func (s *Pass) ofOtherTypes(id cell.AllocID) []bool {
	chains, tasks := s.Cluster.Forest().Chains, s.Cluster.Alloc(id).Placement.Tasks
	out := make([]bool, len(chains))
	for i := range chains {
		out[i] = !slices.ContainsFunc(tasks, func(t cell.Task) bool { return t.SKU == chains[i].SKU })
	}
	return out
}

// placeWhole places a minimum together with the members above it on free cells, packed
// together, and reports whether it did. If other gangs of its priority wait they come before
// the members, unless the policy asked for the size.
func (s *Pass) placeWhole(w place.Want) bool {
	p, ok := s.planWhole(w)
	if ok {
		s.startWhole(w, p)
	}
	return ok
}

// whole is a placement of several gangs of a job together.
type whole struct {
	gangs     []int32
	placement cell.Placement // the tasks, gang by gang
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
func (o *bookings) startWhole(a timeline.Candidate) bool {
	if a.G != 0 || !a.J.Spec.Partial() {
		return false
	}
	w := o.Want(a, o.Beside(a))
	p, ok := o.s.planWhole(w)
	if ok {
		o.Release()
		o.s.startWhole(w, p)
		o.Started(a)
	}
	return ok
}

// cut returns some tasks of a placement, with the bindings of the preassigned cells around
// them.
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

// others reports whether full gangs of other jobs wait at a job's priority, in its VC or, if it
// is opportunistic, in any.
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

// endedWithMinimum reports whether a member was stopped only because its minimum ended, and the
// minimum will run again.
func (s *Pass) endedWithMinimum(j *tables.Job, g int32) bool {
	spec := &j.Spec.Gangs[g]
	return spec.Extra && j.Gangs[g].Last.Cause == model.EndCompleted && !j.Gangs[0].Done &&
		j.Tasks[spec.Tasks[0]].State == model.TaskEnded
}

// An elastic job may have more members than usual while no waiting gang wants the cells
// (Wish.OnOwnNodes). They start together on free cells of the nodes on which the job runs. They are
// the first to leave for a gang of their priority (Wish.ShrinkOthers).

// maxGrowth bounds how many members a job gets at once.
const maxGrowth = 64

// Wanted implements View.
func (v view) Wanted() int64 { return v.s.wanted(v.space) }

// GrowthOnOwnNodes implements View.
func (v view) GrowthOnOwnNodes(ref model.GangRef) int32 {
	j := v.s.Find(ref.Job)
	if j == nil || ref.Gang != 0 || !j.Spec.Partial() || v.s.AttemptOf(ref) == nil || v.s.Dirty.Backfills[v.space] {
		return 0
	}
	idle := int64(0)
	for n := range v.s.nodesOf(j).All() {
		left, _ := v.Idle(n)
		idle += left
	}
	z := v.s.SizesOf(j)
	more := min(int64(z.Most-z.Now), idle/int64(max(z.MemberLeaves, 1)), v.Free()/int64(max(z.MemberLeaves, 1)),
		maxGrowth)
	for n := int32(more); n > 0; n-- {
		if _, ok := v.s.planGrowth(j, z.Now+n); ok {
			return n
		}
	}
	return 0
}

// wanted counts the leaves for which full gangs of a VC wait: those that could be placed with
// its guarantee and have no reservation.
func (s *Pass) wanted(space int32) int64 {
	var n int64
	for _, e := range s.Queues[space] {
		j := &s.Jobs[e.Slot]
		g := &j.Gangs[e.Gang]
		if e.Prio >= cell.MinGuaranteed && g.Attempt == tables.None && !s.Extra(e) && s.Eligible(j, e.Gang) &&
			!s.NeverFits(j, int(e.Gang)) {
			n += int64(g.Leaves)
		}
	}
	return n
}

// nodesOf are the nodes on which a job runs.
func (s *Pass) nodesOf(j *tables.Job) cell.NodeSet {
	f, out := s.Cluster.Forest(), cell.NodeSet{}
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || s.Attempts[at].State == model.AttemptReserving || s.Attempts[at].Cause != 0 {
			continue
		}
		for _, t := range s.Cluster.Alloc(s.Attempts[at].Alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				out = out.Add(f.Cells[f.Leaves[l]].Node)
			}
		}
	}
	return out
}

// planGrowth finds free cells for the members that a job gets by growing to a size, on the
// nodes on which it runs; false if not all fit there.
func (s *Pass) planGrowth(j *tables.Job, size int32) (whole, bool) {
	w := place.Want{J: j, Only: s.nodesOf(j)}
	var r cell.Request
	var gangs []int32
	left := s.LeftOfLimit(j)
	for g := int32(1); int(g) < len(j.Gangs); g++ {
		gg := &j.Gangs[g]
		if !j.Within(g, size) || j.Within(g, j.Size) {
			continue
		}
		if left -= int64(gg.Leaves); gg.Done || gg.Attempt != tables.None || !s.Eligible(j, g) || left < 0 {
			return whole{}, false
		}
		q := s.Request(w.Of(g))
		if len(gangs) > 0 {
			q.Members, q.Avoided = append(r.Members, q.Members...), r.Avoided.With(q.Avoided)
		} else {
			q.Members = append([]cell.Member(nil), q.Members...)
		}
		r, gangs = q, append(gangs, g)
	}
	if len(gangs) == 0 || !s.ExtraEligible(j) {
		return whole{}, false
	}
	res, ok := s.Cluster.Place(&r)
	return whole{gangs, res.Placement}, ok
}

// grow gives a running job more members beside its others, if no gang waits in the VC.
func (w *walker) grow(slot, size int32) {
	s := w.s
	j := &s.Jobs[slot]
	if w.bookings != nil || s.wanted(w.space) > 0 {
		return
	}
	if p, ok := s.planGrowth(j, size); ok {
		s.startWhole(place.Want{J: j, Size: size}, p)
	}
}

// BadHeld implements View.
func (v view) BadHeld(ref model.GangRef, members int32) int64 {
	j := v.s.Find(ref.Job)
	if j == nil || !v.s.Cluster.AnyBadOrUnknown() {
		return 0
	}
	var n int64
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || int32(g) != ref.Gang && (ref.Gang != 0 || !j.Spec.Partial()) ||
			!j.Within(int32(g), members) ||
			v.s.Attempts[at].State == model.AttemptReserving || v.s.Attempts[at].Cause != 0 {
			continue
		}
		for _, t := range v.s.Cluster.Alloc(v.s.Attempts[at].Alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				if v.s.LeafBad(l) {
					n++
				}
			}
		}
	}
	return n
}

// setSize gives a job the size with which it starts.
func (s *Pass) setSize(w place.Want) {
	if n := w.Members(); w.J.Spec.Partial() && n != w.J.Size {
		s.emit(model.Sized{Job: w.J.ID, Size: n})
	}
}

// resizes reports whether a wish gives a running gang another size.
func (s *Pass) resizes(gang model.GangRef, size int32) bool {
	a := s.AttemptOf(gang)
	return size == model.Pause || a != nil && !a.Lazy
}

// resize gives a running job another number of members. The last ones are stopped, or more of
// them wait. If this very decision placed the job or one of those, it is retried in the next.
func (w *walker) resize(wish *model.Wish) {
	s := w.s
	a := s.AttemptOf(wish.Gang)
	if a == nil || a.Cause != 0 || a.Alive == 0 || a.Lazy {
		return
	}
	slot := a.Job
	if j := &s.Jobs[slot]; j.Quarantined || j.Stop || j.Completing != nil || !j.CanHave(wish.Gang.Gang, wish.Size) {
		return
	}
	if wish.Size == model.Pause {
		s.pause(a)
		return
	}
	if j := &s.Jobs[slot]; j.Size == wish.Size || s.youngAbove(j, wish.Size) {
		return
	} else if a.SinceSeq > s.InputsThrough || s.fresh(j, wish.Size) {
		s.LookAgain.By(s.Jobs[slot].Space)
		return
	}
	if wish.OnOwnNodes {
		w.grow(slot, wish.Size)
		return
	}
	s.cutPromises(slot, wish.Size)
	s.emit(model.Sized{Job: wish.Gang.Job, Size: wish.Size})
	for g := int32(len(s.Jobs[slot].Gangs)) - 1; g > 0; g-- {
		j := &s.Jobs[slot]
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, wish.Size) {
			s.stopAttempt(&s.Attempts[at], model.EndResized, nil)
		}
	}
	s.LookAgain.By(s.Jobs[slot].Space) // new members wait from now on, and leaves may be left
}

// pause stops a gang that can resume from its checkpoint later.
func (s *Pass) pause(a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	if a.State != model.AttemptStarting && a.State != model.AttemptRunning || !j.Spec.Hints.Checkpoint ||
		s.Shared(a) || s.BelowMinRun(a) {
		return
	}
	if s.LookAgain.By(j.Space); a.SinceSeq > s.InputsThrough || s.fresh(j, 0) {
		return
	}
	s.stopAttempt(a, model.EndResized, nil) // its leaves can be reserved from now on
}

// youngAbove reports whether a member above a size has run for less than its VC's minimum run
// time.
func (s *Pass) youngAbove(j *tables.Job, size int32) bool {
	for g := int32(1); int(g) < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) && s.Attempts[at].Cause == 0 &&
			s.Attempts[at].State != model.AttemptReserving && s.BelowMinRun(&s.Attempts[at]) {
			return true
		}
	}
	return false
}

// fresh reports whether this very decision placed a member above a size.
func (s *Pass) fresh(j *tables.Job, size int32) bool {
	for g := int32(1); j.Spec.Partial() && int(g) < len(j.Gangs); g++ {
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) &&
			s.Attempts[at].SinceSeq > s.InputsThrough {
			return true
		}
	}
	return false
}

// cutPromises revokes the reservations of members above a size.
func (s *Pass) cutPromises(slot, size int32) {
	for g := int32(1); int(g) < len(s.Jobs[slot].Gangs); g++ {
		j := &s.Jobs[slot]
		if at := j.Gangs[g].Attempt; at != tables.None && !j.Within(g, size) &&
			s.Attempts[at].State == model.AttemptReserving {
			s.emit(model.Unreserved{Attempt: s.Attempts[at].ID, Reason: "its job gets a smaller size"})
		}
	}
}
