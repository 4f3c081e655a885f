package decide

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/combsched/comb/internal/base/budget"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
)

// Within one priority only the policy says what may be preempted: Wish.Preemptible names the
// running gangs behind the wish. Only two things protect these: the minimum run time, which is the
// VC's or the policy's quantum (index/min_run.go), and the budget of preemptions.

// planOverPeers finds cells for a gang at the expense of its own priority when all else failed. It
// tries to revoke reservations behind it, then to stop running gangs, then both, then to take
// guarantees so that cells can be bound elsewhere. If need be, charges of bad hardware move
// first.
func (s *Pass) planOverPeers(w place.Want, wish model.Wish) (place.Plan, bool) {
	if !wish.MayPreempt() || w.J.Spec.Priority < cell.MinGuaranteed {
		return place.Plan{}, false
	}
	w.Due = wish.IgnoreQuantum
	over := func() (place.Plan, bool) { return s.planTaking(w, wish) }
	if p, ok := over(); ok || s.Cluster.NumCharges() == 0 || s.Charges.Tries > place.MovingMost {
		return p, ok
	}
	chains, _ := s.ChainsAndPins(w.J, w.G)
	p, _, ok := s.ChargeMover(w.J, w.G, chains).Plan(over)
	return p, ok
}

func (s *Pass) planTaking(w place.Want, wish model.Wish) (place.Plan, bool) {
	j, g := w.J, w.G
	missing := int64(j.Gangs[g].Leaves) - s.AvailableTo(j.Space, j.Spec.Priority)
	promised := s.promisedBehind(j, wish)
	own := s.promisedLeaves(promised)
	r, lower := s.Request(w), []int32(nil)
	if len(promised) > 0 {
		lower = append(s.Reservations(r.Space, j.Spec.Priority), promised...)
	}
	if missing <= own {
		if p, ok := s.PlanRevoking(lower, func([]int32) (place.Plan,
			bool) {
			return s.PlanHigher(&r, r.Priority)
		}); ok {
			p.OverPeers = true
			return p, true
		}
	}
	if missing > own+s.peerLeaves(j, w.Due) {
		return place.Plan{}, false // whatever gangs are behind it
	}
	tail, all := s.peersBehind(j, &wish, hearMost(&s.Index, j, missing))
	tried := 0
	if !all { // mostly only the number of leaves matters
		if p, ok := s.planStopping(r, tail, missing, stopping{due: w.Due}); ok {
			p.OverPeers = true
			return p, true
		}
		tried = len(tail)
		tail, _ = s.peersBehind(j, &wish, math.MaxInt64)
	}
	if len(tail) == 0 || missing > own+s.leavesOf(tail) {
		return place.Plan{}, false // its VC's quota does not suffice
	}
	p, ok := s.planStopping(r, tail, missing, stopping{tried, w.Due})
	if !ok {
		if len(lower) == 0 {
			lower = s.Reservations(r.Space, j.Spec.Priority)
		}
		p, ok = s.PlanRevoking(lower, func(revoked []int32) (place.Plan, bool) {
			return s.planStopping(r, tail, missing-s.promisedLeaves(s.ofPriority(revoked, r.Priority)),
				stopping{due: w.Due})
		})
	}
	if !ok { // cells that are bound for them may be the obstacle
		p, ok = s.PlanUnbinding(r, append(s.GuaranteedBelow(r.Space, r.Priority), tail...))
	}
	p.OverPeers = true
	return p, ok
}

// stopping says how gangs from the tail of the order may be stopped.
type stopping struct {
	tried int  // this many of the tail are known not to suffice
	due   bool // the policy's quantum protects no gang
}

// planStopping stops gangs from the tail of the order, as many as suffice, and then spares
// those that were not needed, the best in the order first. At least missing leaves must come
// free.
func (s *Pass) planStopping(r cell.Request, tail []cell.AllocID, missing int64, how stopping) (place.Plan, bool) {
	if lazies := s.mayBeLazy(tail); len(lazies) > 0 {
		if done, res, ok := s.Cluster.FitsDemoting(&r, lazies, s.Tied); ok {
			return place.Plan{Placement: res.Placement, Demoted: done}, true
		}
	}
	least, lacks := 0, missing
	for ; lacks > 0 && least < len(tail); least++ {
		lacks -= s.leavesOf(tail[least : least+1])
	}
	least = max(least, how.tried+1)
	if least > len(tail) || lacks > 0 {
		return place.Plan{}, false
	}
	var found cell.Result
	var chosen []cell.AllocID
	var spare int64
	fits := func(ids []cell.AllocID) bool {
		q := s.preemptingThese(r, ids)
		res, ok := s.Cluster.Try(&q)
		if ok {
			found, chosen, spare = res, ids, s.leavesOf(ids)-missing
		}
		return ok
	}
	n := budget.Least(least, len(tail), func(n int) bool { return fits(tail[:n]) })
	if n == 0 {
		return place.Plan{}, false
	}
	budget.DropUnneeded(chosen, n-1, place.TrimMost, func(some []cell.AllocID) bool { return s.leavesOf(some) <= spare }, fits)
	q := s.preemptingThese(r, chosen)
	return s.PlanOf(q, s.Cluster.MinimizeVictims(&q, found), how.due), true
}

