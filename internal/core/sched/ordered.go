package sched

import (
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/model"
)

// Ordered implements View. The gangs that wait for an upgrade, which are few, get
// their keys now.
func (v view) Ordered(from int64) iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		s := v.s
		s.askLines(v.space, byKey)
		m := merge{s: &s.index, space: v.space, prio: v.prio, heads: s.mem.heads[:0]}
		s.mem.heads = nil // who reads a second time meanwhile takes other memory
		defer func() { s.mem.heads = m.heads }()
		m.addFull()
		lazies := v.keyedLazies()
		for {
			e, ok := m.first(v.w.fruitless())
			if ok && e.key.Rank >= from && int64(s.jobs[e.slot].gangs[e.gang].leaves) > v.Free() {
				m.pass()
				continue
			}
			if len(lazies) > 0 && (!ok || lazies[0].compare(e) < 0) {
				e, lazies = lazies[0], lazies[1:]
			} else if !ok {
				return
			}
			lazy := !s.jobs[e.slot].gangs[e.gang].waiting
			if !yield(Ranked{GangRef{e.job, e.gang}, e.key, int64(e.job), s.jobs[e.slot].gangs[e.gang].leaves}) {
				return
			}
			if !lazy {
				m.next()
			}
		}
	}
}

// keyedLazies are the gangs of the view that wait for an upgrade, in order.
func (v view) keyedLazies() []queued {
	lazies := v.s.laziesAt(v.space, v.prio, false)
	k, ok := v.s.pol[v.space].(Keyed)
	if !ok {
		return lazies
	}
	for i := range lazies {
		g := v.s.gangView(lazies[i])
		was := v.s.ask(v.space)
		lazies[i].key = k.Key(&g)
		v.s.ask(was)
	}
	slices.SortFunc(lazies, queued.compare)
	return lazies
}

// Gang implements View.
func (v view) Gang(r GangRef) GangView {
	slot, ok := v.s.slots.Get(r.Job)
	if !ok || r.Gang < 0 || int(r.Gang) >= len(v.s.jobs[slot].gangs) {
		return GangView{Ref: r, Hints: &model.Hints{}}
	}
	return v.s.gangView(queued{prio: v.prio, job: r.Job, gang: r.Gang, slot: slot})
}
