package local

import (
	"math"
	"runtime/debug"
	"time"
)

// Each task has a supervisor, and in a container a process 1 as well. Whatever CPU one takes to
// start, and whatever memory it keeps, is multiplied by the tasks of a machine.

// smallMemoryEnv is the environment of such a process: its start allocates little, so there is no
// garbage collection before it is over.
func smallMemoryEnv() []string { return []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=16MiB"} }

const (
	// garbage is the GC percentage after the start: the process only moves bytes and waits.
	garbage = 50
	// leanAfter is when memory is given back: the process of a short task has ended by then.
	leanAfter = 3 * time.Second
)

// trimMemory gives back, a moment later, the memory that the start of this process took, and keeps
// it small from then on.
func trimMemory() {
	time.AfterFunc(leanAfter, func() {
		debug.SetGCPercent(garbage)
		debug.SetMemoryLimit(math.MaxInt64)
		debug.FreeOSMemory()
	})
}
