package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Within one priority only the policy can say what gives way: Wish.Over names the running gangs
// behind the wish. Two things hold them up, and nothing else: the minimum run time, which is the
// VC's or the policy's quantum (index/min_run.go), and the budget of preemptions.

// planOver finds cells for a gang that found none otherwise, at the expense of its own priority: of
// what was promised cells and stands behind it, else of what runs, else of both; last of the cells
// that are bound for what runs. If need be charges of bad hardware move first.
func (s *pass) planOver(w want, wish Wish) (plan, bool) {
	if !wish.takes() || w.j.spec.Priority < cell.MinGuaranteed {
		return plan{}, false
	}
	w.due = wish.Due
	over := func() (plan, bool) { return s.planTaking(w, wish) }
	if p, ok := over(); ok || s.cl.Doomed() == 0 || s.charges.tries > movingMost {
		return p, ok
	}
	chains, _ := s.wants(w.j, w.g)
	p, _, ok := s.mover(w.j, w.g, chains).plan(over)
	return p, ok
}

func (s *pass) planTaking(w want, wish Wish) (plan, bool) {
	j, g := w.j, w.g
	missing := int64(j.gangs[g].leaves) - s.unheld(j.space, j.spec.Priority)
	promised := s.promisedBehind(j, wish)
	own := s.promisedLeaves(promised)
	r, lower := s.request(w), []int32(nil)
	if len(promised) > 0 {
		lower = append(s.reservations(r.Space, j.spec.Priority), promised...)
	}
	if missing <= own {
		if p, ok := s.planRevoking(lower, func([]int32) (plan, bool) { return s.planHigher(&r, r.Priority) }); ok {
			p.over = true
			return p, true
		}
	}
	if missing > own+s.yielding(j, w.due) {
		return plan{}, false // whatever stands behind it
	}
	tail, all := s.tail(j, &wish, hearMost(&s.index, j, missing))
	tried := 0
	if !all { // mostly nothing but their number counts
		if p, ok := s.planStopping(r, tail, missing, stopping{due: w.due}); ok {
			p.over = true
			return p, true
		}
		tried = len(tail)
		tail, _ = s.tail(j, &wish, math.MaxInt64)
	}
	if len(tail) == 0 || missing > own+s.leavesOf(tail) {
		return plan{}, false // as its VC's guarantee does not reach
	}
	p, ok := s.planStopping(r, tail, missing, stopping{tried, w.due})
	if !ok {
		if len(lower) == 0 {
			lower = s.reservations(r.Space, j.spec.Priority)
		}
		p, ok = s.planRevoking(lower, func(revoked []int32) (plan, bool) {
			return s.planStopping(r, tail, missing-s.promisedLeaves(s.ofPriority(revoked, r.Priority)), stopping{due: w.due})
		})
	}
	if !ok { // cells that are bound for them may be what is in the way
		p, ok = s.planClearing(r, append(s.anyBelow(r.Space, r.Priority), tail...))
	}
	p.over = true
	return p, ok
}

// stopping says how gangs from the tail of the order may be stopped.
type stopping struct {
	tried int  // so many of the tail do not suffice
	due   bool // the quantum of the policy protects nothing
}

// planStopping stops gangs from the tail of the order, as many as suffice, and then gives those
// back that were not needed, the best in the order first; so many leaves are missing by their
// number alone, and so many of the tail do not suffice.
func (s *pass) planStopping(r cell.Request, tail []cell.AllocID, missing int64, how stopping) (plan, bool) {
	if lazies := s.mayBeLazy(tail); len(lazies) > 0 {
		if done, res, ok := s.cl.DemotedFits(&r, lazies, s.tied); ok {
			return plan{placement: res.Placement, lazies: done}, true
		}
	}
	least, lacks := 0, missing
	for ; lacks > 0 && least < len(tail); least++ {
		lacks -= s.leavesOf(tail[least : least+1])
	}
	least = max(least, how.tried+1)
	if least > len(tail) || lacks > 0 {
		return plan{}, false
	}
	var found cell.Result
	var chosen []cell.AllocID
	var spare int64
	fits := func(ids []cell.AllocID) bool {
		q := s.liftingThese(r, ids)
		res, ok := s.cl.Try(&q)
		if ok {
			found, chosen, spare = res, ids, s.leavesOf(ids)-missing
		}
		return ok
	}
	n := budget.Least(least, len(tail), func(n int) bool { return fits(tail[:n]) })
	if n == 0 {
		return plan{}, false
	}
	budget.Spare(chosen, n-1, trimMost, func(some []cell.AllocID) bool { return s.leavesOf(some) <= spare }, fits)
	q := s.liftingThese(r, chosen)
	return s.planOf(q, s.cl.Settle(&q, found), how.due), true
}

