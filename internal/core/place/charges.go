package place

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
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
	Everybody = InTurn{}
	Nobody    = InTurn{prio: cell.MaxGuaranteed + 1}
)

// InTurn is a waiting gang's place by priority and submission.
type InTurn struct {
	prio cell.Priority
	model.GangRef
}

// Compare orders by priority, the highest first, then by submission.
func (a InTurn) Compare(b InTurn) int {
	return cmp.Or(cmp.Compare(b.prio, a.prio), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

// Moving is what the walks of one Decide tell each other.
type Moving struct {
	Movers   InTurn                // who stands before it may move charges
	Late     InTurn                // at whom the walk of a VC stopped; everybody if at nobody
	News     bool                  // something was settled before them
	Walks    int                   // of VCs, so many
	Tries    int                   // in this one, of how charges could lie, since they last could lie better
	Had      map[model.GangRef]int // in which of them a gang had its turn, where something is charged
	InTheWay uint64                // the last event when charges were first in somebody's way and stayed; 0 before
}

// Postponed is a VC whose walk stopped at a gang for which charges would move.
type Postponed struct {
	At    InTurn
	Space int32
}

// HasTurn reports whether a gang had no turn in an earlier walk of this Decide, and notes that it
// has it in this one.
func (s *Finder) HasTurn(ref model.GangRef) bool {
	if s.Cluster.Doomed() == 0 {
		return true // nobody was stopped at
	}
	if s.Charges.Had == nil {
		s.Charges.Had = map[model.GangRef]int{}
	}
	if _, had := s.Charges.Had[ref]; !had {
		s.Charges.Had[ref] = s.Charges.Walks
	}
	return s.Charges.Had[ref] == s.Charges.Walks
}

// PostponedMost bounds how often VCs give way to each other in one Decide.
const PostponedMost = 64

// mover looks for charges that could lie better for one gang.
type mover struct {
	s      *Finder
	space  int32 // its VC
	at     InTurn
	chains []bool          // that it could use
	needs  map[needed]bool // by VC and chain
}

type needed struct {
	space int32
	chain int16
}

// Mover returns nil where nothing is charged.
func (s *Finder) Mover(j *tables.Job, g int32, chains []bool) *mover {
	if s.Cluster.Doomed() == 0 || j.Spec.Priority < cell.MinGuaranteed {
		return nil
	}
	return &mover{s: s, space: j.Space, at: InTurn{j.Spec.Priority, model.GangRef{Job: j.ID, Gang: g}},
		chains: chains, needs: map[needed]bool{}}
}

// moverOf is that of a gang that waits for cells; nil where charges that lie elsewhere are of no
// help to it, even with all that it may make leave.
func (s *Finder) moverOf(j *tables.Job, g int, fits func() bool) *mover {
	if s.Cluster.Doomed() == 0 || s.Charges.Tries > MovingMost || !s.concerned(j) {
		return nil
	}
	chains, _ := s.Wants(j, int32(g))
	m := s.Mover(j, int32(g), chains)
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
func (s *Finder) concerned(j *tables.Job) bool {
	if j.Spec.Restricted() || slices.ContainsFunc(s.Cluster.Charges(),
		func(ch cell.Charge) bool { return s.Cluster.Shares(j.Space, ch.Space) }) {
		return true
	}
	f := s.Cluster.Forest()
	return slices.ContainsFunc(s.Cluster.Space(j.Space).Roots,
		func(r cell.Root) bool { return r.Level < f.Chains[r.Chain].NodeLevel })
}

// Plan looks how charges could lie so that a plan is found. over says that the search ends here:
// with a plan, or since it is not the gang's turn yet.
func (m *mover) Plan(try func() (Plan, bool)) (p Plan, over, ok bool) {
	if m == nil {
		return Plan{}, false, false
	}
	sh, ok := m.shift(func() (ok bool) {
		p, ok = try()
		return ok
	})
	if !ok {
		return Plan{}, false, false
	}
	if m.s.Charges.Movers != Everybody && m.at.Compare(m.s.Charges.Movers) >= 0 {
		if !m.s.IsPostponed() {
			m.s.Charges.Late = m.at
		}
		return Plan{}, true, false
	}
	p.Shift = sh
	return p, true, true
}

// planUncharging makes work of lower priorities give up its guarantee where that keeps a charge
// from going elsewhere: it is bound for who uses it, and holds up nobody who stands before them.
// What its jobs do not allow to go on without a guarantee is stopped. Nobody does so in vain.
func (s *Finder) planUncharging(j *tables.Job, g int, r cell.Request) (Plan, bool) {
	holders := s.onCharged(r.Space, r.Priority)
	if len(holders) == 0 || s.Charges.Tries > MovingMost {
		return Plan{}, false
	}
	chains, _ := s.Wants(j, int32(g))
	m := s.Mover(j, int32(g), chains)
	try := func(holders []cell.AllocID) (p Plan, ok bool) {
		ids := s.withAbove(holders)
		defer s.Cluster.Demoted(ids)()
		p, _, ok = m.Plan(func() (Plan, bool) {
			q := s.Lifting(r, r.Priority)
			res, ok := s.Cluster.Place(&r)
			if !ok {
				if res, ok = s.Cluster.Place(&q); ok {
					res = s.withExtras(q, res, false)
				}
			}
			return s.clearing(ids, res), ok
		})
		return p, ok
	}
	p, ok := try(holders)
	for i := len(holders) - 1; ok && len(holders) > 1 && i >= 0 && !s.Cluster.Work().Over(); i-- {
		fewer := slices.Delete(slices.Clone(holders), i, i+1)
		if q, still := try(fewer); still {
			p, holders = q, fewer
		}
	}
	return p, ok
}

// onCharged returns the allocations of a VC below a priority that use charged cells, in the order
// in which they are to go.
func (s *Finder) onCharged(space int32, prio cell.Priority) []cell.AllocID {
	charged := s.Cluster.ChargesInUse(space)
	if len(charged) == 0 || len(s.Limits(space, prio)) == 1 {
		return nil // or nobody of a lower priority runs with a guarantee
	}
	f := s.Cluster.Forest()
	return s.holdersBelow(space, prio, func(a *tables.Attempt) bool {
		return slices.ContainsFunc(s.Cluster.Alloc(a.Alloc).Placement.Tasks, func(t cell.Task) bool {
			return slices.ContainsFunc(t.Leaves, func(l cell.LeafID) bool {
				return slices.ContainsFunc(charged, func(id cell.CellID) bool { return f.Contains(id, f.Leaves[l]) })
			})
		})
	})
}

func (m *mover) shift(fits func() bool) (cell.Shift, bool) {
	s := m.s
	ask := cell.Shifting{Space: m.space, Chains: m.chains, Idle: s.idleVC, Needs: m.need, Fits: fits}
	sh, ok := s.Cluster.Shift(&ask)
	if s.Charges.Tries += ask.Tries; ok {
		s.Charges.Tries = 0 // what is found is worth it
	}
	if ask.Helps && !ok && s.Charges.InTheWay == 0 {
		s.Charges.InTheWay = s.Seq // once others were placed, who need such cells no more, they may go
	}
	return sh, ok
}

// IsPostponed reports whether the walk of a VC stops, until others had their chance.
func (s *Finder) IsPostponed() bool { return s.Charges.Late != Everybody }

// MovingMost bounds how often it is asked in one walk of a VC whether charges lie better elsewhere,
// in vain: those behind then do without.
const MovingMost = 64

// vainMost bounds how many shapes of waiting gangs of a VC are tried to see whether it needs cells.
const vainMost = 16

// idleVC reports whether no guaranteed gang of a VC, or of those inside it, waits for cells of a
// chain, or for its guarantee.
func (s *Finder) idleVC(space int32, chain int16) bool {
	for v := range int32(len(s.Queues)) {
		waits := func(e index.Queued) bool { return s.waitsFor(e, chain) }
		if s.inside(v, space) && (slices.ContainsFunc(s.Lazy[v], waits) || slices.ContainsFunc(s.Queues[v], waits)) {
			return false
		}
	}
	return true
}

// waitsFor reports whether a guaranteed gang could use cells of a chain; one that runs without its
// guarantee needs those around its leaves.
func (s *Finder) waitsFor(e index.Queued, chain int16) bool {
	if e.Prio < cell.MinGuaranteed {
		return false
	}
	j := &s.Jobs[e.Slot]
	if a := s.lazyOf(e); a != nil {
		f := s.Cluster.Forest()
		return slices.ContainsFunc(s.Cluster.Alloc(a.Alloc).Placement.Tasks, func(t cell.Task) bool {
			return len(t.Leaves) > 0 && f.Cells[f.Leaves[t.Leaves[0]]].Chain == chain
		})
	}
	chains, _ := s.Wants(j, e.Gang)
	return chains[chain]
}

// lazyOf is the attempt of a gang that runs without its guarantee; nil, if it does not.
func (s *Finder) lazyOf(e index.Queued) *tables.Attempt {
	if at := s.Jobs[e.Slot].Gangs[e.Gang].Attempt; at != tables.None && s.Attempts[at].Lazy {
		return &s.Attempts[at]
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

func (s *Finder) needsCells(space int32, chain int16) bool {
	var vain []whoAsked
	for v := range int32(len(s.Queues)) {
		if !s.inside(v, space) {
			continue
		}
		if slices.ContainsFunc(s.Lazy[v], func(e index.Queued) bool { return s.waitsFor(e, chain) }) ||
			slices.ContainsFunc(s.Queues[v], func(e index.Queued) bool {
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
func (s *Finder) inVain(e index.Queued, vain *[]whoAsked) bool {
	defer s.Blaming(e.Job)
	j := &s.Jobs[e.Slot]
	this := whoAsked{j.Gangs[e.Gang].Shape.Text, cell.MaxGuaranteed}
	if slices.Contains(*vain, this) {
		return true
	}
	if len(*vain) == vainMost {
		return false
	}
	q := s.Request(Want{J: j, G: e.Gang})
	q.Avoided = nil
	q.Lift = &cell.Lift{Opportunistic: true, Below: cell.MaxGuaranteed + 1}
	all := q
	all.Priority = cell.MaxGuaranteed + 1
	if s.Cluster.FitsLater(&q, s.revocable(&all)) {
		return false
	}
	*vain = append(*vain, this)
	return true
}

// inside reports whether a VC is a space, or lies in one.
func (s *Finder) inside(v, space int32) bool {
	for v > 0 && v != space {
		v = s.Cluster.Space(v).Parent
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
func (s *Finder) couldLift(j *tables.Job, g int, r *cell.Request) bool {
	q := s.Lifting(*r, r.Priority)
	if s.full(j, g, &q) {
		return false
	}
	find := func([]int32) (Plan, bool) {
		_, ok := s.Cluster.Try(&q)
		return Plan{}, ok
	}
	_, ok := find(nil)
	if !ok {
		_, ok = s.PlanRevoking(s.Reservations(q.Space, q.Priority), find)
	}
	return ok
}

// MustWalk reports whether a VC's walk may find something. Where bad hardware is charged to
// somebody, that may lie elsewhere whenever something was settled: somebody may wait no more.
func (s *Finder) MustWalk(space int32) bool {
	return s.AllDirty || s.Charges.News && s.Cluster.Doomed() > 0 || s.Dirty.Spaces[space] || s.Dirty.Itself[space] ||
		s.Dirty.Always[space]
}
