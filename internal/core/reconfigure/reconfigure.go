// Package reconfigure says what becomes of jobs when the configuration changes or a node is
// drained: which stay on their cells, move, drain or lose their guarantee, and which start. It
// must apply changes only to copies.
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

// CheckReconfigure plans how everything that holds cells is carried over. It changes nothing: the
// plan is in the event. A configuration already in force gives no event.
func (s Planner) CheckReconfigure(c model.Reconfigure, now model.Time) ([]model.Event, model.Answer, *model.Refusal) {
	ch, no := s.change(&c, now)
	if no != nil {
		return nil, model.Answer{}, no
	}
	plan, _ := s.planEffects(ch)
	return ch.events, model.Answer{Plan: plan}, nil
}

// change is a checked new configuration, with the moves that it needs.
type change struct {
	next   *cell.Cluster // the new cluster, with all allocations carried over
	ev     model.Configured
	events []model.Event // for Apply; none if nothing changes
	// demoted holds the jobs with a first gang that is opportunistic in next; never ranged over.
	demoted map[model.JobID]bool
	allocs  []cell.AllocID // of each of ev.Moves, in their order: its allocation in next
	kept    []cell.AllocID // in next: those that keep their guarantee by bound cells
	missed  map[int32]int  // by scope of next: failed rearrangements; never ranged over
	// back reports whether an attempt that lost its guarantee to an earlier configuration may get
	// it back.
	back func(*tables.Attempt) bool
}

// rearrangedMost bounds how often a rearrangement may fail in one scope; then it is not tried
// there any more.
const rearrangedMost = 16

// maxReplans bounds how often a change is planned anew because a guarantee given back did harm.
const maxReplans = 4

// change checks a command and plans what becomes of everything that holds cells. Guaranteed
// attempts go first, with those that lost their guarantee to an earlier configuration; by
// priority, then by age.
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
		if _, err := s.NewPolicy.Make(*model.ConfigOfVC(c.Config, next.Space(i).Name)); err != nil {
			return nil, explain.Refuse(model.Invalid, "virtual cluster %q: %v", next.Space(i).Name, err)
		}
	}
	ev := model.Configured{Config: c.Config, Meta: c.Meta}
	var no *model.Refusal
	if ev.Renamed, ev.RenamedNodes, no = s.effectiveRenames(c, next); no != nil {
		return nil, no
	}
	if s.Config != nil && len(s.Failed)+len(s.FailedToMake) == 0 && len(ev.Renamed)+len(ev.RenamedNodes) == 0 &&
		sameConfig(s.Config, c.Config) {
		return &change{next: next, ev: ev}, nil
	}
	var held []model.AttemptID
	for range maxReplans {
		ch := s.carryAll(next.Clone(), ev, held)
		sorry := s.harmedByReturn(ch, now)
		if len(sorry) == 0 {
			return ch, nil
		}
		held = append(held, sorry...)
	}
	return s.carryAll(next, ev, s.demotedBefore()), nil
}

// carryAll carries over everything that holds cells. The attempts in held do not get back a
// guarantee that an earlier configuration took.
func (s Planner) carryAll(next *cell.Cluster, ev model.Configured, held []model.AttemptID) *change {
	ch := &change{next: next, ev: ev, demoted: map[model.JobID]bool{}, missed: map[int32]int{}}
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
			m.Placement.Binds = ch.next.Alloc(ch.allocs[i]).Placement.Binds // later moves may change them
		}
	}
	ch.events = append(ch.events, ch.ev)
	return ch
}

// mayReturn reports whether an allocation, by its first member, lost its guarantee to a
// configuration and is not stopping: then the next configuration may give it back. One that was
// demoted for another job gets it back by an upgrade, in its turn.
func (s Planner) mayReturn(host *tables.Attempt) bool {
	if !host.Lazy || host.By != nil || s.Jobs[host.Job].Spec.Priority < cell.MinGuaranteed {
		return false
	}
	return !slices.ContainsFunc(s.MembersOf(host.Alloc), func(m *tables.Attempt) bool { return m.Cause != 0 })
}

// demotedBefore are all attempts that have lost their guarantee.
func (s Planner) demotedBefore() (out []model.AttemptID) {
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Job != tables.None && a.Lazy {
			out = append(out, a.ID)
		}
	}
	return out
}

