package sched

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// An elastic job may have more members than usual as long as nobody else wants what they
// hold (Wish.Beside): they start on free cells of the nodes on which the job runs, all at
// once. They are the first to leave for a gang of their priority (Wish.Shrink).

// maxGrowth bounds by how many members a job grows at once.
const maxGrowth = 64

// Wanted implements View.
func (v view) Wanted() int64 { return v.s.wanted(v.space) }

// Beside implements View.
func (v view) Beside(ref GangRef) int32 {
	j := v.s.find(ref.Job)
	if j == nil || ref.Gang != 0 || !j.spec.Partial() || v.s.attemptOf(ref) == nil || v.s.looks.always[v.space] {
		return 0
	}
	idle := int64(0)
	for n := range v.s.nodesOf(j).All() {
		left, _ := v.Idle(n)
		idle += left
	}
	z := v.s.sizesOf(j)
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
func (s *pass) wanted(space int32) int64 {
	var n int64
	for _, e := range s.queues[space] {
		j := &s.jobs[e.slot]
		g := &j.gangs[e.gang]
		if e.prio >= cell.MinGuaranteed && g.attempt == none && !s.extra(e) && s.eligible(j, e.gang) && !s.neverFits(j, int(e.gang)) {
			n += int64(g.leaves)
		}
	}
	return n
}

// nodesOf are the nodes on which a job runs.
func (s *pass) nodesOf(j *job) cell.NodeSet {
	f, out := s.cl.Forest(), cell.NodeSet{}
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none || s.attempts[at].state == model.AttemptReserving || s.attempts[at].cause != 0 {
			continue
		}
		for _, t := range s.cl.Alloc(s.attempts[at].alloc).Placement.Tasks {
			for _, l := range t.Leaves {
				out = out.Add(f.Cells[f.Leaves[l]].Node)
			}
		}
	}
	return out
}

// planBeside finds free cells for the members that a job of some size would have more, on
// the nodes on which it runs; false where not all of them fit there.
func (s *pass) planBeside(j *job, size int32) (whole, bool) {
	w := want{j: j, only: s.nodesOf(j)}
	var r cell.Request
	var gangs []int32
	left := s.leftOfLimit(j)
	for g := int32(1); int(g) < len(j.gangs); g++ {
		gg := &j.gangs[g]
		if !j.within(g, size) || j.within(g, j.size) {
			continue
		}
		if left -= int64(gg.leaves); gg.done || gg.attempt != none || !s.eligible(j, g) || left < 0 {
			return whole{}, false
		}
		q := s.request(w.of(g))
		if len(gangs) > 0 {
			q.Members, q.Avoided = append(r.Members, q.Members...), r.Avoided.With(q.Avoided)
		} else {
			q.Members = append([]cell.Member(nil), q.Members...)
		}
		r, gangs = q, append(gangs, g)
	}
	if len(gangs) == 0 || !s.extraEligible(j) {
		return whole{}, false
	}
	res, ok := s.cl.Place(&r)
	return whole{gangs, res.Placement}, ok
}

// grow gives a job that runs more members beside those that it has, where nobody waits.
func (w *walker) grow(slot, size int32) {
	s := w.s
	j := &s.jobs[slot]
	if w.outlook != nil || s.wanted(w.space) > 0 {
		return
	}
	if p, ok := s.planBeside(j, size); ok {
		s.startWhole(want{j: j, size: size}, p)
	}
}
