package twin

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/cell"
)

// part is the tasks of a gang that may go to the same chains.
type part struct {
	skus   []cell.TypeName
	pinned cell.PinnedID
	tasks  []int32
}

func parts(ms []cell.Member) []part {
	var out []part
	for _, m := range ms {
		i := slices.IndexFunc(out, func(p part) bool { return slices.Equal(p.skus, m.SKUs) && p.pinned == m.Pinned })
		if i < 0 {
			i = len(out)
			out = append(out, part{skus: m.SKUs, pinned: m.Pinned})
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

// pack reports whether a gang's tasks fit the free leaves of the VC's cells:
// every task on one node and, when the gang uses the
// guarantee, in the VC's cells, of which several may lie on one node.
func (t *Twin) pack(r *cell.Request, ps []part, roots []set, free set) bool {
	if len(ps) == 0 {
		return true
	}
	p := &ps[0]
	var bins []set
	for ci := range t.f.Chains {
		if r.Blocked != nil && r.Blocked[ci] && p.pinned == "" {
			continue
		}
		if len(p.skus) > 0 && !slices.Contains(p.skus, t.f.Chains[ci].SKU) {
			continue
		}
		own := t.bins(int16(ci), t.rootsOf(r, p, roots), free)
		if r.Reach != nil && t.packIn(r, ps, own, roots, free) {
			return true
		}
		bins = append(bins, own...)
	}
	return r.Reach == nil && t.packIn(r, ps, bins, roots, free)
}

// packIn packs the first part into some bins, and then the others.
func (t *Twin) packIn(r *cell.Request, ps []part, bins, roots []set, free set) bool {
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
		return t.pack(r, ps[1:], roots, free&^was|now)
	})
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
