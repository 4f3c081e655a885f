package cell

// Dump shows tests outside the package all of a cluster that an undo must bring back.
func (c *Cluster) Dump() string { return c.dump() }

// Mood says what a holder is about to do.
func (c *Cluster) Mood(id AllocID) Mood { return c.allocs[id].mood }
