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
	Ran       Duration      `json:"ran,omitempty"` // how long its longest gang ran, in all attempts: not while it waited or was suspended
	// Waited is the time since it was submitted, until now or its end, less the run time of its
	// longest gang.
	Waited    Duration        `json:"waited,omitempty"`
	Leaves    int32           `json:"leaves"`  // of all tasks
	GPUs      int64           `json:"gpus"`    // that all tasks take; CPU slots have none
	Retry     int32           `json:"retry"`   // the job's attempt, from 0
	Counted   int32           `json:"counted"` // retries that counted
	Preempted int32           `json:"preempted"`
	Yielded   int32           `json:"yielded,omitempty"`  // stops by its own priority, which its VC's budget bounds
	Stopping  bool            `json:"stopping,omitempty"` // a stop was asked
	Cause     EndCause        `json:"cause,omitempty"`
	Exit      *Exit           `json:"exit,omitempty"`
	Message   string          `json:"message,omitempty"`
	Outlook   *JobOutlook     `json:"outlook,omitempty"` // of one that runs or is being stopped
	Coming    []Coming        `json:"coming,omitempty"`  // what will happen to it, the first thing first
	Tasks     []TaskStatus    `json:"tasks"`
	Attempts  []AttemptStatus `json:"attempts"`       // live ones and the last ended of each gang
	Held      *HoldStatus     `json:"held,omitempty"` // by a user: it does not start
	Notices   []string        `json:"notices,omitempty"`
	Lasting   int             `json:"lasting,omitempty"` // of the notices, at their end: those that go again
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
	Lost     []int32       `json:"lost,omitempty"`  // devices among them that the configuration lacks now: they drain
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
	NeverFits         Code = "NeverFits"         // no cell of this cluster, empty and healthy, has the shape
	QuotaExceeded     Code = "QuotaExceeded"     // more than the VC's whole guarantee
	QuarantinedJob    Code = "Quarantined"       // set aside after an internal error
	OnHold            Code = "OnHold"            // a user holds it, until it is released
	HeldUnknown       Code = "HeldUnknown"       // its last attempt is not proven dead
	UserLimit         Code = "UserLimit"         // its user has all that one user may have in the VC
	BackOff           Code = "BackOff"           // refused starts or a retry delay, until a time
	BadHardware       Code = "BadHardware"       // it would fit if what is bad were healthy
	Draining          Code = "Draining"          // it would fit if tasks had left devices that the configuration lacks
	WaitingPreemption Code = "WaitingPreemption" // its cells are reserved, victims are leaving
	HeldBack          Code = "HeldBack"          // it would fit, but its VC's policy keeps it waiting, such as for a limit
	PriorityAhead     Code = "PriorityAhead"     // it would fit, but jobs before it in the order come first
	VCBusy            Code = "VCBusy"            // too few free leaves in its VC
	ClusterBusy       Code = "ClusterBusy"       // opportunistic: too few free leaves anywhere
	NotLent           Code = "NotLent"           // opportunistic: it would fit, but on cells of VCs that lend nothing
	Fragmented        Code = "Fragmented"        // enough free leaves, but not in the shape
	NotYetDecided     Code = "NotYetDecided"     // it fits; the next decision starts it
)

// VCStatus is a VC's guarantee and use.
type VCStatus struct {
	Name          cell.VCName   `json:"name"`
	Parent        cell.VCName   `json:"parent,omitempty"`   // whose cells it is a part of
	Children      []cell.VCName `json:"children,omitempty"` // that have a part of its cells; what it is guaranteed is for its own jobs then
	Policy        string        `json:"policy"`
	Params        []Param       `json:"params,omitempty"`         // of the policy
	Failed        *PolicyFailed `json:"failed,omitempty"`         // its own policy, which fifo replaces until a configuration is applied
	Backfill      string        `json:"backfill,omitempty"`       // none is left out
	MinRun        Duration      `json:"min_run,omitempty"`        // of an attempt, before its own priority may preempt it
	Budget        *int32        `json:"budget,omitempty"`         // of preemptions within its priority, when the cluster file has one
	Moves         int32         `json:"moves_per_hour,omitempty"` // of its gangs, for one that waits
	SKUs          []VCUse       `json:"skus"`                     // what it is guaranteed and uses, by SKU
	Guaranteed    int32         `json:"guaranteed"`               // leaves, of whatever SKU, as in what follows
	Used          int32         `json:"used"`                     // of the guarantee
	Opportunistic int32         `json:"opportunistic"`            // leaves borrowed
	Orphaned      int32         `json:"orphaned,omitempty"`       // devices that its jobs still use and the configuration lacks
	Gone          bool          `json:"gone,omitempty"`           // no longer in the configuration; its jobs are
	Lent          int32         `json:"lent"`                     // leaves that it does not use, and opportunistic jobs of others have
	Bad           int32         `json:"bad"`                      // leaves of its bound cells that are bad, or on nodes that are down or suspect; cordoned is not bad
	Waiting       int32         `json:"waiting"`                  // jobs
	Active        int32         `json:"active"`
	Cells         []QuotaUse    `json:"cells"`
}

// Use returns what is counted of a SKU, in order of name.
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
	}
}

// The kinds of what comes.
const (
	ComesStop  = "stop"          // it is being stopped
	ComesDrain = "drain"         // its node is drained
	ComesLimit = "time limit"    // it may not run for longer
	ComesLease = "lease"         // its policy gave it its GPUs for a while
	ComesFile  = "configuration" // the cluster file
	ComesBad   = "hardware"      // what it runs on is declared bad, or does not answer
)
