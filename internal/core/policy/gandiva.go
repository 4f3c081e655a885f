package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// gandiva is introspective scheduling (Xiao et al., OSDI'18): gangs share devices by
// turns rather than wait, and are packed, unpacked and moved by what is seen of them.
//
// A gang that arrives is placed at once where it can be, in this order: on nodes whose gangs
// want as many devices as it does (their affinity), the least loaded first; on nodes without
// any gang, which take its affinity; on free devices anywhere; and when none are free, beside
// gangs of its affinity, the least loaded devices first, with which it takes turns
// (time-slicing). Else it waits. When a gang departs the waiting gangs are looked at again, in
// order of submission, and then the running ones (gandiva_introspection.go).
//
// Only gangs whose jobs allow it share: see the hints suspendable and packable.
type gandiva struct {
	// quantum=60 seconds: how long a turn is, as in the paper.
	quantum model.Duration
	// sharers=4: at most so many gangs share devices (ours: the paper has no limit).
	sharers int64
	// pack=true: gangs that take turns are packed by what is seen of them, as the paper
	// does when the cluster is overloaded.
	pack bool
	// window=300 seconds of running: for how long a gang is watched before it is packed,
	// and packed before that is judged (ours: the paper says some minutes).
	window model.Duration
	// moves=10 an hour: how many gangs may be moved (ours), 0 for none.
	moves int64
	// settle=600 seconds: how long a gang runs before it is moved (ours).
	settle model.Duration
	// grow=300 seconds: how long GPUs are idle on the nodes of an elastic job, while no gang
	// waits, before it grows there (ours: the paper says after an idle delay); below 0 no job
	// grows.
	grow model.Duration
	// free=0.75: a node with at least this part of its devices free is emptied if that
	// is possible: the paper's three of four.
	free int64
}

// RestrictsNodes implements model.RestrictsNodes: affinity.
func (p *gandiva) RestrictsNodes() bool { return true }

func newGandiva(a *args) model.Policy {
	return &gandiva{
		quantum: a.seconds("quantum", 60, 1, 86_400),
		sharers: a.number("sharers", 4, 1, 16),
		pack:    a.flag("pack", true),
		window:  a.seconds("window", 300, 1, 86_400),
		moves:   a.number("moves", 10, 0, 1000),
		settle:  a.seconds("settle", 600, 1, maxLease),
		free:    a.thousandths("free", 750, 1, 1000),
		grow:    a.patience("grow", 300*model.Second),
	}
}

// Needs implements model.NeedsAbilities.
func (p *gandiva) Needs() []model.Ability {
	switch {
	case p.sharers == 1:
		return nil
	case p.pack:
		return []model.Ability{model.CanSuspend, model.CanPack}
	}
	return []model.Ability{model.CanSuspend}
}

// Rank implements model.Policy: gangs that move first, then in order of submission.
func (p *gandiva) Rank(v model.View) iter.Seq[model.Wish] {
	return func(yield func(model.Wish) bool) {
		r := &reaction{p: p, v: v, misses: map[string]bool{}, yield: yield}
		if v.Elastic() && !r.restoreUsualSizes() {
			return
		}
		if v.Moving() {
			var first []model.GangView
			for g := range v.Waiting() {
				if g.Moved {
					first = append(first, g)
				}
			}
			for i := range first {
				if !r.serve(&first[i]) {
					return
				}
			}
		}
		q := v.Queue()
		for g, more := q.Next(); more; {
			switch {
			case g.Moved:
			case g.Shape != "" && !r.placeable(&g) && !r.shrinkable(&g) && !r.hosted(&g):
				g, more = q.NextShape()
				continue
			case !r.serve(&g):
				return
			}
			g, more = q.Next()
		}
	}
}

// reaction is the paper's reactive mode: one pass over the gangs that wait.
type reaction struct {
	p         *gandiva
	v         model.View
	misses    map[string]bool // shapes for which there are no cells in this pass
	occupancy *occupancy
	grown     int64 // GPUs of members above the usual sizes
	yield     func(model.Wish) bool
}

// placeable reports whether a gang might get cells of its own.
func (r *reaction) placeable(g *model.GangView) bool {
	return int64(g.Leaves) <= r.v.Free() && (g.Shape == "" || !r.misses[g.Shape])
}

// hosted reports whether there are gangs beside which those of that size might run.
func (r *reaction) hosted(g *model.GangView) bool {
	return r.p.sharers > 1 && slices.ContainsFunc(r.v.Allocations(), func(a *model.Allocation) bool { return r.p.hosts(a, g.Leaves) })
}

// hosts reports whether a gang of that many leaves may time-share with the gangs of an allocation.
func (p *gandiva) hosts(a *model.Allocation, leaves int32) bool {
	return a.Leaves == leaves && a.Steady && int64(len(a.Gangs)) < p.sharers && a.Sharers[0].Hints.Suspendable
}

