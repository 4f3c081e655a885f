// Package index keeps what follows from the rows: the queues of gangs that wait, in order and in
// groups that find the same; the orders of gangs that run; tallies; timers; and what the next
// decision must look at. All of it can be made anew from the rows, and Verify compares. It must not
// know events.
package index

import (
	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Index follows from the tables: Apply keeps it, and Verify makes it again and compares.
type Index struct {
	tables.Tables
	Holders       [][]int32       // by space: its attempts and promises, in no order
	Queues        [][]Queued      // waiting gangs by space, sorted; [0] holds those without a VC
	WaitGroups    waitIndex       // of the waiting gangs, for those who pass over what does not fit
	Lazy          [][]Queued      // lazily preempted gangs by space, sorted
	Tallies       []Tally         // by space
	RunOrders     []RunOrder      // by space
	Allocs        []Allocations   // by space
	Booked        []model.GangRef // gangs with a booking, sorted
	PartialJobs   int             // jobs with members above a minimum
	DedicatedJobs int             // jobs that want their nodes for themselves
	Migrating     int             // gangs that should run on other nodes next
	Timers        collections.Heap[timer]
	ToSettle      collections.Heap[model.JobID] // to settle, a heap of ids, since slots differ after a restart
	Again         model.Time                    // the next decision that Decided asked for
	AgainFor      []cell.VCName                 // for these VCs; none is all; never changed in place
	AllDirty      bool                          // capacity or queues changed: the whole walk is due
	Dirty         dirty                         // or parts of it
	LookAgain     Askers                        // for which VCs the decision that is being made asks for another one
	NotYet        map[model.AttemptID]NotYet    // gangs that are promised cells and found no free ones
	Recount       bool                          // tallies are made anew: no time passes
	Calls         Calls                         // of policies' code
	UserHoldings  UserHoldings                  // what users hold
}

// Calls is what goes on while a policy's code runs, or reads the wait groups of its VC.
type Calls struct {
	Space   int32           // whose policy's code runs; 0 is none
	Reading bool            // it reads the wait groups of its VC
	relist  []model.GangRef // who was promised cells when that began, and is not any more
	gang    model.GangView  // whose key is made
}

// NotYet is a gang that is promised cells and found no free ones: it does not until more are free,
// more of its own are, or others have left the preassigned cells that are promised to it.
type NotYet struct {
	Idle    uint64 // of Dirty, then
	Missing int32  // leaves, beside its own
	Used    uint64 // of the leaves that its VC uses in each preassigned cell of the promise
}

// VC is what the configuration says of the VC of a space; only to read.
func (s *Index) VC(space int32) *model.VCConfig {
	name := s.Cluster.Space(space).Name
	if i := int(space) - 1; i >= 0 && i < len(s.Config.VCs) && s.Config.VCs[i].Name == name {
		return &s.Config.VCs[i] // as both are sorted, in general
	}
	return model.OfVC(s.Config, name)
}

// Holder returns the attempt behind an allocation.
func (s *Index) Holder(id cell.AllocID) *tables.Attempt { return &s.Attempts[s.ByAlloc[id]] }

// Ask notes the VC whose policy's code runs from now on, 0 for none, and returns the one
// before, to be noted again behind the call.
func (s *Index) Ask(space int32) (before int32) {
	before, s.Calls.Space = s.Calls.Space, space
	return before
}

// Sooner is the earlier of two times of which 0 is not known.
func Sooner(a, b model.Time) model.Time {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// A gang that moves has two attempts: one that leaves, and the next, to which its new
// cells are promised meanwhile. So nobody can take them, of its own VC or of another,
// and where it goes does not depend on who else is in the cluster. The promise is one
// like others: it becomes the gang's attempt when the gang waits again, it gives way
// to higher priorities, and it is taken back when it cannot be kept.

// SlotOf returns the slot of a live attempt.
func (s *Index) SlotOf(a *tables.Attempt) int32 {
	g := &s.Jobs[a.Job].Gangs[a.ID.Gang]
	if g.Next != tables.None && s.Attempts[g.Next].ID == a.ID {
		return g.Next
	}
	return g.Attempt
}
