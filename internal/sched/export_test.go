package sched

// RotationOf is what a live attempt follows; nil when it is alone and always was.
func (s *State) RotationOf(id AttemptID) *Rotation {
	if a := s.live(id); a != nil {
		return s.rotationOf(a)
	}
	return nil
}

// LookAgain makes the next Decide walk everything, as if capacity had changed.
func (s *State) LookAgain() { s.look = true }
