// Package twin is a second allocator for small clusters, for tests: it knows
// nothing but the definitions, tries every possibility and shares no code with
// the search that it judges. Cells are sets of leaves, written as bits.
package twin

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Most is how many leaves a cluster may have to be judged.
const Most = 64

// set is a set of leaves.
type set uint64

func (s set) size() int32 {
	n := int32(0)
	for ; s != 0; s &= s - 1 {
		n++
	}
	return n
}

// Twin is a cluster as it was when Of looked at it.
type Twin struct {
	// Moves lets the preassigned cells of holders that are gone be bound anew
	// elsewhere; without it they stay where they are.
	Moves bool
	c     *cell.Cluster
	f     *cell.Forest
	cells []set // of each cell
	well  bool  // nothing is bad in the present question, and so nothing charged
}

// Of returns the twin of a cluster, which it reads at every question.
func Of(c *cell.Cluster) *Twin {
	t := &Twin{c: c, f: c.Forest()}
	if len(t.f.Leaves) > Most {
		panic("twin: the cluster has too many leaves to try everything")
	}
	t.cells = make([]set, len(t.f.Cells))
	for i := range t.cells {
		if t.f.Cells[i].Level == 0 {
			continue // it is missing
		}
		first := t.f.Cells[i].FirstLeaf
		for l := first; l < first+cell.LeafID(t.f.NumLeaves(cell.CellID(i))); l++ {
			t.cells[i] |= 1 << l
		}
	}
	return t
}

// With returns the twin of another cluster of the same shape, which shares what
// was found out about the shape.
func (t *Twin) With(c *cell.Cluster) *Twin {
	if c.Forest() != t.f {
		return Of(c)
	}
	return &Twin{Moves: t.Moves, c: c, f: t.f, cells: t.cells}
}

// Gone says which holders to leave out of the picture; nil is none.
type Gone func(cell.AllocID) bool

// bound reports whether a root still stands for a cell when some holders are
// gone: somebody who uses the guarantee is left in it, or it is pinned or doomed.
func (t *Twin) bound(space int32, r *cell.Root, gone Gone) bool {
	if t.well && r.Cell != cell.None && t.spared(space, r) {
		return false
	}
	if r.Cell == cell.None || r.Pinned != "" || r.Used == 0 || gone == nil || !t.Moves {
		return r.Cell != cell.None
	}
	first := t.f.Cells[r.Cell].FirstLeaf
	for l := first; l < first+cell.LeafID(t.f.NumLeaves(r.Cell)); l++ {
		hold, promised := t.c.Holder(l)
		for _, id := range []cell.AllocID{hold, promised} {
			if id == cell.None || gone(id) {
				continue
			}
			if a := t.c.Alloc(id); a.Space == space && !a.Opportunistic() {
				return true
			}
		}
	}
	return false
}

// spared reports whether a root stands for bad hardware alone: nobody uses it, or what is bound
// in it, of a container, does so too.
func (t *Twin) spared(space int32, r *cell.Root) bool {
	if r.Pinned != "" {
		return false
	}
	if space < t.c.NumSpaces() {
		return r.Doomed && r.Used == 0
	}
	for _, si := range t.spaces() {
		sp := t.c.Space(si)
		for i := range sp.Roots {
			in := &sp.Roots[i]
			if sp.Parent == space && in.Cell != cell.None && in.Pinned == "" && t.cells[in.Cell]&^t.cells[r.Cell] == 0 && !t.spared(si, in) {
				return false
			}
		}
	}
	return true
}

// claim is a root that is not bound: it must be able to get a cell of its own,
// inside one of the cells of the space that it is part of.
type claim struct {
	up    int32 // the container
	into  int32 // the container whose root this is, 0 for a VC's
	chain int16
	level cell.Level
}

// ground is what a container has: its roots, and what is taken of them.
type ground struct {
	roots []set
	taken set
}

// ledger is who has which cells.
type ledger struct {
	grounds map[int32]*ground // by container
	first   []claim           // the asking VC's containers' and its own
	rest    []claim
	own     []set // what the asking VC has bound
}

// spaces lists all spaces, containers before what is part of them.
func (t *Twin) spaces() []int32 {
	var out []int32
	var add func(si int32)
	add = func(si int32) {
		if si == 0 || slices.Contains(out, si) {
			return
		}
		add(t.c.Space(si).Parent)
		out = append(out, si)
	}
	for si := int32(1); si < t.c.NumSpaces(); si++ {
		add(si)
	}
	return out
}

