package local

import (
	"math"
	"runtime/debug"
	"time"
)

// Each task has a supervisor, and in a container a process 1 as well: what one takes of the
// processors to start, and of the memory while its task runs, all tasks of a machine take.

// leanEnv is how such a process is started: what its start allocates is not much, so that nothing
// is collected before that is over.
func leanEnv() []string { return []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=16MiB"} }

const (
	// garbage is how much there may be, in percent of what is in use: it moves bytes and waits.
	garbage = 50
	// leanAfter is behind the start: the process of a short task has ended by then.
	leanAfter = 3 * time.Second
)

// lean gives back what the start of this process took of the memory, a moment later, and keeps it
// small from then on.
func lean() {
	time.AfterFunc(leanAfter, func() {
		debug.SetGCPercent(garbage)
		debug.SetMemoryLimit(math.MaxInt64)
		debug.FreeOSMemory()
	})
}