// occupancy is where gangs of the VC run, as of some moment.
type occupancy struct {
	allocs []*model.Allocation
	used   map[int32]*occupiedNode // by number of the node
	// their numbers, by the first gang on each, whatever other VCs there are
	nodes []int32
}

// occupiedNode is a node with gangs of the VC.
type occupiedNode struct {
	affinity int32 // devices that its gangs want; that of the largest
	gangs    int
}

// readOccupancy reads the gangs that run.
func readOccupancy(v model.View) *occupancy {
	f := &occupancy{allocs: v.Allocations(), used: map[int32]*occupiedNode{}}
	for _, a := range f.allocs {
		for _, n := range a.Nodes {
			m := f.used[n]
			if m == nil {
				m = &occupiedNode{}
				f.used[n] = m
				f.nodes = append(f.nodes, n)
			}
			m.affinity = max(m.affinity, a.Leaves)
			m.gangs += len(a.Gangs)
		}
	}
	return f
}

// serve wishes for what can be done for one gang, the best first; false when no more wishes are
// heard.
func (r *reaction) serve(g *model.GangView) bool {
	switch {
	case g.Delayed:
		return true
	case r.v.Placed(g.Ref): // it was promised cells, or waits for its guarantee
		return r.yield(model.Wish{Gang: g.Ref})
	}
	if r.placeable(g) || r.shrinkable(g) {
		if !r.place(g) {
			return false
		}
		if r.v.Placed(g.Ref) {
			r.occupancy = nil
			return true
		}
		r.misses[g.Shape] = true
	}
	if !g.Hints.Suspendable || r.p.sharers < 2 {
		return true
	}
	return r.join(g)
}

// place tries free cells: of the gang's affinity, of none, and of any. Only when none of these
// are free is opportunistic work preempted for it, wherever that is least, and then members of
// jobs that have grown leave.
func (r *reaction) place(g *model.GangView) bool {
	if r.occupancy == nil {
		r.occupancy = readOccupancy(r.v)
	}
	if g.Moved { // its new place is found
		return r.yield(model.Wish{Gang: g.Ref})
	}
	for _, n := range r.alike(g) {
		if !r.yield(model.Wish{Gang: g.Ref, OnlyNodes: cell.NodeSet{}.Add(n), FreeOnly: true}) {
			return false
		} else if r.v.Placed(g.Ref) {
			return true
		}
	}
	if empty := r.empty(); len(r.occupancy.nodes) > 0 && !r.yield(model.Wish{Gang: g.Ref, OnlyNodes: empty, FreeOnly: true}) {
		return false
	}
	return r.v.Placed(g.Ref) || r.yield(model.Wish{Gang: g.Ref, ShrinkOthers: r.grown > 0})
}

// mostTried bounds how many nodes, or gangs to share with, are tried for one gang.
const mostTried = 8

// alike returns nodes with gangs of the same affinity and room, the least loaded first.
func (r *reaction) alike(g *model.GangView) []int32 {
	type node struct {
		n    int32
		load int64 // in millionths
	}
	var all []node
	for _, n := range r.occupancy.nodes {
		if r.occupancy.used[n].affinity != g.Leaves {
			continue
		}
		if free, of := r.v.Idle(n); free >= int64(g.Leaves) {
			all = append(all, node{n, (of - free) * 1_000_000 / of})
		}
	}
	slices.SortStableFunc(all, func(a, b node) int { return cmp.Compare(a.load, b.load) })
	var out []int32
	for _, n := range all[:min(len(all), mostTried)] {
		out = append(out, n.n)
	}
	return out
}

// empty are the nodes on which no gang of the VC runs.
func (r *reaction) empty() cell.NodeSet {
	out := cell.NodeSet{}
	for n := range r.v.Machines() {
		if r.occupancy.used[n] == nil {
			out = out.Add(n)
		}
	}
	return out
}

// join tries devices on which gangs of the same shape run, those with the fewest first.
func (r *reaction) join(g *model.GangView) bool {
	var hosts []*model.Allocation
	for _, a := range r.v.Allocations() {
		if r.p.hosts(a, g.Leaves) {
			hosts = append(hosts, a)
		}
	}
	slices.SortStableFunc(hosts, func(a, b *model.Allocation) int { return cmp.Compare(len(a.Gangs), len(b.Gangs)) })
	for _, a := range hosts[:min(len(hosts), mostTried)] {
		turns := append(slices.Clone(turnsOf(a)), []model.GangRef{g.Ref})
		if !r.yield(model.Wish{Gang: g.Ref, Turns: turns, Quantum: r.p.quantum}) {
			return false
		}
		if r.v.Placed(g.Ref) {
			r.occupancy = nil
			return true
		}
	}
	return true
}

// turnsOf are the turns of an allocation; of one gang alone, its own.
func turnsOf(a *model.Allocation) [][]model.GangRef {
	if a.Turns == nil {
		return [][]model.GangRef{a.Gangs}
	}
	return a.Turns
}
