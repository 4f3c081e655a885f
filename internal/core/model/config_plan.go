package model

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
)

// ConfigPlan is every effect that a configuration has on a running cluster. Lists
// hold what changes, except Running, which holds all attempts.
type ConfigPlan struct {
	Changed     bool               `json:"changed"`
	VCs         []VCChange         `json:"vcs"`
	Chains      []ChainChange      `json:"chains"`
	SKUs        []SKUChange        `json:"skus"`
	Nodes       []NodeChange       `json:"nodes"`
	Rules       []RuleChange       `json:"rules"` // of the whole cluster
	Throughputs []ThroughputChange `json:"throughputs"`
	Storages    []string           `json:"storages,omitempty"` // also of access, in words
	Running     []RunningEffect    `json:"running"`
	Starting    []StartEffect      `json:"starting"`
	Waiting     []WaitingEffect    `json:"waiting"`
	Effects     []string           `json:"effects"` // the whole plan in sentences

	ConfigTexts []string `json:"-"` // the changes of the configuration itself, in sentences
	Reader      Subject  `json:"-"` // the user for whom jobs are named in sentences
	First       bool     `json:"-"` // there was no configuration before: everything is new
	Seq         uint64   `json:"-"` // of the event Configured; the decisions that follow have later ones
}

// Loses reports whether a plan stops, relocates or demotes running work.
func (p *ConfigPlan) Loses() bool {
	return slices.ContainsFunc(p.Running, func(r RunningEffect) bool {
		return r.Demoted || r.Fate == IsStopped || r.Fate == Moves || r.Fate == Opportunistic || r.Fate == DrainsLazily
	})
}

// Fate is what becomes of an attempt or of a waiting job.
type Fate string

// The fates. Waiting jobs have the last three, attempts and promises the others.
const (
	Keeps         Fate = "keeps"            // it keeps its cells or promise, and its guarantee
	Opportunistic Fate = "opportunistic"    // it runs on, and loses its guarantee
	Regains       Fate = "guaranteed again" // it runs on, and has its guarantee back
	Drains        Fate = "drains"           // it runs on devices that the configuration lacks
	DrainsLazily  Fate = "drains, opportunistic"
	DrainsNoMore  Fate = "drains no more" // the devices are back
	IsStopped     Fate = "stopped"        // it is told to stop
	Moves         Fate = "moves"          // it is told to stop, and goes on elsewhere
	Leaves        Fate = "leaves"         // it was told to stop before
	WaitsAgain    Fate = "waits again"    // its promise is taken back; Starting may have another
	NeverStarts   Fate = "never"          // it cannot start even when all is free
	CanStart      Fate = "can start"      // it could not before
	Unbooked      Fate = "not booked"     // cells were booked for it, and its VC books none any more
)

// RunningEffect is what becomes of an attempt or a promise, after the decisions that follow the
// configuration at once.
type RunningEffect struct {
	Attempt    AttemptID   `json:"attempt"`
	Name       JobName     `json:"name"`
	User       Subject     `json:"user"`
	VC         cell.VCName `json:"vc"` // afterwards
	Fate       Fate        `json:"fate"`
	Guaranteed bool        `json:"guaranteed,omitempty"`     // afterwards, or until it stops
	Demoted    bool        `json:"lost_guarantee,omitempty"` // it lost its guarantee, and is stopped
	Lost       int32       `json:"lost,omitempty"`           // leaves that the configuration lacks
	Already    bool        `json:"already,omitempty"`        // it drains there as before
	Never      string      `json:"never,omitempty"`          // why it could not start again; news only
	// Cause says why it is stopped, and For for which job. For is also the job that takes its
	// guarantee.
	Cause string     `json:"cause,omitempty"`
	For   *JobCalled `json:"for,omitempty"`
	// Lender is the virtual cluster whose cells it has, which lends nothing any more.
	Lender cell.VCName `json:"lender,omitempty"`
	// Unsaved is how long it has run since its last checkpoint or its start, on so many Devices: a
	// stop loses that much work unless it saves in its grace.
	Unsaved Duration `json:"unsaved,omitempty"`
	Devices int32    `json:"devices,omitempty"`
	// ZeroEnds is why its gang is done if it ends with exit code 0 when it is told to stop.
	ZeroEnds string `json:"zero_ends,omitempty"`

	Lazy       bool        `json:"-"` // it was demoted before: a guaranteed priority, no guarantee
	DrainEnded bool        `json:"-"` // it drained before, and drains no more
	Promised   []cell.Task `json:"-"` // of a promise: its tasks, with new names of nodes
}

