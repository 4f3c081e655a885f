package cell

import "slices"

// Sample is a node-level cell with the idle leaves of it that a VC may reach.
type Sample struct {
	Cell CellID
	Idle int32
}

// scanMost bounds how many free cells of one chain Samples reads.
const scanMost = 1024

// Samples returns node-level cells with idle leaves that a VC may reach: of every class of its
// bound nodes, and then of nodes on which its unbound cells could be bound, up to `each` of them.
// The cost grows with the classes, not with the nodes. The samples come in the order of the VC's
// own preassigned cells, never in the cluster's, and no more free ones than the VC has unbound:
// so they are the same wherever other VCs are.
func (c *Cluster) Samples(space int32, each int) []Sample {
	g := sampling{c: c, space: space, each: each}
	for ci := range c.f.Chains {
		g.bound(ci)
	}
	for ci := range c.f.Chains {
		g.open(ci)
	}
	return g.out
}

// sampling is one call of Samples.
type sampling struct {
	c     *Cluster
	space int32
	each  int
	out   []Sample
	// Of the chain whose free cells are read: from is where these begin in out, scan how many more
	// cells are read, unbound how many leaves the VC's unbound cells have, and left how many of
	// these were not matched with a wholly idle cell yet.
	from, scan    int
	unbound, left int32
}

// bound reads what the VC has bound of a chain, in its own order.
func (g *sampling) bound(ci int) {
	x, ks, ch := &g.c.spaces[g.space].index[ci], &g.c.kinds[ci], &g.c.f.Chains[ci]
	var seats []int32
	for _, kind := range x.ordered(ks, 0) {
		if !x.some(kind) || ks.keys[kind].idle == 0 {
			continue
		}
		places := &x.classes[kind]
		for n, at := 0, places.Next(0); n < g.each && at != None; n++ {
			seats = append(seats, at)
			at = places.Next(at + 1)
		}
	}
	slices.Sort(seats)
	for _, at := range seats {
		id := ch.NodeCells[x.bin(at)]
		g.out = append(g.out, Sample{id, g.c.idle[id]})
	}
	g.parts(ch, x.parts[:min(len(x.parts), scanMost)])
}

// parts reads nodes of which the VC has only parts bound, up to `each` for each number of idle
// leaves.
func (g *sampling) parts(ch *Chain, parts []partBin) {
	from := len(g.out)
	for i := range parts {
		s := Sample{Cell: ch.NodeCells[parts[i].bin]}
		for _, id := range parts[i].cells {
			s.Idle += g.c.idle[id]
		}
		if s.Idle > 0 && sized(g.out[from:], s.Idle) < g.each {
			g.out = append(g.out, s)
		}
	}
}

// open reads free cells of a chain in the containers around the VC that are large enough for the
// smallest of its unbound cells.
func (g *sampling) open(ci int) {
	ch, lowest := &g.c.f.Chains[ci], Level(0)
	g.from, g.scan, g.unbound = len(g.out), scanMost, 0
	for l := Level(1); l <= ch.Top; l++ {
		n := len(g.c.spaces[g.space].unbound[ch.slot0+int(l)-1])
		if n > 0 && lowest == 0 {
			lowest = l
		}
		g.unbound += int32(n) * ch.LeavesAt(l)
	}
	g.left = g.unbound
	if lowest == 0 {
		return
	}
	for up := g.c.spaces[g.space].Parent; up != None; up = g.c.spaces[up].Parent {
		for l := lowest; l <= ch.Top; l++ {
			for _, id := range g.c.spaces[up].free[ch.slot0+int(l)-1] {
				g.free(ch, id)
			}
		}
	}
}

// free reads a free cell.
func (g *sampling) free(ch *Chain, id CellID) {
	if g.left <= 0 || g.scan == 0 {
		return
	}
	g.scan--
	idle, cl := min(g.c.idle[id], g.unbound), &g.c.f.Cells[id]
	switch {
	case idle == 0:
	case cl.Level > ch.NodeLevel:
		first, step, n := g.c.f.Children(id)
		for i := range CellID(n) {
			g.free(ch, first+i*step)
		}
	case cl.Level < ch.NodeLevel:
		node := ch.NodeCells[cl.Bin]
		if at := slices.IndexFunc(g.out, func(s Sample) bool { return s.Cell == node }); at >= 0 {
			g.out[at].Idle += idle
			g.count(id)
		} else if sized(g.out[g.from:], idle) < g.each {
			g.out = append(g.out, Sample{node, idle})
			g.count(id)
		}
	case g.alike(id) < g.each:
		g.out = append(g.out, Sample{id, idle})
		g.count(id)
	}
}

// count counts a free cell that became a sample.
func (g *sampling) count(id CellID) {
	if n := g.c.f.NumLeaves(id); g.c.idle[id] == n {
		g.left -= n
	}
}

// alike counts the samples of free cells that are of the same class as a node.
func (g *sampling) alike(id CellID) (n int) {
	bins := g.c.bins[g.c.f.Cells[id].Chain]
	for _, s := range g.out[g.from:] {
		if bins[g.c.f.Cells[s.Cell].Bin].kind == bins[g.c.f.Cells[id].Bin].kind {
			n++
		}
	}
	return n
}

// sized counts the samples with that many idle leaves.
func sized(list []Sample, idle int32) (n int) {
	for _, s := range list {
		if s.Idle == idle {
			n++
		}
	}
	return n
}
