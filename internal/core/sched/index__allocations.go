package sched

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// allocations are the leaves that full gangs hold with a guarantee in one VC, as its
// policy sees them. They follow from the state: they are made when somebody asks, and from
// then on only those are read again that something happened to.
type allocations struct {
	kept  bool
	at    map[cell.AllocID]*Allocation
	stale []cell.AllocID // to which something happened
	ranks []allocRank
}

// allocRank is those of one priority, in order of the first gang on each.
type allocRank struct {
	prio cell.Priority
	list []*Allocation
	lent bool // somebody reads the list: from now on a copy is changed
}

// maxStale is after how many changes that nobody asked for they are all read again.
const maxStale = 4096

// realloc notes that something happened to an attempt's allocation.
func (s *index) realloc(a *attempt) {
	al := &s.allocs[s.cl.Alloc(a.alloc).Space]
	switch n := len(al.stale); {
	case !al.kept || n > 0 && al.stale[n-1] == a.alloc:
	case n == maxStale:
		*al = allocations{}
	default:
		al.stale = append(al.stale, a.alloc)
	}
}

// allocationsOf brings those of a VC up to date.
func (s *index) allocationsOf(space int32) *allocations {
	al := &s.allocs[space]
	if !al.kept {
		*al = allocations{kept: true, at: map[cell.AllocID]*Allocation{}}
		for _, i := range s.holders[space] {
			if a := &s.attempts[i]; !a.joined {
				al.stale = append(al.stale, a.alloc)
			}
		}
	}
	for _, id := range al.stale {
		if was := al.at[id]; was != nil {
			r := al.rank(was.prio)
			i, _ := slices.BinarySearchFunc(r.list, was, (*Allocation).compare)
			r.list = slices.Delete(r.list, i, i+1)
			delete(al.at, id)
		}
		if a := s.allocated(space, id); a != nil {
			now := s.allocation(a)
			r := al.rank(now.prio)
			i, _ := slices.BinarySearchFunc(r.list, now, (*Allocation).compare)
			r.list = slices.Insert(r.list, i, now)
			al.at[id] = now
		}
	}
	al.stale = al.stale[:0]
	return al
}

// rank returns those of a priority, to be changed.
func (al *allocations) rank(p cell.Priority) *allocRank {
	i := slices.IndexFunc(al.ranks, func(r allocRank) bool { return r.prio == p })
	if i < 0 {
		i = len(al.ranks)
		al.ranks = append(al.ranks, allocRank{prio: p})
	}
	r := &al.ranks[i]
	if r.lent {
		r.list, r.lent = append(make([]*Allocation, 0, len(r.list)+8), r.list...), false
	}
	return r
}

// allocated returns the first attempt that holds an allocation of a VC which its policy
// sees; nil where there is none.
func (s *index) allocated(space int32, id cell.AllocID) *attempt {
	if int(id) >= len(s.byAlloc) || s.byAlloc[id] == none {
		return nil
	}
	a := &s.attempts[s.byAlloc[id]]
	if al := s.cl.Alloc(id); al.Space != space || a.state == model.AttemptReserving || s.isExtra(a) ||
		al.Opportunistic() {
		return nil
	}
	return a
}

// allocation is what a policy sees of one.
func (s *index) allocation(head *attempt) *Allocation {
	g := &s.jobs[head.job].gangs[head.id.Gang]
	out := &Allocation{Leaves: g.leaves, Shape: g.shape.text, Steady: s.steady(head) && !head.orphaned, Memory: s.deviceMemory(head),
		prio: s.jobs[head.job].spec.Priority}
	for at := s.byAlloc[head.alloc]; at != none; at = s.attempts[at].mate {
		m := &s.attempts[at]
		out.Gangs = append(out.Gangs, GangRef{Job: m.id.Job, Gang: m.id.Gang})
		out.Each = append(out.Each, s.sharer(m))
		out.Steady = out.Steady && m.cause == 0
	}
	f := s.cl.Forest()
	for _, t := range s.cl.Alloc(head.alloc).Placement.Tasks {
		if n := f.NodeIndex(t.Node); n != cell.None && !slices.Contains(out.Nodes, n) {
			out.Nodes = append(out.Nodes, n)
		}
	}
	slices.Sort(out.Nodes)
	if head.share == 0 {
		return out
	}
	sh := &s.shares[head.share-1]
	out.Quantum, out.Since = sh.rotation.Quantum, sh.since
	for _, turn := range sh.rotation.Turns {
		var refs []GangRef
		for _, id := range turn {
			refs = append(refs, GangRef{Job: id.Job, Gang: id.Gang})
		}
		out.Turns = append(out.Turns, refs)
	}
	return out
}

// sharer is what a policy sees of one member.
func (s *index) sharer(m *attempt) Sharer {
	j := &s.jobs[m.job]
	out := Sharer{Hints: &j.spec.Hints, Gangs: int32(len(j.gangs)), Started: m.started}
	if n := j.noted(); n != nil {
		out.Noted = len(n.Data) > 0
	}
	if tasks := j.spec.Gangs[m.id.Gang].Tasks; len(tasks) > 0 {
		out.Told = j.tasks[tasks[0]].progress != nil
	}
	return out
}

// verifyAllocations makes them again and compares.
func (s *index) verifyAllocations(add func(string, ...any)) {
	for space := range s.allocs {
		if !s.allocs[space].kept {
			continue
		}
		n, al := 0, s.allocationsOf(int32(space))
		for _, r := range al.ranks {
			n += len(r.list)
			if !slices.IsSortedFunc(r.list, (*Allocation).compare) {
				add("the allocations of space %d are out of order", space)
			}
		}
		for a := range s.holding(int32(space)) {
			if a.joined || s.allocated(int32(space), a.alloc) == nil {
				continue
			}
			n--
			if was := al.at[a.alloc]; !reflect.DeepEqual(was, s.allocation(a)) {
				add("the allocation of attempt %v is seen as %+v", a.id, was)
			}
		}
		if n != 0 || len(al.at) != 0 && al.count() != len(al.at) {
			add("space %d has %d allocations more than attempts hold", space, n)
		}
	}
}

func (al *allocations) count() (n int) {
	for i := range al.ranks {
		n += len(al.ranks[i].list)
	}
	return n
}
