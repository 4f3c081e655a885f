package model

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Explanation answers "why is my job not running": Why fills the first block,
// Explain the second too, DryRun the third, Estimate the last field.
type Explanation struct {
	Job      JobID        `json:"job"`
	Name     JobName      `json:"name"`
	VC       cell.VCName  `json:"vc"`
	Phase    Phase        `json:"phase"`
	Position int32        `json:"position,omitempty"` // in its VC's run order, from 1
	Order    string       `json:"order,omitempty"`    // what Position means, if not run order
	Waiting  int32        `json:"waiting,omitempty"`  // how many jobs wait in its VC
	Borrower bool         `json:"borrower,omitempty"` // it is opportunistic
	Gangs    []GangReason `json:"gangs"`              // gangs that do not run
	// Size is how many of the Most members of an elastic job its policy lets it have; both
	// are 0 where it may have all.
	Size   int32       `json:"size,omitempty"`
	Most   int32       `json:"most,omitempty"`
	Shares []GangShare `json:"shares,omitempty"` // gangs that share their leaves with other gangs
	Note   string      `json:"note,omitempty"`   // its policy's note about it, in the policy's format
	// PolicyFailed says that its VC's policy failed, what serves the VC now, and what to do.
	PolicyFailed string `json:"policy_failed,omitempty"`
	// Demoted is set while a part of it runs as opportunistic, without its guarantee.
	Demoted bool `json:"demoted,omitempty"`

	// Ahead are jobs that are served before it, in run order. Blockers are jobs that hold cells
	// which it could use, the first to end first. Both have at most 10; AheadMore and BlockersMore
	// are how many more there are.
	Ahead        []JobBrief `json:"ahead,omitempty"`
	Blockers     []JobBrief `json:"blockers,omitempty"`
	AheadMore    int        `json:"ahead_more,omitempty"`
	BlockersMore int        `json:"blockers_more,omitempty"`

	Places   []GangPlace `json:"places,omitempty"`   // where its gangs would run
	Preempts []Displaced `json:"preempts,omitempty"` // the jobs that would have to give way

	Estimate *Estimate `json:"estimate,omitempty"`
}

// The kinds of suggestion, in the order in which they are tried and listed. All but AtMost let it
// start as they say.
const (
	ShorterLimit   SuggestionKind = "shorter_limit"
	HigherPriority SuggestionKind = "higher_priority"
	PinnedCell     SuggestionKind = "pinned_cell"
	FewerTasks     SuggestionKind = "fewer_tasks"
	SmallerTasks   SuggestionKind = "smaller_tasks"
	AtMost         SuggestionKind = "at_most" // not now: what it asks for never fits
	AnotherSKU     SuggestionKind = "another_sku"
	AnotherVC      SuggestionKind = "another_vc"
	AsBorrower     SuggestionKind = "opportunistic"
	AnyNode        SuggestionKind = "any_node"
	AfterJobs      SuggestionKind = "after_jobs"
	WithoutAhead   SuggestionKind = "without_ahead"
	AfterTime      SuggestionKind = "after_time"
	HardwareFixed  SuggestionKind = "hardware_fixed"
)

// Starting counts the tasks of a dry run that start at once, or once the jobs that
// give way are gone, also when other gangs of the job wait.
func (e *Explanation) Starting() int {
	n := 0
	for _, p := range e.Places {
		if !slices.ContainsFunc(e.Gangs, func(g GangReason) bool { return g.Gang == p.Gang }) {
			n += len(p.Tasks)
		}
	}
	return n
}
