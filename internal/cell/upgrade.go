package cell

import "slices"

// Upgradable says whether an allocation that became opportunistic could be
// guaranteed again on the leaves that it holds, and in which preassigned cells:
// those of its VC that are bound around its leaves, and unbound ones that may
// safely be bound there, small ones first. The cluster is unchanged.
func (c *Cluster) Upgradable(id AllocID) ([]Bind, bool) {
	a := &c.allocs[id]
	if !a.Lazy || a.Space == 0 {
		return nil, false
	}
	u := upgrade{c: c, space: a.Space}
	for _, t := range a.Placement.Tasks {
		u.leaves = append(u.leaves, t.Leaves...)
	}
	ok := len(u.leaves) > 0 && u.cover(0)
	for i := len(u.fresh) - 1; i >= 0; i-- {
		c.unbind(a.Space, u.fresh[i])
	}
	if !ok {
		return nil, false
	}
	slices.SortFunc(u.binds, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
	return u.binds, true
}

// upgrade is one search for cells around leaves.
type upgrade struct {
	c      *Cluster
	space  int32
	leaves []LeafID
	binds  []Bind
	fresh  []RootID // bound by the search
	steps  int
}

// upgradeMost bounds how many cells are tried for one upgrade.
const upgradeMost = 4096

// cover finds cells for the leaves from i on, going back to larger cells where a
// small one leaves its neighbours without any.
func (u *upgrade) cover(i int) bool {
	c := u.c
	for i < len(u.leaves) && slices.ContainsFunc(u.binds, func(b Bind) bool { return c.f.Contains(b.Cell, c.f.Leaves[u.leaves[i]]) }) {
		i++
	}
	if i == len(u.leaves) {
		return true
	}
	leaf := c.f.Leaves[u.leaves[i]]
	if ref := c.rootOver(leaf); ref.space != None {
		if ref.space != u.space {
			return false
		}
		u.binds = append(u.binds, Bind{Root: ref.root, Cell: c.spaces[u.space].Roots[ref.root].Cell})
		if u.cover(i + 1) {
			return true
		}
		u.binds = u.binds[:len(u.binds)-1]
		return false
	}
	for id := leaf; id != None && u.steps < upgradeMost; id = c.f.Cells[id].Parent {
		u.steps++
		if root, ok := c.rootFor(u.space, id); ok && u.within(root, id, i) {
			return true
		}
	}
	return false
}

// within goes on with a root that was just bound, and unbinds it when that fails.
func (u *upgrade) within(root RootID, id CellID, i int) bool {
	u.binds, u.fresh = append(u.binds, Bind{Root: root, Cell: id}), append(u.fresh, root)
	if u.cover(i + 1) {
		return true
	}
	u.c.unbind(u.space, root)
	u.binds, u.fresh = u.binds[:len(u.binds)-1], u.fresh[:len(u.fresh)-1]
	return false
}
