package sched

// finder finds cells in a fold.
type finder struct {
	fold
	cache   cache
	through uint64  // the last event before the present decision
	charges moving  // of bad hardware
	claims  claimed // of VCs that lend nothing
}
