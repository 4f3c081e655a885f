package sched

// members is how many members the job gets when its gang starts.
func (w *want) members() int32 {
	if w.size > 0 {
		return w.size
	}
	return w.j.spec.UsualSize()
}
