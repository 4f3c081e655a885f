package policy

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/policy/leases"
)

// A lease holder always finds its cells, though a plan only counts. Each task of a holder is a
// piece: the part of a node (leases.Part) that holds the largest task of its gang. A plan
// counts at least all pieces, and each part divides the next. A holder that finds no room
// preempts all gangs without a lease, and then holders of smaller pieces. That makes room for
// its pieces of q GPUs: every node is made of parts of q; a holder of pieces as large or larger
// takes no more of these of a node than it is counted with, wherever its tasks stand; and the
// plan says that enough are left. No gang has to be placed close together for that. None is
// preempted for its equal, so there is no cycle. Preempted holders are served in their turn,
// from the largest pieces down. The proof asks that no other gang keeps cells: what that takes
// is said in docs/policies.md.
//
// The paper stops all jobs when a lease begins, and places all holders anew, the largest first.
// A start in each lease is part of every estimate, so no preempted holder loses by it.

// pieceHolder is a gang that runs, with the size of its pieces in GPUs; 0 of one that holds no
// lease.
type pieceHolder struct {
	ref       model.GangRef
	sku       cell.TypeName
	piece     int
	losesWork bool // without a checkpoint it would lose its work
	order     int64
}

// largestTask is the leaves of the largest task that a gang can have.
func largestTask(g *model.GangView) int32 {
	most := int32(1)
	for _, m := range g.Members {
		most = max(most, m.Leaves)
	}
	if elastic(g) {
		most = max(most, g.Sizes.MemberLeaves)
	}
	return most
}

// piece is how many GPUs each task of a gang counts as: a part of a node of its room. 0 is no
// room.
func (l *chronusPass) piece(g *model.GangView, r *chronusNote) int {
	i := l.poolOf(g, r.sku)
	if i < 0 {
		return 0
	}
	return leases.Part(int(largestTask(g)), int(l.pools[i].part))
}