// ledger adds up who has what, with the claims of one VC and of what it is part
// of apart; 0 is nobody's.
func (t *Twin) ledger(asking int32, gone Gone) ledger {
	all := t.spaces()
	out := ledger{grounds: map[int32]*ground{0: {roots: []set{^set(0)}}}}
	line := map[int32]bool{}
	for si := asking; si != 0; si = t.c.Space(si).Parent {
		line[si] = true
	}
	for _, si := range all {
		if si >= t.c.NumSpaces() {
			out.grounds[si] = &ground{}
		}
	}
	for _, si := range all {
		sp := t.c.Space(si)
		into := int32(0)
		if si >= t.c.NumSpaces() {
			into = si
		}
		for i := range sp.Roots {
			r := &sp.Roots[i]
			if t.bound(si, r, gone) {
				out.bound(claim{up: sp.Parent, into: into}, t.cells[r.Cell], r)
				if si == asking && r.Pinned == "" {
					out.own = append(out.own, t.cells[r.Cell])
				}
				continue
			}
			list := &out.rest
			if line[si] {
				list = &out.first
			}
			*list = append(*list, claim{sp.Parent, into, r.Chain, r.Level})
		}
	}
	sortClaims(out.rest)
	return out
}

// bound notes a root that has its cell.
func (l *ledger) bound(c claim, at set, r *cell.Root) {
	if r.Pinned != "" {
		c.up = 0
	}
	l.grounds[c.up].taken |= at
	if c.into != 0 {
		l.grounds[c.into].roots = append(l.grounds[c.into].roots, at)
	}
}

// sortClaims puts containers before what is part of them, and equal claims together.
func sortClaims(cs []claim) {
	slices.SortStableFunc(cs, func(a, b claim) int {
		return cmp.Or(cmp.Compare(min(1, b.into), min(1, a.into)), cmp.Compare(a.up, b.up), cmp.Compare(a.into, b.into),
			cmp.Compare(a.chain, b.chain), cmp.Compare(b.level, a.level))
	})
}

// Safe reports whether all guarantees of all VCs can be had at once, whatever
// opportunistic work is there: every unbound preassigned cell gets a cell of its
// own among those that are not bound.
func (t *Twin) Safe() bool {
	l := t.ledger(0, nil)
	return t.pay(&l, l.rest, ^set(0), 0)
}

// Sound reports whether the guarantees could be had at once on healthy cells only.
func (t *Twin) Sound() bool {
	l := t.ledger(0, nil)
	return t.pay(&l, l.rest, t.healthy(), 0)
}

func (t *Twin) healthy() set {
	var out set
	for l := range cell.LeafID(len(t.f.Leaves)) {
		if !t.c.LeafBad(l) && t.c.NodeFaults(t.f.Cells[t.f.Leaves[l]].Node) == 0 {
			out |= 1 << l
		}
	}
	return out
}

// give gives a claim each cell that it may have, from the cell `from` on, until
// next is content with one.
func (t *Twin) give(l *ledger, d claim, within set, from cell.CellID, next func(cell.CellID) bool) bool {
	up := l.grounds[d.up]
	for id := from; int(id) < len(t.cells); id++ {
		at := t.cells[id]
		if c := &t.f.Cells[id]; c.Level != d.level || c.Chain != d.chain || !t.f.Whole(id) || at&(up.taken|^within) != 0 || !inside(at, up.roots) {
			continue
		}
		up.taken |= at
		if d.into != 0 {
			l.grounds[d.into].roots = append(l.grounds[d.into].roots, at)
		}
		ok := next(id)
		up.taken &^= at
		if d.into != 0 {
			in := l.grounds[d.into]
			in.roots = in.roots[:len(in.roots)-1]
		}
		if ok {
			return true
		}
	}
	return false
}

func inside(at set, roots []set) bool {
	return slices.ContainsFunc(roots, func(r set) bool { return at&^r == 0 })
}

// pay gives all claims, sorted, cells within some leaves; equal claims take
// rising cells.
func (t *Twin) pay(l *ledger, claims []claim, within set, from cell.CellID) bool {
	if len(claims) == 0 {
		return true
	}
	return t.give(l, claims[0], within, from, func(id cell.CellID) bool {
		next := cell.CellID(0)
		if len(claims) > 1 && claims[1] == claims[0] {
			next = id + 1
		}
		return t.pay(l, claims[1:], within, next)
	})
}

// usable are the leaves that a request may take when some holders are gone.
func (t *Twin) usable(r *cell.Request, gone Gone) set {
	var out set
	for l := range cell.LeafID(len(t.f.Leaves)) {
		node := t.f.Cells[t.f.Leaves[l]].Node
		if r.Allowed != nil && !r.Allowed.Has(node) || r.Avoided.Has(node) || r.Excluded.Has(l) {
			continue
		}
		if !r.IgnoreHealth && (t.c.LeafBad(l) || t.c.NodeFaults(node) != 0) {
			continue
		}
		hold, promised := t.c.Holder(l)
		if left(hold, gone) || left(promised, gone) {
			continue
		}
		out |= 1 << l
	}
	return out
}

func left(id cell.AllocID, gone Gone) bool { return id != cell.None && (gone == nil || !gone(id)) }

