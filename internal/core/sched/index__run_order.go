package sched

import (
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// runner is a gang that runs in a VC whose policy is Keyed or a Stander, as Standing
// shows it; in a row of falling ranks, its rank is the time at which that would be 0.
type runner struct {
	Ranked
	until model.Time // its key holds before then; 0 is for as long as it runs
	slot  int32      // of its attempt
}

// compare orders the last in the policy's order first.
func (a runner) compare(b runner) int { return a.Ranked.compare(&b.Ranked) }

// row is the gangs of one priority whose ranks fall alike with time, in order: so as time
// goes by they stay in it, and have no key made anew.
type row struct {
	prio cell.Priority
	rate int64 // by how much in a microsecond; 0 of ranks that do not fall
	list []runner
}

// runners are the gangs that run in one VC, in order. They follow from the state:
// they are made when somebody asks, and from then on only those are read again
// that something happened to, or whose keys no longer hold.
type runners struct {
	kept    bool
	at      model.Time // when the keys were made; those of an Aging or a Falling policy hold longer
	through model.Time // the last decision before that, after which they hold
	soonest model.Time // no key ceases to hold before, but where ranks fall; 0 is never
	rows    []row
	stale   []int32 // attempts that something happened to
}

func cloneRunners(rs []runners) []runners {
	out := slices.Clone(rs)
	for i := range out {
		out[i].rows, out[i].stale = slices.Clone(out[i].rows), slices.Clone(out[i].stale)
		for k := range out[i].rows {
			out[i].rows[k].list = slices.Clone(out[i].rows[k].list)
		}
	}
	return out
}

// row finds the row of a priority and a rate, or begins it in the memory of one that is empty.
func (r *runners) row(p cell.Priority, rate int64) *row {
	empty := none
	for i := range r.rows {
		switch w := &r.rows[i]; {
		case w.prio == p && w.rate == rate:
			return w
		case len(w.list) == 0:
			empty = i
		}
	}
	if empty == none {
		empty = len(r.rows)
		r.rows = append(r.rows, row{})
	}
	w := &r.rows[empty]
	w.prio, w.rate = p, rate
	return w
}

// at is a gang of a row as it stands now.
func (w *row) at(i int, now model.Time) Ranked {
	g := w.list[i].Ranked
	if w.rate > 0 {
		g.Key.Rank = (g.Key.Rank - int64(now)) * w.rate
	}
	return g
}

// reading is how far a row was read, with the gang to which that came.
type reading struct {
	*row
	next int
	Ranked
}

// standingWith goes through the gangs that run with a priority: their rows, merged.
func (s *index) standingWith(space int32, prio cell.Priority) iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		var room [8]reading
		heads, now := room[:0], s.now
		rows := s.runnersOf(space)
		for i := range rows {
			if w := &rows[i]; w.prio == prio && len(w.list) > 0 {
				heads = append(heads, reading{w, 1, w.at(0, now)})
			}
		}
		for len(heads) > 0 {
			h := &heads[0]
			for i := range heads[1:] {
				if o := &heads[i+1]; o.compare(&h.Ranked) < 0 {
					h = o
				}
			}
			if !yield(h.Ranked) {
				return
			}
			if h.next == len(h.list) {
				*h = heads[len(heads)-1]
				heads = heads[:len(heads)-1]
				continue
			}
			h.Ranked = h.at(h.next, now)
			h.next++
		}
	}
}

// nextAge is when the key of a gang of a priority ceases to hold, of an Aging policy.
func (s *index) nextAge(space int32, p cell.Priority) model.Time {
	var next model.Time
	if _, ages := s.pol[space].(Aging); !ages {
		return 0
	}
	for _, w := range s.runnersOf(space) {
		for i := 0; w.prio == p && i < len(w.list); i++ {
			next = sooner(next, w.list[i].until)
		}
	}
	return next
}

// runs reports whether an attempt is one that policies see run: a full gang, for
// what stands above a minimum gives way before them whatever the policy says.
func (s *index) runs(a *attempt) bool {
	return !a.lazy && a.cause == 0 && (a.state == model.AttemptStarting || a.state == model.AttemptRunning) && !s.isExtra(a)
}

