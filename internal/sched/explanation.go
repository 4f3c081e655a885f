package sched

import "github.com/combsched/comb/internal/amount"
import "github.com/combsched/comb/internal/cell"

// Explanation answers "why is my job not running": Why fills the first block,
// Explain the second too, DryRun the third, Estimate the last field.
type Explanation struct {
	Job      JobID        `json:"job"`
	Name     JobName      `json:"name"`
	VC       cell.VCName  `json:"vc"`
	Phase    Phase        `json:"phase"`
	Position int32        `json:"position,omitempty"` // in its VC's order, among the jobs that wait for the same, from 1
	Waiting  int32        `json:"waiting,omitempty"`  // how many wait in its VC for the same: for what it is guaranteed, or for what others leave
	Borrower bool         `json:"borrower,omitempty"` // it waits for what others leave
	Gangs    []GangReason `json:"gangs"`              // those that do not run
	// Size is how many of the Most members of an elastic job its policy lets it have; both
	// are 0 where it may have all.
	Size   int32       `json:"size,omitempty"`
	Most   int32       `json:"most,omitempty"`
	Shares []GangShare `json:"shares,omitempty"` // those that run beside others on the same leaves
	Note   string      `json:"note,omitempty"`   // what its policy remembers of it, in the policy's own words
	// PolicyFailed says that its VC's policy failed, what serves the VC now, and what to do.
	PolicyFailed string `json:"policy_failed,omitempty"`
	// Demoted is set while a part of it runs as opportunistic, without its guarantee.
	Demoted bool `json:"demoted,omitempty"`

	Ahead    []JobBrief `json:"ahead,omitempty"`    // who is served before it, the next first; at most 10
	Blockers []JobBrief `json:"blockers,omitempty"` // who holds what it could use, the first to end first; at most 10

	Places   []GangPlace `json:"places,omitempty"`   // where its gangs would run
	Preempts []Displaced `json:"preempts,omitempty"` // who would have to give way

	Estimate *Estimate `json:"estimate,omitempty"`
}

// GangShare says with whom a gang shares its leaves. With a quantum they take turns:
// it has Turn, from 1, of Turns; else all of them run at once.
type GangShare struct {
	Gang    int32      `json:"gang"`
	Name    string     `json:"name"`
	With    []JobBrief `json:"with"`
	Quantum Duration   `json:"quantum,omitempty"`
	Turn    int32      `json:"turn,omitempty"`
	Turns   int32      `json:"turns,omitempty"`
	Runs    bool       `json:"runs"`           // now
	Next    Time       `json:"next,omitempty"` // when that changes, unless they change the turns
}

// JobBrief is what others may know about a job that stands in their way.
type JobBrief struct {
	Job      JobID         `json:"job"`
	Name     JobName       `json:"name"`
	User     Subject       `json:"user"`
	VC       cell.VCName   `json:"vc"`
	Priority cell.Priority `json:"priority"`
	Leaves   int32         `json:"leaves"`            // of all its tasks
	Takes    string        `json:"takes"`             // what they are, such as "4 GPUs", or "2 GPUs (V100) and 8 CPUs (SLOT)"
	Ends     Time          `json:"ends,omitempty"`    // at the latest, as it declares; 0 is not known
	Likely   bool          `json:"likely,omitempty"`  // Ends is not at the latest: it follows from the steps that its tasks report
	Basis    string        `json:"basis,omitempty"`   // of Ends, or why it is not known
	Unknown  bool          `json:"unknown,omitempty"` // nothing proves whether it still lives
}

// GangReason is the reason of one gang. The gangs of a job that have the same
// shape wait for the same: only the first has the table and the suggestions.
type GangReason struct {
	Gang   int32  `json:"gang"`
	Name   string `json:"name"`
	Reason Reason `json:"reason"`
	// Cut says where the search for cells was cut short; empty when every
	// possibility was tried.
	Cut string `json:"cut,omitempty"`
	// ReservedAt is when the gang starts at the latest, by its VC's reservation,
	// and Bound says so in words; both are empty without one. The time alone is,
	// when it depends on jobs that declare no limit.
	ReservedAt  Time         `json:"reserved_at,omitempty"`
	Bound       string       `json:"bound,omitempty"`
	Levels      []LevelUse   `json:"levels,omitempty"`
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	// Untried is set when a bound on the cost kept some changes from being tried.
	Untried bool `json:"untried,omitempty"`
}

