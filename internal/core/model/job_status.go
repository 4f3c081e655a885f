package model

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// Phase is a job's state.
type Phase string

// Job phases: Waiting -> Active -> Succeeded | Failed | Stopped, and from Active
// back to Waiting when nothing of it runs any more.
const (
	Waiting   Phase = "Waiting"
	Active    Phase = "Active"
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Stopped   Phase = "Stopped"
)

// Ended reports whether the phase is final.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Stopped }

// JobStatus is a job as users see it: computed from State, and kept as it is in
// the table of finished jobs.
type JobStatus struct {
	ID        JobID         `json:"id"`
	Name      JobName       `json:"name"`
	User      Subject       `json:"user"`
	VC        cell.VCName   `json:"vc"`
	Priority  cell.Priority `json:"priority"`
	Phase     Phase         `json:"phase"`
	Submitted Time          `json:"submitted"`
	Started   Time          `json:"started,omitempty"` // first task of the first attempt
	Ended     Time          `json:"ended,omitempty"`
	// Ran is the run time of its longest gang in all attempts, without time in which it waited or
	// was suspended. Waited is the rest of the time since it was submitted, until now or its end.
	Ran       Duration        `json:"ran,omitempty"`
	Waited    Duration        `json:"waited,omitempty"`
	Leaves    int32           `json:"leaves"`  // of all tasks
	GPUs      int64           `json:"gpus"`    // that all tasks take; CPU slots have none
	Retry     int32           `json:"retry"`   // the job's attempt, from 0
	Counted   int32           `json:"counted"` // retries that counted
	Preempted int32           `json:"preempted"`
	Yielded   int32           `json:"yielded,omitempty"`  // preemptions by its own priority
	Stopping  bool            `json:"stopping,omitempty"` // a stop was requested
	Cause     EndCause        `json:"cause,omitempty"`
	Exit      *Exit           `json:"exit,omitempty"`
	Message   string          `json:"message,omitempty"`
	Outlook   *JobOutlook     `json:"outlook,omitempty"` // if it runs or is being stopped
	Coming    []Coming        `json:"coming,omitempty"`  // what will happen to it, the next first
	Tasks     []TaskStatus    `json:"tasks"`
	Attempts  []AttemptStatus `json:"attempts"`       // live ones and the last ended of each gang
	Held      *HoldStatus     `json:"held,omitempty"` // a user keeps it from starting
	Notices   []string        `json:"notices,omitempty"`
	Lasting   int             `json:"lasting,omitempty"` // the last Notices, which may go away
}

// TaskStatus is one task's present or last run.
type TaskStatus struct {
	Role     string        `json:"role"`
	Index    int32         `json:"index"`
	Gang     int32         `json:"gang"`
	State    TaskState     `json:"state"`
	Attempt  int32         `json:"attempt"` // N of the gang's attempt, 0 before the first
	Node     cell.NodeName `json:"node,omitempty"`
	SKU      cell.TypeName `json:"sku,omitempty"`
	Devices  []int32       `json:"devices,omitempty"`
	Parts    []int32       `json:"parts,omitempty"` // of each device, where leaves are parts
	Lost     []int32       `json:"lost,omitempty"`  // of Devices: they drain
	Host     string        `json:"host,omitempty"`
	Ports    []int32       `json:"ports,omitempty"`
	PID      int32         `json:"pid,omitempty"`
	Exit     *Exit         `json:"exit,omitempty"`
	Retries  int32         `json:"retries,omitempty"`
	Progress *TaskProgress `json:"progress,omitempty"`
	Limits                 // of one that was started
}