// promisedBehind returns the reservations of a gang's own priority that it may have taken back, the
// first to go first: members above a minimum, and those of which the policy says that they stand
// behind it. What this decision promised stays.
func (s *pass) promisedBehind(j *job, wish Wish) []int32 {
	var out []int32
	if len(s.promises) == 0 {
		return nil
	}
	for _, slot := range s.promises {
		a := &s.attempts[slot]
		if a.since > s.through || a.id.Job == j.id || s.jobs[a.job].spec.Priority != j.spec.Priority || s.cl.Alloc(a.alloc).Space != j.space {
			continue
		}
		ref := GangRef{Job: a.id.Job, Gang: a.id.Gang}
		extra := s.isExtra(a)
		if extra && s.looks.firm[j.space] {
			extra, ref.Gang = false, 0
		}
		if extra || s.passesBy(j, wish, ref) {
			out = append(out, slot)
		}
	}
	slices.SortFunc(out, func(x, y int32) int {
		a, b := &s.attempts[x], &s.attempts[y]
		return cmp.Or(s.extraFirst(a, b), compareAttempts(b.id, a.id))
	})
	return out
}

// passesBy reports whether the policy says that a gang stands behind one that it wishes for.
func (s *pass) passesBy(j *job, wish Wish, ref GangRef) bool {
	if wish.Passes == nil {
		return false
	}
	was := s.ask(j.space)
	passes := wish.Passes(ref)
	s.ask(was)
	return passes
}

// ofPriority keeps the reservations of one priority.
func (s *pass) ofPriority(slots []int32, p cell.Priority) []int32 {
	return slices.DeleteFunc(slices.Clone(slots), func(slot int32) bool { return s.jobs[s.attempts[slot].job].spec.Priority != p })
}

// promisedLeaves sums the leaves of reservations.
func (s *pass) promisedLeaves(slots []int32) int64 {
	var n int64
	for _, slot := range slots {
		a := &s.attempts[slot]
		n += int64(s.jobs[a.job].gangs[a.id.Gang].leaves)
	}
	return n
}

// planOver is the same beside the bookings of others. What comes later in the order may stop fewer:
// where one found nothing, its like that must leave as much alone finds nothing either.
func (o *outlook) planOver(a asking, wish Wish) (p plan, ok bool) {
	if !wish.takes() {
		return p, false
	}
	mask, gg := o.mask(a, o.s.now, forever), &a.j.gangs[a.g]
	key := passKey{shape: wish.shape(gg.shape.text) + fmt.Sprint(a.blocked, wish.Over != nil, wish.Due), mask: mask, limit: a.length > 0, aside: o.aside, size: a.size, takes: true}
	if i := o.find(a.ref); i >= 0 {
		key.by = o.books[i].free
	}
	alone := gg.avoids() || wish.Only != nil || wish.Free || o.s.sparesSome(a.j)
	if !alone && o.failed[key] {
		return plan{}, false
	}
	if p, ok = o.s.planOver(o.want(a, o.union(mask)), wish); !ok && !alone {
		o.failed[key] = true
	}
	return p, ok
}

// tail returns the allocations that may be lifted for a gang of their own priority, first to go
// first: members above a minimum, then those that the policy names, until they hold so many leaves,
// or all; where it only lets jobs shrink, members above the usual size. It stands in the memory of
// the next call.
func (s *pass) tail(j *job, wish *Wish, most int64) (list []cell.AllocID, all bool) {
	t := &s.mem.tail
	if t.each == nil {
		t.each = t.listen
	}
	*t = tailing{s: s, j: j, vc: s.vc(j.space), due: wish.Due, firm: s.looks.firm[j.space], out: t.out[:0], each: t.each, left: most}
	for i := len(s.attempts) - 1; !t.firm && s.partials > 0 && i >= 0; i-- {
		a := &s.attempts[i]
		if a.job != none && a.id.Job != j.id && s.isExtra(a) && s.jobs[a.job].spec.Priority == j.spec.Priority && s.yields(j, a, wish.Due) && (wish.Over != nil || s.grown(a)) {
			t.out = append(t.out, a.alloc)
		}
	}
	slices.SortFunc(t.out, func(x, y cell.AllocID) int { return compareAttempts(s.holder(y).id, s.holder(x).id) })
	if wish.Over != nil {
		was := s.ask(j.space)
		wish.Over(t.each)
		s.ask(was)
	}
	return t.out, t.left > 0
}

