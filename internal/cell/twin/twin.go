// Package twin is a second allocator for small clusters, for tests: it knows
// nothing but the definitions, tries every possibility and shares no code with
// the search that it judges. Cells are sets of leaves, written as bits.
package twin

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
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
}

// Of returns the twin of a cluster, which it reads at every question.
func Of(c *cell.Cluster) *Twin {
	t := &Twin{c: c, f: c.Forest()}
	if len(t.f.Leaves) > Most {
		panic("twin: the cluster has too many leaves to try everything")
	}
	t.cells = make([]set, len(t.f.Cells))
	for i := range t.cells {
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

// debt is a preassigned cell that is not bound: it must be obtainable.
type debt struct {
	chain int16
	level cell.Level
}

// ledger is who has which cells: the debts of all VCs and what is bound.
type ledger struct {
	debts []debt
	bound set
}

func (l *ledger) sort() {
	slices.SortFunc(l.debts, func(a, b debt) int {
		return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(b.level, a.level))
	})
}

// Gone says which holders to leave out of the picture; nil is none.
type Gone func(cell.AllocID) bool

// bound reports whether a root still stands for a cell when some holders are
// gone: somebody who uses the guarantee is left in it, or it is pinned or doomed.
func (t *Twin) bound(space int32, r *cell.Root, gone Gone) bool {
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

// ledger adds up what all VCs but one are owed and have bound.
func (t *Twin) ledger(except int32, gone Gone) ledger {
	var out ledger
	for si := int32(1); si < t.c.NumSpaces(); si++ {
		sp := t.c.Space(si)
		if si == except || sp.Parent != 0 {
			continue
		}
		for i := range sp.Roots {
			r := &sp.Roots[i]
			if t.bound(si, r, gone) {
				out.bound |= t.cells[r.Cell]
			} else {
				out.debts = append(out.debts, debt{r.Chain, r.Level})
			}
		}
	}
	out.sort()
	return out
}

// Safe reports whether all guarantees of all VCs can be had at once, whatever
// opportunistic work is there: every unbound preassigned cell gets a cell of its
// own among those that are not bound.
func (t *Twin) Safe() bool {
	l := t.ledger(0, nil)
	return t.pay(l.debts, l.bound, ^set(0), 0)
}

// Sound reports whether the guarantees could be had at once on healthy cells only.
func (t *Twin) Sound() bool {
	l := t.ledger(0, nil)
	return t.pay(l.debts, l.bound, t.healthy(), 0)
}

func (t *Twin) healthy() set {
	var out set
	for l := range cell.LeafID(len(t.f.Leaves)) {
		if !t.c.LeafBad(l) && t.c.Blame(t.f.Cells[t.f.Leaves[l]].Node) == 0 {
			out |= 1 << l
		}
	}
	return out
}

// pay gives the debts, sorted, cells outside taken and within some leaves; equal
// debts take rising cells.
func (t *Twin) pay(debts []debt, taken, within set, from cell.CellID) bool {
	if len(debts) == 0 {
		return true
	}
	d := debts[0]
	for id := from; int(id) < len(t.cells); id++ {
		c := &t.f.Cells[id]
		if c.Level != d.level || c.Chain != d.chain || t.cells[id]&(taken|^within) != 0 {
			continue
		}
		next := cell.CellID(0)
		if len(debts) > 1 && debts[1] == d {
			next = id + 1
		}
		if t.pay(debts[1:], taken|t.cells[id], within, next) {
			return true
		}
	}
	return false
}

// usable are the leaves that a request may take when some holders are gone.
func (t *Twin) usable(r *cell.Request, gone Gone) set {
	var out set
	for l := range cell.LeafID(len(t.f.Leaves)) {
		node := t.f.Cells[t.f.Leaves[l]].Node
		if r.Allowed != nil && !r.Allowed.Has(node) || r.Avoided.Has(node) || r.Keep.Has(l) {
			continue
		}
		if !r.IgnoreHealth && (t.c.LeafBad(l) || t.c.Blame(node) != 0) {
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
// every way to bind some of the VC's cells.
func (t *Twin) Fits(r *cell.Request, gone Gone) bool {
	free := t.usable(r, gone)
	if r.Priority < cell.MinGuaranteed {
		return t.pack(r, parts(r.Members), []set{^set(0)}, free)
	}
	others := t.ledger(r.Space, gone)
	own := ledger{}
	var roots []set
	sp := t.c.Space(r.Space)
	for i := range sp.Roots {
		root := &sp.Roots[i]
		switch {
		case root.Pinned != "":
			others.bound |= t.cells[root.Cell]
		case t.bound(r.Space, root, gone):
			roots = append(roots, t.cells[root.Cell])
			others.bound |= t.cells[root.Cell]
		default:
			own.debts = append(own.debts, debt{root.Chain, root.Level})
		}
	}
	own.sort()
	ps := parts(r.Members)
	sound, healthy := t.Sound(), t.healthy()
	return t.bind(own.debts, 0, roots, others.bound, func(roots []set, taken set, left []debt) bool {
		owed := ledger{debts: slices.Concat(others.debts, left)}
		owed.sort()
		return t.pack(r, ps, roots, free) && t.pay(owed.debts, taken, ^set(0), 0) &&
			(!sound || t.pay(owed.debts, taken, healthy, 0))
	})
}

// bind tries every way to give debts cells outside taken; those that get none are
// left.
func (t *Twin) bind(debts []debt, from cell.CellID, roots []set, taken set, try func([]set, set, []debt) bool) bool {
	if len(debts) == 0 {
		return try(roots, taken, nil)
	}
	if try(roots, taken, debts) {
		return true
	}
	d := debts[0]
	for id := from; int(id) < len(t.cells); id++ {
		c := &t.f.Cells[id]
		if c.Level != d.level || c.Chain != d.chain || t.cells[id]&taken != 0 {
			continue
		}
		next := cell.CellID(0)
		if len(debts) > 1 && debts[1] == d {
			next = id + 1
		}
		if t.bind(debts[1:], next, append(slices.Clip(roots), t.cells[id]), taken|t.cells[id], try) {
			return true
		}
	}
	rest := slices.IndexFunc(debts, func(o debt) bool { return o != d })
	if rest < 0 {
		return false
	}
	return t.bind(debts[rest:], 0, roots, taken, func(roots []set, taken set, left []debt) bool {
		return try(roots, taken, slices.Concat(debts[:rest], left))
	})
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
