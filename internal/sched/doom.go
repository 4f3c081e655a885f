package sched

import (
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are
// left than are owed, and takes charges back when there are enough again, so that
// every other guarantee holds on what is healthy.
func (s *State) settleDoomed() {
	for {
		if space, root, ok := s.cl.Recovered(); ok {
			name, container := s.cl.SpaceName(space)
			s.emit(Spared{VC: name, Root: root, Container: container})
			continue
		}
		space, root, id, ok := s.cl.Ailing()
		if !ok {
			return
		}
		name, container := s.cl.SpaceName(space)
		s.emit(Doomed{VC: name, Root: root, Cell: id, Container: container})
	}
}

// helpedMost bounds how many waiting gangs of a VC are tried before a charge is
// moved for them.
const helpedMost = 16

// moveCharge moves one charge from a VC in which somebody waits who could start
// without it, and with it nobody of a higher priority or submitted before, to one where nobody
// waits for such cells, or one gang alone, which could start all the same: else the charge
// would go once that has started, and whoever had started in its stead be stopped for the
// one it helps. It reports whether it did. A charge never goes where it holds somebody up,
// so charges do not go round: with each move one more could start.
func (s *State) moveCharge() bool {
	if s.cl.Doomed() == 0 {
		return false
	}
	of, with := int32(none), nobody
	suffers := func(space int32, chain int16) bool {
		if s.needsCells(space, chain) == cell.NoNeed {
			return false
		}
		if of != space { // charges come in order of their VCs
			of, with = space, s.couldStart(space)
		}
		return true
	}
	helps := func(was, is cell.Charge) bool {
		return s.couldStart(was.Space).before(with) && (s.needsCells(is.Space, s.cl.Space(is.Space).Roots[is.Root].Chain) == cell.NoNeed || s.couldStart(is.Space) != nobody)
	}
	was, is, ok := s.cl.Transfer(suffers, s.needsCells, helps)
	if !ok {
		return false
	}
	name, container := s.cl.SpaceName(was.Space)
	s.emit(Spared{VC: name, Root: was.Root, Container: container})
	name, container = s.cl.SpaceName(is.Space)
	s.emit(Doomed{VC: name, Root: is.Root, Cell: is.Cell, Container: container})
	return true
}

// needsCells says whether guaranteed gangs of a VC, or of those inside it, wait
// for cells of a chain, or for their guarantee. One that waits alone may do with fewer.
func (s *State) needsCells(space int32, chain int16) cell.Need {
	waiting, wanted := 0, false
	for v := range int32(len(s.queues)) {
		if !s.inside(v, space) {
			continue
		}
		if len(s.lazy[v]) > 0 {
			return cell.Needed
		}
		for _, e := range s.queues[v] {
			if e.prio < cell.MinGuaranteed {
				break
			}
			waiting++
			if !wanted {
				chains, _ := s.wants(&s.jobs[e.slot], e.gang)
				wanted = chains[chain]
			}
			if wanted && waiting > 1 {
				return cell.Needed
			}
		}
	}
	if wanted {
		return cell.MayDoWithout
	}
	return cell.NoNeed
}

// inside reports whether a VC is a space, or lies in one.
func (s *State) inside(v, space int32) bool {
	for v > 0 && v != space {
		v = s.cl.Space(v).Parent
	}
	return v == space && v > 0
}

// inTurn is a waiting gang's place by priority and submission.
type inTurn struct {
	prio cell.Priority
	job  JobID
}

// nobody stands behind all guaranteed gangs.
var nobody = inTurn{prio: cell.Opportunistic}

func (a inTurn) before(b inTurn) bool {
	return a.prio > b.prio || a.prio == b.prio && a.job < b.job
}

// couldStart returns the first waiting gang of a VC, or of one inside it, that would find
// cells as the cluster stands.
func (s *State) couldStart(space int32) inTurn {
	var missed []whoAsked
	tried, best := 0, nobody
	for v := range int32(len(s.queues)) {
		if !s.inside(v, space) {
			continue
		}
		for _, e := range s.queues[v] {
			j := &s.jobs[e.slot]
			at := inTurn{e.prio, e.job}
			if !at.before(best) || tried == helpedMost {
				break
			}
			if !s.eligible(j, e.gang) || j.gangs[e.gang].attempt != none {
				continue
			}
			if tried++; s.couldHave(e, &missed) {
				best = at
			}
		}
	}
	return best
}

// whoAsked tells questions apart of which one may have an answer when another has none.
type whoAsked struct {
	shape string
	prio  cell.Priority
}

// couldHave reports whether a gang would find what it asks for, be it promised to lower
// priorities of its VC. missed are those that found nothing.
func (s *State) couldHave(e queued, missed *[]whoAsked) bool {
	defer s.blaming(e.job)
	j := &s.jobs[e.slot]
	r := s.lifting(s.request(j, int(e.gang)), e.prio)
	this := whoAsked{j.gangs[e.gang].shape.text, e.prio}
	if r.Avoided == nil && slices.Contains(*missed, this) || s.full(j, int(e.gang), &r) {
		return false
	}
	find := func([]int32) (plan, bool) {
		_, ok := s.cl.Place(&r)
		return plan{}, ok
	}
	_, ok := find(nil)
	if !ok {
		_, ok = s.planRevoking(s.reservations(r.Space, r.Priority), find)
	}
	if !ok && r.Avoided == nil {
		*missed = append(*missed, this)
	}
	return ok
}

// charged returns the space that a charge is about.
func (s *State) charged(vc cell.VCName, container bool) int32 {
	if container {
		return s.cl.ContainerOf(vc)
	}
	return s.cl.SpaceOf(vc)
}
