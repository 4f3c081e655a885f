package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// holdersFor returns the jobs that hold or were promised cells which the job could use
// at its priority, in order of id: those of its own VC, and those of others on the only
// nodes that it may use. Where somebody stands on these and its VC has cells to bind there,
// its own elsewhere are not in its way.
func (s *State) holdersFor(j *job, g int) (own, others []JobID) {
	r, key := inCommon(s), like(j, g)
	h, ok := r.holders[key]
	if !ok {
		h.own, h.others = holdersNow(s, j, g)
		r.holders[key] = h
	}
	return slices.Clone(h.own), slices.Clone(h.others)
}

// holdersNow finds them.
func holdersNow(s *State, j *job, g int) (own, others []JobID) {
	space, opportunistic := s.space(j.spec.VC), j.spec.Priority < cell.MinGuaranteed
	its := s.itsNodes(j)
	var elsewhere []JobID
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none {
			continue
		}
		al := s.cl.Alloc(a.alloc)
		switch same := al.Opportunistic() == opportunistic; {
		case s.standsOn(j, g, a, its) && (same || opportunistic):
			if al.Space == space {
				own = append(own, a.id.Job)
			} else {
				others = append(others, a.id.Job)
			}
		case same && al.Space == space && s.onUsableChain(j, g, a):
			elsewhere = append(elsewhere, a.id.Job)
		}
	}
	if len(own)+len(others) == 0 || !opportunistic && !s.bindsOn(j, g, its) {
		own = append(own, elsewhere...)
	}
	few := func(ids []JobID) []JobID {
		slices.Sort(ids)
		ids = slices.Compact(ids)
		return ids[:min(len(ids), maxNamed)]
	}
	return few(own), few(others)
}

// itsNodes are the only nodes that a job may use, nil if all.
func (s *State) itsNodes(j *job) cell.NodeSet {
	if !j.spec.Restricted() {
		return nil
	}
	return s.allowedNodes(j.spec)
}

// standsOn reports whether an attempt holds leaves on some nodes that a gang could use.
func (s *State) standsOn(j *job, g int, a *attempt, its cell.NodeSet) bool {
	f := s.cl.Forest()
	return its != nil && slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks, func(t cell.Task) bool {
		if len(t.Leaves) == 0 || !its.Has(f.NodeIndex(t.Node)) {
			return false
		}
		at := f.Leaves[t.Leaves[0]]
		return s.usableChain(j, g, f.Cells[at].Chain) && !s.pinnedAway(j, g, at)
	})
}

// bindsOn reports whether the VC of a gang has cells enough for it that are bound nowhere yet,
// or around some nodes.
func (s *State) bindsOn(j *job, g int, its cell.NodeSet) bool {
	f := s.cl.Forest()
	var around []cell.CellID
	for i := range f.Nodes {
		if its.Has(int32(i)) {
			around = append(around, f.Nodes[i].Cells...)
		}
	}
	var n int32
	sp := s.cl.Space(s.space(j.spec.VC))
	for i := range sp.Roots {
		r := &sp.Roots[i]
		near := r.Cell == cell.None || slices.ContainsFunc(around, func(c cell.CellID) bool { return f.Contains(c, r.Cell) || f.Contains(r.Cell, c) })
		if near && s.usableChain(j, g, r.Chain) && s.rootServes(j, g, r) {
			n += f.Chains[r.Chain].LeavesAt(r.Level)
		}
	}
	return n >= j.gangs[g].leaves
}

// endable returns the jobs whose end could make room for a gang: those that hold
// cells of the same guarantee, or of the only nodes that the gang may use, or for an
// opportunistic gang any that it could use, or drain from such cells. The first to end comes first, then those without a limit, by id.
func (s *State) endable(j *job, g int) []JobID {
	type holder struct {
		id   JobID
		ends Time
	}
	space := s.space(j.spec.VC)
	guaranteed := j.spec.Priority >= cell.MinGuaranteed
	its := s.itsNodes(j)
	var all []holder
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.job == s.slots.Of(j.id) || a.state == AttemptReserving {
			continue
		}
		al := s.cl.Alloc(a.alloc)
		beside := guaranteed && (al.Opportunistic() && !(places{s}).standsBefore(a, j, g) || al.Space != space && !s.standsOn(j, g, a, its)) && a.state != AttemptUnknown
		if (beside || !s.onUsableChain(j, g, a)) && !s.drainsFor(j, g, a, its) {
			continue
		}
		ends := s.spanOf(a, nil, 0).late
		if ends == 0 {
			ends = 1<<63 - 1
		}
		k := slices.IndexFunc(all, func(h holder) bool { return h.id == a.id.Job })
		if k < 0 {
			k = len(all)
			all = append(all, holder{id: a.id.Job})
		}
		all[k].ends = max(all[k].ends, ends)
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Or(cmp.Compare(x.ends, y.ends), cmp.Compare(x.id, y.id)) })
	out := make([]JobID, len(all))
	for i := range all {
		out[i] = all[i].id
	}
	return out
}

// onUsableChain reports whether an attempt holds leaves of a chain that a gang
// could use; in its own VC, not in pinned cells that it does not ask for, nor,
// when it asks for one, beside that.
func (s *State) onUsableChain(j *job, g int, a *attempt) bool {
	f := s.cl.Forest()
	al := s.cl.Alloc(a.alloc)
	own := j.spec.Priority >= cell.MinGuaranteed && !al.Opportunistic() && al.Space == s.space(j.spec.VC)
	for _, t := range al.Placement.Tasks {
		if len(t.Leaves) == 0 {
			continue
		}
		at := f.Leaves[t.Leaves[0]]
		if s.usableChain(j, g, f.Cells[at].Chain) && (!own || s.pinServes(j, g, s.pinAround(at, al.Space))) {
			return true
		}
	}
	return false
}
