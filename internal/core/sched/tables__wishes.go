package sched

// held reports whether a job is held: its gangs stand in no queue.
func (j *job) held() bool { return j.odd != nil && j.odd.held != nil }