// JobCalled is a job by its number and its user's name for it.
type JobCalled struct {
	Job  JobID   `json:"job"`
	Name JobName `json:"name"`
	User Subject `json:"user"`
}

// StartEffect is a gang that gets cells, or a promise of cells, right after a change.
type StartEffect struct {
	Attempt AttemptID       `json:"attempt"`
	Name    JobName         `json:"name"`
	User    Subject         `json:"user"`
	VC      cell.VCName     `json:"vc"`
	Nodes   []cell.NodeName `json:"nodes"`
	// After are the jobs that stop first; none for a gang that starts at once.
	After      []JobCalled `json:"after,omitempty"`
	Guaranteed bool        `json:"guaranteed,omitempty"`
	Moves      bool        `json:"moves,omitempty"` // it runs now, and goes there

	Tasks []cell.Task `json:"-"`
	kept  bool        // it was promised the same before
}

// WaitingEffect is a waiting job that can never start under the new configuration,
// or can now, or that loses its booking.
type WaitingEffect struct {
	Job     JobID       `json:"job"`
	Name    JobName     `json:"name"`
	User    Subject     `json:"user"`
	VC      cell.VCName `json:"vc"`
	Fate    Fate        `json:"fate"`
	Already bool        `json:"already,omitempty"` // it could not start before either
	Reason  string      `json:"reason,omitempty"`
}

// Find returns the effect on an attempt; nil for one that began later.
func (p *ConfigPlan) Find(id AttemptID) *RunningEffect {
	i, found := slices.BinarySearchFunc(p.Running, id, func(e RunningEffect,
		id AttemptID) int {
		return CompareAttempts(e.Attempt, id)
	})
	if !found {
		return nil
	}
	return &p.Running[i]
}

// Demote records that a job takes the guarantee of an attempt.
func (p *ConfigPlan) Demote(id AttemptID, by *JobCalled) {
	if r := p.Find(id); r != nil {
		switch r.Guaranteed = false; {
		case r.Lazy && r.Fate == Regains: // what the configuration gave back is taken at once
			r.Fate = Keeps
		case r.Lazy:
		case r.Fate == Drains:
			r.Fate = DrainsLazily
		default:
			r.Fate, r.For = Opportunistic, by
		}
	}
}

// Upgrade records that an attempt has its guarantee back. If only this configuration took it, the
// attempt keeps it.
func (p *ConfigPlan) Upgrade(id AttemptID) {
	r := p.Find(id)
	if r == nil {
		return
	}
	switch r.Guaranteed = true; {
	case r.Fate == DrainsLazily:
		r.Fate = Drains
	case r.Fate == Drains:
	case r.Lazy:
		r.Fate = Regains
	default:
		r.Fate, r.For = Keeps, nil
	}
}

// Drop removes the start of an attempt from the plan.
func (p *ConfigPlan) Drop(id AttemptID) {
	p.Starting = slices.DeleteFunc(p.Starting, func(e StartEffect) bool { return e.Attempt == id })
}

// keepPromises merges a promise that is taken back with a new one of the same cells: the gang keeps
// them.
func (p *ConfigPlan) keepPromises() {
	for i := range p.Starting {
		e := &p.Starting[i]
		for k := range p.Running {
			r := &p.Running[k]
			switch {
			case r.Attempt.Job != e.Attempt.Job || r.Attempt.Gang != e.Attempt.Gang:
			case r.Fate == Moves:
				e.Moves = true
			case r.Fate == WaitsAgain && len(e.After) > 0 && slices.EqualFunc(r.Promised, e.Tasks, samePlace):
				r.Fate, e.kept = Keeps, true
			}
		}
	}
	p.Starting = slices.DeleteFunc(p.Starting, func(e StartEffect) bool { return e.kept })
}

// samePlace reports whether two tasks have the same devices.
func samePlace(a, b cell.Task) bool {
	return a.Node == b.Node && slices.Equal(a.Devices, b.Devices) && slices.Equal(a.Parts, b.Parts)
}

// Complete finishes a plan after the last decision was recorded.
func (p *ConfigPlan) Complete() {
	p.keepPromises()
	slices.SortFunc(p.Starting, func(a, b StartEffect) int { return CompareAttempts(a.Attempt, b.Attempt) })
	if !p.First {
		p.Effects = p.Sentences()
	}
}

// CompareAttempts orders attempts by job, gang and number.
func CompareAttempts(a, b AttemptID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang), cmp.Compare(a.N, b.N))
}
