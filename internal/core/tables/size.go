package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// Within reports whether a gang is within a size of its job: the minimum always is, and of the
// members above it the first, up to size tasks in all.
func (j *Job) Within(g int32, size int32) bool {
	gang := &j.Spec.Gangs[g]
	return !gang.Extra || int32(len(j.Spec.Gangs[0].Tasks))+g <= size
}

// CanHave reports whether a wish may give a gang this size.
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
