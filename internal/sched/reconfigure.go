package sched

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// checkReconfigure plans how everything that holds cells is carried over. It
// changes nothing: the plan is in the event. A configuration that is in force
// already gives no event.
func (s *State) checkReconfigure(c Reconfigure) ([]Event, Answer, *Refusal) {
	ch, no := s.change(&c)
	if no != nil {
		return nil, Answer{}, no
	}
	plan := s.effects(ch)
	return ch.events, Answer{Effects: plan.Effects}, nil
}

// change is a new configuration, checked, with how it would come to be.
type change struct {
	next   *cell.Cluster // with what holds cells, where it stands then
	ev     Configured
	events []Event // what Apply gets; none when nothing changes
	// lent are the jobs whose first gang is opportunistic there; looked up only.
	lent map[JobID]bool
}

// change checks a command and decides what becomes of everything that holds
// cells: guaranteed attempts first, by priority, then by age.
func (s *State) change(c *Reconfigure) (*change, *Refusal) {
	if c.Config == nil {
		return nil, refuse(Invalid, "there is no configuration")
	}
	if no := checkThroughputs(c.Config.Throughputs); no != nil {
		return nil, no
	}
	next, err := cell.New(&c.Config.Cluster)
	if err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	for i := int32(1); i < next.NumSpaces(); i++ {
		if _, err := s.policies.Make(*vcConfig(c.Config, next.Space(i).Name)); err != nil {
			return nil, refuse(Invalid, "virtual cluster %q: %v", next.Space(i).Name, err)
		}
	}
	ch := &change{next: next, ev: Configured{Config: c.Config, Meta: c.Meta}, lent: map[JobID]bool{}}
	var no *Refusal
	if ch.ev.Renamed, ch.ev.RenamedNodes, no = s.effectiveRenames(c, next); no != nil {
		return nil, no
	}
	if s.cfg != nil && len(s.failed)+len(s.unmade) == 0 && len(ch.ev.Renamed)+len(ch.ev.RenamedNodes) == 0 && sameConfig(s.cfg, c.Config) {
		return ch, nil
	}
	for _, slot := range s.carryOrder() {
		a := &s.attempts[slot]
		if a.state == AttemptReserving {
			ch.events = append(ch.events, Unreserved{Attempt: a.id, Reason: "the configuration changed"})
			continue
		}
		ch.ev.Moves = append(ch.ev.Moves, s.planMove(ch, a))
	}
	ch.events = append(ch.events, ch.ev)
	return ch, nil
}

// sameConfig compares by content: an empty list is as good as none.
func sameConfig(a, b *Config) bool {
	return a == b || reflect.DeepEqual(a, b) || string(appendLine(nil, a)) == string(appendLine(nil, b))
}

// carryOrder returns the attempt slots that hold or were promised cells:
// guaranteed ones first, by priority, then by age.
func (s *State) carryOrder() []int32 {
	var order []int32
	for i := range s.attempts {
		if s.attempts[i].job != none && s.attempts[i].id.Job != 0 {
			order = append(order, int32(i))
		}
	}
	prio := func(slot int32) cell.Priority {
		a := &s.attempts[slot]
		if a.lazy {
			return cell.Opportunistic
		}
		return s.jobs[a.job].spec.Priority
	}
	slices.SortFunc(order, func(x, y int32) int {
		if p, q := prio(x), prio(y); p != q {
			return int(q) - int(p)
		}
		return compareAttempts(s.attempts[x].id, s.attempts[y].id)
	})
	return order
}

func compareAttempts(a, b AttemptID) int {
	switch {
	case a.Job != b.Job:
		return int(a.Job - b.Job)
	case a.Gang != b.Gang:
		return int(a.Gang - b.Gang)
	}
	return int(a.N - b.N)
}

// planMove decides where an attempt stands in the new cluster, and takes it there.
func (s *State) planMove(ch *change, a *attempt) Move {
	j := &s.jobs[a.job]
	if a.joined { // it stays with whom it shares its leaves with, who stands before it
		host := s.holder(a.alloc).id
		i := slices.IndexFunc(ch.ev.Moves, func(m Move) bool { return m.Attempt == host })
		m := ch.ev.Moves[i]
		m.Attempt = a.id
		return m
	}
	vc := ch.next.SpaceOf(vcNow(ch.ev.Renamed, j.spec.VC))
	var started []cell.Started
	origins := s.origins(a)
	for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := j.tasks[o].started()
		t.Node = nodeNow(ch.ev.RenamedNodes, t.Node)
		started = append(started, cell.Started{Task: t, Origin: origins[k]})
	}
	got := ch.next.Carry(s.cl, vc, s.cl.Alloc(a.alloc), started)
	m := Move{Attempt: a.id, Placement: got.Placement, Lazy: got.Lazy, Orphaned: got.Lost > 0, Drains: got.Drains}
	if s.isExtra(a) && !a.lazy && ch.lent[a.id.Job] && j.spec.Priority >= cell.MinGuaranteed {
		m.Lazy, m.Placement.Binds = true, nil // as everywhere, it goes with its minimum
	} else if a.id.Gang == 0 {
		ch.lent[a.id.Job] = m.Lazy || a.lazy
	}
	alloc := ch.next.Take(max(vc, 0), j.spec.Priority, m.Placement, false)
	if m.Lazy || a.lazy {
		ch.next.Demote(alloc)
	}
	return m
}

// origins are what the tasks of an attempt were started with. A snapshot of an older
// form did not keep them: then it is what the present cluster says.
func (s *State) origins(a *attempt) []cell.Origin {
	if kept := rare(a.odd).origins; kept != nil {
		return kept
	}
	j := &s.jobs[a.job]
	out := make([]cell.Origin, 0, len(j.spec.Gangs[a.id.Gang].Tasks))
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := j.tasks[o].started()
		out = append(out, s.cl.Origin(&t))
	}
	return out
}

// startedOtherwise reports whether the devices of an attempt had other SKUs, or were divided
// otherwise, when it was started. Nobody may join it. Whoever did would start on what stands
// for them now, go where it goes with the next configuration, and that may be less; and
// whoever takes turns looks for the other's locks under the names that itself knows.
func (s *State) startedOtherwise(a *attempt) bool {
	kept := rare(a.odd).origins
	j := &s.jobs[a.job]
	for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
		t := j.tasks[o].place
		if t.SKU != s.cl.Alloc(a.alloc).Placement.Tasks[k].SKU || kept != nil && !s.cl.Divides(&cell.Started{Task: *t, Origin: kept[k]}) {
			return true
		}
	}
	return false
}

// allOrigins are those of all attempts, by slot, before the configuration changes.
func (s *State) allOrigins() [][]cell.Origin {
	out := make([][]cell.Origin, len(s.attempts))
	for i := range s.attempts {
		if s.attempts[i].job != none {
			out[i] = s.origins(&s.attempts[i])
		}
	}
	return out
}

// keepOrigins keeps those that the new cluster no longer tells.
func (s *State) keepOrigins(was [][]cell.Origin) {
	for i := range was {
		a := &s.attempts[i]
		if a.job == none {
			continue
		}
		if rare(a.odd).origins != nil {
			alter(&a.odd).origins = nil
		}
		if !slices.EqualFunc(was[i], s.origins(a), cell.Origin.Equal) {
			alter(&a.odd).origins = was[i]
		}
	}
}
