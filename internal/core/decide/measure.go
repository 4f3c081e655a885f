package decide

import (
	"fmt"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Why one Decide comes to an end, and why Decides cannot chase each other.
//
// Let every gang that wants cells stand in one list: first the guaranteed ones,
// in each VC by priority, within a priority by the order of its policy, with the
// members above a minimum behind all others of their priority; then all
// opportunistic ones. Each has a weight: 0 with cells (for a guaranteed gang:
// guaranteed ones), 1 with a promise, 2 with neither, and a guaranteed gang that
// was made opportunistic has 2 again. The measure is the list of weights, and
// measures compare by their first difference.
//
// Every decision of the walk makes the measure smaller. A placement, a promise,
// an upgrade or a kept promise lowers one weight and raises none. A preemption,
// immediate or lazy, and a revoked promise raise weights, but only behind the
// gang that gains by them: that is what assertBehind checks. So one Decide is
// finite, and without a fact or a command from outside, Decides are finite too:
// there is no circle of jobs that take cells from each other.
//
// A gang that joins others on their leaves lowers its weight, too, and other turns change
// none. A move alone raises one, that of the gang which moves: a decision makes at most
// maxMoves of them in a VC, and the gang can come back only by a fact, its death, so
// that moves make no circle by themselves. How many there are in an hour is for the policy
// to bound, or for the VC's configuration where others move for a gang that waits.
//
// Within one Decide more is true: nobody who gained loses again (assertOlder), so
// no attempt is placed and stopped, or upgraded and made opportunistic.

// assertOlder checks that an attempt about to change its standing did not get
// what it has in the Decide that runs.
func (s *Pass) assertOlder(a *tables.Attempt) {
	if a.Since > s.InputsThrough {
		panic(fmt.Sprintf("core: attempt %v gains and loses in one decision (event %d, begun after %d)", a.ID,
			a.Since, s.InputsThrough))
	}
}

// assertBehind checks that an attempt stands behind the gang that it makes room
// for. Over says that the VC's policy put it behind one of its own priority.
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
