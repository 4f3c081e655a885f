package sched

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// fitsEver reports whether a gang could be placed were all cells free and in service.
func fitsEver(s *finder, j *job, g int) bool {
	r := s.request(want{j: j, g: int32(g)})
	r.Avoided, r.Reach, r.Keep, r.IgnoreHealth = nil, nil, nil, true
	return s.mayFit(j, g, r)
}

// neverFits reports whether a gang could not even be placed in an empty, healthy cluster of this
// configuration.
func (s *finder) neverFits(j *job, g int) bool {
	if s.cl.SpaceOf(j.spec.VC) == cell.None || j.gangs[g].shape.short {
		return true // all VCs that are gone are one space: nothing is remembered of them
	}
	key := whatFits{space: j.space, prio: min(j.spec.Priority, 0), shape: j.gangs[g].shape.text}
	if never, ok := s.remembered().never[key]; ok {
		return never
	}
	return remember(&s.remembered().never, key, !fitsEver(s, j, g))
}

// mayFit reports whether a gang fits the empty cells, or the search ended before it knew: then
// what is true of it without its restriction to nodes, or of its size alone, may say no.
func (s *finder) mayFit(j *job, g int, r cell.Request) bool {
	res, ok := s.vacant().Place(&r)
	if ok || !res.Bounded {
		return ok
	}
	if r.Allowed != nil {
		anywhere := r
		anywhere.Allowed = nil
		if res, ok := s.vacant().Place(&anywhere); !ok && !res.Bounded {
			return false
		}
	}
	return j.gangs[g].leaves <= s.reach(j, g) && s.packs(j, g, r)
}

// packs reports whether a gang's tasks would fit the nodes that it may use if its VC
// owned all of them, but for what is pinned elsewhere: a search over nodes alone,
// which is nearly always exact.
func (s *finder) packs(j *job, g int, r cell.Request) bool {
	f := s.cl.Forest()
	r.Priority = cell.Opportunistic
	for l := range f.Leaves {
		if s.pinnedAway(j, g, f.Leaves[l]) {
			r.Keep = r.Keep.Add(cell.LeafID(l))
		}
	}
	res, ok := s.vacant().Place(&r)
	return ok || res.Bounded
}

// pinnedAway reports whether a cell lies in a pinned one that a guaranteed gang
// may not use: another VC's, or one that it does not name.
func (s *finder) pinnedAway(j *job, g int, id cell.CellID) bool {
	if j.spec.Priority < cell.MinGuaranteed {
		return false
	}
	space, root := s.base.RootOver(id)
	return space != cell.None && (space != s.space(j.spec.VC) || !s.rootServes(j, g, &s.base.Space(space).Roots[root]))
}

// outside reports whether a gang waits for what outsideReason says.
func (s *finder) outside(w want) bool {
	j, g := w.j, w.g
	gg := &j.gangs[g]
	switch {
	case s.neverFits(j, int(g)), j.quarantined, j.held(), rare(j.odd).after > s.now,
		gg.after > s.now && !waitsOutDelay(&s.tables, j, g):
		return true
	case gg.attempt != none:
		return s.attempts[gg.attempt].state == model.AttemptUnknown
	case s.overLimit(j, g):
		return true
	case j.spec.Gangs[g].Extra && !s.extraEligible(j):
		return true
	}
	w.blocked = nil
	return s.fault(w) != faultless
}