// promisedBehind returns the reservations of its own priority that a gang may have revoked, the
// first to go first: of members above a minimum, then of gangs that the policy puts behind it.
// Reservations made by this decision stay.
func (s *Pass) promisedBehind(j *tables.Job, wish model.Wish) []int32 {
	var out []int32
	if len(s.Promises) == 0 {
		return nil
	}
	for _, slot := range s.Promises {
		a := &s.Attempts[slot]
		if a.SinceSeq > s.InputsThrough || a.ID.Job == j.ID || s.Jobs[a.Job].Spec.Priority != j.Spec.Priority ||
			s.Cluster.Alloc(a.Alloc).Space != j.Space {
			continue
		}
		ref := model.GangRef{Job: a.ID.Job, Gang: a.ID.Gang}
		extra := s.IsExtra(a)
		if extra && s.Dirty.Firm[j.Space] {
			extra, ref.Gang = false, 0
		}
		if extra || s.standsBehind(j, wish, ref) {
			out = append(out, slot)
		}
	}
	slices.SortFunc(out, func(x, y int32) int {
		a, b := &s.Attempts[x], &s.Attempts[y]
		return cmp.Or(s.ExtraFirst(a, b), model.CompareAttempts(b.ID, a.ID))
	})
	return out
}

// standsBehind reports whether the policy puts a gang behind the wished-for one.
func (s *Pass) standsBehind(j *tables.Job, wish model.Wish, ref model.GangRef) bool {
	if wish.IsBehind == nil {
		return false
	}
	was := s.EnterPolicy(j.Space)
	passes := wish.IsBehind(ref)
	s.EnterPolicy(was)
	return passes
}

// ofPriority returns the reservations of one priority.
func (s *Pass) ofPriority(slots []int32, p cell.Priority) []int32 {
	return slices.DeleteFunc(slices.Clone(slots), func(slot int32) bool { return s.Jobs[s.Attempts[slot].Job].Spec.Priority != p })
}

// promisedLeaves sums the leaves of reservations.
func (s *Pass) promisedLeaves(slots []int32) int64 {
	var n int64
	for _, slot := range slots {
		a := &s.Attempts[slot]
		n += int64(s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves)
	}
	return n
}

// planOverPeers is Pass.planOverPeers beside the bookings of others.
func (o *bookings) planOverPeers(a timeline.Candidate, wish model.Wish) (p place.Plan, ok bool) {
	if !wish.MayPreempt() {
		return p, false
	}
	gg := &a.J.Gangs[a.G]
	shape := wish.Shape(gg.Shape.Text) + fmt.Sprint(a.Blocked, wish.Preemptible != nil, wish.IgnoreQuantum)
	alone := gg.Avoids() || wish.OnlyNodes != nil || wish.FreeOnly || o.s.SparesSome(a.J)
	return o.PlanWith(a, shape, alone, func(q place.Want) (place.Plan, bool) { return o.s.planOverPeers(q, wish) })
}

// peersBehind returns the allocations that a gang may preempt in its own priority, first to go
// first: members above a minimum, then those that the policy names, until they hold most leaves.
// all says that the list is complete. If the policy only lets jobs shrink, these are the members
// above the usual size. The list is valid until the next call.
func (s *Pass) peersBehind(j *tables.Job, wish *model.Wish, most int64) (list []cell.AllocID, all bool) {
	t := &s.Mem.tail
	if t.each == nil {
		t.each = t.listen
	}
	*t = tailing{s: s, j: j, vc: s.VC(j.Space), due: wish.IgnoreQuantum, firm: s.Dirty.Firm[j.Space], out: t.out[:0],
		each: t.each, left: most}
	for i := len(s.Attempts) - 1; !t.firm && s.PartialJobs > 0 && i >= 0; i-- {
		a := &s.Attempts[i]
		if a.Job != tables.None && a.ID.Job != j.ID && s.IsExtra(a) && s.Jobs[a.Job].Spec.Priority == j.Spec.Priority && s.yieldsToPeer(j, a, wish.IgnoreQuantum) && (wish.Preemptible != nil || s.grown(a)) {
			t.out = append(t.out, a.Alloc)
		}
	}
	slices.SortFunc(t.out, func(x, y cell.AllocID) int { return model.CompareAttempts(s.Holder(y).ID, s.Holder(x).ID) })
	if wish.Preemptible != nil {
		was := s.EnterPolicy(j.Space)
		wish.Preemptible(t.each)
		s.EnterPolicy(was)
	}
	return t.out, t.left > 0
}

