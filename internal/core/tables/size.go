package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// Within reports whether a gang is one of the first so many members of its job.
func (j *Job) Within(g int32, size int32) bool {
	gang := &j.Spec.Gangs[g]
	return !gang.Extra || int32(len(j.Spec.Gangs[0].Tasks))+g <= size
}

// CanHave reports whether a size makes sense for a gang.
func (j *Job) CanHave(g, size int32) bool {
	if size == model.Pause {
		return true
	}
	if g != 0 || !j.Spec.Partial() {
		return false
	}
	z := j.Spec.Sizes()
	return z.Least <= size && size <= z.Most
}
