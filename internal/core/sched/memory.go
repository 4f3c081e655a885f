package sched

import (
	"strings"

	"github.com/combsched/comb/internal/core/model"
)

// arenas are what the rows take memory from for small things that never change once they are made:
// many at once, since taking memory costs as much as filling it. What was handed out is never used
// again, so clones and readers may keep it. A clone begins with arenas of its own.
type arenas struct {
	exits      Arena[Exit]
	begun      Arena[begun]
	attempts   Arena[model.AttemptStatus]
	tasks      Arena[TaskStatus]
	completing Arena[JobCompleting]
	rooms      rooms // of jobs that are over
}

// memory is what one Decide after the other uses again. A clone begins with memory of its own.
type memory struct {
	records  []Record // for what Decide returns; all up to its length were handed out
	digests  *strings.Builder
	walker   walker          // of the VC that is walked
	heads    []head          // of Ordered
	lines    []Line          // of Lines
	waits    []merge         // of opportunistic
	chosen   []chosen        // of Parties
	counts   []int           // the same
	failed   map[string]bool // shapes, of lend
	scratch  any             // of policies
	also     []bool          // by allocation: those that planOver may lift
	tail     tailing         // of planOver
	yielding yielding        // what may leave for its own priority
	fact     [1]Event        // of Accept
}

// calls is what goes on while a policy's code runs, or reads the lines of its VC.
type calls struct {
	space   int32     // whose policy's code runs; 0 is none
	reading bool      // it reads the lines of its VC
	relist  []GangRef // who was promised cells when that began, and is not any more
	gang    GangView  // whose key is made
}

// text writes a digest as 16 hexadecimal digits.
func (m *memory) text(d digest) string {
	const size = 16
	if m.digests == nil || m.digests.Cap()-m.digests.Len() < size {
		m.digests = &strings.Builder{}
		m.digests.Grow(ArenaChunk * size)
	}
	text := d.Hex()
	m.digests.Write(text[:])
	all := m.digests.String()
	return all[len(all)-size:]
}

// room is memory for the tasks and gangs of a job.
type room struct {
	tasks []taskRun
	gangs []gang
}

// rooms are those that jobs left, the last first.
type rooms []room

// keepRooms is how many are kept at most, and keepTasks for how many tasks one may be.
const (
	keepRooms = 1024
	keepTasks = 64
)

// leave keeps the memory of a job that is over, of which nobody knows any more.
func (rs *rooms) leave(j *job) {
	if len(*rs) < keepRooms && cap(j.tasks) <= keepTasks {
		clear(j.tasks)
		clear(j.gangs)
		*rs = append(*rs, room{j.tasks[:0], j.gangs[:0]})
	}
}

// take returns one of them, or an empty one.
func (rs *rooms) take() room {
	last := len(*rs) - 1
	if last < 0 {
		return room{}
	}
	out := (*rs)[last]
	*rs = (*rs)[:last]
	return out
}
