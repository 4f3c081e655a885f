package rest

import (
	"fmt"
	"slices"

	"github.com/combsched/comb/internal/core/exit"
	"github.com/combsched/comb/internal/core/model"
)

// This file alone maps the core's types to those of the API. So the core's types and the
// journal may change while the API stays. Numbers, instants, names and the words of states
// are shared.

// StatusOf is a job's status in the API.
func StatusOf(j *model.JobStatus) JobStatus {
	out := JobStatus{
		ID: j.ID, Name: j.Name, User: j.User, VC: j.VC, Priority: j.Priority, Phase: j.Phase,
		Submitted: j.Submitted, Started: j.Started, Ended: j.Ended, Ran: j.Ran, Waited: j.Waited,
		Leaves: j.Leaves, GPUs: j.GPUs,
		Retry: j.Retry, Counted: j.Counted, Preempted: j.Preempted, Yielded: j.Yielded, Stopping: j.Stopping, Held: (*Held)(j.Held),
		Cause: j.Cause, Exit: ExitOf(j.Exit), Message: j.Message, Outlook: (*JobOutlook)(j.Outlook),
		Coming: each(j.Coming, comingOf),
		Tasks:  each(j.Tasks, taskOf), Attempts: each(j.Attempts, attemptOf), Notices: j.Notices, Lasting: j.Lasting,
	}
	if j.Phase == model.Failed || j.Phase == model.Stopped {
		out.ExitClass = ClassOf(j.Exit, j.Cause)
	}
	causes := map[model.AttemptID]model.EndCause{}
	for i := range j.Attempts {
		causes[j.Attempts[i].ID] = j.Attempts[i].Cause
	}
	for i := range out.Tasks {
		if t := &out.Tasks[i]; t.State == model.TaskFailed || t.State == model.TaskEnded {
			t.ExitClass = ClassOf(j.Tasks[i].Exit, causes[model.AttemptID{Job: j.ID, Gang: t.Gang, N: t.Attempt}])
		}
	}
	if out.Phase.Ended() {
		out.ExitClass.Final()
		for i := range out.Tasks {
			out.Tasks[i].ExitClass.Final()
		}
	}
	return out
}

// Final marks an end that no further try follows; a nil class stays nil.
func (c *ExitClass) Final() {
	if c != nil {
		c.Actor, c.Retry, c.Next = exit.Final(c.Actor, c.Retry, c.Next)
	}
}

// ClassOf is the class of an unsuccessful end. cause is that of the job or of the attempt.
func ClassOf(e *model.Exit, cause model.EndCause) *ExitClass {
	seen := exit.Observed{}
	if e != nil {
		seen = e.Seen()
	}
	seen.End = cause.String()
	if e == nil && seen.End == "" {
		seen.End = "failed"
	}
	v := exit.Judge(seen)
	return &ExitClass{Code: v.Code, Phrase: v.Phrase, Class: v.Class, Actor: v.Actor, Retry: v.Retry, Means: v.Means, Next: v.Next}
}

func taskOf(t *model.TaskStatus) TaskStatus {
	return TaskStatus{
		Role: t.Role, Index: t.Index, Gang: t.Gang, State: t.State, Attempt: t.Attempt, Node: t.Node, SKU: t.SKU,
		Devices: t.Devices, Parts: t.Parts, Lost: t.Lost, Host: t.Host, Ports: t.Ports, PID: t.PID,
		Exit: ExitOf(t.Exit), Retries: t.Retries, Progress: progressOf(t.Progress), Limits: t.Limits,
	}
}

func attemptOf(a *model.AttemptStatus) AttemptStatus { return AttemptStatus(*a) }

// ExitOf is how a task ended; nil stays nil.
func ExitOf(e *model.Exit) *Exit {
	if e == nil {
		return nil
	}
	return &Exit{Code: e.Code, Signal: e.Signal, Cause: e.Cause, Message: e.Message, Own: e.Own, At: e.At}
}

func progressOf(p *model.TaskProgress) *TaskProgress {
	if p == nil {
		return nil
	}
	return &TaskProgress{
		At: p.At, Step: p.Step, StepAt: p.StepAt, Total: p.Total, From: p.From, FromAt: p.FromAt,
		Loss: p.Loss, LossAt: p.LossAt, MemoryMB: p.MemoryMB, Checkpoint: p.Checkpoint, Use: UseOf(p.Use),
	}
}

// UseOf is the utilization of devices; nil stays nil.
func UseOf(u *model.DeviceUse) *DeviceUse { return (*DeviceUse)(u) }

