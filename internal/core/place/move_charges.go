package place

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// A charge of bad hardware is a cell of a VC that is bound to a bad cell in its place (HiveD's
// doomed bad cell, cell/charges.go). Charges move as part of the plan of a gang that finds no free
// cells at its turn. That gang then starts or gets a reservation. The walk of a VC stops at
// such a gang (postponed) until all other VCs were walked: gangs that need no move go first, in
// every VC. The others follow by priority and submission, whatever their VC.
//
// Each gang has one turn in a Decide (ChargeMoves.TurnIn). A gang that found nothing before its VC
// stopped has no second turn: it must not take what gangs behind it got since. It is looked at
// in the next decision. The walks end, since each move starts a gang or gives it a reservation.

// Limits for ChargeMoves.MoveBefore. As ChargeMoves.StoppedAt, NoGang means that the walk did not
// stop.
var (
	NoGang    = QueuePos{}
	BeforeAll = QueuePos{prio: cell.MaxGuaranteed + 1}
)

// QueuePos orders waiting gangs of all VCs by priority and submission.
type QueuePos struct {
	prio cell.Priority
	model.GangRef
}

// Compare orders by priority, the highest first, then by submission.
func (a QueuePos) Compare(b QueuePos) int {
	return cmp.Or(cmp.Compare(b.prio, a.prio), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang))
}

// ChargeMoves is what the walks of one Decide share about moving charges.
type ChargeMoves struct {
	MoveBefore   QueuePos              // only gangs before it may move charges
	StoppedAt    QueuePos              // the gang at which the VC's walk stopped; NoGang if none
	AnySettled   bool                  // jobs, nodes or charges were settled before the walks
	Walks        int                   // number of walks of VCs so far
	Tries        int                   // failed tries to move charges, since the last success in this walk
	TurnIn       map[model.GangRef]int // by gang, the walk in which it had its turn; only if charges exist
	BlockedSince uint64                // event after which charges first blocked a gang; 0 if none
}

// Postponed is a VC whose walk stopped at a gang that needs charges moved.
type Postponed struct {
	At    QueuePos
	Space int32
}

// HasTurn reports whether a gang may be tried in this walk: it had no turn in an earlier walk
// of this Decide. It notes the turn.
func (s *Finder) HasTurn(ref model.GangRef) bool {
	if s.Cluster.NumCharges() == 0 {
		return true // no walk stops
	}
	if s.Charges.TurnIn == nil {
		s.Charges.TurnIn = map[model.GangRef]int{}
	}
	if _, had := s.Charges.TurnIn[ref]; !had {
		s.Charges.TurnIn[ref] = s.Charges.Walks
	}
	return s.Charges.TurnIn[ref] == s.Charges.Walks
}

// MaxPostponed bounds how often postponed VCs alternate in one Decide.
const MaxPostponed = 64

// chargeMover looks for other places of the charges, so that one gang fits.
type chargeMover struct {
	s      *Finder
	space  int32 // its VC
	at     QueuePos
	chains []bool          // chains that the gang could use
	needs  map[needed]bool // cache of need
}

type needed struct {
	space int32
	chain int16
}

// ChargeMover returns a gang's mover; nil for opportunistic gangs and where nothing is charged.
func (s *Finder) ChargeMover(j *tables.Job, g int32, chains []bool) *chargeMover {
	if s.Cluster.NumCharges() == 0 || j.Spec.Priority < cell.MinGuaranteed {
		return nil
	}
	return &chargeMover{s: s, space: j.Space, at: QueuePos{j.Spec.Priority, model.GangRef{Job: j.ID, Gang: g}},
		chains: chains, needs: map[needed]bool{}}
}

// moverOf returns the mover of a gang that waits for cells; nil where moving charges would not
// help it, whatever it preempts.
func (s *Finder) moverOf(j *tables.Job, g int, fits func() bool) *chargeMover {
	if s.Cluster.NumCharges() == 0 || s.Charges.Tries > MovingMost || !s.chargesMatter(j) {
		return nil
	}
	chains, _ := s.ChainsAndPins(j, int32(g))
	m := s.ChargeMover(j, int32(g), chains)
	if m != nil {
		if _, ok := m.shift(fits); !ok {
			return nil
		}
	}
	return m
}

