package place

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// FitsEver reports whether a gang could be placed if all cells were free and healthy.
func FitsEver(s *Finder, j *tables.Job, g int) bool {
	r := s.Request(Want{J: j, G: int32(g)})
	r.Avoided, r.Reach, r.Excluded, r.IgnoreHealth = nil, nil, nil, true
	return s.mayFit(j, g, r)
}

// NeverFits reports whether a gang does not fit even an empty, healthy cluster of this
// configuration.
func (s *Finder) NeverFits(j *tables.Job, g int) bool {
	if s.Cluster.SpaceOf(j.Spec.VC) == cell.None || j.Gangs[g].Shape.NoSKUFits {
		return true // removed VCs share one space: no cache
	}
	key := tables.FitKey{Space: j.Space, Prio: min(j.Spec.Priority, 0), Shape: j.Gangs[g].Shape.Text}
	if never, ok := s.remembered().neverFits[key]; ok {
		return never
	}
	return Remember(&s.remembered().neverFits, key, !FitsEver(s, j, g))
}

// mayFit reports whether a gang fits the empty cluster. If the search runs out of steps, two
// cheaper necessary conditions decide: that it fits without its restriction to nodes, and its
// size.
func (s *Finder) mayFit(j *tables.Job, g int, r cell.Request) bool {
	res, ok := s.Vacant().Place(&r)
	if ok || !res.Bounded {
		return ok
	}
	if r.Allowed != nil {
		anywhere := r
		anywhere.Allowed = nil
		if res, ok := s.Vacant().Place(&anywhere); !ok && !res.Bounded {
			return false
		}
	}
	return j.Gangs[g].Leaves <= s.UsableLeaves(j, g) && s.packs(j, g, r)
}

// packs reports whether a gang's tasks fit the nodes that it may use, if its VC owned all of
// them except cells that are pinned for others. It searches nodes alone, and is nearly always
// exact.
func (s *Finder) packs(j *tables.Job, g int, r cell.Request) bool {
	f := s.Cluster.Forest()
	r.Priority = cell.Opportunistic
	for l := range f.Leaves {
		if s.PinnedAway(j, g, f.Leaves[l]) {
			r.Excluded = r.Excluded.Add(cell.LeafID(l))
		}
	}
	res, ok := s.Vacant().Place(&r)
	return ok || res.Bounded
}

// PinnedAway reports whether a cell lies in a pinned cell that a guaranteed gang may not use:
// it is another VC's, or the gang does not name it.
func (s *Finder) PinnedAway(j *tables.Job, g int, id cell.CellID) bool {
	if j.Spec.Priority < cell.MinGuaranteed {
		return false
	}
	space, root := s.Base.RootOver(id)
	return space != cell.None && (space != s.Space(j.Spec.VC) || !s.RootServes(j, g, &s.Base.Space(space).Roots[root]))
}

// BlockedOutside reports whether a gang waits for something other than cells that gangs hold: it
// never fits, is held, delayed or over a limit, its attempt is unknown, or there is a Fault.
func (s *Finder) BlockedOutside(w Want) bool {
	j, g := w.J, w.G
	gg := &j.Gangs[g]
	switch {
	case s.NeverFits(j, int(g)), j.Quarantined, j.Held(), tables.RareOf(j.Rare).After > s.Now,
		gg.After > s.Now && !InBackOff(&s.Tables, j, g):
		return true
	case gg.Attempt != tables.None:
		return s.Attempts[gg.Attempt].State == model.AttemptUnknown
	case s.OverLimit(j, g):
		return true
	case j.Spec.Gangs[g].Extra && !s.ExtraEligible(j):
		return true
	}
	w.Blocked = nil
	return s.Fault(w) != Faultless
}
