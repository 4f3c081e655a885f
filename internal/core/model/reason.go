package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Code is why a job waits.
type Code string

// SuggestionKind is a kind of change that would let a job start.
type SuggestionKind string

// GangShare says with which jobs a gang shares its leaves. With a quantum they take turns:
// the gang has Turn, from 1, of Turns. Without one all run at once.
type GangShare struct {
	Gang    int32      `json:"gang"`
	Name    string     `json:"name"`
	With    []JobBrief `json:"with"`
	Quantum Duration   `json:"quantum,omitempty"`
	Turn    int32      `json:"turn,omitempty"`
	Turns   int32      `json:"turns,omitempty"`
	Runs    bool       `json:"runs"`           // now
	Next    Time       `json:"next,omitempty"` // when Runs changes, if the turns stay
}

// JobBrief is what other users may know about a job that is in the way of theirs.
type JobBrief struct {
	Job      JobID         `json:"job"`
	Name     JobName       `json:"name"`
	User     Subject       `json:"user,omitempty"` // "" if the reader may not see it
	VC       cell.VCName   `json:"vc"`
	Priority cell.Priority `json:"priority"`
	Leaves   int32         `json:"leaves"` // of all its tasks
	// Takes is what the leaves are, such as "4 GPUs", or "2 GPUs (V100) and 8 CPUs (SLOT)".
	Takes string `json:"takes"`
	// Ends is its latest end, as it declares, or with Likely the likely end by the steps that its
	// tasks report. 0 is not known.
	Ends    Time   `json:"ends,omitempty"`
	Likely  bool   `json:"likely,omitempty"`
	Basis   string `json:"basis,omitempty"`   // of Ends, or why it is not known
	Unknown bool   `json:"unknown,omitempty"` // nothing proves whether it still lives
}

// GangReason is the reason of one gang. The gangs of a job that have the same
// shape wait for the same: only the first has levels and suggestions.
type GangReason struct {
	Gang   int32  `json:"gang"`
	Name   string `json:"name"`
	Reason Reason `json:"reason"`
	// Cut says where the search for cells was cut short; empty when every
	// possibility was tried.
	Cut string `json:"cut,omitempty"`
	// ReservedAt is when the gang starts at the latest, by its VC's booking, and
	// Bound says so in words; both are empty without one. The time is 0 as well if it
	// depends on jobs that declare no limit.
	ReservedAt  Time         `json:"reserved_at,omitempty"`
	Bound       string       `json:"bound,omitempty"`
	Levels      []LevelUse   `json:"levels,omitempty"`
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	// Untried is set when a bound on the cost kept some changes from being tried.
	Untried bool `json:"untried,omitempty"`
}

// LevelUse counts the cells of one level of a chain as one gang sees them. Each
// cell is counted once: Cells = Bad + HeldByOthers + Cordoned + Avoided + sum of Held + Lent +
// Free.
type LevelUse struct {
	Chain  cell.ChainName `json:"chain"`
	Pinned cell.PinnedID  `json:"pinned,omitempty"` // only cells inside that pinned cell
	Level  cell.Level     `json:"level"`
	Type   cell.TypeName  `json:"type"`
	Cells  int32          `json:"cells"`
	Wanted int32          `json:"wanted"`          // cells that the gang takes if packed tightly
	Owned  int32          `json:"owned,omitempty"` // cells that its VC is guaranteed
	Unused int32          `json:"unused"`          // of Owned, not used by guaranteed work
	Free   int32          `json:"free"`            // whole cells without any obstacle
	Held   []VCCells      `json:"held,omitempty"`  // used or kept by guarantees, by VC
	Lent   int32          `json:"lent"`            // used by opportunistic work alone
	Bad    int32          `json:"bad"`             // something in it is bad, down or suspect
	// HeldByOthers are cells of which nothing is bad, and something is a program's that is not of
	// a job.
	HeldByOthers int32 `json:"held_by_others,omitempty"`

	Cordoned int32 `json:"cordoned,omitempty"` // else something in it is cordoned
	Avoided  int32 `json:"avoided"`            // the gang may not use all of its nodes
	Until    Time  `json:"until,omitempty"`    // when a cell is left first, by limits
}

// VCCells counts cells that a VC's guarantee keeps.
type VCCells struct {
	VC    cell.VCName `json:"vc"`
	Cells int32       `json:"cells"`
}

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
	Jobs      []JobID         `json:"jobs,omitempty"`  // jobs that have to end, or leave the queue
	Nodes     []cell.NodeName `json:"nodes,omitempty"` // nodes that have to be repaired
	At        Time            `json:"at,omitempty"`
	// Preempts are jobs that are stopped or demoted for it first.
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
	Role    string        `json:"role"`
	Index   int32         `json:"index"`
	Node    cell.NodeName `json:"node"`
	SKU     cell.TypeName `json:"sku"`
	Devices []int32       `json:"devices"`
	Parts   []int32       `json:"parts,omitempty"`
	Limits                // what it might use
}

// Displaced is a job that gives way to one that starts.
type Displaced struct {
	JobBrief
	Lazily bool `json:"lazily,omitempty"` // it runs on as opportunistic
}

