package tables

import (
	"github.com/combsched/comb/internal/core/model"
)

// ArenaChunk is for how many values memory is taken at once, and so how many others one that is
// kept for long can keep.
const ArenaChunk = 16

// Arena is memory for values of one type.
type Arena[T any] struct{ free []T }

// Take returns memory for n values; an append to it goes elsewhere.
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

// CopyPooled copies values into the spare room of a pool. It returns the copy, cut so that an
// append to it cannot reach its neighbour, and the longer pool.
func CopyPooled[T any](values, pool []T) ([]T, []T) {
	n := len(pool)
	pool = append(pool, values...)
	return pool[n:len(pool):len(pool)], pool
}

// CopyAgain copies values into memory that other values had.
func CopyAgain[T any](to, from []T) []T { return append(to[:0], from...) }

// Arenas are what the rows take memory from for small things that never change once they are made:
// many at once, since taking memory costs as much as filling it. What was handed out is never used
// again, so clones and readers may keep it. A clone begins with arenas of its own.
type Arenas struct {
	Exits      Arena[model.Exit]
	Begun      Arena[Begun]
	Attempts   Arena[model.AttemptStatus]
	Tasks      Arena[model.TaskStatus]
	Completing Arena[model.JobCompleting]
	Rooms      rooms // of jobs that are over
}

// Room is memory for the tasks and gangs of a job.
type Room struct {
	Tasks []TaskRun
	Gangs []Gang
}

// rooms are those that jobs left, the last first.
type rooms []Room

// keepRooms is how many are kept at most, and keepTasks for how many tasks one may be.
const (
	keepRooms = 1024
	keepTasks = 64
)

// Leave keeps the memory of a job that is over, of which nobody knows any more.
func (rs *rooms) Leave(j *Job) {
	if len(*rs) < keepRooms && cap(j.Tasks) <= keepTasks {
		clear(j.Tasks)
		clear(j.Gangs)
		*rs = append(*rs, Room{j.Tasks[:0], j.Gangs[:0]})
	}
}

// Take returns one of them, or an empty one.
func (rs *rooms) Take() Room {
	last := len(*rs) - 1
	if last < 0 {
		return Room{}
	}
	out := (*rs)[last]
	*rs = (*rs)[:last]
	return out
}