// The reasons, from the most to the least final.
const (
	NeverFits         Code = "NeverFits"         // it would not fit an empty and healthy cluster
	QuotaExceeded     Code = "QuotaExceeded"     // more than the VC's whole guarantee
	QuarantinedJob    Code = "Quarantined"       // set aside after an internal error
	OnHold            Code = "OnHold"            // a user holds it, until it is released
	HeldUnknown       Code = "HeldUnknown"       // its last attempt is not proven dead
	UserLimit         Code = "UserLimit"         // its user has all that one user may have in the VC
	BackOff           Code = "BackOff"           // refused starts or a retry delay, until a time
	BadHardware       Code = "BadHardware"       // it would fit if bad hardware were healthy
	HeldByOthers      Code = "HeldByOthers"      // it would fit if no program of others had devices
	Cordoned          Code = "Cordoned"          // it would fit if no node was cordoned
	Draining          Code = "Draining"          // it would fit if no attempts drained
	WaitingPreemption Code = "WaitingPreemption" // its cells are reserved, victims are being stopped
	HeldBack          Code = "HeldBack"          // it would fit, but its policy keeps it waiting
	PriorityAhead     Code = "PriorityAhead"     // it would fit, but jobs ahead of it come first
	VCBusy            Code = "VCBusy"            // too few free leaves in its VC
	ClusterBusy       Code = "ClusterBusy"       // opportunistic: too few free leaves anywhere
	NotLent           Code = "NotLent"           // opportunistic: it would fit if all VCs lent cells
	Fragmented        Code = "Fragmented"        // enough free leaves, but not in the shape
	NotYetDecided     Code = "NotYetDecided"     // it fits; the next decision starts it
)

// VCStatus is a VC's guarantee and use.
type VCStatus struct {
	Name   cell.VCName `json:"name"`
	Parent cell.VCName `json:"parent,omitempty"` // the VC that it is inside of
	// Children are the VCs inside it. With any, what it is guaranteed is without theirs.
	Children []cell.VCName `json:"children,omitempty"`
	Policy   string        `json:"policy"`
	Params   []Param       `json:"params,omitempty"` // of the policy
	// Failed is its own policy, if that failed: fifo serves it until a configuration is applied.
	Failed   *PolicyFailed `json:"failed,omitempty"`
	Backfill string        `json:"backfill,omitempty"` // "" is none
	// MinRun, Budget and Moves are those of VCConfig.
	MinRun Duration `json:"min_run,omitempty"`
	Budget *int32   `json:"budget,omitempty"`
	Moves  int32    `json:"moves_per_hour,omitempty"`
	SKUs   []VCUse  `json:"skus"` // guarantee and use by SKU
	// Guaranteed to Bad count leaves of all SKUs.
	Guaranteed    int32 `json:"guaranteed"`
	Used          int32 `json:"used"`               // of the guarantee
	Opportunistic int32 `json:"opportunistic"`      // borrowed by its opportunistic jobs
	Orphaned      int32 `json:"orphaned,omitempty"` // devices on which its jobs drain
	Gone          bool  `json:"gone,omitempty"`     // not in the configuration, but has jobs
	Lent          int32 `json:"lent"`               // lent to opportunistic jobs of other VCs
	// Bad are leaves of its bound cells that are bad, or on nodes that are down or suspect; those
	// of cordoned nodes are not bad.
	Bad int32 `json:"bad"`
	// HeldByOthers are leaves of its bound cells that are not bad, are not in use, and get no new
	// work since a program that is no job's has devices of their node.
	HeldByOthers int32 `json:"held_by_others,omitempty"`

	Waiting int32      `json:"waiting"` // jobs
	Active  int32      `json:"active"`  // jobs
	Cells   []QuotaUse `json:"cells"`
}

// Use returns the counts of a SKU. It adds an entry if there is none.
func (v *VCStatus) Use(c Carry) *VCUse {
	i, found := slices.BinarySearchFunc(v.SKUs, c.SKU, func(u VCUse,
		n cell.TypeName) int {
		return cmp.Compare(u.SKU, n)
	})
	if !found {
		v.SKUs = slices.Insert(v.SKUs, i, VCUse{Carry: c})
	}
	return &v.SKUs[i]
}

// Sum adds up the leaves of all SKUs.
func (v *VCStatus) Sum() {
	for i := range v.SKUs {
		u := &v.SKUs[i]
		v.Guaranteed += u.Guaranteed
		v.Used += u.Used
		v.Opportunistic += u.Opportunistic
		v.Lent += u.Lent
		v.Bad += u.Bad
		v.HeldByOthers += u.HeldByOthers
	}
}

// The kinds of Coming.
const (
	ComesStop  = "stop"          // it is being stopped
	ComesDrain = "drain"         // its node is drained
	ComesLimit = "time limit"    // its time limit is reached
	ComesLease = "lease"         // its policy's lease of the cells ends
	ComesFile  = "configuration" // a cluster file ends, or lacks its devices
	ComesBad   = "hardware"      // its hardware is declared bad, or does not answer
)