// ReasonOf is why a gang waits; nil stays nil.
func ReasonOf(r *model.Reason) *Reason {
	if r == nil {
		return nil
	}
	return &Reason{
		Code: r.Code, Message: r.Message, Until: r.Until, Jobs: r.Jobs, More: r.More, Nodes: r.Nodes, MoreNodes: r.MoreNodes,
		Besides: r.Besides, Need: r.Need, Free: r.Free, Total: r.Total, Asks: r.Asks,
		Rooms: each(r.Rooms, func(m *model.Room) Room { return Room(*m) }),
	}
}

// VCOf is a VC's guarantee and use in the API.
func VCOf(v *model.VCStatus) VCStatus {
	return VCStatus{
		Name: v.Name, Parent: v.Parent, Children: v.Children, Policy: v.Policy, Params: each(v.Params, func(p *model.Param) Param { return Param(*p) }),
		Failed: (*PolicyFailed)(v.Failed), Backfill: v.Backfill, MinRun: v.MinRun, Budget: v.Budget, Moves: v.Moves,
		SKUs: each(v.SKUs, func(u *model.VCUse) VCUse { return VCUse(*u) }), Guaranteed: v.Guaranteed, Used: v.Used, Opportunistic: v.Opportunistic,
		Orphaned: v.Orphaned, Gone: v.Gone, Lent: v.Lent, Bad: v.Bad,
		HeldByOthers: v.HeldByOthers, Waiting: v.Waiting, Active: v.Active,
		Cells: each(v.Cells, func(q *model.QuotaUse) QuotaUse { return QuotaUse(*q) }),
	}
}

// NodeOf is a node in the API.
func NodeOf(n *model.NodeStatus) NodeStatus {
	return NodeStatus{
		Name: n.Name, Up: n.Up, Cordoned: n.Cordoned, Suspect: n.Suspect, Drain: n.Drain, Dead: n.Dead, By: n.By, Since: n.Since,
		Reason: n.Reason, Gone: n.Gone, Orphaned: n.Orphaned, SKUs: each(n.SKUs, func(s *model.NodeSKU) NodeSKU { return NodeSKU(*s) }),
	}
}

// CellOf is a cell with its children in the API. Its depth is that of the cluster's levels.
func CellOf(c *model.CellStatus) CellStatus {
	return CellStatus{
		Type: c.Type, Address: c.Address, Level: c.Level, Node: c.Node, State: c.State, Healthy: c.Healthy, Priority: c.Priority,
		VC: c.VC, Virtual: c.Virtual, Pinned: c.Pinned, Job: c.Job, Children: each(c.Children, CellOf),
	}
}

// VCsOf maps a list of the core, as do NodesOf and CellsOf. A nil list becomes an empty one.
func VCsOf(list []model.VCStatus) []VCStatus { return append([]VCStatus{}, each(list, VCOf)...) }

// NodesOf is like VCsOf.
func NodesOf(list []model.NodeStatus) []NodeStatus {
	return append([]NodeStatus{}, each(list, NodeOf)...)
}

// CellsOf is like VCsOf.
func CellsOf(list []model.CellStatus) []CellStatus {
	return append([]CellStatus{}, each(list, CellOf)...)
}

// each maps a list; nil stays nil.
func each[A, B any](list []A, f func(*A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = f(&list[i])
	}
	return out
}

// Hide removes the names and users of hidden jobs from an explanation.
func Hide(ex *model.Explanation, hidden func(model.JobID) bool) {
	hide := func(b *model.JobBrief) {
		if hidden(b.Job) {
			b.Name, b.User = model.JobName(fmt.Sprint("job ", b.Job)), ""
		}
	}
	for i := range ex.Ahead {
		hide(&ex.Ahead[i])
	}
	for i := range ex.Blockers {
		hide(&ex.Blockers[i])
	}
	for i := range ex.Preempts {
		hide(&ex.Preempts[i].JobBrief)
	}
	for i := range ex.Shares {
		for k := range ex.Shares[i].With {
			hide(&ex.Shares[i].With[k])
		}
	}
	if ex.Estimate == nil {
		return
	}
	for i := range ex.Estimate.Ends {
		if e := &ex.Estimate.Ends[i]; hidden(e.Job) {
			e.Name = model.JobName(fmt.Sprint("job ", e.Job))
		}
	}
}

// mostNotes bounds the notes on nodes in an explanation.
const mostNotes = 10

// NotesOf are the notes on the nodes that an explanation names.
func NotesOf(nodes []model.NodeStatus, ex *model.Explanation) (notes []NodeNote) {
	for i := range nodes {
		n := &nodes[i]
		named := slices.ContainsFunc(ex.Gangs, func(g model.GangReason) bool { return slices.Contains(g.Reason.Nodes, n.Name) })
		if named && n.Reason != "" && len(notes) < mostNotes {
			notes = append(notes, NodeNote{n.Name, n.Cordoned, n.By, n.Since, n.Reason})
		}
	}
	return notes
}

func comingOf(c *model.Coming) Coming { return Coming(*c) }
