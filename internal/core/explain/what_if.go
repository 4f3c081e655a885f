package explain

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/decide"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// WhatIf is a copy of a state on which a change is tried: the deciding code then
// shows what the change leads to.
type WhatIf struct {
	*Explainer
	At       model.Time
	gotCells []model.JobID // jobs that got cells, or a promise of cells, in decisions here
}

// ApplyEvents applies events at w.At.
func (w *WhatIf) ApplyEvents(events ...model.Event) {
	for _, e := range events {
		w.Apply(model.Record{Seq: w.Seq + 1, Time: w.At, Event: e})
	}
}

// fact applies a fact, unless the state knows it already.
func (w *WhatIf) fact(f model.Fact) { w.ApplyEvents(w.Accept(f)...) }

// Decide decides, and repeats that while a decision asks for another one at
// once. It returns the decisions.
func (w *WhatIf) Decide() []model.Record {
	log := w.Settle(w.At)
	w.At = max(w.At, w.Now)
	for _, r := range log {
		switch e := r.Event.(type) {
		case model.Placed:
			w.gotCells = append(w.gotCells, e.Attempt.Job)
		case model.Reserved:
			w.gotCells = append(w.gotCells, e.Attempt.Job)
		case model.Joined:
			w.gotCells = append(w.gotCells, e.Attempt.Job)
		case model.Upgraded:
			w.gotCells = append(w.gotCells, e.Attempt.Job)
		}
	}
	w.DropEnded()
	return log
}

// finish ends a job: it is stopped, and its tasks are proven dead.
func (w *WhatIf) finish(id model.JobID) {
	j := w.Find(id)
	if j == nil {
		return
	}
	if !j.Stop {
		w.ApplyEvents(model.StopRequested{Job: id})
	}
	w.killTasks(id, model.Exit{})
}

func (w *WhatIf) killTasks(id model.JobID, x model.Exit) {
	for g := range w.Find(id).Gangs {
		if at := w.Find(id).Gangs[g].Attempt; at != tables.None {
			w.kill(w.Attempts[at].ID, x)
		}
	}
}

// kill proves all tasks of an attempt dead.
func (w *WhatIf) kill(id model.AttemptID, x model.Exit) {
	if j := w.Find(id.Job); j != nil {
		for _, o := range j.Spec.Gangs[id.Gang].Tasks {
			w.fact(model.TaskExited{Attempt: id, Task: o, Exit: x})
		}
	}
}

// repair brings a node and all that is on it back into service.
func (w *WhatIf) repair(name cell.NodeName) {
	w.fact(model.NodeHealth{Node: name, Up: true})
	w.ApplyEvents(model.NodeCordoned{Node: name})
	for _, l := range slices.Clone(w.Leaves) {
		if l.Node == name {
			w.fact(model.LeafHealth{Node: name, SKU: l.SKU, Device: l.Device, Part: l.Part, Good: true})
		}
	}
	w.ApplyEvents(model.NodeSuspected{Node: name})
}

// Placed reports whether a gang holds its cells, and is not unknown.
func (w *WhatIf) Placed(id model.JobID, g int32) bool {
	j := w.Find(id)
	if j == nil || int(g) >= len(j.Gangs) {
		return false
	}
	at := j.Gangs[g].Attempt
	return at != tables.None && w.Attempts[at].State != model.AttemptReserving &&
		w.Attempts[at].State != model.AttemptUnknown
}

// starts decides, ends the jobs that a gang preempts, decides again, and reports
// whether the gang then runs, and which jobs gave way.
func (w *WhatIf) starts(id model.JobID, g int32) (preempts []model.Displaced, ok bool) {
	for _, r := range w.Decide() {
		switch e := r.Event.(type) {
		case model.StopSent:
			if e.By != nil && e.By.Job == id && e.Cause == model.EndPreempted {
				preempts = w.displaced(preempts, e.Attempt.Job, false)
			}
		case model.LazilyPreempted:
			if e.By != nil && e.By.Job == id {
				preempts = w.displaced(preempts, e.Attempt.Job, true)
			}
		}
	}
	j := w.Find(id)
	if j == nil || int(g) >= len(j.Gangs) {
		return nil, false
	}
	if at := j.Gangs[g].Attempt; at != tables.None && w.Attempts[at].State == model.AttemptReserving {
		for _, v := range slices.Clone(tables.RareOf(w.Attempts[at].Rare).Victims) {
			if a := w.Live(v); a != nil && a.Cause != model.EndMigrated {
				preempts = w.displaced(preempts, v.Job, false)
			}
			w.kill(v, model.Exit{Code: exitStopped})
		}
		w.Decide()
	}
	return preempts, w.Placed(id, g)
}

// endStopping ends all attempts that are being stopped, one after the other, with a decision after
// each, and then those that were told to stop meanwhile.
func (w *WhatIf) endStopping() {
	for range decide.AgainMost {
		var told []model.AttemptID
		for i := range w.Attempts {
			if a := &w.Attempts[i]; a.Job != tables.None && a.State == model.AttemptStopping {
				told = append(told, a.ID)
			}
		}
		if len(told) == 0 {
			return
		}
		for _, id := range told {
			w.kill(id, model.Exit{Code: exitStopped})
			w.Decide()
		}
	}
}

// displaced adds a job to those that give way, once.
func (w *WhatIf) displaced(list []model.Displaced, id model.JobID, lazily bool) []model.Displaced {
	j := w.Find(id)
	if i := slices.IndexFunc(list, func(d model.Displaced) bool { return d.Job == id }); i >= 0 {
		list[i].Lazily = list[i].Lazily && lazily // a demoted job may be stopped later
		return list
	}
	if j == nil {
		return list
	}
	return append(list, model.Displaced{JobBrief: w.Brief(j), Lazily: lazily})
}

// exitStopped is the exit code of a task that obeys a stop.
const exitStopped = 143
