package index

import (
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// runner is a running gang of a VC with a Keyed or RunKeyed policy, as RunningByKey shows it. In a
// row of falling ranks, its rank is the time at which that would be 0.
type runner struct {
	model.Ranked
	until model.Time // its key holds before then; 0 is for as long as it runs
	slot  int32      // of its attempt
}

// compare puts the gang that is last in the policy's order first.
func (a runner) compare(b runner) int { return a.Ranked.Compare(&b.Ranked) }

// row is the running gangs of one priority with ranks that fall at one rate, in order: they stay
// in that order as time passes, and need no new keys.
type row struct {
	prio cell.Priority
	rate int64 // how much the rank falls in a microsecond; 0 if it does not
	list []runner
}

// RunOrder is the running gangs of one VC, in order. It follows from the state: the first query
// builds it, and later ones read again only the gangs that changed since, or have a key that no
// longer holds.
type RunOrder struct {
	kept    bool
	at      model.Time // when the keys were made; those of a StepKeyed or a LinearKeyed policy hold longer
	through model.Time // the last decision before that; keys hold from it on
	soonest model.Time // no key ceases to hold before, except falling ranks; 0 is never
	rows    []row
	stale   []int32 // slots of attempts that changed since they were last read
}

// CloneRunners copies run orders.
func CloneRunners(rs []RunOrder) []RunOrder {
	out := slices.Clone(rs)
	for i := range out {
		out[i].rows, out[i].stale = slices.Clone(out[i].rows), slices.Clone(out[i].stale)
		for k := range out[i].rows {
			out[i].rows[k].list = slices.Clone(out[i].rows[k].list)
		}
	}
	return out
}

// row finds the row of a priority and a rate, or begins it, in the memory of an empty row if there
// is one.
func (r *RunOrder) row(p cell.Priority, rate int64) *row {
	empty := tables.None
	for i := range r.rows {
		switch w := &r.rows[i]; {
		case w.prio == p && w.rate == rate:
			return w
		case len(w.list) == 0:
			empty = i
		}
	}
	if empty == tables.None {
		empty = len(r.rows)
		r.rows = append(r.rows, row{})
	}
	w := &r.rows[empty]
	w.prio, w.rate = p, rate
	return w
}

// at is the i-th gang of a row with its rank as of now.
func (w *row) at(i int, now model.Time) model.Ranked {
	g := w.list[i].Ranked
	if w.rate > 0 {
		g.Key.Rank = (g.Key.Rank - int64(now)) * w.rate
	}
	return g
}

// reading is a row that is being read: the gang it has come to, and the index of the next.
type reading struct {
	*row
	next int
	model.Ranked
}

// StandingWith yields the running gangs of a priority, the last in the policy's order first: their
// rows, merged.
func (s *Index) StandingWith(space int32, prio cell.Priority) iter.Seq[model.Ranked] {
	return func(yield func(model.Ranked) bool) {
		var room [8]reading
		heads, now := room[:0], s.Now
		rows := s.runnersOf(space)
		for i := range rows {
			if w := &rows[i]; w.prio == prio && len(w.list) > 0 {
				heads = append(heads, reading{w, 1, w.at(0, now)})
			}
		}
		for len(heads) > 0 {
			h := &heads[0]
			for i := range heads[1:] {
				if o := &heads[i+1]; o.Compare(&h.Ranked) < 0 {
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

// NextAge is the first time at which the key of a running gang of a priority ceases to hold under
// an StepKeyed policy; 0 is never.
func (s *Index) NextAge(space int32, p cell.Priority) model.Time {
	var next model.Time
	if _, ages := s.Policies[space].(model.StepKeyed); !ages {
		return 0
	}
	for _, w := range s.runnersOf(space) {
		for i := 0; w.prio == p && i < len(w.list); i++ {
			next = Sooner(next, w.list[i].until)
		}
	}
	return next
}

// Runs reports whether policies see an attempt as running. Members above a minimum are left out:
// they give way before full gangs, whatever the policy says.
func (s *Index) Runs(a *tables.Attempt) bool {
	return !a.Lazy && a.Cause == 0 && (a.State == model.AttemptStarting || a.State == model.AttemptRunning) &&
		!s.IsExtra(a)
}

// NoteChanged notes that an attempt changed, so that its key and its allocation are read again.
func (s *Index) NoteChanged(a *tables.Attempt) {
	s.NoteAllocChanged(a)
	r := &s.RunOrders[s.Cluster.Alloc(a.Alloc).Space]
	if !r.kept || a.OrderFlags&tables.OrderStale != 0 {
		return
	}
	a.OrderFlags |= tables.OrderStale
	r.stale = append(r.stale, s.SlotOf(a))
}

// DropFromRunOrder takes an attempt out of its row.
func (s *Index) DropFromRunOrder(a *tables.Attempt) {
	if a.OrderFlags&tables.InRunOrder == 0 {
		return
	}
	r := &s.RunOrders[s.Cluster.Alloc(a.Alloc).Space]
	if k, i := r.find(runnerOf(a), s.Jobs[a.Job].Spec.Priority); k != tables.None {
		if w := &r.rows[k]; i == 0 { // the last in the order, which is stopped first
			w.list = w.list[1:]
		} else {
			w.list = slices.Delete(w.list, i, i+1)
		}
	}
	a.OrderFlags &^= tables.InRunOrder
}

// find returns the row in which a gang of a priority stands, and its index there; None, None if it
// stands in none.
func (r *RunOrder) find(e runner, p cell.Priority) (at, i int) {
	for k := range r.rows {
		w := &r.rows[k]
		if w.prio != p {
			continue
		}
		if i, found := slices.BinarySearchFunc(w.list, e, runner.compare); found {
			return k, i
		}
	}
	return tables.None, tables.None
}

// runnerOf is an attempt with the key by which it stands in its row.
func runnerOf(a *tables.Attempt) runner {
	ref := model.GangRef{Job: a.ID.Job, Gang: a.ID.Gang}
	return runner{Ranked: model.Ranked{Ref: ref, Key: a.Rank, Order: int64(ref.Job)}}
}

// orders reports whether a policy orders running gangs, and whether their keys last: until
// something happens to them, or a time that the policy knows.
func orders(p model.Policy) (some, last bool) {
	switch p.(type) {
	case model.RunKeyed, model.StepKeyed, model.LinearKeyed:
		return true, true
	case model.Keyed:
		return true, false
	}
	return false, false
}

// runnersOf brings the rows of a VC up to date and returns them.
func (s *Index) runnersOf(space int32) []row {
	r, last := &s.RunOrders[space], s.Dirty.lasts[space]
	if !s.Dirty.ranks[space] {
		return nil
	}
	if !r.kept {
		r.kept, r.at = true, s.Now
		for _, i := range s.Holders[space] {
			s.NoteChanged(&s.Attempts[i])
		}
	}
	if !last && r.at != s.Now || last && r.soonest > 0 && r.soonest <= s.Now &&
		(r.at != s.Now || r.through != s.DecidedAt) {
		s.rekey(space, last)
	}
	s.fallen(r)
	many := len(r.stale) > 32 // then they leave their rows together, and one sort puts them back
	for k := range r.rows {
		if w := &r.rows[k]; many {
			w.list = slices.DeleteFunc(w.list, func(e runner) bool { return s.Attempts[e.slot].OrderFlags&tables.OrderStale != 0 })
		}
	}
	for _, slot := range r.stale {
		a := &s.Attempts[slot]
		if a.Job == tables.None || a.OrderFlags&tables.OrderStale == 0 || s.Cluster.Alloc(a.Alloc).Space != space {
			continue // its slot has another attempt now
		}
		if a.OrderFlags &^= tables.OrderStale; many {
			a.OrderFlags &^= tables.InRunOrder
		}
		s.DropFromRunOrder(a)
		if s.Runs(a) {
			e, rate := s.keyed(space, slot)
			w := r.row(s.Jobs[a.Job].Spec.Priority, rate)
			i := len(w.list)
			if !many {
				i, _ = slices.BinarySearchFunc(w.list, e, runner.compare)
			}
			w.list = slices.Insert(w.list, i, e)
			r.soonest = Sooner(r.soonest, e.until)
		}
	}
	for k := 0; many && k < len(r.rows); k++ {
		slices.SortFunc(r.rows[k].list, runner.compare)
	}
	r.stale = r.stale[:0]
	return r.rows
}

// fallen marks gangs as stale when their rank has fallen as far as it goes: they are the last of
// their rows.
func (s *Index) fallen(r *RunOrder) {
	for k := range r.rows {
		w := &r.rows[k]
		for i := len(w.list) - 1; w.rate > 0 && i >= 0 && w.list[i].Key.Rank <= int64(s.Now)+1; i-- {
			s.goStale(r, w.list[i].slot)
		}
	}
}

// goStale has an attempt read again.
func (s *Index) goStale(r *RunOrder, slot int32) {
	if a := &s.Attempts[slot]; a.OrderFlags&tables.OrderStale == 0 {
		a.OrderFlags |= tables.OrderStale
		r.stale = append(r.stale, slot)
	}
}

// rekey makes keys anew that may not hold any more: all of them, or if keys last, only the expired
// ones, which become stale.
func (s *Index) rekey(space int32, last bool) {
	r := &s.RunOrders[space]
	r.at, r.through, r.soonest = s.Now, s.DecidedAt, 0
	for k := range r.rows {
		w := &r.rows[k]
		for i := range w.list {
			e := &w.list[i]
			switch {
			case !last:
				*e, _ = s.keyed(space, e.slot)
			case e.until > 0 && e.until <= s.Now:
				s.goStale(r, e.slot)
				continue
			}
			r.soonest = Sooner(r.soonest, e.until)
		}
		if !last && !slices.IsSortedFunc(w.list, runner.compare) {
			slices.SortFunc(w.list, runner.compare)
		}
	}
}

// keyed makes the key of a running attempt, and returns at what rate its rank falls.
func (s *Index) keyed(space, slot int32) (e runner, rate int64) {
	a := &s.Attempts[slot]
	g := &s.Calls.gang
	*g = s.GangView(s.Entry(a))
	was := s.EnterPolicy(space)
	a.OrderFlags, a.Rank = a.OrderFlags|tables.InRunOrder, s.standKey(space, g)
	var until model.Time
	switch p := s.Policies[space].(type) {
	case model.StepKeyed:
		until = s.ages(p, a, g)
	case model.LinearKeyed:
		rate, until = s.falls(p, a, g)
	}
	s.EnterPolicy(was)
	e = runnerOf(a)
	e.Leaves, e.slot, e.until = g.Leaves, slot, until
	return e, rate
}

// ages is when the key of an attempt changes for the first time after the last decision; 0 is
// never. A policy counts run time from the start, but an attempt that takes turns reaches each run
// time later.
func (s *Index) ages(p model.StepKeyed, a *tables.Attempt, g *model.GangView) model.Time {
	if a.Share == 0 || a.Started == 0 {
		return p.NextKeyChange(s.DecidedAt, g)
	}
	sh := &s.Shares[a.Share-1]
	ran := tables.RareOf(a.Rare).RanBefore + sh.Rotation.Ran(a.ID, max(a.Started, sh.Since), s.DecidedAt)
	at := p.NextKeyChange(a.Started.Add(ran), g)
	if at == 0 {
		return 0
	}
	return s.Reaches(a, model.Duration(at-a.Started))
}

// falls returns at what rate the rank of an attempt falls from now on, and until when its key
// holds. A gang that takes turns, or has a rank too large to be computed, gets a key for this
// instant only. A falling attempt gets as its rank the time at which that would be 0.
func (s *Index) falls(p model.LinearKeyed, a *tables.Attempt, g *model.GangView) (rate int64, until model.Time) {
	zero, rate := p.Falls(g)
	left := int64(zero - s.Now)
	switch {
	case rate == 0:
		return 0, 0
	case a.Share == 0 && left <= 1 && a.Rank.Rank == rate:
		return 0, 0
	case a.Share == 0 && left > 1 && left <= math.MaxInt64/rate && a.Rank.Rank == left*rate &&
		a.Rank.Rank != math.MaxInt64:
		a.Rank.Rank = int64(zero)
		return rate, 0
	}
	return 0, s.Now + 1
}

// standKey is the key of a running gang.
func (s *Index) standKey(space int32, g *model.GangView) model.Key {
	switch p := s.Policies[space].(type) {
	case model.RunKeyed:
		return p.Stand(g)
	case model.Keyed:
		return p.Key(g)
	}
	return model.Key{}
}

// priorities are the priorities of the rows.
func priorities(rows []row) []cell.Priority {
	var out []cell.Priority
	for _, w := range rows {
		if !slices.Contains(out, w.prio) {
			out = append(out, w.prio)
		}
	}
	return out
}

// VerifyRunners makes the keys anew and compares.
func (s *Index) VerifyRunners(add func(string, ...any)) {
	for space := range s.RunOrders {
		r := &s.RunOrders[space]
		some, last := orders(s.Policies[space])
		if !r.kept || !some {
			continue
		}
		rows, want, stand := s.runnersOf(int32(space)), 0, 0
		for a := range s.AttemptsIn(int32(space)) {
			if !s.Runs(a) {
				continue
			}
			want++
			g := s.GangView(s.Entry(a))
			if k, i := r.find(runnerOf(a), s.Jobs[a.Job].Spec.Priority); k == tables.None ||
				rows[k].list[i].Ref != g.Ref {
				add("attempt %v runs and does not stand in the order of space %d", a.ID, space)
			} else if now, is := s.standKey(int32(space), &g), rows[k].at(i, s.Now).Key; (last || r.at == s.Now) &&
				now != is {
				add("attempt %v runs with the key %v, not %v", a.ID, now, is)
			}
		}
		for _, p := range priorities(rows) {
			list := slices.Collect(s.StandingWith(int32(space), p))
			if stand += len(list); (last || r.at == s.Now) &&
				!slices.IsSortedFunc(list, func(a, b model.Ranked) int { return a.Compare(&b) }) {
				add("gangs of space %d do not stand in order: %v", space, list)
			}
		}
		if want != stand {
			add("%d gangs of space %d run, %d stand in its order", want, space, stand)
		}
	}
}
