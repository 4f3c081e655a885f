// Package reconfigure says what becomes of jobs when the configuration changes or a node is
// drained: what stays on its cells, what moves, drains or loses its guarantee, and what starts. It
// must not apply a change but to copies.
package reconfigure

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/state"
	"github.com/combsched/comb/internal/core/tables"
)

// CheckReconfigure plans how everything that holds cells is carried over. It
// changes nothing: the plan is in the event. A configuration that is in force
// already gives no event.
func (s Planner) CheckReconfigure(c model.Reconfigure, now model.Time) ([]model.Event, model.Answer, *model.Refusal) {
	ch, no := s.change(&c, now)
	if no != nil {
		return nil, model.Answer{}, no
	}
	plan, _ := s.planEffects(ch)
	return ch.events, model.Answer{Plan: plan}, nil
}

// change is a new configuration, checked, with how it would come to be.
type change struct {
	next   *cell.Cluster // with what holds cells, where it stands then
	ev     model.Configured
	events []model.Event // what Apply gets; none when nothing changes
	// lent are the jobs whose first gang is opportunistic there; looked up only.
	lent   map[model.JobID]bool
	allocs []cell.AllocID // by move, what it holds in next
	kept   []cell.AllocID // those that keep their guarantee
	missed map[int32]int  // by scope of next, how often others' cells were sought anew in vain; looked up only
	// back says of an attempt that lost its guarantee to an earlier configuration whether it may
	// have it again.
	back func(*tables.Attempt) bool
}

// rearrangedMost bounds how often that is tried in vain in one scope.
const rearrangedMost = 16

// regretsMost bounds how often a change is planned anew because of what it gave back.
const regretsMost = 4

// change checks a command and decides what becomes of everything that holds cells: guaranteed
// attempts first, with those that lost their guarantee to an earlier configuration, by priority,
// then by age.
func (s Planner) change(c *model.Reconfigure, now model.Time) (*change, *model.Refusal) {
	if c.Config == nil {
		return nil, explain.Refuse(model.Invalid, "there is no configuration")
	}
	if err := model.CheckThroughputs(c.Config.Throughputs, explain.MaxLeaves); err != nil {
		return nil, explain.Refuse(model.Invalid, "%v", err)
	}
	next, err := cell.New(&c.Config.Cluster)
	if err != nil {
		return nil, explain.Refuse(model.Invalid, "%v", err)
	}
	for i := int32(1); i < next.NumSpaces(); i++ {
		if _, err := s.NewPolicy.Make(*model.OfVC(c.Config, next.Space(i).Name)); err != nil {
			return nil, explain.Refuse(model.Invalid, "virtual cluster %q: %v", next.Space(i).Name, err)
		}
	}
	ev := model.Configured{Config: c.Config, Meta: c.Meta}
	var no *model.Refusal
	if ev.Renamed, ev.RenamedNodes, no = s.effectiveRenames(c, next); no != nil {
		return nil, no
	}
	if s.Config != nil && len(s.Failed)+len(s.Unmade) == 0 && len(ev.Renamed)+len(ev.RenamedNodes) == 0 &&
		sameConfig(s.Config, c.Config) {
		return &change{next: next, ev: ev}, nil
	}
	var held []model.AttemptID
	for range regretsMost {
		ch := s.carryAll(next.Clone(), ev, held)
		sorry := s.regrets(ch, now)
		if len(sorry) == 0 {
			return ch, nil
		}
		held = append(held, sorry...)
	}
	return s.carryAll(next, ev, s.lentBefore()), nil
}

// carryAll carries over everything that holds cells; those that are held get no guarantee back that
// an earlier configuration took.
func (s Planner) carryAll(next *cell.Cluster, ev model.Configured, held []model.AttemptID) *change {
	ch := &change{next: next, ev: ev, lent: map[model.JobID]bool{}, missed: map[int32]int{}}
	ch.back = func(a *tables.Attempt) bool { return s.mayReturn(a) && !slices.Contains(held, a.ID) }
	for _, slot := range s.carryOrder(ch.back) {
		a := &s.Attempts[slot]
		if a.State == model.AttemptReserving {
			ch.events = append(ch.events, model.Unreserved{Attempt: a.ID, Reason: "the configuration changed"})
			continue
		}
		s.planMove(ch, a)
	}
	s.makeWay(ch)
	for i := range ch.ev.Moves {
		if m := &ch.ev.Moves[i]; len(m.Placement.Binds) > 0 {
			m.Placement.Binds = ch.next.Alloc(ch.allocs[i]).Placement.Binds // which the next ones may have changed
		}
	}
	ch.events = append(ch.events, ch.ev)
	return ch
}

