package cell

// Dump shows tests outside the package all of a cluster that an undo must bring back.
func (c *Cluster) Dump() string { return c.dump() }

// Mood says what a holder is about to do.
func (c *Cluster) Mood(id AllocID) Intent { return c.allocs[id].intent }

// Overlooked names a node that a search passes without a look at its leaves, though the gang could
// take more of it than it counts.
func (c *Cluster) Overlooked(q *Request) (node NodeName, counted, could int32) {
	t := c.scratch()
	s := &search{c: c, r: q, t: t}
	for i := range c.f.Chains {
		for _, id := range c.f.Chains[i].NodeCells {
			if b := s.newBin(id, nil); !s.hidden(id) && b.avail > s.atMost(id) {
				return c.f.Nodes[c.f.Cells[id].Node].Name, s.atMost(id), b.avail
			}
		}
	}
	return "", 0, 0
}
