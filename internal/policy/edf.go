package policy

import "github.com/combsched/comb/internal/sched"

// bestEffort is added to the rank of gangs that have no deadline left, so that
// they come after all that have one.
const bestEffort = 1 << 61

// newEDF makes the order by earliest deadline. A job with several deadlines (soft)
// counts with the first that has not passed; one whose last has passed, or without
// any, is best effort. With preempt (the default) a gang takes cells back from
// those with later deadlines, and best effort goes by shortest remaining run time;
// without it goes by submission and nobody is stopped.
func newEDF(a *args) *order {
	preempt := a.flag("preempt", true)
	o := &order{preempt: preempt, key: func(v sched.View, g *sched.GangView) key {
		if d, ok := deadline(g, v.Now()); ok {
			return key{rank: int64(d)}
		}
		if !preempt {
			return key{rank: bestEffort}
		}
		return key{rank: bestEffort + min(remaining(g), bestEffort-1)}
	}}
	if preempt {
		o.change = func(v sched.View) sched.Time {
			var next sched.Time
			for g := range v.Running() {
				if d, ok := deadline(&g, v.Now()); ok && (next == 0 || d < next) {
					next = d
				}
			}
			return next
		}
	}
	return o
}

// deadline is the first deadline of a gang's job after now; false when none is left.
func deadline(g *sched.GangView, now sched.Time) (sched.Time, bool) {
	for _, d := range g.Hints.Deadlines {
		if t := g.Submitted.Add(d.After); t > now {
			return t, true
		}
	}
	return 0, false
}