// mayReturn reports whether the first attempt of an allocation lost its guarantee to a
// configuration, so that the next one may give it back: what gave it up to another job has it back
// in its turn, by an upgrade.
func (s Planner) mayReturn(host *tables.Attempt) bool {
	if !host.Lazy || host.By != nil || s.Jobs[host.Job].Spec.Priority < cell.MinGuaranteed {
		return false
	}
	return !slices.ContainsFunc(s.MembersOf(host.Alloc), func(m *tables.Attempt) bool { return m.Cause != 0 })
}

// lentBefore are all attempts that lost their guarantee.
func (s Planner) lentBefore() (out []model.AttemptID) {
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.Lazy {
			out = append(out, a.ID)
		}
	}
	return out
}

// regrets are the attempts to which a change gives their guarantee back and that are stopped for it
// at once: a gang of higher priority waits in their virtual cluster, and had found other cells for
// the same guarantee.
func (s Planner) regrets(ch *change, now model.Time) (out []model.AttemptID) {
	var returned []model.AttemptID
	for i := range ch.ev.Moves {
		m := &ch.ev.Moves[i]
		j := s.Find(m.Attempt.Job)
		waiting := s.Queues[s.Space(j.Spec.VC)]
		if m.Regained && len(waiting) > 0 && waiting[0].Prio > j.Spec.Priority {
			returned = append(returned, m.Attempt)
		}
	}
	if len(returned) == 0 {
		return nil
	}
	defer func() {
		if recover() != nil { // the decision itself will meet it, where it is answered
			out = nil
		}
	}()
	after := Planner{s.At(new(explain.CopyMemory), now)}.planned(ch)
	for _, r := range after.Settle(after.Now) {
		if e, ok := r.Event.(model.StopSent); ok && e.Cause == model.EndPreempted &&
			slices.Contains(returned, e.Attempt) {
			out = append(out, e.Attempt)
		}
	}
	return out
}

// sameConfig compares by content: an empty list is as good as none, and the order of virtual
// clusters, cells and nodes says nothing.
func sameConfig(a, b *model.Config) bool {
	return a == b || reflect.DeepEqual(a, b) || string(state.AppendLine(nil,
		a.Ordered())) == string(state.AppendLine(nil, b.Ordered()))
}

// carryOrder returns the attempt slots that hold or were promised cells: guaranteed ones and those
// that may be again first, those that leave anyway last of these; by priority, with members above a
// minimum behind all full gangs of it, then by age. What shares leaves follows what they were given
// to.
func (s Planner) carryOrder(back func(*tables.Attempt) bool) []int32 {
	type place struct {
		slot    int32
		prio    cell.Priority
		leaves  bool
		extra   bool
		of, its model.AttemptID
		joined  bool
	}
	var order []place
	for i := range s.Attempts {
		a := &s.Attempts[i]
		if a.Job == tables.None || a.ID.Job == 0 {
			continue
		}
		host := s.Holder(a.Alloc)
		p := place{slot: int32(i), prio: s.Jobs[host.Job].Spec.Priority, extra: s.IsExtra(host), leaves: true,
			of: host.ID, its: a.ID, joined: a.Joined}
		for _, m := range s.MembersOf(a.Alloc) {
			p.leaves = p.leaves && (m.Cause != 0 || s.IsExtra(m) && !s.MinimumLives(&s.Jobs[m.Job]))
		}
		if host.Lazy && !back(host) || p.prio < cell.MinGuaranteed {
			p.prio, p.leaves = cell.Opportunistic, false
		}
		order = append(order, p)
	}
	slices.SortFunc(order, func(x, y place) int {
		return cmp.Or(first(x.prio >= cell.MinGuaranteed, y.prio >= cell.MinGuaranteed), first(!x.leaves, !y.leaves),
			cmp.Compare(y.prio, x.prio),
			first(!x.extra, !y.extra), model.CompareAttempts(x.of, y.of), first(!x.joined,
				!y.joined), model.CompareAttempts(x.its, y.its))
	})
	out := make([]int32, len(order))
	for i := range order {
		out[i] = order[i].slot
	}
	return out
}

