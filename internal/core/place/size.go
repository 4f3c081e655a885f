package place

// Members is how many members the job has if its gang starts.
func (w *Want) Members() int32 {
	if w.Size > 0 {
		return w.Size
	}
	return w.J.Spec.UsualSize()
}