// hearMost is how many leaves of the tail are collected first for a gang that lacks some: just
// as many if they are stopped in order, all if a choice is made among them.
func hearMost(s *index.Index, j *tables.Job, missing int64) int64 {
	if s.PartialJobs > 0 || s.AllowsLazyBelow(j.Space, j.Spec.Priority+1) {
		return math.MaxInt64
	}
	return max(missing, 1)
}

// grown reports whether an attempt is a member above its job's usual size.
func (s *Pass) grown(a *tables.Attempt) bool {
	j := &s.Jobs[a.Job]
	return s.IsExtra(a) && !j.Within(a.ID.Gang, j.Spec.UsualSize())
}

// listen hears one gang. A panic in it is not blamed on the policy.
func (t *tailing) listen(ref model.GangRef) bool {
	was := t.s.EnterPolicy(0)
	t.hear(ref)
	t.s.EnterPolicy(was)
	return t.left > 0
}

// hear adds a gang that the policy named, if it may be preempted.
func (t *tailing) hear(ref model.GangRef) {
	s, j, v := t.s, t.j, t.s.Find(ref.Job)
	if v == nil || ref.Gang < 0 || int(ref.Gang) >= len(v.Gangs) || v.Gangs[ref.Gang].Attempt == tables.None ||
		v.ID == j.ID {
		return
	}
	a := &s.Attempts[v.Gangs[ref.Gang].Attempt]
	if v.Spec.Priority != j.Spec.Priority || s.IsExtra(a) || !s.yieldsIn(j.Space, t.vc, a, t.due) {
		return
	}
	if len(v.Gangs) > 1 {
		if slices.Contains(s.PartlyPlaced, v.ID) {
			return // its own gang that found nothing earlier would take the cells next
		}
		if v.Yielded+t.named[v.ID] >= t.vc.PreemptionBudget() {
			return
		}
		if t.named == nil {
			t.named = map[model.JobID]int32{}
		}
		t.named[v.ID]++
	}
	if s.Shared(a) {
		if t.also == nil {
			t.also = map[cell.AllocID]int{}
		}
		if t.also[a.Alloc]++; t.also[a.Alloc] < len(s.MembersOf(a.Alloc)) {
			return // all that share its leaves must be behind as well
		}
	}
	if t.firm && v.Spec.Partial() {
		t.out = append(t.out, s.membersAbove(j, v, t.due)...)
	}
	t.out = append(t.out, a.Alloc)
	t.left -= s.leavesOf(t.out[len(t.out)-1:])
}

// membersAbove returns the allocations of members above a job's minimum that another job may
// preempt, the last first.
func (s *Pass) membersAbove(by, of *tables.Job, due bool) []cell.AllocID {
	var out []cell.AllocID
	for g := len(of.Gangs) - 1; g > 0; g-- {
		if at := of.Gangs[g].Attempt; at != tables.None && s.yieldsToPeer(by, &s.Attempts[at], due) {
			out = append(out, s.Attempts[at].Alloc)
		}
	}
	return out
}

// yieldsToPeer reports whether a job of the same priority and VC may preempt an attempt: it has run
// for the minimum run time, and its job has budget left.
func (s *Pass) yieldsToPeer(j *tables.Job, a *tables.Attempt, due bool) bool {
	return s.yieldsIn(j.Space, s.VC(j.Space), a, due)
}

// yieldsIn is the same for a job of a VC. What this very decision placed stays.
func (s *Pass) yieldsIn(space int32, cfg *model.VCConfig, a *tables.Attempt, due bool) bool {
	v := &s.Jobs[a.Job]
	al := s.Cluster.Alloc(a.Alloc)
	if al.Space != space || al.Opportunistic() || a.Cause != 0 || a.SinceSeq > s.InputsThrough ||
		a.State != model.AttemptStarting && a.State != model.AttemptRunning {
		return false
	}
	if !s.IsExtra(a) && v.Yielded >= cfg.PreemptionBudget() {
		return false
	}
	return !s.ProtectedFromPeers(a, due)
}

