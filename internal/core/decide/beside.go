package decide

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/place"
	"github.com/combsched/comb/internal/core/tables"
)

// Who starts beside the bookings of others: what a gang must leave alone, and what it takes
// of the rest.

// asking is a gang's question to the outlook.
type asking struct {
	j       *tables.Job
	g       int32
	ref     model.GangRef
	prio    cell.Priority
	length  model.Duration           // with grace; 0 is without end
	over    bool                     // it may stop those behind it
	behind  func(model.GangRef) bool // who they are among the booked, nil for all to come
	blocked []bool                   // chains that it must leave to those before it
	size    int32                    // how many members it is to have; 0 is the usual ones
	others  []bool                   // chains of types that it is not to have
	by      model.Time               // when it must have its cells, though its booking is not looked at; 0 for none
	turn    int64                    // of its booking, 0 where it has none
	turns   bool                     // it asks for what it is booked for
	late    model.Duration           // how much later than told that is free
}

func (o *bookings) asking(j *tables.Job, g int32) asking {
	a := asking{j: j, g: g, ref: model.GangRef{Job: j.ID, Gang: g}, prio: j.Spec.Priority}
	if j.Spec.TimeLimit > 0 {
		a.length = model.Duration(model.Time(j.Spec.TimeLimit).Add(j.Spec.Grace))
	}
	if was := tables.RareOf(j.Gangs[g].Rare).Booked; was != nil && !slices.Contains(o.displaced, a.ref) {
		a.turn = was.Turn
	}
	return a
}

// until is when the gang's cells are free again if it starts at a time: only a
// limit says so, since only a limit is enforced.
func (a asking) until(start model.Time) model.Time {
	if a.length == 0 {
		return forever
	}
	return start.Add(a.length)
}

// passing looks for cells that are to be had now without touching a booking that
// the gang would still be in the way of.
func (o *bookings) passing(a asking) (place.Plan, bool) {
	if i := o.find(a.ref); i >= 0 && o.aside>>i&1 == 0 && o.books[i].free <= o.s.Now {
		a.turns, a.late = true, o.books[i].late()
	}
	end := a.until(o.s.Now)
	p, ok := o.planBeside(a, o.mask(a, o.s.Now, end))
	if !ok || len(p.Victims) == 0 {
		return p, ok
	}
	// It starts when its victims have left, and ends so much later.
	later := end.Add(graceOf(&o.s.Index, p.Victims))
	if o.mask(a, o.s.Now, later) == o.mask(a, o.s.Now, end) {
		return p, true
	}
	return o.planBeside(a, o.mask(a, o.s.Now, forever))
}

func (o *bookings) planBeside(a asking, mask uint64) (place.Plan, bool) {
	gg := &a.j.Gangs[a.g]
	key := passKey{shape: gg.Shape.Text, mask: mask, by: a.by, limit: a.length > 0, aside: o.aside}
	for _, other := range a.others {
		key.shape += map[bool]string{true: "x", false: "o"}[other]
	}
	if i := o.find(a.ref); i >= 0 {
		key.by = o.books[i].free
	}
	if !gg.Avoids() && o.failed[key] {
		return place.Plan{}, false
	}
	keep := o.union(mask)
	if key.by != 0 {
		keep = keep.With(o.leaving(key.by)) // it must not wait for who leaves later
	}
	p, ok := o.planOutside(a, keep)
	if ok {
		o.useKept(a, mask, keep, &p)
	}
	if !ok && !gg.Avoids() {
		o.failed[key] = true
	}
	return p, ok
}

func (o *bookings) planOutside(a asking, keep cell.LeafSet) (place.Plan, bool) {
	return o.s.Plan(o.want(a, keep))
}

// useKept moves a gang that is gone in time onto leaves that are kept for others
// later: those that are not serve gangs which stay longer.
func (o *bookings) useKept(a asking, mask uint64, keep cell.LeafSet, p *place.Plan) {
	later := o.union(o.mask(a, 0, forever) &^ mask)
	if later == nil || p.Disturbs() {
		return
	}
	o.read()
	if in, ok := o.planOutside(a, keep.With(o.idle.Without(later))); ok && !in.Disturbs() {
		*p = in
	}
	cell.SwapLeaves(o.s.Cluster.Forest(), &p.Placement, func(l cell.LeafID) bool {
		return !keep.Has(l) &&
			o.idle.Has(l) && o.unused(l)
	},
		func(l cell.LeafID) model.Time {
			if later.Has(l) {
				return 1
			}
			return 0
		})
}

// unused reports whether nobody holds a leaf or was promised it.
func (o *bookings) unused(l cell.LeafID) bool {
	hold, promised := o.s.Cluster.Holder(l)
	return hold == cell.None && promised == cell.None && !o.s.LeafBad(l)
}

// graceOf is how long it takes holders to leave that are told to.
func graceOf(s *index.Index, victims []cell.AllocID) model.Duration {
	var most model.Duration
	for _, v := range victims {
		most = max(most, s.Jobs[s.Holder(v).Job].Spec.Grace)
	}
	return most
}

// mask names the bookings that a gang must leave alone from one time to another: those of
// others, of its priority or higher, that begin before it ends.
func (o *bookings) mask(a asking, from, to model.Time) uint64 {
	var m uint64
	for i := range o.books {
		b := &o.books[i]
		if !b.over && o.aside>>i&1 == 0 && b.ref != a.ref && b.prio >= a.prio && o.begins(a, b) < to &&
			b.end > from && !o.passes(a, i) {
			m |= 1 << i
		}
	}
	return m
}

// begins is from when on a gang must leave the cells of a booking alone. Who was booked before it
// may use them until the other can begin. Who comes after it must be gone when it was told to
// begin, and when it could if nobody had passed it, or each of them could make it a little later.
// Whose own turn it is may be as much later as the other, and as he is himself, up to a minute:
// lest a few seconds cost him his place.
func (o *bookings) begins(a asking, b *book) model.Time {
	switch {
	case b.start == 0:
		return 0
	case a.turn != 0 && b.prio == a.prio && b.turn > a.turn:
		return b.free
	case a.turns:
		return min(max(b.clear, b.start), b.free).Add(min(a.late, maxUntold))
	}
	return min(b.clear, b.start)
}

func (o *bookings) union(mask uint64) cell.LeafSet {
	var set cell.LeafSet
	for i := range o.books {
		if mask>>i&1 != 0 {
			set = set.With(o.books[i].set)
		}
	}
	return set
}

// kept returns the leaves of the bookings that a gang must leave alone.
func (o *bookings) kept(a asking, from, to model.Time) cell.LeafSet {
	return o.union(o.mask(a, from, to))
}
