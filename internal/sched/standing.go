package sched

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// runner is a gang that runs in a VC whose policy is Keyed or a Stander, as Standing
// shows it.
type runner struct {
	Ranked
	prio  cell.Priority
	until Time  // its key holds before then; 0 is for as long as it runs
	slot  int32 // of its attempt
}

// compare orders by priority, then the last in the policy's order first.
func (a runner) compare(b runner) int {
	return cmp.Or(cmp.Compare(b.prio, a.prio), b.Key.Compare(a.Key), cmp.Compare(b.Order, a.Order), cmp.Compare(b.Ref.Gang, a.Ref.Gang))
}

// runners are the gangs that run in one VC, in order. They follow from the state:
// they are made when somebody asks, and from then on only those are read again
// that something happened to, or whose keys no longer hold.
type runners struct {
	kept    bool
	at      Time // when the keys were made; those of an Aging policy hold longer
	soonest Time // no key ceases to hold before; 0 is never
	list    []runner
	stale   []int32 // attempts that something happened to
}

func cloneRunners(rs []runners) []runners {
	out := slices.Clone(rs)
	for i := range out {
		out[i].list, out[i].stale = slices.Clone(out[i].list), slices.Clone(out[i].stale)
	}
	return out
}

// Standing implements View.
func (v view) Standing() iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		list := v.s.runnersFrom(v.space, v.prio)
		for i := 0; i < len(list) && list[i].prio == v.prio && yield(list[i].Ranked); i++ {
		}
	}
}

// Promised implements View.
func (v view) Promised() iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		s := v.s
		k, ok := s.pol[v.space].(Keyed)
		for _, slot := range s.promises {
			a := &s.attempts[slot]
			if !ok || s.cl.Alloc(a.alloc).Space != v.space || s.jobs[a.job].spec.Priority != v.prio {
				continue
			}
			g := s.gangView(s.entry(a))
			if !yield(Ranked{g.Ref, k.Key(&g), g.Order, g.Leaves}) {
				return
			}
		}
	}
}

// runnersAt yields those of one priority. They must not change meanwhile.
func (s *State) runnersAt(space int32, p cell.Priority) iter.Seq[*runner] {
	return func(yield func(*runner) bool) {
		list := s.runnersFrom(space, p)
		for i := 0; i < len(list) && list[i].prio == p && yield(&list[i]); i++ {
		}
	}
}

// runnersFrom returns those of a priority and below.
func (s *State) runnersFrom(space int32, p cell.Priority) []runner {
	list := s.runnersOf(space)
	if len(list) == 0 || list[0].prio <= p {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, p, func(r runner, p cell.Priority) int { return cmp.Compare(p, r.prio) })
	return list[at:]
}

// runs reports whether an attempt is one that policies see run: a full gang, for
// what stands above a minimum gives way before them whatever the policy says.
func (s *State) runs(a *attempt) bool {
	return !a.lazy && a.cause == 0 && (a.state == AttemptStarting || a.state == AttemptRunning) && !s.isExtra(a)
}

// rerun notes that something happened to an attempt.
func (s *State) rerun(a *attempt) {
	s.realloc(a)
	r := &s.running[s.cl.Alloc(a.alloc).Space]
	if !r.kept || a.standing&isStale != 0 {
		return
	}
	a.standing |= isStale
	r.stale = append(r.stale, s.slotOf(a))
}

// unrun takes an attempt that ends out of its list.
func (s *State) unrun(a *attempt) {
	if a.standing&isRanked == 0 {
		return
	}
	r := &s.running[s.cl.Alloc(a.alloc).Space]
	if i, found := slices.BinarySearchFunc(r.list, s.runnerOf(a), runner.compare); found {
		r.list = slices.Delete(r.list, i, i+1)
	}
	a.standing &^= isRanked
}

// runnerOf is an attempt with the key by which it stands in its list.
func (s *State) runnerOf(a *attempt) runner {
	ref := GangRef{a.id.Job, a.id.Gang}
	return runner{Ranked: Ranked{Ref: ref, Key: a.rank, Order: int64(ref.Job)}, prio: s.jobs[a.job].spec.Priority}
}

