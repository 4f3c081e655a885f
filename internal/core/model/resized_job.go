package model

import "slices"

// WithTasks returns the job with only the first n tasks of a role.
func WithTasks(spec *Job, role, n int32) *Job {
	out := *spec
	out.Roles = slices.Clone(spec.Roles)
	out.Roles[role].Tasks = n
	out.Roles[role].MinFailed = min(out.Roles[role].MinFailed, n)
	out.Roles[role].MinSucceeded = min(out.Roles[role].MinSucceeded, n)
	var first int32
	for _, r := range spec.Roles[:role] {
		first += r.Tasks
	}
	gone := spec.Roles[role].Tasks - n
	out.Gangs = nil
	for _, g := range spec.Gangs {
		kept := g
		kept.Tasks = nil
		for _, o := range g.Tasks {
			switch {
			case o < first+n:
				kept.Tasks = append(kept.Tasks, o)
			case o >= first+n+gone:
				kept.Tasks = append(kept.Tasks, o-gone)
			}
		}
		if len(kept.Tasks) > 0 {
			out.Gangs = append(out.Gangs, kept)
		}
	}
	return &out
}

// WithLeaves returns the job with n leaves for each task of a role. A task then asks for what its
// leaves carry.
func WithLeaves(spec *Job, role, n int32) *Job {
	out := *spec
	out.Roles = slices.Clone(spec.Roles)
	out.Roles[role].Leaves = n
	l := &out.Roles[role].Launch
	l.GPU, l.MilliCPU, l.MemoryMB = 0, 0, 0
	return &out
}
