// Package index keeps what follows from the rows: the queues of waiting gangs, in order and in
// groups of gangs that fit the same places; the orders of running gangs; tallies; timers; and what
// the next decision must look at. All of it can be built anew from the rows, and Verify compares.
// It must not know events.
package index

import (
	"github.com/combsched/comb/internal/base/collections"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// Index follows from the tables: Apply keeps it up to date, and Verify builds it anew and compares.
// "By space" is one element for each VC, by its number in the cluster; 0 is the physical cluster.
type Index struct {
	tables.Tables
	Holders       [][]int32       // by space: slots of its attempts and promises, in no order
	Queues        [][]Queued      // waiting gangs by space, sorted; [0] holds those without a VC
	WaitGroups    waitIndex       // of the waiting gangs, for walks that pass over what does not fit
	Lazy          [][]Queued      // lazily preempted gangs by space, sorted
	Tallies       []Tally         // by space
	RunOrders     []RunOrder      // by space
	Allocs        []Allocations   // by space
	Booked        []model.GangRef // gangs with a booking, sorted
	PartialJobs   int             // number of jobs with members above a minimum
	DedicatedJobs int             // number of jobs that want their nodes for themselves
	Migrating     int             // number of gangs that are to run on other nodes next
	Timers        collections.Heap[timer]
	ToSettle      collections.Heap[model.JobID]   // by id, for Decide: slots differ after a restart
	Again         model.Time                      // when the next decision is due; 0 is none
	AgainFor      []cell.VCName                   // VCs it is for; none is all; never changed in place
	AllDirty      bool                            // the next walk looks at everything
	Dirty         dirty                           // else: what it looks at
	LookAgain     Askers                          // VCs for which this decision asks for another
	NoFreeCells   map[model.AttemptID]NoFreeCells // promised gangs that found no free cells instead
	Recount       bool                            // tallies are being built anew: debts do not accrue
	Calls         Calls                           // into code of policies
	UserHoldings  UserHoldings                    // what users hold
}

// Calls is the state of a call into a policy's code, or of its reading of the wait groups.
type Calls struct {
	Space   int32           // the VC for which policy code runs; 0 is none
	Reading bool            // the policy reads the wait groups of its VC
	relist  []model.GangRef // gangs that lost their promise since that began
	gang    model.GangView  // the gang that gets a key
}

// NoFreeCells is the situation in which a gang with a promise found no free cells. The search is
// not repeated while it stays the same: until more cells are free, more of the gang's own are, or
// holders have left the preassigned cells that are promised to it.
type NoFreeCells struct {
	IdleChanges uint64 // Dirty.IdleChanges at that time
	Missing     int32  // leaves it needs beyond its own
	Used        uint64 // sum over the leaves that its VC uses in each preassigned cell of the promise
}

// VC is the configuration of the VC of a space; only to read.
func (s *Index) VC(space int32) *model.VCConfig {
	name := s.Cluster.Space(space).Name
	if i := int(space) - 1; i >= 0 && i < len(s.Config.VCs) && s.Config.VCs[i].Name == name {
		return &s.Config.VCs[i] // the usual case: both are sorted
	}
	return model.ConfigOfVC(s.Config, name)
}

// Holder returns the first member of an allocation.
func (s *Index) Holder(id cell.AllocID) *tables.Attempt { return &s.Attempts[s.ByAlloc[id]] }

// EnterPolicy notes the VC for which policy code runs from now on, 0 for none. It returns the one
// before, which is to be noted again after the call.
func (s *Index) EnterPolicy(space int32) (before int32) {
	before, s.Calls.Space = s.Calls.Space, space
	return before
}

// Sooner is the earlier of two times; 0 is unknown.
func Sooner(a, b model.Time) model.Time {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// A gang that moves has two attempts: one that leaves, and the next, to which the new cells are
// promised meanwhile. So no other gang can take them, and where it goes does not depend on other
// VCs. The promise is one like others: it becomes the gang's attempt once the gang waits again, it
// gives way to higher priorities, and it is taken back when it cannot be kept.

// SlotOf returns the slot of a live attempt.
func (s *Index) SlotOf(a *tables.Attempt) int32 {
	g := &s.Jobs[a.Job].Gangs[a.ID.Gang]
	if g.Next != tables.None && s.Attempts[g.Next].ID == a.ID {
		return g.Next
	}
	return g.Attempt
}
