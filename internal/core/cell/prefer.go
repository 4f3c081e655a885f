package cell

// noLevel is above all levels.
const noLevel = Level(127)

// Preferred nodes decide among placements that are equally good: on as few nodes and as close
// together. They count wherever the search chooses among such. If only some tasks of a gang fit
// on preferred nodes, these are placed there.

// preference is 1 for a cell on a preferred node, else 0.
func (s *search) preference(id CellID) int {
	if s.r.Preferred.Has(s.c.f.Cells[id].Node) {
		return 1
	}
	return 0
}

// countPreferred counts the tasks that are assigned to bins on preferred nodes.
func (s *search) countPreferred(bins []bin, assign []int) int {
	n := 0
	if s.prefers {
		for _, b := range assign {
			n += s.preference(bins[b].cell)
		}
	}
	return n
}

// closer reports whether a placement is on fewer nodes than another, or on as many
// that are closer together.
func (c *Cluster) closer(a, b *Placement) bool {
	na, la := c.spread(a)
	nb, lb := c.spread(b)
	return na < nb || na == nb && la < lb
}

// spread returns the number of nodes that a placement uses, and the level of the lowest cell
// around all of it; noLevel where there is none.
func (c *Cluster) spread(p *Placement) (nodes int, level Level) {
	var on NodeSet
	around := CellID(None)
	for _, t := range p.Tasks {
		for _, l := range t.Leaves {
			id := c.f.Leaves[l]
			if n := c.f.Cells[id].Node; !on.Has(n) {
				on = on.Add(n)
				nodes++
			}
			if around == None && level == 0 {
				around = id
			}
			for around != None && !c.f.Contains(around, id) {
				around = c.f.parent[around]
			}
			if around == None {
				level = noLevel
			} else {
				level = c.f.Cells[around].Level
			}
		}
	}
	return nodes, level
}
