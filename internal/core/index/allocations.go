package index

import (
	"reflect"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Allocations are the guaranteed allocations of full gangs in one VC, as its policy sees them.
// They follow from the state: the first query builds them, and later ones read again only the
// allocations that changed since.
type Allocations struct {
	kept  bool
	at    map[cell.AllocID]*model.Allocation
	stale []cell.AllocID // changed since they were last read
	Ranks []allocRank
}

// allocRank is the allocations of one priority, in order of the first gang of each.
type allocRank struct {
	Prio cell.Priority
	List []*model.Allocation
	Lent bool // a reader has List: the next change is made to a copy
}

// maxStale is how many changes may pile up unread; one more, and the next query builds everything
// anew.
const maxStale = 4096

// NoteAllocChanged notes that something happened to an attempt's allocation.
func (s *Index) NoteAllocChanged(a *tables.Attempt) {
	al := &s.Allocs[s.Cluster.Alloc(a.Alloc).Space]
	switch n := len(al.stale); {
	case !al.kept || n > 0 && al.stale[n-1] == a.Alloc:
	case n == maxStale:
		*al = Allocations{}
	default:
		al.stale = append(al.stale, a.Alloc)
	}
}

// AllocationsOf brings the allocations of a VC up to date and returns them.
func (s *Index) AllocationsOf(space int32) *Allocations {
	al := &s.Allocs[space]
	if !al.kept {
		*al = Allocations{kept: true, at: map[cell.AllocID]*model.Allocation{}}
		for _, i := range s.Holders[space] {
			if a := &s.Attempts[i]; !a.NotFirst {
				al.stale = append(al.stale, a.Alloc)
			}
		}
	}
	for _, id := range al.stale {
		if was := al.at[id]; was != nil {
			r := al.rank(was.Prio)
			i, _ := slices.BinarySearchFunc(r.List, was, (*model.Allocation).Compare)
			r.List = slices.Delete(r.List, i, i+1)
			delete(al.at, id)
		}
		if a := s.allocated(space, id); a != nil {
			now := s.allocation(a)
			r := al.rank(now.Prio)
			i, _ := slices.BinarySearchFunc(r.List, now, (*model.Allocation).Compare)
			r.List = slices.Insert(r.List, i, now)
			al.at[id] = now
		}
	}
	al.stale = al.stale[:0]
	return al
}

// rank returns the allocations of a priority, to be changed; a list that a reader has is copied.
func (al *Allocations) rank(p cell.Priority) *allocRank {
	i := slices.IndexFunc(al.Ranks, func(r allocRank) bool { return r.Prio == p })
	if i < 0 {
		i = len(al.Ranks)
		al.Ranks = append(al.Ranks, allocRank{Prio: p})
	}
	r := &al.Ranks[i]
	if r.Lent {
		r.List, r.Lent = append(make([]*model.Allocation, 0, len(r.List)+8), r.List...), false
	}
	return r
}

// allocated returns the first member of an allocation of a VC; nil if there is none, or the VC's
// policy does not see it: it is promised, opportunistic, or of a member above a minimum.
func (s *Index) allocated(space int32, id cell.AllocID) *tables.Attempt {
	if int(id) >= len(s.ByAlloc) || s.ByAlloc[id] == tables.None {
		return nil
	}
	a := &s.Attempts[s.ByAlloc[id]]
	if al := s.Cluster.Alloc(id); al.Space != space || a.State == model.AttemptReserving || s.IsExtra(a) ||
		al.Opportunistic() {
		return nil
	}
	return a
}

// allocation is what a policy sees of an allocation, given by its first member.
func (s *Index) allocation(head *tables.Attempt) *model.Allocation {
	g := &s.Jobs[head.Job].Gangs[head.ID.Gang]
	out := &model.Allocation{Leaves: g.Leaves, Shape: g.Shape.Text, Steady: s.Steady(head) && !head.Orphaned,
		Memory: s.DeviceMemory(head),
		Prio:   s.Jobs[head.Job].Spec.Priority}
	for at := s.ByAlloc[head.Alloc]; at != tables.None; at = s.Attempts[at].NextMember {
		m := &s.Attempts[at]
		out.Gangs = append(out.Gangs, model.GangRef{Job: m.ID.Job, Gang: m.ID.Gang})
		out.Sharers = append(out.Sharers, s.sharer(m))
		out.Steady = out.Steady && m.Cause == 0
	}
	f := s.Cluster.Forest()
	for _, t := range s.Cluster.Alloc(head.Alloc).Placement.Tasks {
		if n := f.NodeIndex(t.Node); n != cell.None && !slices.Contains(out.Nodes, n) {
			out.Nodes = append(out.Nodes, n)
		}
	}
	slices.Sort(out.Nodes)
	if head.Share == 0 {
		return out
	}
	sh := &s.Shares[head.Share-1]
	out.Quantum, out.Since = sh.Rotation.Quantum, sh.Since
	for _, turn := range sh.Rotation.Turns {
		var refs []model.GangRef
		for _, id := range turn {
			refs = append(refs, model.GangRef{Job: id.Job, Gang: id.Gang})
		}
		out.Turns = append(out.Turns, refs)
	}
	return out
}

// sharer is what a policy sees of one member.
func (s *Index) sharer(m *tables.Attempt) model.Sharer {
	j := &s.Jobs[m.Job]
	out := model.Sharer{Hints: &j.Spec.Hints, Gangs: int32(len(j.Gangs)), Started: m.Started}
	if n := j.PolicyNote(); n != nil {
		out.HasNote = len(n.Data) > 0
	}
	if tasks := j.Spec.Gangs[m.ID.Gang].Tasks; len(tasks) > 0 {
		out.Reported = j.Tasks[tasks[0]].Progress != nil
	}
	return out
}

// VerifyAllocations builds the allocations anew and compares.
func (s *Index) VerifyAllocations(add func(string, ...any)) {
	for space := range s.Allocs {
		if !s.Allocs[space].kept {
			continue
		}
		n, al := 0, s.AllocationsOf(int32(space))
		for _, r := range al.Ranks {
			n += len(r.List)
			if !slices.IsSortedFunc(r.List, (*model.Allocation).Compare) {
				add("the allocations of space %d are out of order", space)
			}
		}
		for a := range s.AttemptsIn(int32(space)) {
			if a.NotFirst || s.allocated(int32(space), a.Alloc) == nil {
				continue
			}
			n--
			if was := al.at[a.Alloc]; !reflect.DeepEqual(was, s.allocation(a)) {
				add("the allocation of attempt %v is seen as %+v", a.ID, was)
			}
		}
		if n != 0 || len(al.at) != 0 && al.count() != len(al.at) {
			add("space %d has %d allocations more than attempts hold", space, n)
		}
	}
}

func (al *Allocations) count() (n int) {
	for i := range al.Ranks {
		n += len(al.Ranks[i].List)
	}
	return n
}
