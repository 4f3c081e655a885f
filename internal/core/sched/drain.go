package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// DeclareDead says that a node is dead, though nothing proves it: what is unknown there counts as
// ended, by the word of the one who says so.
type DeclareDead struct {
	Meta
	Node   cell.NodeName
	Reason string
}

// drainDue reports whether an attempt has a task on a node that it must leave by now.
func (s *index) drainDue(a *attempt) bool {
	if s.looks.drains == 0 {
		return false
	}
	j := &s.jobs[a.job]
	for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; t.place != nil && !t.dead {
			if n := s.noted(t.place.Node); n.Cordon && n.Drain > 0 && n.Drain <= s.now {
				return true
			}
		}
	}
	return false
}

// drainsOf counts the nodes that drain, or have drained: a cluster without any asks nothing of its
// attempts.
func drainsOf(nodes []nodeNote) (n int32) {
	for i := range nodes {
		if nodes[i].Cordon && nodes[i].Drain > 0 {
			n++
		}
	}
	return n
}

// touchOn has what runs on a node settled.
func (s *index) touchOn(node cell.NodeName) {
	for i := range s.attempts {
		if a := &s.attempts[i]; a.job != none && a.state != model.AttemptReserving && s.isOn(a, node) {
			s.touch(a.job)
		}
	}
}

// isOn reports whether a task of an attempt lives, or may live, on a node.
func (s *tables) isOn(a *attempt, node cell.NodeName) bool {
	j := &s.jobs[a.job]
	return slices.ContainsFunc(j.spec.Gangs[a.id.Gang].Tasks, func(o int32) bool {
		t := &j.tasks[o]
		return t.place != nil && !t.dead && t.place.Node == node
	})
}

// checkDead turns the word that a node is dead into what it means: the node is cordoned, and each
// task of it that is not known to live has ended by the loss of its node.
func (s *tables) checkDead(c DeclareDead) ([]Event, Answer, *Refusal) {
	if s.cl == nil || s.cl.Forest().NodeIndex(c.Node) == cell.None {
		return nil, Answer{}, noNode(s, c.Node)
	}
	down := s.noted(c.Node).Down
	out := []Event{NodeCordoned{Node: c.Node, On: true, Dead: true, Reason: c.Reason, Meta: c.Meta}}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.state == model.AttemptReserving {
			continue
		}
		j := &s.jobs[a.job]
		for _, o := range j.spec.Gangs[a.id.Gang].Tasks {
			if t := &j.tasks[o]; t.place != nil && !t.dead && t.place.Node == c.Node && (down || t.state == model.TaskIsUnknown) {
				out = append(out, TaskExited{Attempt: a.id, Task: o, Exit: Exit{Cause: NodeLost, Message: "its node was declared dead" + inBrackets(c.Reason)}})
			}
		}
	}
	if len(out) == 1 && !down {
		return nil, Answer{}, refuse(Conflict, "node %s is up, and nothing there is unknown: comb node drain has what runs there leave", c.Node)
	}
	return out, Answer{}, nil
}

// drainsAt has what runs on the nodes settled whose drain is due at an instant, and reports whether
// there are any.
func (s *index) drainsAt(at model.Time) bool {
	due := false
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Cordon && n.Drain == at {
			s.touchOn(n.Name)
			due = true
		}
	}
	return due
}

// OnNode is what one job has on one node.
type OnNode struct {
	Job     model.JobID        `json:"job"`
	Leaves  int32              `json:"leaves"`
	State   model.AttemptState `json:"state"`
	Attempt model.AttemptID    `json:"attempt"`
}

// On returns what runs, or may live, on a node, in order of job.
func (s *tables) On(node cell.NodeName) []OnNode {
	out := []OnNode{}
	for i := range s.attempts {
		a := &s.attempts[i]
		if a.job == none || a.state == model.AttemptReserving || !s.isOn(a, node) {
			continue
		}
		one := OnNode{Job: a.id.Job, State: a.state, Attempt: a.id}
		for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
			if t.Node == node {
				one.Leaves += int32(len(t.Leaves))
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b OnNode) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}
