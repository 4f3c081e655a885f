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
// waits for such cells. It reports whether it did. A charge never goes to a VC that
// needs it, so charges do not go round: each move leaves fewer where somebody waits.
func (s *State) moveCharge() bool {
	if s.cl.Doomed() == 0 {
		return false
	}
	of, with := int32(none), nobody
	suffers := func(space int32, chain int16) bool {
		if !s.needsCells(space, chain) {
			return false
		}
		if of != space { // charges come in order of their VCs
			of, with = space, s.couldStart(space)
		}
		return true
	}
	was, is, ok := s.cl.Transfer(suffers, s.needsCells, func(space int32) bool { return s.couldStart(space).before(with) })
	if !ok {
		return false
	}
	name, container := s.cl.SpaceName(was.Space)
	s.emit(Spared{VC: name, Root: was.Root, Container: container})
	name, container = s.cl.SpaceName(is.Space)
	s.emit(Doomed{VC: name, Root: is.Root, Cell: is.Cell, Container: container})
	return true
}

// needsCells reports whether guaranteed gangs of a VC, or of those inside it, wait
// for cells of a chain, or for their guarantee.
func (s *State) needsCells(space int32, chain int16) bool {
	for v := range int32(len(s.queues)) {
		if !s.inside(v, space) {
			continue
		}
		if len(s.lazy[v]) > 0 {
			return true
		}
		for _, e := range s.queues[v] {
			if e.prio < cell.MinGuaranteed {
				break
			}
			if chains, _ := s.wants(&s.jobs[e.slot], e.gang); chains[chain] {
				return true
			}
		}
	}
	return false
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
