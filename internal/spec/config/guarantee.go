package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/cell"
)

// checkGuarantees checks that every chain can keep its promises. From the top level down, the
// cells that are left after a level's promises are split for the level below. Then every
// virtual cluster can have all its cells at once. Pinned cells come first, because their
// places are fixed: the cells above one are split already. The cells of a virtual cluster are
// divided among those inside it in the same way, but for pinned cells, which belong to the
// one that names them.
func (b *builder) checkGuarantees() {
	inside := map[cell.VCName][]*vc{}
	for i := range b.vcs {
		v := &b.vcs[i]
		inside[v.spec.Parent] = append(inside[v.spec.Parent], v)
	}
	free := b.freeBesidePinned()
	for _, name := range slices.Sorted(maps.Keys(b.chains)) {
		c := b.chains[name]
		if c == nil || slices.ContainsFunc(c.levels, func(t *cellType) bool { return t.broken }) {
			continue
		}
		if !b.topUnread && free[c] != nil {
			b.checkChain(c, free[c], nil, inside[""])
		}
		for i := range b.vcs {
			if v := &b.vcs[i]; len(inside[v.spec.Name]) > 0 {
				b.checkChain(c, v.cells(c), v, inside[v.spec.Name])
			}
		}
	}
}

// cells counts the cells of a chain that a virtual cluster was promised, by level.
func (v *vc) cells(c *chain) []int64 {
	out := make([]int64, len(c.levels))
	for _, cl := range v.claims {
		if cl.chain == c {
			out[cl.level] += cl.number
		}
	}
	return out
}

// freeBesidePinned counts, for each chain and level, the largest cells without a pinned cell
// of a virtual cluster in them.
func (b *builder) freeBesidePinned() map[*chain][]int64 {
	free := map[*chain][]int64{}
	pinned := map[*chain]bool{}
	for _, p := range b.pins {
		pinned[p.chain] = pinned[p.chain] || p.by != ""
	}
	for i := range b.cells {
		c := b.chains[cell.ChainName(b.cells[i].Type)]
		if free[c] == nil {
			free[c] = make([]int64, len(c.levels))
		}
		if !pinned[c] && !c.lacking {
			free[c][0]++
			continue
		}
		if whole := b.countFree(c, &b.cells[i], 0, free[c]); whole {
			free[c][0]++
		}
	}
	return free
}

// countFree reports whether a cell is complete and holds no pinned cell. If not, its children for
// which that is true are counted as free.
func (b *builder) countFree(c *chain, s *cell.CellSpec, level int, free []int64) bool {
	if p := b.pins[s.Pinned]; p != nil && p.by != "" {
		return false
	}
	whole := 0
	for i := range s.Children {
		if b.countFree(c, &s.Children[i], level+1, free) {
			whole++
		}
	}
	if whole == len(s.Children) && (level >= c.node || int64(whole) == c.levels[level].number) {
		return true
	}
	free[level+1] += int64(whole)
	return false
}

// checkChain reports each level, from the top, that promises more cells than it has. owner is
// the virtual cluster whose cells are divided; nil is the whole cluster.
func (b *builder) checkChain(c *chain, free []int64, owner *vc, vcs []*vc) {
	left := int64(0)
	for level := range c.levels {
		if level > 0 {
			left *= c.levels[level-1].number
		}
		left += free[level]
		need, last, who := promised(vcs, c, level)
		switch {
		case need <= left:
		case owner != nil:
			b.Problem(last, "chain %s, level %d (%s): %s promised inside %s (%s), but of its cells only %s left after the levels above; lower a cellNumber or give %s more cells",
				c.name, c.level(level), c.levels[level].name, plural(need, "cell")+" "+be(need), owner.spec.Name, cut(strings.Join(who, ", ")), fmt.Sprint(left)+" "+be(left), owner.spec.Name)
		default:
			b.Problem(last, "chain %s, level %d (%s): %s promised (%s), but only %s left after the levels above%s; lower a cellNumber or add cells",
				c.name, c.level(level), c.levels[level].name, plural(need, "cell")+" "+be(need), cut(strings.Join(who, ", ")), fmt.Sprint(left)+" "+be(left), b.splitNote(c))
		}
		left = max(0, left-need)
	}
}

// promised sums the promises at a level, with the place of the last one and the VCs.
func promised(vcs []*vc, c *chain, level int) (need int64, last *document.Node, who []string) {
	for _, v := range vcs {
		own := int64(0)
		for _, cl := range v.claims {
			if cl.chain == c && cl.level == level {
				own += cl.number
				last = cl.at
			}
		}
		if own > 0 {
			who = append(who, fmt.Sprintf("%s %d", v.spec.Name, own))
			need += own
		}
	}
	return need, last, who
}

// splitNote says that pinned cells of the chain, and cells of which some are missing, were
// taken out first.
func (b *builder) splitNote(c *chain) (text string) {
	n, lacking := 0, int64(0)
	for _, p := range b.pins {
		if p.chain == c && p.by != "" {
			n++
		}
	}
	if n > 0 {
		text = fmt.Sprintf(" and %d pinned", n)
	}
	for i := range b.cells {
		if b.chains[cell.ChainName(b.cells[i].Type)] == c && !c.whole(&b.cells[i], 0) {
			lacking++
		}
	}
	if lacking > 0 {
		text += fmt.Sprintf("; cells are missing in %d of type %s, of which only what is inside counts", lacking,
			c.name)
	}
	return text
}