// harmedByReturn are the attempts that a change gives their guarantee back and that are then
// stopped for it at once. That happens if a gang of higher priority waits in their virtual cluster
// that would have found other cells for the same guarantee.
func (s Planner) harmedByReturn(ch *change, now model.Time) (out []model.AttemptID) {
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
		if recover() != nil { // the real decision will panic as well, and handle it
			out = nil
		}
	}()
	after := Planner{s.CopyAt(new(explain.CopyMemory), now)}.planned(ch)
	for _, r := range after.Settle(after.Now) {
		if e, ok := r.Event.(model.StopSent); ok && e.Cause == model.EndPreempted &&
			slices.Contains(returned, e.Attempt) {
			out = append(out, e.Attempt)
		}
	}
	return out
}

// sameConfig compares by content: an empty list equals none, and the order of virtual clusters,
// cells and nodes does not matter.
func sameConfig(a, b *model.Config) bool {
	return a == b || reflect.DeepEqual(a, b) || string(state.AppendLine(nil,
		a.Ordered())) == string(state.AppendLine(nil, b.Ordered()))
}

// carryOrder returns the slots of attempts in the order in which they are carried over. Guaranteed
// ones, and those that may be again, go first; of these, leaving ones last. Then by priority, full
// gangs before members above a minimum, then by age. Members of an allocation follow the first of
// them.
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
			of: host.ID, its: a.ID, joined: a.NotFirst}
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

// first orders true before false.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// planMove decides where an attempt stands in the new cluster, and takes its cells there.
func (s Planner) planMove(ch *change, a *tables.Attempt) {
	j := &s.Jobs[a.Job]
	if a.NotFirst { // it goes with its allocation's first member, planned before it
		host := s.Holder(a.Alloc).ID
		i := slices.IndexFunc(ch.ev.Moves, func(m model.Move) bool { return m.Attempt == host })
		m := ch.ev.Moves[i]
		m.Attempt = a.ID
		ch.ev.Moves, ch.allocs = append(ch.ev.Moves, m), append(ch.allocs, ch.allocs[i])
		return
	}
	vc := ch.next.SpaceOf(model.NewVCName(ch.ev.Renamed, j.Spec.VC))
	started := s.started(ch, a)
	got := ch.next.Carry(s.Cluster, vc, s.Cluster.Alloc(a.Alloc), started)
	m := model.Move{Attempt: a.ID, Placement: got.Placement, Lazy: got.Lazy, Orphaned: got.Lost > 0, Drains: got.Drains}
	owed := j.Spec.Priority >= cell.MinGuaranteed
	back := a.Lazy && owed && ch.back(a)
	if back && vc != cell.None && !got.DeviceChanged {
		m.Placement.Binds, m.Regained = ch.next.Regain(vc, &m.Placement, started)
	}
	lazy := m.Lazy || back && !m.Regained
	switch {
	case s.IsExtra(a) && owed && ch.demoted[a.ID.Job]:
		lazy, m.Placement.Binds = true, nil // like everywhere, it follows its minimum
	case lazy && !got.DeviceChanged && vc != cell.None:
		m.Placement.Binds, lazy = ch.rearrange(vc, &m.Placement, started)
	}
	m.Lazy, m.Regained = lazy && !a.Lazy, back && !lazy
	lazy = lazy || a.Lazy && !m.Regained
	if a.ID.Gang == 0 {
		ch.demoted[a.ID.Job] = lazy
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
		t := j.Tasks[o].StartPlace()
		t.Node = model.NewNodeName(ch.ev.RenamedNodes, t.Node)
		out = append(out, cell.Started{Task: t, Origin: origins[k], Pinned: j.Spec.Roles[j.Tasks[o].Role].Pinned})
	}
	return out
}

// makeWay binds guaranteed allocations to other cells if an opportunistic one could then be
// guaranteed again. The upgrade itself is decided later, as usual: an upgrade never rebinds other
// allocations.
func (s Planner) makeWay(ch *change) {
	var back []cell.AllocID
	for i := range ch.ev.Moves {
		m := &ch.ev.Moves[i]
		a := s.Live(m.Attempt)
		j := &s.Jobs[a.Job]
		vc := ch.next.SpaceOf(model.NewVCName(ch.ev.Renamed, j.Spec.VC))
		if !a.Lazy || m.Regained || a.NotFirst || m.Orphaned || vc == cell.None || s.IsExtra(a) {
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

// rearrange finds cells for an allocation that found none since those before it chose the best for
// themselves alone. It rebinds others: first those of its VC, then those inside the same
// container, last all. lazy reports that nothing helps.
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