// chargesMatter reports whether charges may keep a job from cells. If none is in its VC or around
// it, the healthy cells suffice for the VC's quota. They may still lie on nodes that the job
// may not use, or too far apart.
func (s *Finder) chargesMatter(j *tables.Job) bool {
	if j.Spec.Restricted() || slices.ContainsFunc(s.Cluster.Charges(),
		func(ch cell.Charge) bool { return s.Cluster.SameOutermost(j.Space, ch.Space) }) {
		return true
	}
	f := s.Cluster.Forest()
	return slices.ContainsFunc(s.Cluster.Space(j.Space).Roots,
		func(r cell.Root) bool { return r.Level < f.Chains[r.Chain].NodeLevel })
}

// Plan looks for places of the charges with which try finds a plan. over says that the caller's
// search ends here: with a plan, or because gangs of other VCs move charges first.
func (m *chargeMover) Plan(try func() (Plan, bool)) (p Plan, over, ok bool) {
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
	if m.s.Charges.MoveBefore != NoGang && m.at.Compare(m.s.Charges.MoveBefore) >= 0 {
		if !m.s.IsPostponed() {
			m.s.Charges.StoppedAt = m.at
		}
		return Plan{}, true, false
	}
	p.Shift = sh
	return p, true, true
}

// planFreeingCharged takes the guarantee of lower priorities that use charged cells: such a charge
// cannot move while its cell is in use. Gangs whose jobs do not allow lazy preemption are
// stopped. Nothing is taken unless the gang then gets cells.
func (s *Finder) planFreeingCharged(j *tables.Job, g int, r cell.Request) (Plan, bool) {
	holders := s.onCharged(r.Space, r.Priority)
	if len(holders) == 0 || s.Charges.Tries > MovingMost {
		return Plan{}, false
	}
	chains, _ := s.ChainsAndPins(j, int32(g))
	m := s.ChargeMover(j, int32(g), chains)
	try := func(holders []cell.AllocID) (p Plan, ok bool) {
		ids := s.withAbove(holders)
		defer s.Cluster.DemoteTemporarily(ids)()
		p, _, ok = m.Plan(func() (Plan, bool) {
			q := s.Preempting(r, r.Priority)
			res, ok := s.Cluster.Place(&r)
			if !ok {
				if res, ok = s.Cluster.Place(&q); ok {
					res = s.withExtras(q, res, false)
				}
			}
			return s.unbindingPlan(ids, res), ok
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

// onCharged returns the allocations of a VC below a priority that use charged cells, in the
// order of lazies.
func (s *Finder) onCharged(space int32, prio cell.Priority) []cell.AllocID {
	charged := s.Cluster.ChargesInUse(space)
	if len(charged) == 0 || len(s.Limits(space, prio)) == 1 {
		return nil // or no guaranteed gang has a lower priority
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

// shift looks for places of the charges with which fits is true, and counts its tries.
func (m *chargeMover) shift(fits func() bool) (cell.ChargeMove, bool) {
	s := m.s
	ask := cell.ChargeMoveRequest{Space: m.space, Chains: m.chains, Idle: s.idleVC, Needs: m.need, Fits: fits}
	sh, ok := s.Cluster.MoveCharges(&ask)
	if s.Charges.Tries += ask.Tries; ok {
		s.Charges.Tries = 0 // successful tries do not count
	}
	if ask.Helps && !ok && s.Charges.BlockedSince == 0 {
		s.Charges.BlockedSince = s.Seq // gangs placed later may not need those cells any more
	}
	return sh, ok
}

// IsPostponed reports whether the walk of this VC has stopped until the other VCs were walked.
func (s *Finder) IsPostponed() bool { return s.Charges.StoppedAt != NoGang }

// MovingMost bounds the failed tries to move charges in one walk of a VC. Beyond it, gangs are
// placed without moving charges.
const MovingMost = 64

// vainMost bounds how many shapes of waiting gangs of a VC may prove hopeless.
const vainMost = 16

// idleVC reports whether no guaranteed gang of a VC, or of VCs inside it, waits for cells of a
// chain or for an upgrade there.
func (s *Finder) idleVC(space int32, chain int16) bool {
	for v := range int32(len(s.Queues)) {
		waits := func(e index.Queued) bool { return s.waitsFor(e, chain) }
		if s.inside(v, space) && (slices.ContainsFunc(s.Lazy[v], waits) || slices.ContainsFunc(s.Queues[v], waits)) {
			return false
		}
	}
	return true
}

// waitsFor reports whether a guaranteed gang could use cells of a chain. One that runs lazily
// preempted can use only the cells around its leaves.
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
	chains, _ := s.ChainsAndPins(j, e.Gang)
	return chains[chain]
}

// lazyOf returns a gang's attempt if it runs lazily preempted; nil otherwise.
func (s *Finder) lazyOf(e index.Queued) *tables.Attempt {
	if at := s.Jobs[e.Slot].Gangs[e.Gang].Attempt; at != tables.None && s.Attempts[at].Lazy {
		return &s.Attempts[at]
	}
	return nil
}

// need reports whether a guaranteed gang of a VC, or of VCs inside it, needs cells of a chain.
// A gang that would not fit even an emptied VC needs none.
func (m *chargeMover) need(space int32, chain int16) bool {
	key := needed{space, chain}
	n, known := m.needs[key]
	if !known {
		n = m.s.needsCells(space, chain)
		m.needs[key] = n
	}
	return n
}

// needsCells is need without its cache.
func (s *Finder) needsCells(space int32, chain int16) bool {
	var vain []string
	for v := range int32(len(s.Queues)) {
		if !s.inside(v, space) {
			continue
		}
		if slices.ContainsFunc(s.Lazy[v], func(e index.Queued) bool { return s.waitsFor(e, chain) }) ||
			slices.ContainsFunc(s.Queues[v], func(e index.Queued) bool {
				return s.waitsFor(e, chain) &&
					!s.isHopeless(e, &vain)
			}) {
			return true
		}
	}
	return false
}

// isHopeless reports whether what is charged to a gang's VC keeps it from fitting even if all of
// the VC left: it loses nothing by one more charge. vain collects the shapes that are hopeless.
func (s *Finder) isHopeless(e index.Queued, vain *[]string) bool {
	defer s.BlameJob(e.Job)
	j := &s.Jobs[e.Slot]
	this := j.Gangs[e.Gang].Shape.Text
	if slices.Contains(*vain, this) {
		return true
	}
	if len(*vain) == vainMost {
		return false
	}
	q := s.Request(Want{J: j, G: e.Gang})
	q.Avoided = nil
	q.Preempt = &cell.Preemptible{Opportunistic: true, Below: cell.MaxGuaranteed + 1}
	all := q
	all.Priority = cell.MaxGuaranteed + 1
	if s.Cluster.FitsLater(&q, s.revocable(&all)) {
		return false
	}
	*vain = append(*vain, this)
	return true
}

// inside reports whether a VC is space or lies in it.
func (s *Finder) inside(v, space int32) bool {
	for v > 0 && v != space {
		v = s.Cluster.Space(v).Parent
	}
	return v == space && v > 0
}

// couldPreempt reports whether a request fits if it may preempt lower priorities of its VC and
// revoke their reservations.
func (s *Finder) couldPreempt(j *tables.Job, g int, r *cell.Request) bool {
	q := s.Preempting(*r, r.Priority)
	if s.exceedsAvailable(j, g, &q) {
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

// MustWalk reports whether the walk of a VC may find something. With charges, any settled event
// may: a charge may move once another gang does not need the cells any more.
func (s *Finder) MustWalk(space int32) bool {
	return s.AllDirty || s.Charges.AnySettled && s.Cluster.NumCharges() > 0 || s.Dirty.Guaranteed[space] ||
		s.Dirty.OrderChanged[space] ||
		s.Dirty.Backfills[space]
}