// rerun notes that something happened to an attempt.
func (s *index) rerun(a *attempt) {
	s.realloc(a)
	r := &s.running[s.cl.Alloc(a.alloc).Space]
	if !r.kept || a.standing&isStale != 0 {
		return
	}
	a.standing |= isStale
	r.stale = append(r.stale, s.slotOf(a))
}

// unrun takes an attempt that ends out of its row.
func (s *index) unrun(a *attempt) {
	if a.standing&isRanked == 0 {
		return
	}
	r := &s.running[s.cl.Alloc(a.alloc).Space]
	if k, i := r.find(runnerOf(a), s.jobs[a.job].spec.Priority); k != none {
		if w := &r.rows[k]; i == 0 { // the last in the order: the first to be stopped
			w.list = w.list[1:]
		} else {
			w.list = slices.Delete(w.list, i, i+1)
		}
	}
	a.standing &^= isRanked
}

// find tells in which row a gang of a priority stands, and where; none where in none.
func (r *runners) find(e runner, p cell.Priority) (at, i int) {
	for k := range r.rows {
		w := &r.rows[k]
		if w.prio != p {
			continue
		}
		if i, found := slices.BinarySearchFunc(w.list, e, runner.compare); found {
			return k, i
		}
	}
	return none, none
}

// runnerOf is an attempt with the key by which it stands in its row.
func runnerOf(a *attempt) runner {
	ref := GangRef{Job: a.id.Job, Gang: a.id.Gang}
	return runner{Ranked: Ranked{Ref: ref, Key: a.rank, Order: int64(ref.Job)}}
}

// orders says whether a policy orders those who run, and whether their keys last: until
// something happens to them, or a time that the policy knows.
func orders(p Policy) (some, last bool) {
	switch p.(type) {
	case Stander, Aging, Falling:
		return true, true
	case Keyed:
		return true, false
	}
	return false, false
}

// runnersOf brings the rows of a VC up to date.
func (s *index) runnersOf(space int32) []row {
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
	if !last && r.at != s.now || last && r.soonest > 0 && r.soonest <= s.now && (r.at != s.now || r.through != s.decided) {
		s.rekey(space, last)
	}
	s.fallen(r)
	many := len(r.stale) > 32 // which leave their rows at once, and are sorted in
	for k := range r.rows {
		if w := &r.rows[k]; many {
			w.list = slices.DeleteFunc(w.list, func(e runner) bool { return s.attempts[e.slot].standing&isStale != 0 })
		}
	}
	for _, slot := range r.stale {
		a := &s.attempts[slot]
		if a.job == none || a.standing&isStale == 0 || s.cl.Alloc(a.alloc).Space != space {
			continue // its memory has another attempt
		}
		if a.standing &^= isStale; many {
			a.standing &^= isRanked
		}
		s.unrun(a)
		if s.runs(a) {
			e, rate := s.keyed(space, slot)
			w := r.row(s.jobs[a.job].spec.Priority, rate)
			i := len(w.list)
			if !many {
				i, _ = slices.BinarySearchFunc(w.list, e, runner.compare)
			}
			w.list = slices.Insert(w.list, i, e)
			r.soonest = sooner(r.soonest, e.until)
		}
	}
	for k := 0; many && k < len(r.rows); k++ {
		slices.SortFunc(r.rows[k].list, runner.compare)
	}
	r.stale = r.stale[:0]
	return r.rows
}

// fallen takes those for stale whose ranks do not fall any more: the last of their rows.
func (s *index) fallen(r *runners) {
	for k := range r.rows {
		w := &r.rows[k]
		for i := len(w.list) - 1; w.rate > 0 && i >= 0 && w.list[i].Key.Rank <= int64(s.now)+1; i-- {
			s.goStale(r, w.list[i].slot)
		}
	}
}

// goStale lets an attempt be read again.
func (s *index) goStale(r *runners, slot int32) {
	if a := &s.attempts[slot]; a.standing&isStale == 0 {
		a.standing |= isStale
		r.stale = append(r.stale, slot)
	}
}

// rekey makes the keys anew that may not hold any more: all, or where keys last those
// that do not, which are taken for stale.
func (s *index) rekey(space int32, last bool) {
	r := &s.running[space]
	r.at, r.through, r.soonest = s.now, s.decided, 0
	for k := range r.rows {
		w := &r.rows[k]
		for i := range w.list {
			e := &w.list[i]
			switch {
			case !last:
				*e, _ = s.keyed(space, e.slot)
			case e.until > 0 && e.until <= s.now:
				s.goStale(r, e.slot)
				continue
			}
			r.soonest = sooner(r.soonest, e.until)
		}
		if !last && !slices.IsSortedFunc(w.list, runner.compare) {
			slices.SortFunc(w.list, runner.compare)
		}
	}
}

