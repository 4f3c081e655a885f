package sched

import (
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// Dedicator is a Policy under which a job that says so (Hints.Dedicated) has its nodes for
// itself: it starts only on nodes where nobody else holds or was promised anything, and
// as long as it has them no other job of its VC, and no opportunistic one of any, starts
// there, unless its priority is higher. What others are guaranteed stays theirs: where
// their cells are parts of one of its nodes, they may come. It makes nobody leave for that.
type Dedicator interface {
	Policy
	Dedicates()
}

// alone reports whether a job wants its nodes for itself and may.
func (s *tables) alone(j *job) bool {
	if !j.spec.Hints.Dedicated {
		return false
	}
	_, may := s.pol[max(j.space, 0)].(Dedicator)
	return may
}

// aloneReason is why nodes are closed to a job that would fit there (closed).
func (s *index) aloneReason(r model.Reason, j *job) model.Reason {
	f, closed := s.cl.Forest(), s.closed(j)
	for i := range f.Nodes {
		if closed.Has(int32(i)) {
			r.Nodes = append(r.Nodes, f.Nodes[i].Name)
		}
	}
	if s.alone(j) {
		return r.Say(HeldBack, "it would fit, but wants its nodes for itself, and others run on %s", fewNodes(r.Nodes))
	}
	return r.Say(HeldBack, "it would fit, but jobs have %s for themselves", fewNodes(r.Nodes))
}

// closed are the nodes that others have for themselves, or for a job that wants to be alone
// those that somebody uses.
func (s *index) closed(j *job) (out cell.NodeSet) {
	if s.loners == 0 {
		return nil
	}
	alone := s.alone(j)
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || s.jobs[a.job].id == j.id {
			continue
		}
		other := &s.jobs[a.job]
		mayCome := !s.alone(other) || other.spec.Priority < j.spec.Priority || other.space != j.space && j.spec.Priority >= cell.MinGuaranteed
		if !alone && mayCome {
			continue
		}
		for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
			if n := s.cl.Forest().NodeIndex(t.Node); n != cell.None {
				out = out.Add(n)
			}
		}
	}
	return out
}