// Reason is why a gang waits: the value that every interface shows.
type Reason struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"` // one sentence with the numbers
	Until   Time            `json:"until,omitempty"`
	Jobs    []JobID         `json:"jobs,omitempty"`  // those ahead, in the way, or leaving; at most 10
	Nodes   []cell.NodeName `json:"nodes,omitempty"` // bad, avoided or held nodes; at most 10
	// More and MoreNodes are how many jobs and nodes there are that are not named.
	More      int `json:"more,omitempty"`
	MoreNodes int `json:"more_nodes,omitempty"`
	// Besides are further reasons, other than jobs and nodes, that would keep it waiting when all
	// that is named here is gone.
	Besides []Code `json:"besides,omitempty"`
	Need    int32  `json:"need"` // leaves the gang asks for
	// Free is how many leaves are free to it now, and Total how many it may ever use. If all its
	// tasks must run on one SKU they are the most of one SKU, else the sum.
	Free  int32  `json:"free"`
	Total int32  `json:"total"`
	Asks  string `json:"asks"`            // what the leaves it asks for are, such as "4 GPUs"
	Rooms []Room `json:"rooms,omitempty"` // free and total by SKU
}

// Estimate is when a job would start, if those that run end as they declare and
// no job is submitted that goes before it.
type Estimate struct {
	Earliest Time `json:"earliest,omitempty"` // 0: not known
	Latest   Time `json:"latest,omitempty"`   // 0: not known
	// Confidence is in how many of 100 cases it starts within that range; 0 if the range rests on
	// what jobs declare alone. With a Confidence AtLatest is the start if all jobs run as long as
	// they declare; 0 is not known.
	Confidence int32 `json:"confidence,omitempty"`
	AtLatest   Time  `json:"at_latest,omitempty"`
	// Basis says in words what the times rest on, Unknown why one is missing.
	Basis   string `json:"basis,omitempty"`
	Unknown string `json:"unknown,omitempty"`
	// Order says which jobs start before it that wait behind it now, and the reverse.
	Order string  `json:"order,omitempty"`
	Jobs  []JobID `json:"jobs,omitempty"` // whose end is not known
	// Ends are the ends that come before the latest start; at most 10.
	Ends []EstimatedEnd `json:"ends,omitempty"`
	// Steps is how many decisions were taken, and Bounded whether the bound on them was
	// reached.
	Steps   int32 `json:"steps"`
	Bounded bool  `json:"bounded,omitempty"`
}

// Expected is when a waiting job would start, by an estimate without draws.
type Expected struct {
	Job      JobID `json:"job"`
	Earliest Time  `json:"earliest"`         // as soon as is likely
	Latest   Time  `json:"latest,omitempty"` // 0: not known
}

// Add adds the start in one more run of the estimate; 0 is no start. The slowest run, in which jobs
// run as long as they may, must come first. If one run has no start the latest is not known.
func (s *Expected) Add(id JobID, at Time, slowest bool) {
	s.Job = id
	switch {
	case at == 0:
		s.Latest = 0
		return
	case slowest:
		s.Latest = at
	case s.Latest > 0:
		s.Latest = max(s.Latest, at)
	}
	if s.Earliest == 0 || at < s.Earliest {
		s.Earliest = at
	}
}

// EstimatedEnd is one end that an estimate counts on.
type EstimatedEnd struct {
	Job   JobID   `json:"job"`
	Name  JobName `json:"name"`
	At    Time    `json:"at"`
	Basis string  `json:"basis"`
}

// Say returns the reason with a code and a formatted sentence.
func (r Reason) Say(c Code, format string, a ...any) Reason {
	r.Code, r.Message = c, fmt.Sprintf(format, a...)
	return r
}

// WantedCells is how many empty cells of a size the members need: a task larger than
// a cell takes whole ones, smaller ones share.
func WantedCells(members []cell.Member, size int32) int32 {
	type open struct{ room, cells int32 }
	var rooms []open
	var n int32
	sorted := slices.SortedStableFunc(slices.Values(members),
		func(a, b cell.Member) int { return cmp.Compare(b.Leaves, a.Leaves) })
	for _, m := range sorted {
		tasks := m.Tasks
		if m.Leaves >= size {
			n += tasks * ((m.Leaves + size - 1) / size)
			continue
		}
		had := len(rooms)
		for i := range had {
			o := &rooms[i]
			per := o.room / m.Leaves
			full := min(tasks, o.cells*per)
			if full == 0 {
				continue
			}
			took := (full + per - 1) / per
			rooms = append(rooms, open{o.room - per*m.Leaves, full / per})
			if rest := full % per; rest > 0 {
				rooms = append(rooms, open{o.room - rest*m.Leaves, 1})
			}
			rooms[i].cells -= took
			tasks -= full
		}
		per := size / m.Leaves
		n += (tasks + per - 1) / per
		rooms = append(rooms, open{size - per*m.Leaves, tasks / per})
		if rest := tasks % per; rest > 0 {
			rooms = append(rooms, open{size - rest*m.Leaves, 1})
		}
		rooms = slices.DeleteFunc(rooms, func(o open) bool { return o.cells == 0 || o.room == 0 })
	}
	return n
}
