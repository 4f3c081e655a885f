package state

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// moved is when gangs of a VC were told to move within the last hour, in order.
type moved struct {
	VC    cell.VCName  `json:"vc"`
	Times []model.Time `json:"times"`
}

// noteMove notes that a gang of a VC is told to move now.
func (s *State) noteMove(vc cell.VCName) {
	i, found := s.findMoved(vc)
	if !found {
		s.Moved = slices.Insert(s.Moved, i, moved{VC: vc})
	}
	s.Moved[i].Times = append(s.MovesOf(vc, s.Now), s.Now)
}

func (s *State) findMoved(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.Moved, vc, func(m moved, k cell.VCName) int { return cmp.Compare(m.VC, k) })
}

// MovesOf returns when gangs of a VC were told to move within the hour before an instant.
func (s *State) MovesOf(vc cell.VCName, now model.Time) []model.Time {
	i, found := s.findMoved(vc)
	if !found {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Moved[i].Times), func(t model.Time) bool { return t.Add(model.Hour) <= now })
}

// IsMoveTarget reports whether an attempt is the promise to a gang that has not left its present
// cells.
func (s *State) IsMoveTarget(a *tables.Attempt) bool {
	g := &s.Jobs[a.Job].Gangs[a.ID.Gang]
	return g.Next != tables.None && s.Attempts[g.Next].ID == a.ID
}
