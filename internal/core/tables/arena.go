package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// ArenaChunk is for how many values memory is taken at once. A value that is kept for long keeps
// at most that many others in memory.
const ArenaChunk = 16

// Arena is memory for values of one type.
type Arena[T any] struct{ free []T }

// Take returns memory for n values; an append to it allocates elsewhere.
func (s *Arena[T]) Take(n int) []T {
	if len(s.free) < n {
		s.free = make([]T, max(n, ArenaChunk))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Keep returns a copy of a value.
func (s *Arena[T]) Keep(v T) *T {
	p := &s.Take(1)[0]
	*p = v
	return p
}

// CopyPooled appends values to a pool. It returns the copy, cut so that an append to it cannot
// reach its neighbour, and the longer pool.
func CopyPooled[T any](values, pool []T) ([]T, []T) {
	n := len(pool)
	pool = append(pool, values...)
	return pool[n:len(pool):len(pool)], pool
}

// CopyAgain copies values into the memory of other values, which are lost.
func CopyAgain[T any](to, from []T) []T { return append(to[:0], from...) }

// Arenas are the memory for small things in the rows that never change once made. It is taken for
// many at once, since taking it costs as much as filling it. Memory once handed out is never used
// again, so clones and readers may keep it. A clone begins with arenas of its own.
type Arenas struct {
	Exits       Arena[model.Exit]
	Begun       Arena[Begun]
	Attempts    Arena[model.AttemptStatus]
	Tasks       Arena[model.TaskStatus]
	Completing  Arena[model.JobCompleting]
	JobMemories jobMemories // memory of jobs that are over
}

// JobMemory is memory for the tasks and gangs of one job.
type JobMemory struct {
	Tasks []TaskRun
	Gangs []Gang
}

// jobMemories is the memory that ended jobs left, the latest last.
type jobMemories []JobMemory

// keepRooms is how many rooms are kept at most; a job with memory for more than keepTasks tasks
// leaves none.
const (
	keepRooms = 1024
	keepTasks = 64
)

// Recycle keeps the memory of a job that is over. Nothing may refer to the job any more.
func (rs *jobMemories) Recycle(j *Job) {
	if len(*rs) < keepRooms && cap(j.Tasks) <= keepTasks {
		clear(j.Tasks)
		clear(j.Gangs)
		*rs = append(*rs, JobMemory{j.Tasks[:0], j.Gangs[:0]})
	}
}

// Take returns the room left last, or an empty one.
func (rs *jobMemories) Take() JobMemory {
	last := len(*rs) - 1
	if last < 0 {
		return JobMemory{}
	}
	out := (*rs)[last]
	*rs = (*rs)[:last]
	return out
}
