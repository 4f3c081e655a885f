package cell

// SearchBounds returns how many ways to bind a VC's cells, and how many ways to
// pack tasks on what is bound, are tried before a search gives up (Bounded).
func SearchBounds() (binds, packs int) { return bindSteps, packSteps }
