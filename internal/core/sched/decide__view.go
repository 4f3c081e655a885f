package sched

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Allocations implements View.
func (v view) Allocations() []*Allocation {
	al := v.s.allocationsOf(v.space)
	for i := range al.ranks {
		if r := &al.ranks[i]; r.prio == v.prio {
			r.lent = true
			return r.list
		}
	}
	return nil
}

// queued yields the queue's entries of the view's priority, in the order of
// submission.
func (v view) queued() iter.Seq[queued] {
	return func(yield func(queued) bool) {
		c := v.cursor()
		for e, more := c.next(); more && yield(e); e, more = c.next() {
		}
	}
}

// cursor reads a queue's entries of one priority. Gangs that leave the queue
// while it is read are stepped over.
type cursor struct {
	view
	at   int
	last queued // what was read last; its job is 0 at the beginning
}

func (v view) cursor() cursor { return cursor{view: v, at: below(v.s.queues[v.space], v.prio+1)} }

// follows reports whether the cursor stands behind what was read last, which alone left.
func (c *cursor) follows(q []queued) bool {
	return c.at < len(q) && c.last.compare(q[c.at]) < 0 && (c.at == 0 || q[c.at-1].compare(c.last) < 0)
}

// next returns the next entry; false at the end.
func (c *cursor) next() (queued, bool) {
	q := c.s.queues[c.space]
	if c.last.job != 0 {
		found := c.at < len(q) && q[c.at] == c.last
		if !found && !c.follows(q) {
			c.at, found = slices.BinarySearchFunc(q, c.last, queued.compare)
		}
		if found {
			c.at++
		}
	}
	if c.at == len(q) || q[c.at].prio != c.prio {
		return queued{}, false
	}
	c.last = q[c.at]
	return c.last, true
}

// Kept implements View.
func (v view) Kept() (Keeping, []GangView) {
	s := v.s
	var late []GangView
	for _, e := range s.laziesAt(v.space, v.prio, false) {
		late = append(late, v.waiting(e, true))
	}
	s.askLines(v.space, byKey)
	u := s.lineup(v.space, v.prio)
	if u == nil {
		return nil, late
	}
	if u.kept == nil {
		u.kept = s.keeping(v.space, u)
	}
	return u.kept, late
}

// Note implements View.
func (v view) Note(id model.JobID) []byte { return v.s.note(v.VC(), id) }

// remember writes a policy's note down, unless that is what it noted last. It is
// no change for those who wait.
func (w *walker) remember(n *Note) {
	s := w.s
	vc := s.cl.Space(w.space).Name
	if bytes.Equal(s.note(vc, n.Job), n.Data) || n.Job != 0 && s.find(n.Job) == nil {
		return
	}
	if w.passed > 0 {
		w.passed++
	}
	s.emit(Noted{VC: vc, Policy: s.policyOf(vc), Job: n.Job, Data: n.Data})
}

// rank lists the jobs of a VC's waiting gangs, best first; a job appears once
// for each of its gangs, or more often. In each priority those come first that are promised
// cells already, and last those that the policy does not wish for now.
func (s *pass) rank(space int32) []model.JobID {
	var out []model.JobID
	prio := cell.MaxGuaranteed + 1
	for space > 0 { // those whose VC is gone are served by nobody
		next, ok := s.nextPriority(space, prio)
		if !ok || next < cell.MinGuaranteed {
			break
		}
		prio = next
		q := s.queues[space]
		q = q[below(q, prio+1):below(q, prio)]
		for _, e := range q {
			if s.jobs[e.slot].gangs[e.gang].attempt != none && !s.extra(e) {
				out = append(out, e.job)
			}
		}
		for wish := range s.pol[space].Rank(s.viewAll(space, prio)) {
			if j := s.find(wish.Gang.Job); j != nil && j.gangs[wish.Gang.Gang].waiting { // not an upgrade
				out = append(out, wish.Gang.Job)
			}
		}
		out = s.jobsOf(out, q)
	}
	return s.jobsOf(out, s.queues[space])
}

// jobsOf adds the jobs of waiting gangs to a list, but for members above a minimum: their jobs run.
func (s *pass) jobsOf(list []model.JobID, q []queued) []model.JobID {
	for _, e := range q {
		if !s.extra(e) {
			list = append(list, e.job)
		}
	}
	return list
}

