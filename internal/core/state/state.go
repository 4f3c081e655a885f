// Package state is the fold of all events: State applies each of them to the rows and keeps the
// index beside them. It writes and reads snapshots, and verifies itself. It must not search for
// cells or decide anything.
package state

import (
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// State is what events say: the tables with their index, and the rest of it.
type State struct {
	index.Index
	NewPolicy model.Policies
	NextJob   model.JobID
	Notes     []model.Noted        // what policies remember about their VCs, sorted by VC
	Failed    []model.PolicyFailed // sorted by VC; never changed in place
	Unmade    []model.PolicyFailed // see Unmade; never changed in place
	Promises  []int32              // attempt slots of reservations, in no order
	Moved     []moved              // when gangs moved lately, sorted by VC
	Habits    Habits               // what part of what it declared work took; no decision depends on it
	Debts     []debt               // what VCs borrowed over time, sorted by VC
	Bookings  int64                // the highest turn of a booking
	turns     int                  // how many decisions in a row asked for another
	Ended     []tables.EndedJob    // since somebody asked
}

// loader fills a state from a snapshot.
type loader struct{ *State }