// keyed makes the key of an attempt that runs, and says by how much its rank falls.
func (s *index) keyed(space, slot int32) (e runner, rate int64) {
	a := &s.attempts[slot]
	g := &s.calls.gang
	*g = s.gangView(s.entry(a))
	was := s.ask(space)
	a.standing, a.rank = a.standing|isRanked, s.standKey(space, g)
	var until model.Time
	switch p := s.pol[space].(type) {
	case Aging:
		until = s.ages(p, a, g)
	case Falling:
		rate, until = s.falls(p, a, g)
	}
	s.ask(was)
	e = runnerOf(a)
	e.Leaves, e.slot, e.until = g.Leaves, slot, until
	return e, rate
}

// ages is when the key of an attempt changes for the first time after the last decision. A policy
// counts running time from the start; who takes turns gets to that later.
func (s *index) ages(p Aging, a *attempt, g *GangView) model.Time {
	if a.share == 0 || a.started == 0 {
		return p.Until(s.decided, g)
	}
	sh := &s.shares[a.share-1]
	ran := rare(a.odd).ran + sh.rotation.Ran(a.id, max(a.started, sh.since), s.decided)
	at := p.Until(a.started.Add(ran), g)
	if at == 0 {
		return 0
	}
	return s.reaches(a, model.Duration(at-a.started))
}

// falls says by how much the rank of an attempt falls from now on, or until when it stays
// the same: of a gang that takes turns, or whose rank is too large to be told, for this
// instant. The attempt gets the time at which its rank would be 0.
func (s *index) falls(p Falling, a *attempt, g *GangView) (rate int64, until model.Time) {
	zero, rate := p.Falls(g)
	left := int64(zero - s.now)
	switch {
	case rate == 0:
		return 0, 0
	case a.share == 0 && left <= 1 && a.rank.Rank == rate:
		return 0, 0
	case a.share == 0 && left > 1 && left <= math.MaxInt64/rate && a.rank.Rank == left*rate && a.rank.Rank != math.MaxInt64:
		a.rank.Rank = int64(zero)
		return rate, 0
	}
	return 0, s.now + 1
}

// standKey is the key of a gang that runs.
func (s *index) standKey(space int32, g *GangView) Key {
	switch p := s.pol[space].(type) {
	case Stander:
		return p.Stand(g)
	case Keyed:
		return p.Key(g)
	}
	return Key{}
}

// priorities are those of which there are rows.
func priorities(rows []row) []cell.Priority {
	var out []cell.Priority
	for _, w := range rows {
		if !slices.Contains(out, w.prio) {
			out = append(out, w.prio)
		}
	}
	return out
}

// verifyRunners makes the keys again and compares.
func (s *index) verifyRunners(add func(string, ...any)) {
	for space := range s.running {
		r := &s.running[space]
		some, last := orders(s.pol[space])
		if !r.kept || !some {
			continue
		}
		rows, want, stand := s.runnersOf(int32(space)), 0, 0
		for a := range s.holding(int32(space)) {
			if !s.runs(a) {
				continue
			}
			want++
			g := s.gangView(s.entry(a))
			if k, i := r.find(runnerOf(a), s.jobs[a.job].spec.Priority); k == none || rows[k].list[i].Ref != g.Ref {
				add("attempt %v runs and does not stand in the order of space %d", a.id, space)
			} else if now, is := s.standKey(int32(space), &g), rows[k].at(i, s.now).Key; (last || r.at == s.now) && now != is {
				add("attempt %v runs with the key %v, not %v", a.id, now, is)
			}
		}
		for _, p := range priorities(rows) {
			list := slices.Collect(s.standingWith(int32(space), p))
			if stand += len(list); (last || r.at == s.now) && !slices.IsSortedFunc(list, func(a, b Ranked) int { return a.compare(&b) }) {
				add("gangs of space %d do not stand in order: %v", space, list)
			}
		}
		if want != stand {
			add("%d gangs of space %d run, %d stand in its order", want, space, stand)
		}
	}
}
