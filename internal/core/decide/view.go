package decide

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Allocations implements View.
func (v view) Allocations() []*model.Allocation {
	al := v.s.AllocationsOf(v.space)
	for i := range al.Ranks {
		if r := &al.Ranks[i]; r.Prio == v.prio {
			r.Lent = true
			return r.List
		}
	}
	return nil
}

// queued yields the queued gangs of the view's priority, by submission.
func (v view) queued() iter.Seq[index.Queued] {
	return func(yield func(index.Queued) bool) {
		c := v.cursor()
		for e, more := c.next(); more && yield(e); e, more = c.next() {
		}
	}
}

// cursor reads the queued gangs of one priority. Gangs may leave the queue meanwhile.
type cursor struct {
	view
	at   int
	last index.Queued // the last one read; Job is 0 at the start
}

func (v view) cursor() cursor { return cursor{view: v, at: index.Below(v.s.Queues[v.space], v.prio+1)} }

// follows reports whether the cursor is right behind the last gang read, which alone has left.
func (c *cursor) follows(q []index.Queued) bool {
	return c.at < len(q) && c.last.Compare(q[c.at]) < 0 && (c.at == 0 || q[c.at-1].Compare(c.last) < 0)
}

// next returns the next entry; false at the end.
func (c *cursor) next() (index.Queued, bool) {
	q := c.s.Queues[c.space]
	if c.last.Job != 0 {
		found := c.at < len(q) && q[c.at] == c.last
		if !found && !c.follows(q) {
			c.at, found = slices.BinarySearchFunc(q, c.last, index.Queued.Compare)
		}
		if found {
			c.at++
		}
	}
	if c.at == len(q) || q[c.at].Prio != c.prio {
		return index.Queued{}, false
	}
	c.last = q[c.at]
	return c.last, true
}

// WaitIndex implements View.
func (v view) WaitIndex() (model.WaitIndex, []model.GangView) {
	s := v.s
	var late []model.GangView
	for _, e := range s.LazyGangs(v.space, v.prio, false) {
		late = append(late, v.waiting(e, true))
	}
	s.AskGroups(v.space, model.ByKey)
	u := s.GroupsOf(v.space, v.prio)
	if u == nil {
		return nil, late
	}
	if u.Kept == nil {
		u.Kept = s.Keeping(v.space, u)
	}
	return u.Kept, late
}

// Note implements View.
func (v view) Note(id model.JobID) []byte { return v.s.Note(v.VC(), id) }

// WaitingByKey implements View. The few gangs that wait for an upgrade get their keys here.
func (v view) WaitingByKey(from int64) iter.Seq[model.Ranked] {
	return func(yield func(model.Ranked) bool) {
		s := v.s
		s.AskGroups(v.space, model.ByKey)
		m := index.Merge{S: &s.Index, Space: v.space, Prio: v.prio, Heads: s.Mem.heads[:0]}
		s.Mem.heads = nil // a nested call allocates its own
		defer func() { s.Mem.heads = m.Heads }()
		m.AddFull()
		lazies := v.keyedLazies()
		for {
			e, ok := m.First(v.w.fruitless())
			if ok && e.Key.Rank >= from && int64(s.Jobs[e.Slot].Gangs[e.Gang].Leaves) > v.Free() {
				m.Pass()
				continue
			}
			if len(lazies) > 0 && (!ok || lazies[0].Compare(e) < 0) {
				e, lazies = lazies[0], lazies[1:]
			} else if !ok {
				return
			}
			lazy := !s.Jobs[e.Slot].Gangs[e.Gang].Waiting
			if !yield(model.Ranked{Ref: model.GangRef{Job: e.Job, Gang: e.Gang}, Key: e.Key, Order: int64(e.Job),
				Leaves: s.Jobs[e.Slot].Gangs[e.Gang].Leaves}) {
				return
			}
			if !lazy {
				m.Next()
			}
		}
	}
}

// keyedLazies returns the gangs of the view that wait for an upgrade, in order.
func (v view) keyedLazies() []index.Queued {
	lazies := v.s.LazyGangs(v.space, v.prio, false)
	k, ok := v.s.Policies[v.space].(model.Keyed)
	if !ok {
		return lazies
	}
	for i := range lazies {
		g := v.s.GangView(lazies[i])
		was := v.s.EnterPolicy(v.space)
		lazies[i].Key = k.Key(&g)
		v.s.EnterPolicy(was)
	}
	slices.SortFunc(lazies, index.Queued.Compare)
	return lazies
}

// Gang implements View.
func (v view) Gang(r model.GangRef) model.GangView {
	slot, ok := v.s.Slots.Get(r.Job)
	if !ok || r.Gang < 0 || int(r.Gang) >= len(v.s.Jobs[slot].Gangs) {
		return model.GangView{Ref: r, Hints: &model.Hints{}}
	}
	return v.s.GangView(index.Queued{Prio: v.prio, Job: r.Job, Gang: r.Gang, Slot: slot})
}

// Running implements View. It yields full gangs only: members above a minimum are preempted
// before them whatever the policy says.
func (v view) Running() iter.Seq[model.GangView] { return v.holding(v.s.Runs) }

