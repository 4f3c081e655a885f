package timeline

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// CandidateOf returns what a gang asks for, with the turn of its booking if it has one.
func (tl *Timeline) CandidateOf(j *tables.Job, g int32) Candidate {
	a := Candidate{J: j, G: g, Ref: model.GangRef{Job: j.ID, Gang: g}, prio: j.Spec.Priority}
	if j.Spec.TimeLimit > 0 {
		a.length = model.Duration(model.Time(j.Spec.TimeLimit).Add(j.Spec.Grace))
	}
	if was := tables.RareOf(j.Gangs[g].Rare).Booked; was != nil && !slices.Contains(tl.displaced, a.Ref) {
		a.turn = was.Turn
	}
	return a
}

// until is when a gang's cells are free again if it starts at a time. Only an enforced limit
// tells.
func (a Candidate) until(start model.Time) model.Time {
	if a.length == 0 {
		return forever
	}
	return start.Add(a.length)
}

// told is the start of a gang's booking as it was told; 0 without a booking or a time.
func (a Candidate) told() model.Time {
	if was := tables.RareOf(a.J.Gangs[a.G].Rare).Booked; was != nil {
		return was.Start
	}
	return 0
}

// alone reports whether its failure says nothing of other gangs of its shape.
func (a Candidate) alone() bool { return a.OverPeers || a.J.Gangs[a.G].Avoids() }

// blockedFor returns the chains that a gang must leave to gangs before it. A booked gang keeps
// the chains of its booked cells, and leaves others only to jobs submitted before its booking
// was made.
func (tl *Timeline) blockedFor(a Candidate) []bool {
	blocked := place.BlockedFor(tl.blocked, a.J.ID)
	if i := tl.find(a.Ref); i >= 0 {
		for ci := range blocked {
			blocked[ci] = blocked[ci] && tl.precededBy(&tl.books[i], tl.blocked[ci]) &&
				!tl.lies(&tl.books[i], int16(ci))
		}
		return blocked
	}
	if a.length == 0 {
		waits := make([]bool, len(tl.endless))
		for ci, by := range tl.endless {
			waits[ci] = by != 0 && by != a.J.ID
		}
		blocked = place.EitherOf(blocked, waits)
	}
	return blocked
}

// lies reports whether a booking has leaves of a chain.
func (tl *Timeline) lies(b *booking, chain int16) bool {
	f := tl.s.Cluster.Forest()
	return slices.ContainsFunc(b.leaves, func(l cell.LeafID) bool { return f.Cells[f.Leaves[l]].Chain == chain })
}

// precededBy reports whether a job was submitted before a booking was made.
func (tl *Timeline) precededBy(b *booking, id model.JobID) bool {
	j := tl.s.Find(id)
	return j != nil && j.Submitted <= b.since
}

// KeepToType sets the chains that a gang must leave alone: those of gangs before it and, if it is
// to have one type, those of all others (nil: any type). Then its booking, if any, ends: it may be
// of another type.
func (tl *Timeline) KeepToType(a *Candidate, others []bool) {
	a.Others = others
	if a.Others != nil && tl.Has(a.Ref) {
		tl.forget(a.Ref)
		tl.rehold()
	}
	a.Blocked = place.EitherOf(tl.blockedFor(*a), a.Others)
}