// Fits reports whether a gang could get leaves when some holders are gone, with
// every guarantee still obtainable, on healthy cells if it was so before. It tries
// every way to bind some of the VC's cells for the gang, all of which it must use: what it
// does not use is still owed.
func (t *Twin) Fits(r *cell.Request, gone Gone) bool {
	free, ps := t.usable(r, gone), parts(r.Members)
	packs := func(b binding) bool {
		return t.near(r, 0, free, func(free set) bool { return t.pack(r, ps, within(free, b)) })
	}
	switch all := (binding{roots: []set{^set(0)}}); {
	case r.Priority < cell.MinGuaranteed:
		return packs(all)
	case !packs(all):
		return false // not even if all cells were its own
	}
	t.well = r.IgnoreHealth
	l := t.ledger(r.Space, gone)
	t.well = false
	sortClaims(l.first)
	sound, healthy := !r.IgnoreHealth && t.Sound(), t.healthy()
	return t.bind(&l, l.first, 0, binding{roots: l.own}, func(b binding) bool {
		return !slices.ContainsFunc(b.outer, b.hollow) && packs(b) && t.owes(&l, b, sound, healthy)
	})
}

// owes reports whether all that is still owed after a binding can be had, of healthy cells
// alone too if that matters.
func (t *Twin) owes(l *ledger, b binding, sound bool, healthy set) bool {
	owed := slices.Concat(l.rest, b.left)
	sortClaims(owed)
	return t.pay(l, owed, ^set(0), 0) && (!sound || t.pay(l, owed, healthy, 0))
}

// Upgrades reports whether an allocation that became opportunistic could be guaranteed
// again on the leaves that it holds: they lie in cells that its VC has, or may have bound
// around them and around nothing else, with every other guarantee still obtainable, on
// healthy cells if it was so before.
func (t *Twin) Upgrades(id cell.AllocID) bool {
	a := t.c.Alloc(id)
	var all set
	for _, task := range a.Placement.Tasks {
		for _, l := range task.Leaves {
			all |= 1 << l
		}
	}
	l := t.ledger(a.Space, nil)
	sortClaims(l.first)
	own := slices.Clone(l.own)
	for i := range t.c.Space(a.Space).Roots {
		if r := &t.c.Space(a.Space).Roots[i]; r.Pinned != "" {
			own = append(own, t.cells[r.Cell])
		}
	}
	sound, healthy := t.Sound(), t.healthy()
	return t.bind(&l, l.first, 0, binding{roots: own}, func(b binding) bool {
		left := all
		for _, r := range b.roots {
			left &^= r
		}
		idle := func(in set) bool { return in&all == 0 }
		if left != 0 || slices.ContainsFunc(b.fresh, idle) || slices.ContainsFunc(b.outer, b.hollow) {
			return false
		}
		return t.owes(&l, b, sound, healthy)
	})
}

// binding is the cells that a VC has, those of them that were bound for the gang, those that
// were bound for containers around these, and the claims that were left unbound.
type binding struct {
	roots, fresh, outer []set
	left                []claim
}

// hollow reports whether nothing was bound inside of a cell.
func (b *binding) hollow(outer set) bool {
	return !slices.ContainsFunc(b.fresh, func(in set) bool { return in&^outer == 0 })
}

// bind tries every way to give some of the claims cells.
func (t *Twin) bind(l *ledger, claims []claim, from cell.CellID, b binding, try func(binding) bool) bool {
	if len(claims) == 0 {
		return try(b)
	}
	d := claims[0]
	if t.give(l, d, ^set(0), from, func(id cell.CellID) bool {
		next, now := cell.CellID(0), b
		if len(claims) > 1 && claims[1] == d {
			next = id + 1
		}
		if d.into != 0 {
			now.outer = append(slices.Clip(b.outer), t.cells[id])
		} else {
			now.roots = append(slices.Clip(b.roots), t.cells[id])
			now.fresh = append(slices.Clip(b.fresh), t.cells[id])
		}
		return t.bind(l, claims[1:], next, now, try)
	}) {
		return true
	}
	same := 1
	for same < len(claims) && claims[same] == d {
		same++
	}
	b.left = slices.Concat(b.left, claims[:same])
	return t.bind(l, claims[same:], 0, b, try)
}

// Victims returns the smallest number of candidates that must go, besides those
// that leave anyway, so that a gang fits; false when not even all are enough. It
// tries all sets, small ones first.
func (t *Twin) Victims(r *cell.Request, candidates, leaving []cell.AllocID) (int, bool) {
	if !t.Fits(r, among(candidates, leaving)) {
		return 0, false
	}
	for n := 0; n < len(candidates); n++ {
		if t.some(r, candidates, leaving, n) {
			return n, true
		}
	}
	return len(candidates), true
}

// some reports whether any n of the candidates, with those chosen, are enough.
func (t *Twin) some(r *cell.Request, candidates, chosen []cell.AllocID, n int) bool {
	if n == 0 {
		return t.Fits(r, among(chosen, nil))
	}
	for i := range candidates {
		if len(candidates)-i >= n && t.some(r, candidates[i+1:], append(slices.Clip(chosen), candidates[i]), n-1) {
			return true
		}
	}
	return false
}

func among(a, b []cell.AllocID) Gone {
	return func(id cell.AllocID) bool { return slices.Contains(a, id) || slices.Contains(b, id) }
}
