package tables

// held reports whether a job is held: its gangs stand in no queue.
func (j *Job) Held() bool { return j.Odd != nil && j.Odd.Held != nil }