// first orders what is true before what is not.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// planMove decides where an attempt stands in the new cluster, and takes it there.
func (s Planner) planMove(ch *change, a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	if a.Joined { // it stays with whom it shares its leaves with, who stands before it
		host := s.Holder(a.Alloc).ID
		i := slices.IndexFunc(ch.ev.Moves, func(m model.Move) bool { return m.Attempt == host })
		m := ch.ev.Moves[i]
		m.Attempt = a.ID
		ch.ev.Moves, ch.allocs = append(ch.ev.Moves, m), append(ch.allocs, ch.allocs[i])
		return
	}
	vc := ch.next.SpaceOf(model.VCNow(ch.ev.Renamed, j.Spec.VC))
	started := s.started(ch, a)
	got := ch.next.Carry(s.Cluster, vc, s.Cluster.Alloc(a.Alloc), started)
	m := model.Move{Attempt: a.ID, Placement: got.Placement, Lazy: got.Lazy, Orphaned: got.Lost > 0, Drains: got.Drains}
	owed := j.Spec.Priority >= cell.MinGuaranteed
	back := a.Lazy && owed && ch.back(a)
	if back && vc != cell.None && !got.Other {
		m.Placement.Binds, m.Regained = ch.next.Regain(vc, &m.Placement, started)
	}
	lazy := m.Lazy || back && !m.Regained
	switch {
	case s.IsExtra(a) && owed && ch.lent[a.ID.Job]:
		lazy, m.Placement.Binds = true, nil // as everywhere, it goes with its minimum
	case lazy && !got.Other && vc != cell.None:
		m.Placement.Binds, lazy = ch.rearrange(vc, &m.Placement, started)
	}
	m.Lazy, m.Regained = lazy && !a.Lazy, back && !lazy
	lazy = lazy || a.Lazy && !m.Regained
	if a.ID.Gang == 0 {
		ch.lent[a.ID.Job] = lazy
	}
	alloc := ch.next.Take(max(vc, 0), j.Spec.Priority, m.Placement, false)
	if lazy {
		ch.next.Demote(alloc)
	} else if j.Spec.Priority >= cell.MinGuaranteed && len(m.Placement.Binds) > 0 {
		ch.kept = append(ch.kept, alloc)
	}
	ch.ev.Moves, ch.allocs = append(ch.ev.Moves, m), append(ch.allocs, alloc)
}

// started are the tasks of an attempt as they were started.
func (s Planner) started(ch *change, a *tables.Attempt) []cell.Started {
	j := &s.Jobs[a.Job]
	origins := s.Origins(a)
	var out []cell.Started
	for k, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		t := j.Tasks[o].Started()
		t.Node = model.NodeNow(ch.ev.RenamedNodes, t.Node)
		out = append(out, cell.Started{Task: t, Origin: origins[k], Pinned: j.Spec.Roles[j.Tasks[o].Role].Pinned})
	}
	return out
}

// makeWay takes other cells for those that keep their guarantee where one that gave its guarantee
// up could then be guaranteed again. That is decided afterwards, as ever: an upgrade moves no
// other.
func (s Planner) makeWay(ch *change) {
	var back []cell.AllocID
	for i := range ch.ev.Moves {
		m := &ch.ev.Moves[i]
		a := s.Live(m.Attempt)
		j := &s.Jobs[a.Job]
		vc := ch.next.SpaceOf(model.VCNow(ch.ev.Renamed, j.Spec.VC))
		if !a.Lazy || m.Regained || a.Joined || m.Orphaned || vc == cell.None || s.IsExtra(a) {
			continue
		}
		binds, ok := ch.next.Upgradable(ch.allocs[i])
		if !ok {
			var lazy bool
			binds, lazy = ch.rearrange(vc, &m.Placement, s.started(ch, a))
			ok = !lazy
		}
		if ok {
			ch.next.Upgrade(ch.allocs[i], binds)
			back = append(back, ch.allocs[i])
		}
	}
	for _, id := range slices.Backward(back) {
		ch.next.Demote(id)
	}
}

// rearrange finds cells for one that found none while those before it chose what was best for
// them alone: first by taking others for those of its VC, then for those inside the same
// container too, last for all. lazy says that there are none.
func (ch *change) rearrange(vc int32, p *cell.Placement, started []cell.Started) (binds []cell.Bind, lazy bool) {
	fewer := 0
	for _, scope := range ch.next.Scopes(vc) {
		if ch.missed[scope] == rearrangedMost {
			continue
		}
		rivals := ch.next.Rivals(scope, ch.kept, p)
		if len(rivals) == fewer {
			continue
		}
		fewer = len(rivals)
		if binds, ok := ch.next.Rearrange(vc, rivals, p, started); ok {
			return binds, false
		}
		ch.missed[scope]++
	}
	return nil, true
}