// hearMost is how many leaves of the tail are heard of first for a gang that lacks some: as many,
// where these would be stopped one after the other, and all where a choice is made among them.
func hearMost(s *index, j *job, missing int64) int64 {
	if s.partials > 0 || s.willingBelow(j.space, j.spec.Priority+1) {
		return math.MaxInt64
	}
	return max(missing, 1)
}

// grown reports whether an attempt is that of a member above its job's usual size.
func (s *pass) grown(a *attempt) bool {
	j := &s.jobs[a.job]
	return s.isExtra(a) && !j.within(a.id.Gang, j.spec.UsualSize())
}

// tailing hears whom a policy names; nothing is made anew for each time that it is asked.
type tailing struct {
	s     *pass
	j     *job // for whom they may be lifted
	vc    *model.VCConfig
	due   bool // its policy's quantum protects nothing from it
	firm  bool
	out   []cell.AllocID
	left  int64                 // leaves that are still to be heard of
	also  map[cell.AllocID]int  // members of shared allocations that were named
	named map[model.JobID]int32 // gangs of jobs that have several: together they stay within the budget
	each  func(GangRef) bool    // listen, made once
}

// listen hears one: what is done about it is not the policy's code.
func (t *tailing) listen(ref GangRef) bool {
	was := t.s.ask(0)
	t.hear(ref)
	t.s.ask(was)
	return t.left > 0
}

// hear adds one that may be lifted.
func (t *tailing) hear(ref GangRef) {
	s, j, v := t.s, t.j, t.s.find(ref.Job)
	if v == nil || ref.Gang < 0 || int(ref.Gang) >= len(v.gangs) || v.gangs[ref.Gang].attempt == none || v.id == j.id {
		return
	}
	a := &s.attempts[v.gangs[ref.Gang].attempt]
	if v.spec.Priority != j.spec.Priority || s.isExtra(a) || !s.yieldsIn(j.space, t.vc, a, t.due) {
		return
	}
	if len(v.gangs) > 1 {
		if slices.Contains(s.hungry, v.id) {
			return // its gang that found nothing, before this one, would be next to take the cells
		}
		if v.yielded+t.named[v.id] >= t.vc.PreemptionBudget() {
			return
		}
		if t.named == nil {
			t.named = map[model.JobID]int32{}
		}
		t.named[v.id]++
	}
	if s.shared(a) {
		if t.also == nil {
			t.also = map[cell.AllocID]int{}
		}
		if t.also[a.alloc]++; t.also[a.alloc] < len(s.membersOf(a.alloc)) {
			return // who shares its leaves has to stand behind as well
		}
	}
	if t.firm && v.spec.Partial() {
		t.out = append(t.out, s.membersAbove(j, v, t.due)...)
	}
	t.out = append(t.out, a.alloc)
	t.left -= s.leavesOf(t.out[len(t.out)-1:])
}

// membersAbove returns what the members above a job's minimum hold that may have to leave for
// another job, the last first.
func (s *pass) membersAbove(by, of *job, due bool) []cell.AllocID {
	var out []cell.AllocID
	for g := len(of.gangs) - 1; g > 0; g-- {
		if at := of.gangs[g].attempt; at != none && s.yields(by, &s.attempts[at], due) {
			out = append(out, s.attempts[at].alloc)
		}
	}
	return out
}

// yields reports whether an attempt may have to leave for a job of its own priority and VC: it ran
// for the minimum, and has budget.
func (s *pass) yields(j *job, a *attempt, due bool) bool {
	return s.yieldsIn(j.space, s.vc(j.space), a, due)
}

// yielding is how many leaves work of a job's priority and VC holds that may have to leave for
// another job of it: no tail has more.
func (s *pass) yielding(j *job, due bool) int64 {
	y, cfg := &s.mem.yielding, s.vc(j.space)
	if y.seq == s.seq && y.prio == j.spec.Priority && y.due == due {
		return y.leaves
	}
	*y = yielding{seq: s.seq, prio: j.spec.Priority, due: due}
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && s.jobs[a.job].spec.Priority == y.prio && s.yieldsIn(j.space, cfg, a, due) {
			y.leaves += int64(s.jobs[a.job].gangs[a.id.Gang].leaves)
		}
	}
	return y.leaves
}

