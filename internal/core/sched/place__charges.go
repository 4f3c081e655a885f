package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Charges move as a step of the plan of a gang whose turn it is, when it finds no free cells:
// what moves them starts by that, or is promised cells, and nobody else moves them. A VC stops at
// a gang that would (postponed), until all others were walked: so whoever starts as charges lie
// does, in whatever VC, and of those who need them moved the first by priority and submission
// comes first, whatever its VC.
//
// Each gang has one turn in a Decide (had): who found nothing before the VC stopped does not take
// from those behind it what they were given since, but is looked at again. It ends: somebody starts
// by each move.

// everybody may move charges, and nobody.
var (
	everybody = inTurn{}
	nobody    = inTurn{prio: cell.MaxGuaranteed + 1}
)

// inTurn is a waiting gang's place by priority and submission.
type inTurn struct {
	prio cell.Priority
	GangRef
}

func (a inTurn) compare(b inTurn) int {
	return cmp.Or(cmp.Compare(b.prio, a.prio), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

// moving is what the walks of one Decide tell each other.
type moving struct {
	movers   inTurn          // who stands before it may move charges
	late     inTurn          // at whom the walk of a VC stopped; everybody if at nobody
	news     bool            // something was settled before them
	walks    int             // of VCs, so many
	tries    int             // in this one, of how charges could lie, since they last could lie better
	had      map[GangRef]int // in which of them a gang had its turn, where something is charged
	inTheWay uint64          // the last event when charges were first in somebody's way and stayed; 0 before
}

// postponed is a VC whose walk stopped at a gang for which charges would move.
type postponed struct {
	at    inTurn
	space int32
}

// hasTurn reports whether a gang had no turn in an earlier walk of this Decide, and notes that it
// has it in this one.
func (s *finder) hasTurn(ref GangRef) bool {
	if s.cl.Doomed() == 0 {
		return true // nobody was stopped at
	}
	if s.charges.had == nil {
		s.charges.had = map[GangRef]int{}
	}
	if _, had := s.charges.had[ref]; !had {
		s.charges.had[ref] = s.charges.walks
	}
	return s.charges.had[ref] == s.charges.walks
}

// postponedMost bounds how often VCs give way to each other in one Decide.
const postponedMost = 64

// mover looks for charges that could lie better for one gang.
type mover struct {
	s      *finder
	space  int32 // its VC
	at     inTurn
	chains []bool          // that it could use
	needs  map[needed]bool // by VC and chain
}

type needed struct {
	space int32
	chain int16
}

// mover returns nil where nothing is charged.
func (s *finder) mover(j *job, g int32, chains []bool) *mover {
	if s.cl.Doomed() == 0 || j.spec.Priority < cell.MinGuaranteed {
		return nil
	}
	return &mover{s: s, space: j.space, at: inTurn{j.spec.Priority, GangRef{Job: j.id, Gang: g}}, chains: chains, needs: map[needed]bool{}}
}

// moverOf is that of a gang that waits for cells; nil where charges that lie elsewhere are of no
// help to it, even with all that it may make leave.
func (s *finder) moverOf(j *job, g int, fits func() bool) *mover {
	if s.cl.Doomed() == 0 || s.charges.tries > movingMost || !s.concerned(j) {
		return nil
	}
	chains, _ := s.wants(j, int32(g))
	m := s.mover(j, int32(g), chains)
	if m != nil {
		if _, ok := m.shift(fits); !ok {
			return nil
		}
	}
	return m
}

// concerned reports whether charges may be in a job's way. Where none is in its VC, or around it,
// healthy cells are left for all of that; but they may lie on other nodes than it may use, or
// farther apart.
func (s *finder) concerned(j *job) bool {
	if j.spec.Restricted() || slices.ContainsFunc(s.cl.Charges(), func(ch cell.Charge) bool { return s.cl.Shares(j.space, ch.Space) }) {
		return true
	}
	f := s.cl.Forest()
	return slices.ContainsFunc(s.cl.Space(j.space).Roots, func(r cell.Root) bool { return r.Level < f.Chains[r.Chain].NodeLevel })
}

// plan looks how charges could lie so that a plan is found. over says that the search ends here:
// with a plan, or since it is not the gang's turn yet.
func (m *mover) plan(try func() (plan, bool)) (p plan, over, ok bool) {
	if m == nil {
		return plan{}, false, false
	}
	sh, ok := m.shift(func() (ok bool) {
		p, ok = try()
		return ok
	})
	if !ok {
		return plan{}, false, false
	}
	if m.s.charges.movers != everybody && m.at.compare(m.s.charges.movers) >= 0 {
		if !m.s.isPostponed() {
			m.s.charges.late = m.at
		}
		return plan{}, true, false
	}
	p.shift = sh
	return p, true, true
}

// planUncharging makes work of lower priorities give up its guarantee where that keeps a charge
// from going elsewhere: it is bound for who uses it, and holds up nobody who stands before them.
// What its jobs do not allow to go on without a guarantee is stopped. Nobody does so in vain.
func (s *finder) planUncharging(j *job, g int, r cell.Request) (plan, bool) {
	holders := s.onCharged(r.Space, r.Priority)
	if len(holders) == 0 || s.charges.tries > movingMost {
		return plan{}, false
	}
	chains, _ := s.wants(j, int32(g))
	m := s.mover(j, int32(g), chains)
	try := func(holders []cell.AllocID) (p plan, ok bool) {
		ids := s.withAbove(holders)
		defer s.cl.Demoted(ids)()
		p, _, ok = m.plan(func() (plan, bool) {
			q := s.lifting(r, r.Priority)
			res, ok := s.cl.Place(&r)
			if !ok {
				if res, ok = s.cl.Place(&q); ok {
					res = s.withExtras(q, res, false)
				}
			}
			return s.clearing(ids, res), ok
		})
		return p, ok
	}
	p, ok := try(holders)
	for i := len(holders) - 1; ok && len(holders) > 1 && i >= 0 && !s.cl.Work().Over(); i-- {
		fewer := slices.Delete(slices.Clone(holders), i, i+1)
		if q, still := try(fewer); still {
			p, holders = q, fewer
		}
	}
	return p, ok
}

// onCharged returns the allocations of a VC below a priority that use charged cells, in the order
// in which they are to go.
func (s *finder) onCharged(space int32, prio cell.Priority) []cell.AllocID {
	charged := s.cl.ChargesInUse(space)
	if len(charged) == 0 || len(s.limits(space, prio)) == 1 {
		return nil // or nobody of a lower priority runs with a guarantee
	}
	f := s.cl.Forest()
	return s.holdersBelow(space, prio, func(a *attempt) bool {
		return slices.ContainsFunc(s.cl.Alloc(a.alloc).Placement.Tasks, func(t cell.Task) bool {
			return slices.ContainsFunc(t.Leaves, func(l cell.LeafID) bool {
				return slices.ContainsFunc(charged, func(id cell.CellID) bool { return f.Contains(id, f.Leaves[l]) })
			})
		})
	})
}

func (m *mover) shift(fits func() bool) (cell.Shift, bool) {
	s := m.s
	ask := cell.Shifting{Space: m.space, Chains: m.chains, Idle: s.idleVC, Needs: m.need, Fits: fits}
	sh, ok := s.cl.Shift(&ask)
	if s.charges.tries += ask.Tries; ok {
		s.charges.tries = 0 // what is found is worth it
	}
	if ask.Helps && !ok && s.charges.inTheWay == 0 {
		s.charges.inTheWay = s.seq // once others were placed, who need such cells no more, they may go
	}
	return sh, ok
}

// isPostponed reports whether the walk of a VC stops, until others had their chance.
func (s *finder) isPostponed() bool { return s.charges.late != everybody }

// movingMost bounds how often it is asked in one walk of a VC whether charges lie better elsewhere,
// in vain: those behind then do without.
const movingMost = 64

// vainMost bounds how many shapes of waiting gangs of a VC are tried to see whether it needs cells.
const vainMost = 16

// idleVC reports whether no guaranteed gang of a VC, or of those inside it, waits for cells of a
// chain, or for its guarantee.
func (s *finder) idleVC(space int32, chain int16) bool {
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
func (s *finder) waitsFor(e queued, chain int16) bool {
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
func (s *finder) lazyOf(e queued) *attempt {
	if at := s.jobs[e.slot].gangs[e.gang].attempt; at != none && s.attempts[at].lazy {
		return &s.attempts[at]
	}
	return nil
}

// need reports whether guaranteed gangs of a VC, or of those inside it, need cells of a chain: who
// would not fit even if everybody of it had left needs none.
func (m *mover) need(space int32, chain int16) bool {
	key := needed{space, chain}
	n, known := m.needs[key]
	if !known {
		n = m.s.needsCells(space, chain)
		m.needs[key] = n
	}
	return n
}

func (s *finder) needsCells(space int32, chain int16) bool {
	var vain []whoAsked
	for v := range int32(len(s.queues)) {
		if !s.inside(v, space) {
			continue
		}
		if slices.ContainsFunc(s.lazy[v], func(e queued) bool { return s.waitsFor(e, chain) }) ||
			slices.ContainsFunc(s.queues[v], func(e queued) bool {
				return s.waitsFor(e, chain) &&
					!s.inVain(e, &vain)
			}) {
			return true
		}
	}
	return false
}

// inVain reports whether a gang would find nothing even if all of its VC left, by what is charged
// to that: fewer cells are no loss to it. vain are those of which that is known.
func (s *finder) inVain(e queued, vain *[]whoAsked) bool {
	defer s.blaming(e.job)
	j := &s.jobs[e.slot]
	this := whoAsked{j.gangs[e.gang].shape.text, cell.MaxGuaranteed}
	if slices.Contains(*vain, this) {
		return true
	}
	if len(*vain) == vainMost {
		return false
	}
	q := s.request(want{j: j, g: e.gang})
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
func (s *finder) inside(v, space int32) bool {
	for v > 0 && v != space {
		v = s.cl.Space(v).Parent
	}
	return v == space && v > 0
}

// whoAsked tells questions apart of which one may have an answer when another has none.
type whoAsked struct {
	shape string
	prio  cell.Priority
}

// couldLift reports whether a request could be met when those of its VC of lower priorities leave,
// be it promised to them.
func (s *finder) couldLift(j *job, g int, r *cell.Request) bool {
	q := s.lifting(*r, r.Priority)
	if s.full(j, g, &q) {
		return false
	}
	find := func([]int32) (plan, bool) {
		_, ok := s.cl.Try(&q)
		return plan{}, ok
	}
	_, ok := find(nil)
	if !ok {
		_, ok = s.planRevoking(s.reservations(q.Space, q.Priority), find)
	}
	return ok
}

// mustWalk reports whether a VC's walk may find something. Where bad hardware is charged to
// somebody, that may lie elsewhere whenever something was settled: somebody may wait no more.
func (s *finder) mustWalk(space int32) bool {
	return s.look || s.charges.news && s.cl.Doomed() > 0 || s.looks.spaces[space] || s.looks.itself[space] || s.looks.always[space]
}