// Yields implements View.
func (v view) Yields(ref model.GangRef) int32 {
	j := v.s.Find(ref.Job)
	if j == nil || int(ref.Gang) >= len(j.Gangs) || j.Gangs[ref.Gang].Attempt == tables.None ||
		j.Spec.Priority != v.prio {
		return 0
	}
	a := &v.s.Attempts[j.Gangs[ref.Gang].Attempt]
	cfg := v.s.VC(v.space)
	if v.s.IsExtra(a) || !v.s.yieldsIn(v.space, cfg, a, false) {
		return 0
	}
	return cfg.PreemptionBudget() - j.Yielded
}

// FindsFree implements View.
func (v view) FindsFree(ref model.GangRef, sku cell.TypeName) bool {
	j := v.s.Find(ref.Job)
	if j == nil {
		return false
	}
	r := v.s.Request(place.Want{J: j, G: ref.Gang, Blocked: v.s.typesBut(sku)})
	_, ok := v.s.Cluster.Place(&r)
	return ok
}

// Usable implements View.
func (v view) Usable(ref model.GangRef, sku cell.TypeName) bool {
	j := v.s.Find(ref.Job)
	if j == nil {
		return false
	}
	r := v.s.Request(place.Want{J: j, G: ref.Gang, Blocked: v.s.typesBut(sku)})
	return v.s.CouldEverFit(tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0),
		Shape: j.Gangs[ref.Gang].Shape.Text + "@" + string(sku)}, r)
}

// SKU implements View.
func (v view) SKU(ref model.GangRef) cell.TypeName {
	j := v.s.Find(ref.Job)
	if j == nil || int(ref.Gang) >= len(j.Gangs) || j.Gangs[ref.Gang].Attempt == tables.None {
		return ""
	}
	return v.s.Cluster.Alloc(v.s.Attempts[j.Gangs[ref.Gang].Attempt].Alloc).Placement.Tasks[0].SKU
}

// mayBeLazy returns the allocations whose jobs allow lazy preemption.
func (s *Pass) mayBeLazy(ids []cell.AllocID) []cell.AllocID {
	var out []cell.AllocID
	for _, id := range ids {
		if s.AllowsLazy(s.Holder(id)) {
			out = append(out, id)
		}
	}
	return out
}

// preemptingThese returns the request that may preempt everything below the gang's priority, and
// the given allocations of its own. It is valid until the next call.
func (s *Pass) preemptingThese(r cell.Request, ids []cell.AllocID) cell.Request {
	q := s.Preempting(r, r.Priority)
	also := slices.Grow(s.Mem.also[:0], len(s.ByAlloc))[:len(s.ByAlloc)]
	clear(also)
	for _, id := range ids {
		also[id] = true
	}
	s.Mem.also = also
	q.Preempt.Also = func(id cell.AllocID) bool { return also[id] }
	return q
}

// leavesOf sums the leaves of allocations.
func (s *Pass) leavesOf(ids []cell.AllocID) int64 {
	var n int64
	for _, id := range ids {
		a := s.Holder(id)
		n += int64(s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves)
	}
	return n
}

// makeLazy demotes an attempt with those that share its leaves, and the members above it.
func (s *Pass) makeLazy(a *tables.Attempt, by model.AttemptID, over bool) {
	for _, m := range s.MembersOf(a.Alloc) {
		s.assertBehind(by, m, over)
	}
	id, slot := a.ID, a.Job
	s.emit(model.LazilyPreempted{Attempt: id, With: s.OtherMembers(a), By: &by})
	if id.Gang == 0 {
		s.demoteExtras(slot, &by)
	}
}

// peerLeaves counts the leaves of a job's priority and VC that another job of it may preempt: an
// upper bound for any tail.
func (s *Pass) peerLeaves(j *tables.Job, due bool) int64 {
	y, cfg := &s.Mem.yielding, s.VC(j.Space)
	if y.seq == s.Seq && y.prio == j.Spec.Priority && y.due == due {
		return y.leaves
	}
	*y = peerLeaves{seq: s.Seq, prio: j.Spec.Priority, due: due}
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && s.Jobs[a.Job].Spec.Priority == y.prio &&
			s.yieldsIn(j.Space, cfg, a, due) {
			y.leaves += int64(s.Jobs[a.Job].Gangs[a.ID.Gang].Leaves)
		}
	}
	return y.leaves
}