// yielding is what one walk counted last, before so many events.
type yielding struct {
	seq    uint64
	prio   cell.Priority
	due    bool // for a gang that is
	leaves int64
}

// yieldsIn is the same for a job of a VC. What this very decision gave stays.
func (s *pass) yieldsIn(space int32, cfg *model.VCConfig, a *attempt, due bool) bool {
	v := &s.jobs[a.job]
	al := s.cl.Alloc(a.alloc)
	if al.Space != space || al.Opportunistic() || a.cause != 0 || a.since > s.through || a.state != model.AttemptStarting && a.state != model.AttemptRunning {
		return false
	}
	if !s.isExtra(a) && v.yielded >= cfg.PreemptionBudget() {
		return false
	}
	return !s.young(a, due)
}

// Yields implements View.
func (v view) Yields(ref GangRef) int32 {
	j := v.s.find(ref.Job)
	if j == nil || int(ref.Gang) >= len(j.gangs) || j.gangs[ref.Gang].attempt == none || j.spec.Priority != v.prio {
		return 0
	}
	a := &v.s.attempts[j.gangs[ref.Gang].attempt]
	cfg := v.s.vc(v.space)
	if v.s.isExtra(a) || !v.s.yieldsIn(v.space, cfg, a, false) {
		return 0
	}
	return cfg.PreemptionBudget() - j.yielded
}

// Room implements View.
func (v view) Room(ref GangRef, sku cell.TypeName) bool {
	j := v.s.find(ref.Job)
	if j == nil {
		return false
	}
	r := v.s.request(want{j: j, g: ref.Gang, blocked: v.s.typesBut(sku)})
	_, ok := v.s.cl.Place(&r)
	return ok
}

// Usable implements View.
func (v view) Usable(ref GangRef, sku cell.TypeName) bool {
	j := v.s.find(ref.Job)
	if j == nil {
		return false
	}
	r := v.s.request(want{j: j, g: ref.Gang, blocked: v.s.typesBut(sku)})
	return v.s.couldEverFit(whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: j.gangs[ref.Gang].shape.text + "@" + string(sku)}, r)
}

// SKU implements View.
func (v view) SKU(ref GangRef) cell.TypeName {
	j := v.s.find(ref.Job)
	if j == nil || int(ref.Gang) >= len(j.gangs) || j.gangs[ref.Gang].attempt == none {
		return ""
	}
	return v.s.cl.Alloc(v.s.attempts[j.gangs[ref.Gang].attempt].alloc).Placement.Tasks[0].SKU
}

// mayBeLazy keeps the allocations whose jobs allow lazy preemption.
func (s *pass) mayBeLazy(ids []cell.AllocID) []cell.AllocID {
	var out []cell.AllocID
	for _, id := range ids {
		if s.willing(s.holder(id)) {
			out = append(out, id)
		}
	}
	return out
}

// liftingThese returns the request with which everything below the gang's priority, and some
// allocations of its own, may be made to leave. It holds until the next is made.
func (s *pass) liftingThese(r cell.Request, ids []cell.AllocID) cell.Request {
	q := s.lifting(r, r.Priority)
	also := slices.Grow(s.mem.also[:0], len(s.byAlloc))[:len(s.byAlloc)]
	clear(also)
	for _, id := range ids {
		also[id] = true
	}
	s.mem.also = also
	q.Lift.Also = func(id cell.AllocID) bool { return also[id] }
	return q
}

// leavesOf sums the leaves of allocations.
func (s *pass) leavesOf(ids []cell.AllocID) int64 {
	var n int64
	for _, id := range ids {
		a := s.holder(id)
		n += int64(s.jobs[a.job].gangs[a.id.Gang].leaves)
	}
	return n
}

// makeLazy makes an attempt opportunistic, and what stands above it with it.
func (s *pass) makeLazy(a *attempt, by model.AttemptID, over bool) {
	for _, m := range s.membersOf(a.alloc) {
		s.assertBehind(by, m, over)
	}
	id, slot := a.id, a.job
	s.emit(LazilyPreempted{Attempt: id, With: s.with(a), By: &by})
	if id.Gang == 0 {
		s.demoteExtras(slot, &by)
	}
}
