package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// moved is when gangs of a VC were told to move within the last hour, in order.
type moved struct {
	VC    cell.VCName  `json:"vc"`
	Times []model.Time `json:"times"`
}

// noteMove remembers that a gang of a VC is told to move.
func (s *fold) noteMove(vc cell.VCName) {
	i, found := s.findMoved(vc)
	if !found {
		s.moved = slices.Insert(s.moved, i, moved{VC: vc})
	}
	s.moved[i].Times = append(s.movesOf(vc, s.now), s.now)
}

func (s *fold) findMoved(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.moved, vc, func(m moved, k cell.VCName) int { return cmp.Compare(m.VC, k) })
}

// movesOf returns when gangs of a VC were told to move within the hour before an instant.
func (s *fold) movesOf(vc cell.VCName, now model.Time) []model.Time {
	i, found := s.findMoved(vc)
	if !found {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.moved[i].Times), func(t model.Time) bool { return t.Add(model.Hour) <= now })
}

// moving reports whether an attempt is the promise to a gang that has not left yet.
func (s *fold) moving(a *attempt) bool {
	g := &s.jobs[a.job].gangs[a.id.Gang]
	return g.next != none && s.attempts[g.next].id == a.id
}

// mean says where a gang is to run next, when it is told to move; nil else.
func (s *fold) mean(g *gang, nodes []cell.NodeName) {
	if rare(g.odd).meant != nil {
		s.away--
	}
	if g.intend(nodes); nodes != nil {
		s.away++
	}
}

// verifyAway counts again.
func (s *fold) verifyAway(add func(string, ...any)) {
	n := 0
	for i := range s.jobs {
		for k := range s.jobs[i].gangs {
			if s.jobs[i].spec != nil && rare(s.jobs[i].gangs[k].odd).meant != nil {
				n++
			}
		}
	}
	if n != s.away {
		add("%d gangs are to run elsewhere, counted as %d", n, s.away)
	}
}
