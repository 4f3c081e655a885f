package cell

import "slices"

// Carried is where an allocation of an older cluster stands in a new one.
type Carried struct {
	Placement Placement
	Lost      int32 // leaves that the new cluster lacks
	Lazy      bool  // its guarantee did not survive: it goes on as opportunistic
}

// Carry finds the leaves and the preassigned cells that an allocation of an
// older cluster has in this one (HiveD's work-preserving reconfiguration): a
// leaf is the same when node, SKU and device index are. The guarantee survives
// when the VC still has a preassigned cell of the same type that is bound, or
// can safely be bound, to the cell around those leaves. vc is None when the VC
// is gone. The cluster is unchanged; the caller takes the placement.
//
// devices are, by task, all that the tasks were started with: a device that an
// earlier configuration lacked and this one has again is held again, but the
// guarantee does not come back with it.
//
// A device that is still there under another SKU is the same device: it stays
// held, and the guarantee goes.
func (c *Cluster) Carry(old *Cluster, vc int32, a *Alloc, devices [][]int32) Carried {
	var out Carried
	moved := map[LeafID]LeafID{}
	regained := false
	for i, t := range a.Placement.Tasks {
		n := Task{Node: t.Node, SKU: t.SKU}
		for _, d := range devices[i] {
			to := c.f.FindLeaf(t.Node, t.SKU, d)
			if to == None {
				to = c.findDevice(t.Node, old.SKU(t.SKU).Device, d)
				regained = regained || to != None
			}
			if to == None || c.hold[to] != None {
				out.Lost++
				continue
			}
			if was := slices.Index(t.Devices, d); was >= 0 {
				moved[t.Leaves[was]] = to
			} else {
				regained = true
			}
			n.Leaves = append(n.Leaves, to)
			n.Devices = append(n.Devices, d)
		}
		sortTask(&n)
		out.Placement.Tasks = append(out.Placement.Tasks, n)
	}
	if a.Opportunistic() {
		return out
	}
	binds, ok := c.carryBinds(old.f, vc, a, moved)
	if out.Lazy = !ok || regained; !out.Lazy {
		out.Placement.Binds = binds
	}
	return out
}

// findDevice returns the leaf of any SKU of a device kind with that index on a
// node, or None.
func (c *Cluster) findDevice(n NodeName, kind DeviceKind, device int32) LeafID {
	for i := range c.skus {
		if c.skus[i].Device != kind {
			continue
		}
		if l := c.f.FindLeaf(n, c.skus[i].Name, device); l != None {
			return l
		}
	}
	return None
}

// sortTask puts a task's leaves in order, each with its device.
func sortTask(t *Task) {
	order := make([]int, len(t.Leaves))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(t.Leaves[a]) - int(t.Leaves[b]) })
	leaves, devices := slices.Clone(t.Leaves), slices.Clone(t.Devices)
	for i, o := range order {
		t.Leaves[i], t.Devices[i] = leaves[o], devices[o]
	}
}

// carryBinds finds a root for every preassigned cell of an allocation.
func (c *Cluster) carryBinds(old *Forest, vc int32, a *Alloc, moved map[LeafID]LeafID) ([]Bind, bool) {
	if vc == None {
		return nil, false
	}
	var binds []Bind
	var fresh []RootID
	ok := true
	for _, b := range a.Placement.Binds {
		cell, found := c.carryCell(old, b.Cell, a, moved)
		if !found {
			ok = false
			break
		}
		if cell == None {
			continue // all of its leaves are gone
		}
		root, isFresh := c.rootFor(vc, cell)
		if root == None {
			ok = false
			break
		}
		if isFresh {
			fresh = append(fresh, root)
		}
		binds = append(binds, Bind{Root: root, Cell: cell})
	}
	for i := len(fresh) - 1; i >= 0; i-- {
		c.unbind(vc, fresh[i])
	}
	if !ok {
		return nil, false
	}
	slices.SortFunc(binds, func(x, y Bind) int { return int(x.Root) - int(y.Root) })
	return slices.Compact(binds), true
}

// carryCell returns the cell of the same type around the moved leaves of one
// preassigned cell: None when none of them is left, false when there is no such
// cell around all of them.
func (c *Cluster) carryCell(old *Forest, was CellID, a *Alloc, moved map[LeafID]LeafID) (CellID, bool) {
	want := old.Chains[old.Cells[was].Chain].Types[old.Cells[was].Level-1]
	first := old.Cells[was].FirstLeaf
	end := first + LeafID(old.NumLeaves(was))
	cell := CellID(None)
	for _, t := range a.Placement.Tasks {
		for _, l := range t.Leaves {
			to, kept := moved[l]
			if l < first || l >= end || !kept {
				continue
			}
			if cell == None {
				leaf := c.f.Leaves[to]
				level := slices.Index(c.f.Chains[c.f.Cells[leaf].Chain].Types, want)
				if level < 0 {
					return None, false
				}
				cell = c.f.Ancestor(leaf, Level(level+1))
			}
			if !c.f.Contains(cell, c.f.Leaves[to]) {
				return None, false
			}
		}
	}
	return cell, true
}

// rootFor returns the root of a VC that is bound to a cell, or binds the first
// unbound one that may be; None when there is none.
func (c *Cluster) rootFor(vc int32, cell CellID) (root RootID, fresh bool) {
	if ref := c.owner[cell]; ref.space == vc {
		return ref.root, false
	}
	cl := &c.f.Cells[cell]
	for i := range c.spaces[vc].Roots {
		r := &c.spaces[vc].Roots[i]
		if r.Cell == None && r.Chain == cl.Chain && r.Level == cl.Level {
			return c.tryRoot(vc, RootID(i), cell)
		}
	}
	return None, false
}

func (c *Cluster) tryRoot(vc int32, root RootID, cell CellID) (RootID, bool) {
	if c.bind(vc, root, cell) {
		return root, true
	}
	return None, false
}

// DemotedFits reports whether a gang would fit without lifting anybody if the
// given allocations became opportunistic, in their order; it returns the
// shortest prefix that suffices, without those that turn out superfluous. The
// cluster is unchanged.
func (c *Cluster) DemotedFits(r *Request, lazies []AllocID) ([]AllocID, Result, bool) {
	var done []AllocID
	var res Result
	ok := false
	for _, a := range lazies {
		c.Demote(a)
		done = append(done, a)
		if res, ok = c.Place(r); ok {
			break
		}
	}
	for i := len(done) - 2; ok && i >= 0; i-- {
		if less, still := c.without(r, done, i); still {
			res = less
			done = slices.Delete(slices.Clone(done), i, i+1)
		}
	}
	for i := len(done) - 1; i >= 0; i-- {
		c.undemote(done[i])
	}
	return done, res, ok
}

// without gives one demoted allocation its cells back and looks whether the gang
// still fits; if not, it is demoted again.
func (c *Cluster) without(r *Request, done []AllocID, i int) (Result, bool) {
	c.undemote(done[i])
	if res, ok := c.Place(r); ok {
		return res, true
	}
	c.Demote(done[i])
	return Result{}, false
}