// LevelUse counts the cells of one level of a chain as one gang sees them. Each
// cell is counted once: Cells = Bad + Cordoned + Avoided + sum of Held + Lent + Free.
type LevelUse struct {
	Chain    cell.ChainName `json:"chain"`
	Pinned   cell.PinnedID  `json:"pinned,omitempty"` // only cells inside that pinned cell
	Level    cell.Level     `json:"level"`
	Type     cell.TypeName  `json:"type"`
	Cells    int32          `json:"cells"`
	Wanted   int32          `json:"wanted"`             // the gang takes so many, tightly packed here alone
	Owned    int32          `json:"owned,omitempty"`    // its VC is guaranteed so many
	Unused   int32          `json:"unused"`             // of these, no guaranteed work of the VC uses so many
	Free     int32          `json:"free"`               // whole cells that nothing stands in the way of
	Held     []VCCells      `json:"held,omitempty"`     // used or kept by guarantees, by VC
	Lent     int32          `json:"lent"`               // used by opportunistic work alone
	Bad      int32          `json:"bad"`                // something in it is bad, down or suspect
	Cordoned int32          `json:"cordoned,omitempty"` // else something in it is cordoned
	Avoided  int32          `json:"avoided"`            // the gang may not use all of its nodes
	Until    Time           `json:"until,omitempty"`    // when the first of those in use is left, by declared limits
}

// VCCells counts cells that a VC's guarantee keeps.
type VCCells struct {
	VC    cell.VCName `json:"vc"`
	Cells int32       `json:"cells"`
}

// SuggestionKind names a change that would let a job start.
type SuggestionKind string

// The kinds of suggestion, in the order in which they are tried and listed.
const (
	ShorterLimit   SuggestionKind = "shorter_limit"
	HigherPriority SuggestionKind = "higher_priority"
	PinnedCell     SuggestionKind = "pinned_cell"
	FewerTasks     SuggestionKind = "fewer_tasks"
	SmallerTasks   SuggestionKind = "smaller_tasks"
	AnotherSKU     SuggestionKind = "another_sku"
	AnotherVC      SuggestionKind = "another_vc"
	AsBorrower     SuggestionKind = "opportunistic"
	AnyNode        SuggestionKind = "any_node"
	AfterJobs      SuggestionKind = "after_jobs"
	WithoutAhead   SuggestionKind = "without_ahead"
	AfterTime      SuggestionKind = "after_time"
	HardwareFixed  SuggestionKind = "hardware_fixed"
)

// Suggestion is one change after which the deciding code was seen to start the
// gang, with nothing else changed. Only what the kind needs is set.
type Suggestion struct {
	Kind    SuggestionKind `json:"kind"`
	Message string         `json:"message"`
	Role    string         `json:"role,omitempty"`
	Tasks   int32          `json:"tasks,omitempty"`  // of that role
	Leaves  int32          `json:"leaves,omitempty"` // per task of that role
	SKU     cell.TypeName  `json:"sku,omitempty"`
	VC      cell.VCName    `json:"vc,omitempty"`
	// TimeLimit, Priority and Pinned are what the job would have to ask for.
	TimeLimit Duration        `json:"time_limit,omitempty"`
	Priority  cell.Priority   `json:"priority,omitempty"`
	Pinned    cell.PinnedID   `json:"pinned,omitempty"`
	Jobs      []JobID         `json:"jobs,omitempty"`  // that end, or leave the queue; of hardware_fixed besides
	Nodes     []cell.NodeName `json:"nodes,omitempty"` // to mend
	At        Time            `json:"at,omitempty"`
	// Preempts are jobs that are stopped or made opportunistic for it first.
	Preempts []JobID `json:"preempts,omitempty"`
}

// GangPlace is where a dry run put one gang.
type GangPlace struct {
	Gang  int32       `json:"gang"`
	Name  string      `json:"name"`
	Tasks []TaskPlace `json:"tasks"`
}

// TaskPlace is where one task would run.
type TaskPlace struct {
	Role          string        `json:"role"`
	Index         int32         `json:"index"`
	Node          cell.NodeName `json:"node"`
	SKU           cell.TypeName `json:"sku"`
	Devices       []int32       `json:"devices"`
	Parts         []int32       `json:"parts,omitempty"`
	amount.Limits               // what it might use
}

// Displaced is a job that gives way to one that starts.
type Displaced struct {
	JobBrief
	Lazily bool `json:"lazily,omitempty"` // it runs on as opportunistic
}
