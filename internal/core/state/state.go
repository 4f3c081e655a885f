// Package state is the fold of all events: State applies each of them to the rows and keeps the
// index up to date. It writes and reads snapshots, and verifies itself. It must not search for
// cells or decide anything.
package state

import (
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// State is all that the events say: the tables with their index, and the rest.
type State struct {
	index.Index
	NewPolicy    model.Policies
	NextJob      model.JobID
	Notes        []model.Noted        // what policies remember about their VCs, sorted by VC
	Failed       []model.PolicyFailed // sorted by VC; never changed in place
	FailedToMake []model.PolicyFailed // policies that could not be made, by VC; never changed in place
	Promises     []int32              // slots of the attempts that are reservations, in no order
	Moved        []moved              // when gangs moved lately, sorted by VC
	RunTimes     RunTimes             // how much of its declared time work ran; no decision depends on it
	Debts        []debt               // what VCs borrowed over time, sorted by VC
	Bookings     int64                // the highest Turn of any booking so far
	againInARow  int                  // how many decisions in a row asked for another one
	Ended        []tables.EndedJob    // jobs that ended since they were last taken
}

// loader fills a state from a snapshot.
type loader struct{ *State }
