package policy

import (
	"math"

	"github.com/combsched/comb/internal/core/model"
)

// bestEffort is added to the rank of gangs that have no deadline left, so that
// they come after all that have one.
const bestEffort = 1 << 61

// newEDF makes the order by earliest deadline. A job with several deadlines (soft) counts with
// the first that has not passed; one whose last has passed, or without any, is best effort.
// With preempt (the default) a gang preempts those with later deadlines, and best effort goes
// by shortest remaining run time; without it goes by submission and no gang is preempted.
func newEDF(a *args) model.Policy {
	preempt := a.flag("preempt", true)
	effort := func(g *model.GangView) model.Key {
		if !preempt {
			return model.Key{Rank: bestEffort}
		}
		return model.Key{Rank: bestEffort + min(remaining(g), bestEffort-1)}
	}
	quantum := a.quantum()
	if !preempt {
		quantum = 0
	}
	o := &order{preempt: preempt, quantum: quantum, key: func(g *model.GangView) model.Key {
		if d, ok := deadline(g, 0); ok {
			return model.Key{Rank: int64(d)}
		}
		return effort(g)
	}}
	o.changedKey = func(v model.View, r model.Ranked) (model.Key, bool) {
		if r.Key.Rank > int64(v.Now()) {
			return model.Key{}, false
		}
		g := v.Gang(r.Ref)
		if d, ok := deadline(&g, v.Now()); ok {
			return model.Key{Rank: int64(d)}, true
		}
		return effort(&g), true
	}
	return &timed{o, func(v model.View) model.Time {
		var next model.Time
		sinks := func(g *model.GangView) {
			if d, ok := deadline(g, v.Now()); ok && (next == 0 || d < next) {
				next = d
			}
		}
		if v.Backfills() {
			for r := range v.WaitingByKey(math.MaxInt64) {
				g := v.Gang(r.Ref)
				if sinks(&g); r.Key.Rank > int64(v.Now()) {
					break // by deadline: gangs behind this one miss theirs later
				}
			}
		}
		if !preempt {
			return next
		}
		for g := range v.Running() {
			sinks(&g)
		}
		for r := range v.Promised() { // gangs that were promised cells give them up as well
			g := v.Gang(r.Ref)
			sinks(&g)
		}
		return next
	}}
}

// deadline is the first deadline of a gang's job after now; false when none is left.
func deadline(g *model.GangView, now model.Time) (model.Time, bool) {
	for _, d := range g.Hints.Deadlines {
		if t := g.Submitted.Add(d.After); t > now {
			return t, true
		}
	}
	return 0, false
}
