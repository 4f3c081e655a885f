package sched

import (
	"cmp"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// tally counts the attempts of one VC, and its jobs with members above a minimum, so that
// no decision needs to read all of them. Apply keeps it; Verify counts again.
type tally struct {
	partials int
	leaving  int32   // attempts that were told to stop
	borrowed int64   // leaves that opportunistic attempts hold
	lent     []int64 // the same by chain, where the configuration has a half-life
	ranks    []ranks // guaranteed attempts and promises, by rising priority
	holdings holdings
}

// ranks counts the guaranteed attempts and promises of one priority that were not
// made opportunistic.
type ranks struct {
	prio    cell.Priority
	all     int32
	willing int32 // those whose jobs allow lazy preemption
	leaves  int64 // without those of attempts that were told to stop: they may be promised already
	back    int64 // those of attempts that were told to stop and wait again then
}

// count adds an attempt, with all that share its leaves, to its VC's tally, or with -1
// takes them out. It is called around every change of what the tally depends on.
func (s *fold) count(a *attempt, sign int32) {
	s.rerun(a)
	if s.shared(a) {
		a = s.counted(a)
	}
	j := &s.jobs[a.job]
	space := s.cl.Alloc(a.alloc).Space
	t := &s.tallies[space]
	s.stir(space)
	if a.cause != 0 {
		t.leaving += sign
	}
	for by := By(1); t.holdings.asked>>by != 0; by++ {
		if t.holdings.asked>>by&1 != 0 {
			s.countHoldings(&t.holdings, by, a, int64(sign))
		}
	}
	if a.lazy || j.spec.Priority < cell.MinGuaranteed {
		if a.state != model.AttemptReserving {
			s.accrue(space)
			s.borrows(t, a, int64(sign))
			n := j.gangs[a.id.Gang].leaves
			if a.orphaned { // what drains is nobody's that could be lent
				n = int32(len(leavesOf(&s.cl.Alloc(a.alloc).Placement)))
			}
			t.borrowed += int64(sign) * int64(n)
		}
		return
	}
	i, found := slices.BinarySearchFunc(t.ranks, j.spec.Priority, func(r ranks, p cell.Priority) int { return int(r.prio) - int(p) })
	if !found {
		t.ranks = slices.Insert(t.ranks, i, ranks{prio: j.spec.Priority})
	}
	r := &t.ranks[i]
	r.all += sign
	if a.cause == 0 && !a.orphaned { // which has fewer leaves than it asked for
		r.leaves += int64(sign) * int64(j.gangs[a.id.Gang].leaves)
	} else if s.waitsAgain(a) {
		r.back += int64(sign) * int64(j.gangs[a.id.Gang].leaves)
	}
	if s.willing(a) {
		r.willing += sign
	}
	if r.all == 0 {
		t.ranks = slices.Delete(t.ranks, i, i+1)
	}
}

// counted returns the member of an allocation to whom its leaves are counted: the first
// that was not told to stop, or the first when all were.
func (s *tables) counted(a *attempt) *attempt {
	if m := s.stays(a); m != nil {
		return m
	}
	return s.holder(a.alloc)
}

// willing reports whether an allocation may become opportunistic: the jobs of all its
// members allow it.
func (s *tables) willing(a *attempt) bool {
	if !s.shared(a) {
		return s.jobs[a.job].spec.LazyPreempt
	}
	for at := s.first(a); at != none; at = s.attempts[at].mate {
		if !s.jobs[s.attempts[at].job].spec.LazyPreempt {
			return false
		}
	}
	return true
}

// recounted returns the tallies as they follow from the attempts and jobs.
func (s *fold) recounted() []tally {
	was := s.tallies
	s.tallies, s.recount = make([]tally, s.cl.NumSpaces()), true
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && !a.joined {
			s.count(a, 1)
		}
	}
	for i := range s.jobs {
		if j := &s.jobs[i]; j.spec != nil && j.spec.Partial() {
			s.countPartial(j, 1)
		}
	}
	now := s.tallies
	s.tallies, s.recount = was, false
	return now
}

// countPartial adds a job with members above a minimum to its VC's tally, or takes it out.
func (s *index) countPartial(j *job, sign int) {
	if j.space >= 0 && int(j.space) < len(s.tallies) { // there may be no configuration yet
		s.tallies[j.space].partials += sign
	}
}

// willingBelow reports whether some attempt of a VC with a lower priority may
// become opportunistic.
func (s *index) willingBelow(space int32, p cell.Priority) bool {
	for _, r := range s.tallies[space].ranks {
		if r.prio < p && r.willing > 0 {
			return true
		}
	}
	return false
}

// Free implements View.
func (v view) Free() int64 {
	if v.all || v.w != nil && v.w.outlook != nil {
		return math.MaxInt64
	}
	return v.s.unheld(v.space, v.prio)
}

// unheld is how many leaves of a VC's guarantee no gang of a priority or above holds or was
// promised, but for those that leave: more than that no gang of it can get while they stay. What
// leaves only to wait again counts for lower priorities: it would take the leaves back.
func (s *index) unheld(space int32, p cell.Priority) int64 {
	free := s.looks.owned[space]
	for _, r := range s.tallies[space].ranks {
		if r.prio >= p {
			free -= r.leaves
		}
		if r.prio > p {
			free -= r.back
		}
	}
	return max(free, 0)
}

func cloneTallies(ts []tally) []tally {
	out := slices.Clone(ts)
	for i := range out {
		out[i].ranks, out[i].holdings = slices.Clone(out[i].ranks), out[i].holdings.clone()
		out[i].lent = slices.Clone(out[i].lent)
	}
	return out
}

// verifyTallies counts again.
func (s *fold) verifyTallies(add func(string, ...any)) {
	was := s.tallies
	s.tallies = s.recounted()
	for i := range was {
		for by := By(1); was[i].holdings.asked>>by != 0; by++ {
			if was[i].holdings.asked>>by&1 != 0 {
				s.askHoldings(int32(i), by)
			}
		}
	}
	now := s.tallies
	s.tallies = was
	for i, want := range now {
		if got := s.tallies[i]; got.partials != want.partials || got.leaving != want.leaving ||
			got.borrowed != want.borrowed || !equalLent(got.lent, want.lent) ||
			!slices.Equal(got.ranks, want.ranks) || !got.holdings.equal(&want.holdings) {
			add("space %d is counted as %v, but has %v", i, got, want)
		}
	}
}

// equalLent compares counts; none at all are zeros.
func equalLent(a, b []int64) bool {
	for i := range max(len(a), len(b)) {
		var x, y int64
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
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
		out[at].add(PoolCells{sp.Roots[i].Pinned, int32(min(leaves, int64(node))), leaves})
	}
	return out
}

// add adds a cell to a pool.
func (p *Pool) add(c PoolCells) {
	at, found := slices.BinarySearchFunc(p.Cells, c, func(a, b PoolCells) int {
		return cmp.Or(cmp.Compare(a.Pinned, b.Pinned), cmp.Compare(a.Part, b.Part))
	})
	if !found {
		p.Cells = slices.Insert(p.Cells, at, PoolCells{Pinned: c.Pinned, Part: c.Part})
	}
	p.Cells[at].Leaves += c.Leaves
}
