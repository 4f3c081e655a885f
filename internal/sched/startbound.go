package sched

// startBound returns until when a waiting gang starts at the latest, and by what
// in words: its VC keeps a reservation for it, which those behind it may not
// delay. It is false when nothing bounds its wait.
func (s *State) startBound(*job, int32) (Time, string, bool) { return 0, "", false }