// Ordered implements View. The gangs that wait for an upgrade, which are few, get
// their keys now.
func (v view) Ordered(from int64) iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		s := v.s
		s.askLines(v.space, byKey)
		m := merge{s: &s.index, space: v.space, prio: v.prio, heads: s.mem.heads[:0]}
		s.mem.heads = nil // who reads a second time meanwhile takes other memory
		defer func() { s.mem.heads = m.heads }()
		m.addFull()
		lazies := v.keyedLazies()
		for {
			e, ok := m.first(v.w.fruitless())
			if ok && e.key.Rank >= from && int64(s.jobs[e.slot].gangs[e.gang].leaves) > v.Free() {
				m.pass()
				continue
			}
			if len(lazies) > 0 && (!ok || lazies[0].compare(e) < 0) {
				e, lazies = lazies[0], lazies[1:]
			} else if !ok {
				return
			}
			lazy := !s.jobs[e.slot].gangs[e.gang].waiting
			if !yield(Ranked{Ref: GangRef{Job: e.job, Gang: e.gang}, Key: e.key, Order: int64(e.job), Leaves: s.jobs[e.slot].gangs[e.gang].leaves}) {
				return
			}
			if !lazy {
				m.next()
			}
		}
	}
}

// keyedLazies are the gangs of the view that wait for an upgrade, in order.
func (v view) keyedLazies() []queued {
	lazies := v.s.laziesAt(v.space, v.prio, false)
	k, ok := v.s.pol[v.space].(Keyed)
	if !ok {
		return lazies
	}
	for i := range lazies {
		g := v.s.gangView(lazies[i])
		was := v.s.ask(v.space)
		lazies[i].key = k.Key(&g)
		v.s.ask(was)
	}
	slices.SortFunc(lazies, queued.compare)
	return lazies
}

// Gang implements View.
func (v view) Gang(r GangRef) GangView {
	slot, ok := v.s.slots.Get(r.Job)
	if !ok || r.Gang < 0 || int(r.Gang) >= len(v.s.jobs[slot].gangs) {
		return GangView{Ref: r, Hints: &model.Hints{}}
	}
	return v.s.gangView(queued{prio: v.prio, job: r.Job, gang: r.Gang, slot: slot})
}

// Running implements View: full gangs, for what stands above a minimum gives way
// before them whatever the policy says.
func (v view) Running() iter.Seq[GangView] { return v.holding(v.s.runs) }

// Leaving implements View.
func (v view) Leaving() iter.Seq[GangView] {
	return v.holding(func(a *attempt) bool {
		return !a.lazy && a.state == model.AttemptStopping && v.s.waitsAgain(a)
	})
}

// holding yields the gangs of some attempts that hold cells of the VC.
func (v view) holding(which func(*attempt) bool) iter.Seq[GangView] {
	return func(yield func(GangView) bool) {
		s := v.s
		for a := range s.holding(v.space) {
			if s.jobs[a.job].spec.Priority != v.prio || !which(a) {
				continue
			}
			if !yield(s.gangView(s.entry(a))) {
				return
			}
		}
	}
}

// Standing implements View.
func (v view) Standing() iter.Seq[Ranked] { return v.s.standingWith(v.space, v.prio) }

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
			if !yield(Ranked{Ref: g.Ref, Key: k.Key(&g), Order: g.Order, Leaves: g.Leaves}) {
				return
			}
		}
	}
}

// Booked implements View.
func (v view) Booked() iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		s := v.s
		k, ok := s.pol[v.space].(Keyed)
		for _, ref := range s.booked {
			if j := s.find(ref.Job); !ok || j.space != v.space || j.spec.Priority != v.prio {
				continue
			}
			g := v.Gang(ref)
			if !yield(Ranked{Ref: g.Ref, Key: k.Key(&g), Order: g.Order, Leaves: g.Leaves}) {
				return
			}
		}
	}
}

// Free implements View.
func (v view) Free() int64 {
	if v.all || v.w != nil && v.w.outlook != nil {
		return math.MaxInt64
	}
	return v.s.unheld(v.space, v.prio)
}

// Pools implements View.
func (v view) Pools() []Pool {
	f, sp := v.s.cl.Forest(), v.s.cl.Space(v.space)
	var out []Pool
	for i := range sp.Roots {
		chain := &f.Chains[sp.Roots[i].Chain]
		at, found := slices.BinarySearchFunc(out, chain.SKU, func(p Pool, k cell.TypeName) int { return cmp.Compare(p.SKU, k) })
		if !found {
			out = slices.Insert(out, at, Pool{SKU: chain.SKU})
		}
		leaves, node := int64(chain.LeavesAt(sp.Roots[i].Level)), int32(chain.LeavesAt(chain.NodeLevel))
		out[at].Leaves += leaves
		out[at].Node = max(out[at].Node, node)
		out[at].add(PoolCells{Pinned: sp.Roots[i].Pinned, Part: int32(min(leaves, int64(node))), Leaves: leaves})
	}
	return out
}

// Measured implements View.
func (v view) Measured() bool { return len(v.s.cfg.Throughputs) > 0 }

// Elastic implements View.
func (v view) Elastic() bool { return v.s.tallies[v.space].partials > 0 }
