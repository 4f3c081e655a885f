package tables

// Held reports whether a job is held: its gangs stand in no queue.
func (j *Job) Held() bool { return j.Rare != nil && j.Rare.Held != nil }