// Leaving implements View.
func (v view) Leaving() iter.Seq[model.GangView] {
	return v.holding(func(a *tables.Attempt) bool {
		return !a.Lazy && a.State == model.AttemptStopping && v.s.WaitsAgain(a)
	})
}

// holding yields the gangs of the attempts of the VC that satisfy which.
func (v view) holding(which func(*tables.Attempt) bool) iter.Seq[model.GangView] {
	return func(yield func(model.GangView) bool) {
		s := v.s
		for a := range s.AttemptsIn(v.space) {
			if s.Jobs[a.Job].Spec.Priority != v.prio || !which(a) {
				continue
			}
			if !yield(s.GangView(s.Entry(a))) {
				return
			}
		}
	}
}

// RunningByKey implements View.
func (v view) RunningByKey() iter.Seq[model.Ranked] { return v.s.StandingWith(v.space, v.prio) }

// Promised implements View.
func (v view) Promised() iter.Seq[model.Ranked] {
	return func(yield func(model.Ranked) bool) {
		s := v.s
		k, ok := s.Policies[v.space].(model.Keyed)
		for _, slot := range s.Promises {
			a := &s.Attempts[slot]
			if !ok || s.Cluster.Alloc(a.Alloc).Space != v.space || s.Jobs[a.Job].Spec.Priority != v.prio {
				continue
			}
			g := s.GangView(s.Entry(a))
			if !yield(model.Ranked{Ref: g.Ref, Key: k.Key(&g), Order: g.Order, Leaves: g.Leaves}) {
				return
			}
		}
	}
}

// Booked implements View.
func (v view) Booked() iter.Seq[model.Ranked] {
	return func(yield func(model.Ranked) bool) {
		s := v.s
		k, ok := s.Policies[v.space].(model.Keyed)
		for _, ref := range s.Booked {
			if j := s.Find(ref.Job); !ok || j.Space != v.space || j.Spec.Priority != v.prio {
				continue
			}
			g := v.Gang(ref)
			if !yield(model.Ranked{Ref: g.Ref, Key: k.Key(&g), Order: g.Order, Leaves: g.Leaves}) {
				return
			}
		}
	}
}

// Free implements View.
func (v view) Free() int64 {
	if v.all || v.w != nil && v.w.bookings != nil {
		return math.MaxInt64
	}
	return v.s.AvailableTo(v.space, v.prio)
}

// Pools implements View.
func (v view) Pools() []model.Pool {
	f, sp := v.s.Cluster.Forest(), v.s.Cluster.Space(v.space)
	var out []model.Pool
	for i := range sp.Roots {
		chain := &f.Chains[sp.Roots[i].Chain]
		at, found := slices.BinarySearchFunc(out, chain.SKU, func(p model.Pool,
			k cell.TypeName) int {
			return cmp.Compare(p.SKU, k)
		})
		if !found {
			out = slices.Insert(out, at, model.Pool{SKU: chain.SKU})
		}
		leaves, node := int64(chain.LeavesAt(sp.Roots[i].Level)), int32(chain.LeavesAt(chain.NodeLevel))
		out[at].Leaves += leaves
		out[at].PerNode = max(out[at].PerNode, node)
		out[at].Add(model.PoolCells{Pinned: sp.Roots[i].Pinned, Size: int32(min(leaves, int64(node))), Leaves: leaves})
	}
	return out
}

// HasThroughputs implements View.
func (v view) HasThroughputs() bool { return len(v.s.Config.Throughputs) > 0 }

// Elastic implements View.
func (v view) Elastic() bool { return v.s.Tallies[v.space].Partials > 0 }

// OnlyTimePassed implements View. With bookings, time alone may change what can start.
func (v view) OnlyTimePassed() bool {
	l := &v.s.Dirty
	return v.w != nil && !v.s.AllDirty && !l.Guaranteed[v.space] && !l.Backfills[v.space]
}

// Backfills implements View.
func (v view) Backfills() bool { return v.s.Dirty.Backfills[v.space] }

// Scratch implements View.
func (v view) Scratch() *any { return &v.s.Mem.scratch }

// Now implements View.
func (v view) Now() model.Time { return v.now }

// LastDecision implements View.
func (v view) LastDecision() model.Time { return v.s.DecidedAt }

// VC implements View.
func (v view) VC() cell.VCName { return v.s.Cluster.Space(v.space).Name }

// Waiting implements View. It includes gangs that wait for an upgrade, and not members above a
// minimum, which are placed later without the policy.
func (v view) Waiting() iter.Seq[model.GangView] {
	return func(yield func(model.GangView) bool) {
		lazies := v.s.LazyGangs(v.space, v.prio, false)
		c := v.cursor()
		for e, more := c.next(); more; e, more = c.next() {
			for ; len(lazies) > 0 && lazies[0].Compare(e) < 0; lazies = lazies[1:] {
				if !yield(v.waiting(lazies[0], true)) {
					return
				}
			}
			if !v.s.Extra(e) && !yield(v.waiting(e, false)) {
				return
			}
		}
		for _, e := range lazies {
			if !yield(v.waiting(e, true)) {
				return
			}
		}
	}
}

// Placed implements View.
func (v view) Placed(r model.GangRef) bool {
	j := v.s.Find(r.Job)
	return j != nil && int(r.Gang) < len(j.Gangs) && j.Gangs[r.Gang].Attempt != tables.None
}
