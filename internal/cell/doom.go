package cell

// Doom binds an unbound root to a bad free cell, so that the shortage of healthy
// cells is charged to a VC by name (HiveD's doomed bad cells).
func (c *Cluster) Doom(space int32, root RootID, id CellID) {}

// Spare is the inverse of Doom.
func (c *Cluster) Spare(space int32, root RootID) {}
