package model

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// DrainPlan is what a drain of a node does to each job, as the deciding code finds it on a copy of
// the state. Jobs that are submitted later, or end before their limits, change it.
type DrainPlan struct {
	Node cell.NodeName `json:"node"`
	By   Time          `json:"by"` // the deadline
	// Jobs have work on the node. Others run elsewhere and are stopped for these.
	Jobs   []DrainEffect `json:"jobs"`
	Others []DrainEffect `json:"others,omitempty"`
}

// The fates of a drain.
const (
	EndsBefore  Fate = "ends"    // it ends by itself, by the deadline
	StartsAgain Fate = "starts"  // it is stopped, and starts again at once
	WaitsThere  Fate = "waits"   // it is stopped, and waits
	EndsThen    Fate = "over"    // it is stopped, and does not run again
	StaysUnsure Fate = "unknown" // it is unknown, and keeps its devices
)

// DrainEffect is what becomes of one attempt.
type DrainEffect struct {
	Attempt    AttemptID       `json:"attempt"`
	Name       JobName         `json:"name"`
	User       Subject         `json:"user"`
	Ref        string          `json:"ref"` // as the reader calls the job
	VC         cell.VCName     `json:"vc"`
	Fate       Fate            `json:"fate"`
	Guaranteed bool            `json:"guaranteed,omitempty"`
	Leaves     int32           `json:"leaves,omitempty"` // leaves that it has on the node
	Ends       Time            `json:"ends,omitempty"`   // its own end, at the latest
	Likely     Time            `json:"likely,omitempty"` // its likely end, if before the deadline
	Stopped    Time            `json:"stopped,omitempty"`
	Starts     Time            `json:"starts,omitempty"` // when it starts again, at the latest
	Nodes      []cell.NodeName `json:"nodes,omitempty"`  // where it starts again
	After      []JobCalled     `json:"after,omitempty"`  // the jobs that are stopped for it
	For        *JobCalled      `json:"for,omitempty"`    // in Others: the job for which it is stopped
	Back       bool            `json:"back,omitempty"`   // it could start if the node were back
	There      bool            `json:"there,omitempty"`  // a part of its VC's guarantee is on the node
	Reason     string          `json:"reason,omitempty"` // why it waits
	// Unsaved is how long it has run since its last checkpoint or its start, and Devices on how
	// many.
	Unsaved Duration `json:"unsaved,omitempty"`
	Devices int32    `json:"devices,omitempty"`
	// ZeroEnds is why its gang is done if it ends with exit code 0 when it is told to stop.
	ZeroEnds string `json:"zero_ends,omitempty"`
	Says     string `json:"says"` // all of it in a sentence
}

// Say writes the sentence of each effect. It names jobs as reader knows them; when formats a time.
func (p *DrainPlan) Say(reader Subject, when func(Time) string) {
	for _, list := range [][]DrainEffect{p.Jobs, p.Others} {
		for i := range list {
			e := &list[i]
			e.Ref, e.Says = e.Name.ShownTo(reader, e.User), e.sentence(p.Node, reader, when)
		}
	}
}

func (e *DrainEffect) sentence(node cell.NodeName, reader Subject, when func(Time) string) string {
	switch e.Fate {
	case EndsBefore:
		return "ends by itself before that, by " + when(e.Ends)
	case StaysUnsure:
		return "does not answer: it keeps its devices until its end is proven or the node is declared dead"
	case EndsThen:
		return "is stopped and ends"
	case "":
		return "goes on until then; the plan looks no further ahead"
	}
	text := "is stopped"
	if e.Likely > 0 {
		text = "likely ends by itself at " + when(e.Likely) + "; else it is stopped"
	}
	switch {
	case e.For != nil && e.Guaranteed:
		text += " for " + e.For.shownTo(reader)
	case e.For != nil:
		text += " for " + e.For.shownTo(reader) + ", opportunistic"
	case !e.Guaranteed:
		text += ", opportunistic"
	}
	text += e.goesOn(node, reader, when)
	if e.Unsaved > 0 {
		text += "; " + LosesText(e.Unsaved, e.Devices)
	}
	return text + ExitZeroText(e.ZeroEnds)
}

// ExitZeroText is the end of a sentence about a stop, if exit code 0 then counts as a gang's end.
// why is the reason, "" where it does not count.
func ExitZeroText(why string) string {
	if why == "" {
		return ""
	}
	return "; exit code 0 then counts as done, " + why
}

// goesOn says where, or when, an attempt that is stopped starts again.
func (e *DrainEffect) goesOn(node cell.NodeName, reader Subject, when func(Time) string) string {
	if e.Fate == StartsAgain {
		text := ", and starts again on " + NodesText(e.Nodes)
		if len(e.After) == 0 {
			return text
		}
		var after []string
		for i := range e.After {
			after = append(after, e.After[i].shownTo(reader))
		}
		return text + " after " + JoinAnd(after) + " made room"
	}
	var until []string
	if e.Starts > 0 {
		until = append(until, when(e.Starts)+" at the latest, to start again on "+NodesText(e.Nodes))
	}
	if e.Back {
		back := fmt.Sprintf("%s is back", node)
		if e.There {
			back += fmt.Sprintf(" (it has a part of %s's guarantee)", e.VC)
		}
		until = append(until, back)
	}
	text := ", and waits"
	if len(until) > 0 {
		text += " until " + strings.Join(until, ", or until ")
	}
	if e.Reason != "" && !e.There {
		text += ": " + e.Reason
	}
	return text
}
