package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// settleDoomed charges bad hardware to VCs by name when fewer healthy cells are
// left than are owed, and takes charges back when there are enough again, so that
// every other guarantee holds on what is healthy.
func (s *State) settleDoomed() {
	for {
		if all := s.cl.Recovered(); all != nil {
			s.shiftCharges(cell.Shift{Spared: all})
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

// helpedMost bounds how many waiting gangs of a VC are tried before charges are
// moved for them.
const helpedMost = 16

// moveCharges moves charges for one gang that waits and could start with them elsewhere, or
// without stopping anybody of its VC, while nobody of a higher priority or submitted before could as
// they are: on other bad cells of their VC, or in VCs in which nobody waits for such cells but who
// would find nothing however many left, or one gang alone, which starts all the same: else the
// charge would go once that has started, and whoever had started in its stead be stopped for the
// one it helps. It reports whether it did. Where several gangs are held up the first by priority
// and submission is helped, whatever its VC.
//
// Charges do not go round: of no VC is anybody before who could start that cannot afterwards, and
// of one an earlier one can; and none is helped twice in one Decide. A move after the walk needs
// a decision of the walk, and these end by their own measure.
func (s *State) moveCharges(helped *[]GangRef) bool {
	if s.cl.Doomed() == 0 {
		return false
	}
	m := mover{s: s, first: map[int32]inTurn{}, needs: map[needed]cell.Need{}}
	for _, h := range m.heldUp() {
		ref := GangRef{Job: h.job, Gang: h.gang}
		if slices.Contains(*helped, ref) {
			continue
		}
		sh, ok := m.shift(h.queued, cell.MinGuaranteed)
		if !ok && !h.starts && len(s.limits(s.jobs[h.slot].space, h.prio)) > 1 {
			sh, ok = m.shift(h.queued, h.prio)
		}
		if ok {
			*helped = append(*helped, ref)
			s.shiftCharges(sh)
			return true
		}
	}
	return false
}

func (s *State) shiftCharges(sh cell.Shift) {
	for _, ch := range sh.Spared {
		name, container := s.cl.SpaceName(ch.Space)
		s.emit(Spared{VC: name, Root: ch.Root, Container: container})
	}
	for _, ch := range sh.Doomed {
		name, container := s.cl.SpaceName(ch.Space)
		s.emit(Doomed{VC: name, Root: ch.Root, Cell: ch.Cell, Container: container})
	}
}

// mover is one look for charges that could lie better.
type mover struct {
	s     *State
	first map[int32]inTurn     // by VC: who could start, as charges lie
	needs map[needed]cell.Need // by VC and chain
}

type needed struct {
	space int32
	chain int16
}

// heldUp is a gang that waits for what charges stand on. It starts, if it makes others of its VC
// leave.
type heldUp struct {
	queued
	starts bool
}

// heldUp lists such gangs: of each VC to which charges matter one of each kind and those before
// who finds something, and that one, if it would stop somebody; in order of priority and
// submission. To a VC that is not charged only those matter that lie on the nodes of a gang.
func (m *mover) heldUp() (all []heldUp) {
	s := m.s
	charges := s.cl.Charges()
	bound := func(e queued) bool { return s.jobs[e.slot].spec.restricted() }
	for v := int32(1); v < int32(len(s.queues)); v++ {
		charged := slices.ContainsFunc(charges, func(ch cell.Charge) bool { return s.cl.Shares(v, ch.Space) })
		if !charged && !slices.ContainsFunc(s.queues[v], bound) || len(s.queues[v])+len(s.lazy[v]) == 0 {
			continue
		}
		first, e, missed := s.couldStart(v)
		m.first[v] = first
		for _, e := range missed {
			if charged || bound(e) {
				all = append(all, heldUp{e, false})
			}
		}
		if first != nobody && charged && s.lazyOf(e) == nil && len(s.limits(v, e.prio)) > 1 && !s.couldHave(e, cell.MinGuaranteed) {
			all = append(all, heldUp{e, true})
		}
	}
	slices.SortStableFunc(all, func(a, b heldUp) int {
		return cmp.Or(cmp.Compare(b.prio, a.prio), cmp.Compare(a.job, b.job), cmp.Compare(a.gang, b.gang))
	})
	return all
}

// shift looks how charges could lie so that a gang could start, and at most those of its VC below a
// limit would leave.
func (m *mover) shift(e queued, limit cell.Priority) (cell.Shift, bool) {
	s := m.s
	j := &s.jobs[e.slot]
	chains := make([]bool, len(s.cl.Forest().Chains))
	for ci := range chains {
		chains[ci] = s.waitsFor(e, int16(ci))
	}
	ask := cell.Shifting{Space: j.space, Chains: chains, Idle: s.idleVC, Need: m.need,
		Fits:  func() bool { return s.couldHave(e, limit) },
		Bears: func(to cell.Charge) bool { return m.starts(to.Space) },
	}
	sh, ok := s.cl.Shift(&ask)
	if !ok {
		return sh, false
	}
	for _, ch := range sh.Doomed {
		for v := int32(1); v < int32(len(s.queues)); v++ {
			if _, known := m.first[v]; !known && s.inside(v, ch.Space) {
				m.first[v], _, _ = s.couldStart(v)
			}
		}
	}
	return sh, s.cl.Shifted(sh, func() bool { return m.nobodyLoses(j.space) })
}

// nobodyLoses reports whether in all other VCs than that of whom it helps somebody as early
// could start as before.
func (m *mover) nobodyLoses(but int32) bool {
	for v := int32(1); v < int32(len(m.s.queues)); v++ {
		if was, known := m.first[v]; known && v != but && was != nobody {
			if now, _, _ := m.s.couldStart(v); was.before(now) {
				return false
			}
		}
	}
	return true
}

// starts reports whether anybody could start in a VC, or one inside it.
func (m *mover) starts(space int32) bool {
	for v := int32(1); v < int32(len(m.s.queues)); v++ {
		if m.s.inside(v, space) {
			if first, _, _ := m.s.couldStart(v); first != nobody {
				return true
			}
		}
	}
	return false
}

// idleVC reports whether no guaranteed gang of a VC, or of those inside it, waits for cells of a
// chain, or for its guarantee.
func (s *State) idleVC(space int32, chain int16) bool {
	for v := range int32(len(s.queues)) {
		waits := func(e queued) bool { return s.waitsFor(e, chain) }
		if s.inside(v, space) && (slices.ContainsFunc(s.lazy[v], waits) || slices.ContainsFunc(s.queues[v], waits)) {
			return false
		}
	}
	return true
}

// waitsFor reports whether a guaranteed gang could use cells of a chain; one that runs without its
// guarantee needs those around its leaves.
func (s *State) waitsFor(e queued, chain int16) bool {
	if e.prio < cell.MinGuaranteed {
		return false
	}
	j := &s.jobs[e.slot]
	if a := s.lazyOf(e); a != nil {
		f := s.cl.Forest()
		return slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks, func(t cell.Task) bool {
			return len(t.Leaves) > 0 && f.Cells[f.Leaves[t.Leaves[0]]].Chain == chain
		})
	}
	chains, _ := s.wants(j, e.gang)
	return chains[chain]
}

// lazyOf is the attempt of a gang that runs without its guarantee; nil, if it does not.
func (s *State) lazyOf(e queued) *attempt {
	if at := s.jobs[e.slot].gangs[e.gang].attempt; at != none && s.attempts[at].lazy {
		return &s.attempts[at]
	}
	return nil
}

// need says how much guaranteed gangs of a VC, or of those inside it, need cells of a chain. One
// that waits alone may do with fewer; who would not fit even if everybody had left needs none.
func (m *mover) need(space int32, chain int16) cell.Need {
	key := needed{space, chain}
	n, known := m.needs[key]
	if !known {
		n = m.s.needsCells(space, chain)
		m.needs[key] = n
	}
	return n
}

func (s *State) needsCells(space int32, chain int16) cell.Need {
	others, wanting := 0, 0
	var vain []whoAsked
	for v := range int32(len(s.queues)) {
		if !s.inside(v, space) {
			continue
		}
		if slices.ContainsFunc(s.lazy[v], func(e queued) bool { return s.waitsFor(e, chain) }) {
			return cell.Needed
		}
		for _, e := range s.queues[v] {
			switch {
			case e.prio < cell.MinGuaranteed:
			case !s.waitsFor(e, chain):
				others++
			case !s.inVain(e, &vain):
				wanting++
			}
			if wanting > 0 && wanting+others > 1 {
				return cell.Needed
			}
		}
	}
	if wanting > 0 {
		return cell.MayDoWithout
	}
	return cell.NoNeed
}

// inVain reports whether a gang would find nothing even if all of its VC left, by what is charged
// to that: fewer cells are no loss to it. vain are those of which that is known.
func (s *State) inVain(e queued, vain *[]whoAsked) bool {
	defer s.blaming(e.job)
	j := &s.jobs[e.slot]
	this := whoAsked{j.gangs[e.gang].shape.text, cell.MaxGuaranteed}
	if slices.Contains(*vain, this) {
		return true
	}
	if len(*vain) == helpedMost {
		return false
	}
	q := s.request(j, int(e.gang))
	q.Avoided = nil
	q.Lift = &cell.Lift{Opportunistic: true, Below: cell.MaxGuaranteed + 1}
	all := q
	all.Priority = cell.MaxGuaranteed + 1
	if s.cl.FitsLater(&q, s.revocable(&all)) {
		return false
	}
	*vain = append(*vain, this)
	return true
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

// couldStart returns the first waiting gang of a VC that would find cells as the cluster stands,
// and those before it that would not, of several that ask for the same the first.
func (s *State) couldStart(v int32) (best inTurn, first queued, without []queued) {
	var missed []whoAsked
	tried := 0
	best = nobody
	for _, list := range [][]queued{s.queues[v], s.lazy[v]} {
		for _, e := range list {
			at := inTurn{e.prio, e.job}
			if e.prio < best.prio || e.prio < cell.MinGuaranteed || tried == helpedMost {
				break
			}
			if !at.before(best) || !s.mayStart(e) {
				continue
			}
			tried++
			this := whoAsked{s.jobs[e.slot].gangs[e.gang].shape.text, e.prio}
			picky := s.picky(e)
			switch {
			case !picky && slices.Contains(missed, this):
			case s.couldHave(e, e.prio):
				best, first = at, e
			default:
				without = append(without, e)
				if !picky {
					missed = append(missed, this)
				}
			}
		}
	}
	return best, first, slices.DeleteFunc(without, func(e queued) bool { return best.before(inTurn{e.prio, e.job}) })
}

// mayStart reports whether a gang waits for nothing but cells.
func (s *State) mayStart(e queued) bool {
	j := &s.jobs[e.slot]
	return s.lazyOf(e) != nil || s.eligible(j, e.gang) && j.gangs[e.gang].attempt == none
}

// whoAsked tells questions apart of which one may have an answer when another has none.
type whoAsked struct {
	shape string
	prio  cell.Priority
}

// picky reports whether others of a gang's shape may find what it does not.
func (s *State) picky(e queued) bool {
	j := &s.jobs[e.slot]
	return j.gangs[e.gang].avoids() || s.lazyOf(e) != nil || s.closed(j) != nil
}

// couldHave reports whether a gang would find what it asks for when those of its VC below a limit
// leave, be it promised to lower priorities.
func (s *State) couldHave(e queued, limit cell.Priority) bool {
	defer s.blaming(e.job)
	j := &s.jobs[e.slot]
	if a := s.lazyOf(e); a != nil {
		_, ok := s.upgradable(a)
		return ok && s.mayUpgrade(a)
	}
	r := s.lifting(s.request(j, int(e.gang)), limit)
	if s.full(j, int(e.gang), &r) {
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
	return ok
}

// charged returns the space that a charge is about.
func (s *State) charged(vc cell.VCName, container bool) int32 {
	if container {
		return s.cl.ContainerOf(vc)
	}
	return s.cl.SpaceOf(vc)
}
