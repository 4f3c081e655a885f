package sched

// within reports whether a gang is one of the first so many members of its job.
func (j *job) within(g int32, size int32) bool {
	gang := &j.spec.Gangs[g]
	return !gang.Extra || int32(len(j.spec.Gangs[0].Tasks))+g <= size
}

// canHave reports whether a size makes sense for a gang.
func (j *job) canHave(g, size int32) bool {
	if size == Pause {
		return true
	}
	if g != 0 || !j.spec.Partial() {
		return false
	}
	z := j.spec.Sizes()
	return z.Least <= size && size <= z.Most
}