// orders says whether a policy orders those who run, and whether their keys last: until
// something happens to them, or a time that the policy knows.
func orders(p Policy) (some, last bool) {
	if _, stands := p.(Stander); stands {
		return true, true
	}
	_, keyed := p.(Keyed)
	_, ages := p.(Aging)
	return keyed, ages
}

// runnersOf brings the list of a VC up to date.
func (s *State) runnersOf(space int32) []runner {
	r, last := &s.running[space], s.looks.lasts[space]
	if !s.looks.ranks[space] {
		return nil
	}
	if !r.kept {
		r.kept, r.at = true, s.now
		for _, i := range s.holders[space] {
			s.rerun(&s.attempts[i])
		}
	}
	if !last && r.at != s.now || last && r.soonest > 0 && r.soonest <= s.now {
		s.rekey(space, last)
	}
	for _, slot := range r.stale {
		a := &s.attempts[slot]
		if a.job == none || a.standing&isStale == 0 || s.cl.Alloc(a.alloc).Space != space {
			continue // its memory has another attempt
		}
		a.standing &^= isStale
		s.unrun(a)
		if s.runs(a) {
			e := s.keyed(space, slot)
			i, _ := slices.BinarySearchFunc(r.list, e, runner.compare)
			r.list = slices.Insert(r.list, i, e)
			r.soonest = sooner(r.soonest, e.until)
		}
	}
	r.stale = r.stale[:0]
	return r.list
}

// rekey makes the keys anew that may not hold any more: all, or where keys last those
// that do not, which are taken for stale.
func (s *State) rekey(space int32, last bool) {
	r := &s.running[space]
	r.at, r.soonest = s.now, 0
	for i := range r.list {
		e := &r.list[i]
		switch {
		case !last:
			*e = s.keyed(space, e.slot)
		case e.until > 0 && e.until <= s.now:
			if a := &s.attempts[e.slot]; a.standing&isStale == 0 {
				a.standing |= isStale
				r.stale = append(r.stale, e.slot)
			}
			continue
		}
		r.soonest = sooner(r.soonest, e.until)
	}
	if !last && !slices.IsSortedFunc(r.list, runner.compare) {
		slices.SortFunc(r.list, runner.compare)
	}
}

// keyed makes the key of an attempt that runs.
func (s *State) keyed(space, slot int32) runner {
	a := &s.attempts[slot]
	g := &s.mem.gang
	*g = s.gangView(s.entry(a))
	a.standing, a.rank = a.standing|isRanked, s.standKey(space, g)
	e := s.runnerOf(a)
	e.Leaves, e.slot = g.Leaves, slot
	if aging, ok := s.pol[space].(Aging); ok {
		e.until = aging.Until(s.decided, g)
	}
	return e
}

// standKey is the key of a gang that runs.
func (s *State) standKey(space int32, g *GangView) Key {
	switch p := s.pol[space].(type) {
	case Stander:
		return p.Stand(g)
	case Keyed:
		return p.Key(g)
	}
	return Key{}
}

// verifyRunners makes the lists again and compares.
func (s *State) verifyRunners(add func(string, ...any)) {
	for space := range s.running {
		r := &s.running[space]
		some, last := orders(s.pol[space])
		if !r.kept || !some {
			continue
		}
		list, want := s.runnersOf(int32(space)), 0
		for a := range s.holding(int32(space)) {
			if !s.runs(a) {
				continue
			}
			want++
			g := s.gangView(s.entry(a))
			if i, found := slices.BinarySearchFunc(list, s.runnerOf(a), runner.compare); !found || list[i].Ref != g.Ref {
				add("attempt %v runs and does not stand in the order of space %d", a.id, space)
			} else if now := s.standKey(int32(space), &g); (last || r.at == s.now) && now != a.rank {
				add("attempt %v runs with the key %v, not %v", a.id, now, a.rank)
			}
		}
		if want != len(list) || !slices.IsSortedFunc(list, runner.compare) {
			add("%d gangs of space %d run, %d stand in its order", want, space, len(list))
		}
	}
}
