package decide

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// An elastic job may have more members than usual as long as nobody else wants what they
// hold (Wish.Beside): they start on free cells of the nodes on which the job runs, all at
// once. They are the first to leave for a gang of their priority (Wish.Shrink).

// maxGrowth bounds by how many members a job grows at once.
const maxGrowth = 64

// Wanted implements View.
func (v view) Wanted() int64 { return v.s.wanted(v.space) }

// Beside implements View.
func (v view) Beside(ref model.GangRef) int32 {
	j := v.s.Find(ref.Job)
	if j == nil || ref.Gang != 0 || !j.Spec.Partial() || v.s.AttemptOf(ref) == nil || v.s.Dirty.Always[v.space] {
		return 0
	}
	idle := int64(0)
	for n := range v.s.nodesOf(j).All() {
		left, _ := v.Idle(n)
		idle += left
	}
	z := v.s.SizesOf(j)
	more := min(int64(z.Most-z.Now), idle/int64(max(z.Each, 1)), v.Free()/int64(max(z.Each, 1)), maxGrowth)
	for n := int32(more); n > 0; n-- {
		if _, ok := v.s.planBeside(j, z.Now+n); ok {
			return n
		}
	}
	return 0
}

// wanted counts the leaves that full gangs of a VC ask for which wait for its guarantee,
// could be placed in it, and were promised none.
func (s *Pass) wanted(space int32) int64 {
	var n int64
	for _, e := range s.Queues[space] {
		j := &s.Jobs[e.Slot]
		g := &j.Gangs[e.Gang]
		if e.Prio >= cell.MinGuaranteed && g.Attempt == tables.None && !s.Extra(e) && s.Eligible(j, e.Gang) &&
			!s.NeverFits(j, int(e.Gang)) {
			n += int64(g.Leaves)
		}
	}
	return n
}

// nodesOf are the nodes on which a job runs.
func (s *Pass) nodesOf(j *tables.Job) cell.NodeSet {
	f, out := s.Cluster.Forest(), cell.NodeSet{}
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None || s.Attempts[at].State == model.AttemptReserving || s.Attempts[at].Cause != 0 {
			continue
		}
		for _, t := range s.Cluster.Alloc(s.Attempts[at].Alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				out = out.Add(f.Cells[f.Leaves[l]].Node)
			}
		}
	}
	return out
}

// planBeside finds free cells for the members that a job of some size would have more, on
// the nodes on which it runs; false where not all of them fit there.
func (s *Pass) planBeside(j *tables.Job, size int32) (whole, bool) {
	w := place.Want{J: j, Only: s.nodesOf(j)}
	var r cell.Request
	var gangs []int32
	left := s.LeftOfLimit(j)
	for g := int32(1); int(g) < len(j.Gangs); g++ {
		gg := &j.Gangs[g]
		if !j.Within(g, size) || j.Within(g, j.Size) {
			continue
		}
		if left -= int64(gg.Leaves); gg.Done || gg.Attempt != tables.None || !s.Eligible(j, g) || left < 0 {
			return whole{}, false
		}
		q := s.Request(w.Of(g))
		if len(gangs) > 0 {
			q.Members, q.Avoided = append(r.Members, q.Members...), r.Avoided.With(q.Avoided)
		} else {
			q.Members = append([]cell.Member(nil), q.Members...)
		}
		r, gangs = q, append(gangs, g)
	}
	if len(gangs) == 0 || !s.ExtraEligible(j) {
		return whole{}, false
	}
	res, ok := s.Cluster.Place(&r)
	return whole{gangs, res.Placement}, ok
}

// grow gives a job that runs more members beside those that it has, where nobody waits.
func (w *walker) grow(slot, size int32) {
	s := w.s
	j := &s.Jobs[slot]
	if w.outlook != nil || s.wanted(w.space) > 0 {
		return
	}
	if p, ok := s.planBeside(j, size); ok {
		s.startWhole(place.Want{J: j, Size: size}, p)
	}
}
