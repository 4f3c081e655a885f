package decide

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Why one Decide ends, and why Decides do not follow each other for ever.
//
// Put all gangs that want cells in one list. First come the guaranteed ones, in each VC by
// priority and, within a priority, in the order of its policy, with members above a minimum
// behind all others of their priority. All opportunistic gangs follow. Each gang has a weight:
// 0 with cells (for a guaranteed gang: guaranteed cells), 1 with a reservation, 2 with neither.
// A guaranteed gang that was demoted has 2 again. The measure is the list of weights, compared
// lexicographically.
//
// Every decision of the walk lowers the measure. A placement, a reservation, an upgrade or a
// fulfilled reservation lowers one weight and raises none. A preemption, immediate or lazy, and
// a revoked reservation raise weights, but only behind the gang that gains: assertBehind checks
// that. So one Decide is finite, and without a fact or a command from outside so is their
// number: jobs cannot take cells from each other in a circle.
//
// A gang that joins others on their leaves lowers its weight as well, and new turns change
// none. Only a move raises a weight: that of the moving gang. A decision makes at most maxMoves
// of them in a VC, and the gang can come back only after a fact, its death, so moves alone make
// no circle. Their number per hour is bounded by the policy, or by the VC's configuration if a
// gang moves for a waiting one.
//
// Within one Decide an attempt that gained does not lose again (assertOlder): none is placed
// and stopped, or upgraded and demoted.

// assertOlder checks that an attempt about to change its standing did not get it in this
// Decide.
func (s *Pass) assertOlder(a *tables.Attempt) {
	if a.SinceSeq > s.InputsThrough {
		panic(fmt.Sprintf("core: attempt %v gains and loses in one decision (event %d, begun after %d)", a.ID,
			a.SinceSeq, s.InputsThrough))
	}
}

// assertBehind checks that an attempt stands behind the gang that takes its cells. With over,
// the VC's policy put it behind a gang of its own priority.
func (s *Pass) assertBehind(by model.AttemptID, loser *tables.Attempt, over bool) {
	p, l := s.Find(by.Job), &s.Jobs[loser.Job]
	al := s.Cluster.Alloc(loser.Alloc)
	opportunistic := al.Opportunistic() && !al.Promised
	guaranteed := p.Spec.Priority >= cell.MinGuaranteed
	switch {
	case guaranteed && opportunistic && !over && s.StandsBefore(loser, p, int(by.Gang)):
		panic(fmt.Sprintf("core: attempt %v (priority %d of %s) would be stopped for %v (priority %d), which stands behind it",
			loser.ID, l.Spec.Priority, l.Spec.VC, by, p.Spec.Priority))
	case guaranteed && opportunistic:
	case guaranteed && p.Spec.VC == l.Spec.VC && l.Spec.Priority < p.Spec.Priority &&
		(over || !p.Spec.Gangs[by.Gang].Extra):
	case guaranteed && p.Spec.VC == l.Spec.VC && l.Spec.Priority == p.Spec.Priority && over:
	default:
		panic(fmt.Sprintf("core: attempt %v (priority %d of %s) would lose its cells to %v (priority %d of %s), which does not stand before it",
			loser.ID, l.Spec.Priority, l.Spec.VC, by, p.Spec.Priority, p.Spec.VC))
	}
	s.assertOlder(loser)
}