// findPreemptible fills preemptible with the running gangs that hold no lease, and
// preemptibleByHolder with those that only a lease holder may preempt: gangs that are measured or
// not judged yet, and holders of smaller pieces.
func (l *chronusPass) findPreemptible() {
	l.preemptible, l.preemptibleByHolder = l.preemptible[:0], l.preemptibleByHolder[:0]
	for g := range l.v.Running() {
		r := readChronusNote(g.Note)
		if r.kind == noteHolds {
			if g.Ref.Gang == 0 {
				l.preemptibleByHolder = append(l.preemptibleByHolder, pieceHolder{g.Ref, r.sku, l.piece(&g, &r), !g.Hints.Checkpoint, g.Order})
			}
			continue
		}
		k := l.placeNow(&g)
		if k.Rank == rankUndecided {
			l.preemptibleByHolder = append(l.preemptibleByHolder, pieceHolder{ref: g.Ref, losesWork: !g.Hints.Checkpoint, order: g.Order})
		}
		l.preemptible = append(l.preemptible, model.Ranked{Ref: g.Ref, Key: k, Order: g.Order, Leaves: gpusHeld(&g)})
	}
	slices.SortFunc(l.preemptible, func(a, b model.Ranked) int { return compare(b, a) })
	slices.SortFunc(l.preemptibleByHolder, func(a, b pieceHolder) int {
		return cmp.Or(cmp.Compare(a.piece, b.piece), compareBools(a.losesWork, b.losesWork), cmp.Compare(b.order, a.order), cmp.Compare(b.ref.Gang, a.ref.Gang))
	})
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// lackingHolder is a gang that holds the lease and lacks cells.
type lackingHolder struct {
	g     model.GangView
	r     chronusNote
	piece int
	gpus  int32
}

// serveHolders serves the gangs that hold the lease and lack cells, or members. They preempt all
// gangs without a lease, and holders of smaller pieces. They come before everything else that
// starts gangs, since a gang that has just started is spared. It reports whether to go on.
func (l *chronusPass) serveHolders() bool {
	all := l.lackingHolders()
	if len(all) == 0 {
		return true
	}
	l.findPreemptible()
	for i := range all {
		if !l.serveHolder(&all[i]) {
			return false
		}
	}
	return true
}

// lackingHolders lists these gangs, the largest pieces first: those that wait, and elastic ones
// that were promised cells or have fewer members than their leases are for.
func (l *chronusPass) lackingHolders() []lackingHolder {
	var out []lackingHolder
	add := func(g model.GangView) {
		r := readChronusNote(g.Note)
		if r.kind != noteHolds || g.Ref.Gang != 0 {
			return
		}
		f := l.forecastOf(&g, &r)
		out = append(out, lackingHolder{g, r, l.piece(&g, &r), max(f.at.gpus, g.Leaves)})
	}
	for r := range l.v.WaitingByKey(math.MaxInt64) {
		if r.Key.Rank > rankHolder {
			break
		}
		if r.Key.Rank == rankHolder {
			add(l.v.Gang(r.Ref))
		}
	}
	if l.elastic {
		for r := range l.v.Promised() {
			if r.Key.Rank == rankHolder {
				add(l.v.Gang(r.Ref))
			}
		}
		for g := range l.v.Running() {
			if elastic(&g) && g.Sizes.Live < membersOn(&g, readChronusNote(g.Note).at.gpus) {
				add(g)
			}
		}
	}
	slices.SortFunc(out, func(a, b lackingHolder) int {
		return cmp.Or(cmp.Compare(b.piece, a.piece), cmp.Compare(b.gpus, a.gpus), cmp.Compare(a.g.Order, b.g.Order))
	})
	return slices.CompactFunc(out, func(a, b lackingHolder) bool { return a.g.Ref == b.g.Ref })
}

// serveHolder wishes for the cells of a holder and, when it has them, for those of its other
// members: they are all part of its lease. It reports whether to go on.
func (l *chronusPass) serveHolder(h *lackingHolder) bool {
	w := l.wish(&h.g)
	w.Preemptible, w.IsBehind, w.IgnoreQuantum = l.behindHolder(h), func(ref model.GangRef) bool { return l.before(h, ref) }, true
	if l.v.Placed(h.g.Ref) { // it runs, or was promised cells
		w.Size = 0
	}
	if h.g.Sizes.Live == 0 && !l.yield(w) {
		return false
	}
	if !elastic(&h.g) {
		return true
	}
	now := l.v.Gang(h.g.Ref)
	if now.Sizes.Live == 0 || now.Sizes.Live >= membersOn(&now, h.r.at.gpus) {
		return true
	}
	n := membersOn(&now, h.r.at.gpus) - now.Sizes.Least
	for w.Size, w.Gang.Gang = 0, 1; w.Gang.Gang <= n; w.Gang.Gang++ {
		if !l.v.Placed(w.Gang) && !l.yield(w) {
			return false
		}
	}
	return true
}

// behindHolder yields the gangs that a holder may preempt, the first to go first.
func (l *chronusPass) behindHolder(h *lackingHolder) iter.Seq[model.GangRef] {
	return func(yield func(model.GangRef) bool) {
		for ref := range behind(slices.Values(l.preemptible), rankUndecided) {
			if !yield(ref) {
				return
			}
		}
		for i := range l.preemptibleByHolder {
			s := &l.preemptibleByHolder[i]
			if s.piece >= h.piece || (s.sku == h.r.sku || s.sku == "") && !yield(s.ref) {
				return
			}
		}
	}
}

// before reports whether a holder goes before another gang that was promised cells, or is booked.
func (l *chronusPass) before(h *lackingHolder, ref model.GangRef) bool {
	g := l.v.Gang(ref)
	r := readChronusNote(g.Note)
	return r.kind != noteHolds || r.sku == h.r.sku && l.piece(&g, &r) < h.piece
}
