package sched

// LookAgain makes the next Decide walk everything, as if capacity had changed.
func (s *State) LookAgain() { s.look = true }
