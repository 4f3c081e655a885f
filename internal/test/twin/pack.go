package twin

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// part is the tasks of a gang that may go to the same chains.
type part struct {
	skus   []cell.TypeName
	pinned cell.PinnedID
	alike  bool
	tasks  []int32
}

func parts(ms []cell.Member) []part {
	var out []part
	for _, m := range ms {
		i := slices.IndexFunc(out, func(p part) bool { return slices.Equal(p.skus, m.SKUs) && p.pinned == m.Pinned && p.alike == m.Alike })
		if i < 0 {
			i = len(out)
			out = append(out, part{skus: m.SKUs, pinned: m.Pinned, alike: m.Alike})
		}
		for range m.Tasks {
			out[i].tasks = append(out[i].tasks, m.Leaves)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].tasks, func(a, b int32) int { return cmp.Compare(b, a) })
	}
	return out
}

// holding is what a gang may take from: leaves that are free, or were before some of its
// tasks got theirs, and the VC's cells, of which some were bound for this gang.
type holding struct {
	roots, fresh []set
	was, free    set
}

// within is a holding of which nothing was taken.
func within(free set, b binding) holding {
	return holding{roots: b.roots, fresh: b.fresh, was: free, free: free}
}

// pack reports whether a gang's tasks fit the free leaves of the VC's cells:
// every task on one node and, when the gang uses the
// guarantee, in the VC's cells, of which several may lie on one node.
func (t *Twin) pack(r *cell.Request, ps []part, h holding) bool {
	if len(ps) == 0 {
		return t.uses(h)
	}
	p := &ps[0]
	if p.alike {
		return t.packAlike(r, ps, h)
	}
	var bins []set
	for ci := range t.f.Chains {
		if r.Blocked != nil && r.Blocked[ci] && p.pinned == "" {
			continue
		}
		if len(p.skus) > 0 && !slices.Contains(p.skus, t.f.Chains[ci].SKU) {
			continue
		}
		own := t.bins(int16(ci), t.rootsOf(r, p, h.roots), h.free)
		if r.Reach != nil && t.packIn(r, ps, own, h) {
			return true
		}
		bins = append(bins, own...)
	}
	return r.Reach == nil && t.packIn(r, ps, bins, h)
}

// packAlike packs the first part into the cells of one SKU, whichever will do.
func (t *Twin) packAlike(r *cell.Request, ps []part, h holding) bool {
	for ci := range t.f.Chains {
		sku := t.f.Chains[ci].SKU
		if len(ps[0].skus) > 0 && !slices.Contains(ps[0].skus, sku) {
			continue
		}
		one := slices.Clone(ps)
		one[0].skus, one[0].alike = []cell.TypeName{sku}, false
		if t.pack(r, one, h) {
			return true
		}
	}
	return false
}

// packIn packs the first part into some bins, and then the others.
func (t *Twin) packIn(r *cell.Request, ps []part, bins []set, h holding) bool {
	p := &ps[0]
	return t.packTasks(bins, p.tasks, func(rest []set) bool {
		var now set
		for _, b := range rest {
			now |= b
		}
		var was set
		for _, b := range bins {
			was |= b
		}
		next := h
		next.free = h.free&^was | now
		return t.pack(r, ps[1:], next)
	})
}

// uses reports whether the gang can use every cell that was bound for it: one that it
// does not is not bound. On a node it may take any of the leaves that are the VC's.
func (t *Twin) uses(h holding) bool {
	var own set
	for _, root := range h.roots {
		own |= root
	}
	taken := h.was &^ h.free & own
	for id := range t.cells {
		if c := &t.f.Cells[id]; c.Level != t.f.Chains[c.Chain].NodeLevel {
			continue
		}
		node, inside := t.cells[id], int32(0)
		for _, root := range h.fresh {
			switch {
			case root == node || root&node == 0:
			case root&^node == 0 && root&h.was == 0:
				return false
			case root&^node == 0:
				inside++
			}
		}
		if inside > (taken & node).size() {
			return false
		}
	}
	return !slices.ContainsFunc(h.fresh, func(root set) bool { return root&taken == 0 && t.holdsNode(root) })
}

// holdsNode reports whether a node lies in a cell.
func (t *Twin) holdsNode(at set) bool {
	for id := range t.cells {
		if c := &t.f.Cells[id]; c.Level == t.f.Chains[c.Chain].NodeLevel && t.cells[id]&^at == 0 {
			return true
		}
	}
	return false
}

// rootsOf returns the cells that a part may use: the pinned one, or all others.
func (t *Twin) rootsOf(r *cell.Request, p *part, roots []set) []set {
	if p.pinned == "" {
		return roots
	}
	sp := t.c.Space(r.Space)
	var out []set
	for i := range sp.Roots {
		if sp.Roots[i].Pinned == p.pinned {
			out = append(out, t.cells[sp.Roots[i].Cell])
		}
	}
	return out
}

// near reports whether a gang fits when, for each chain with a reach, all leaves
// outside of one cell of that level are taken away, whichever cell that is.
func (t *Twin) near(r *cell.Request, ci int, free set, try func(set) bool) bool {
	if r.Reach == nil || ci == len(t.f.Chains) {
		return try(free)
	}
	if r.Reach[ci] == 0 || r.Reach[ci] > t.f.Chains[ci].Top {
		return t.near(r, ci+1, free, try)
	}
	var all set
	for id := range t.cells {
		if int(t.f.Cells[id].Chain) == ci {
			all |= t.cells[id]
		}
	}
	for id := range t.cells {
		if c := &t.f.Cells[id]; int(c.Chain) == ci && c.Level == r.Reach[ci] && t.near(r, ci+1, free&^all|free&t.cells[id], try) {
			return true
		}
	}
	return false
}

// bins are the free leaves of each node of a chain that lie in the VC's cells.
func (t *Twin) bins(chain int16, roots []set, free set) []set {
	var out []set
	level := t.f.Chains[chain].NodeLevel
	for id := range t.cells {
		if t.f.Cells[id].Chain != chain || t.f.Cells[id].Level != level {
			continue
		}
		var own set
		for _, root := range roots {
			own |= root
		}
		if b := t.cells[id] & own & free; b != 0 {
			out = append(out, b)
		}
	}
	return out
}

// packTasks tries every assignment of tasks to bins; equally full bins are tried
// once. done judges what is left.
func (t *Twin) packTasks(bins []set, tasks []int32, done func([]set) bool) bool {
	if len(tasks) == 0 {
		return done(bins)
	}
	for i, b := range bins {
		if b.size() < tasks[0] {
			continue
		}
		next := slices.Clone(bins)
		for range tasks[0] {
			next[i] &= next[i] - 1
		}
		if t.packTasks(next, tasks[1:], done) {
			return true
		}
	}
	return false
}
