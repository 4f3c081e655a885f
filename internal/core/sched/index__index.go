package sched

import (
	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// vc is what the configuration says of the VC of a space; only to read.
func (s *index) vc(space int32) *model.VCConfig {
	name := s.cl.Space(space).Name
	if i := int(space) - 1; i >= 0 && i < len(s.cfg.VCs) && s.cfg.VCs[i].Name == name {
		return &s.cfg.VCs[i] // as both are sorted, in general
	}
	return model.OfVC(s.cfg, name)
}

// holder returns the attempt behind an allocation.
func (s *index) holder(id cell.AllocID) *attempt { return &s.attempts[s.byAlloc[id]] }

// ask notes the VC whose policy's code runs from now on, 0 for none, and returns the one
// before, to be noted again behind the call.
func (s *index) ask(space int32) (before int32) {
	before, s.calls.space = s.calls.space, space
	return before
}

// sooner is the earlier of two times of which 0 is not known.
func sooner(a, b model.Time) model.Time {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// calls is what goes on while a policy's code runs, or reads the lines of its VC.
type calls struct {
	space   int32     // whose policy's code runs; 0 is none
	reading bool      // it reads the lines of its VC
	relist  []GangRef // who was promised cells when that began, and is not any more
	gang    GangView  // whose key is made
}

// A gang that moves has two attempts: one that leaves, and the next, to which its new
// cells are promised meanwhile. So nobody can take them, of its own VC or of another,
// and where it goes does not depend on who else is in the cluster. The promise is one
// like others: it becomes the gang's attempt when the gang waits again, it gives way
// to higher priorities, and it is taken back when it cannot be kept.

// slotOf returns the slot of a live attempt.
func (s *index) slotOf(a *attempt) int32 {
	g := &s.jobs[a.job].gangs[a.id.Gang]
	if g.next != none && s.attempts[g.next].id == a.id {
		return g.next
	}
	return g.attempt
}

// notYet is a gang that is promised cells and found no free ones: it does not until more are free,
// more of its own are, or others have left the preassigned cells that are promised to it.
type notYet struct {
	idle    uint64 // of looks, then
	missing int32  // leaves, beside its own
	used    uint64 // of the leaves that its VC uses in each preassigned cell of the promise
}

// index follows from the tables: Apply keeps it, and Verify makes it again and compares.
type index struct {
	tables
	holders  [][]int32     // by space: its attempts and promises, in no order
	queues   [][]queued    // waiting gangs by space, sorted; [0] holds those without a VC
	lines    lineups       // of the waiting gangs, for those who pass over what does not fit
	lazy     [][]queued    // lazily preempted gangs by space, sorted
	tallies  []tally       // by space
	running  []runners     // by space
	allocs   []allocations // by space
	booked   []GangRef     // gangs with a booking, sorted
	partials int           // jobs with members above a minimum
	loners   int           // jobs that want their nodes for themselves
	away     int           // gangs that should run on other nodes next
	timers   collections.Heap[timer]
	dirty    collections.Heap[model.JobID] // to settle, a heap of ids, since slots differ after a restart
	again    model.Time                    // the next decision that Decided asked for
	againFor []cell.VCName                 // for these VCs; none is all; never changed in place
	look     bool                          // capacity or queues changed: the whole walk is due
	looks    looks                         // or parts of it
	grew     askers                        // for which VCs the decision that is being made asks for another one
	notYet   map[model.AttemptID]notYet    // gangs that are promised cells and found no free ones
	recount  bool                          // tallies are made anew: no time passes
	calls    calls                         // of policies' code
	users    limited                       // what users hold
}
