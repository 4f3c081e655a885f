package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// whatIf is a copy of a state on which a change is tried: the deciding code says
// what would come of it.
type whatIf struct {
	*explainer
	at   model.Time
	took []model.JobID // that were given cells, or were promised some
}

// tell applies what would happen.
func (w *whatIf) tell(events ...Event) {
	for _, e := range events {
		w.Apply(Record{Seq: w.seq + 1, Time: w.at, Event: e})
	}
}

// fact applies a fact, if it still says something.
func (w *whatIf) fact(f Fact) { w.tell(w.Accept(f)...) }

// decide decides, and again as long as a decision asks for it at once; it
// returns the decisions.
func (w *whatIf) decide() []Record {
	log := w.Settle(w.at)
	w.at = max(w.at, w.now)
	for _, r := range log {
		switch e := r.Event.(type) {
		case Placed:
			w.took = append(w.took, e.Attempt.Job)
		case Reserved:
			w.took = append(w.took, e.Attempt.Job)
		case Joined:
			w.took = append(w.took, e.Attempt.Job)
		case Upgraded:
			w.took = append(w.took, e.Attempt.Job)
		}
	}
	w.DropEnded()
	return log
}

// finish lets a job leave: it is stopped, and its tasks are proven dead.
func (w *whatIf) finish(id model.JobID) {
	j := w.find(id)
	if j == nil {
		return
	}
	if !j.stop {
		w.tell(StopRequested{Job: id})
	}
	w.killTasks(id, Exit{})
}

func (w *whatIf) killTasks(id model.JobID, x Exit) {
	for g := range w.find(id).gangs {
		if at := w.find(id).gangs[g].attempt; at != none {
			w.kill(w.attempts[at].id, x)
		}
	}
}

// kill proves all tasks of an attempt dead.
func (w *whatIf) kill(id model.AttemptID, x Exit) {
	if j := w.find(id.Job); j != nil {
		for _, o := range j.spec.Gangs[id.Gang].Tasks {
			w.fact(TaskExited{Attempt: id, Task: o, Exit: x})
		}
	}
}

// mend brings a node and all that is on it back into service.
func (w *whatIf) mend(name cell.NodeName) {
	w.fact(NodeHealth{Node: name, Up: true})
	w.tell(NodeCordoned{Node: name})
	for _, l := range slices.Clone(w.leaves) {
		if l.Node == name {
			w.fact(LeafHealth{Node: name, SKU: l.SKU, Device: l.Device, Part: l.Part, Good: true})
		}
	}
	w.tell(NodeSuspected{Node: name})
}

// placed reports whether a gang holds its cells.
func (w *whatIf) placed(id model.JobID, g int32) bool {
	j := w.find(id)
	if j == nil || int(g) >= len(j.gangs) {
		return false
	}
	at := j.gangs[g].attempt
	return at != none && w.attempts[at].state != model.AttemptReserving && w.attempts[at].state != model.AttemptUnknown
}

// starts decides, lets those leave whom a gang preempts, and says whether it then
// runs, and who gave way.
func (w *whatIf) starts(id model.JobID, g int32) (preempts []model.Displaced, ok bool) {
	for _, r := range w.decide() {
		switch e := r.Event.(type) {
		case StopSent:
			if e.By != nil && e.By.Job == id && e.Cause == model.EndPreempted {
				preempts = w.displaced(preempts, e.Attempt.Job, false)
			}
		case LazilyPreempted:
			if e.By != nil && e.By.Job == id {
				preempts = w.displaced(preempts, e.Attempt.Job, true)
			}
		}
	}
	j := w.find(id)
	if j == nil || int(g) >= len(j.gangs) {
		return nil, false
	}
	if at := j.gangs[g].attempt; at != none && w.attempts[at].state == model.AttemptReserving {
		for _, v := range slices.Clone(rare(w.attempts[at].odd).victims) {
			if a := w.live(v); a != nil && a.cause != model.EndMigrated {
				preempts = w.displaced(preempts, v.Job, false)
			}
			w.kill(v, Exit{Code: exitStopped})
		}
		w.decide()
	}
	return preempts, w.placed(id, g)
}

// obey lets all end that are being stopped, one after the other, and those that are stopped then.
func (w *whatIf) obey() {
	for range againMost {
		var told []model.AttemptID
		for i := range w.attempts {
			if a := &w.attempts[i]; a.job != none && a.state == model.AttemptStopping {
				told = append(told, a.id)
			}
		}
		if len(told) == 0 {
			return
		}
		for _, id := range told {
			w.kill(id, Exit{Code: exitStopped})
			w.decide()
		}
	}
}

// displaced adds a job to those that give way, once.
func (w *whatIf) displaced(list []model.Displaced, id model.JobID, lazily bool) []model.Displaced {
	j := w.find(id)
	if i := slices.IndexFunc(list, func(d model.Displaced) bool { return d.Job == id }); i >= 0 {
		list[i].Lazily = list[i].Lazily && lazily // who lost its guarantee may be stopped, too
		return list
	}
	if j == nil {
		return list
	}
	return append(list, model.Displaced{JobBrief: w.brief(j), Lazily: lazily})
}

// exitStopped is the exit code of a task that obeys a stop.
const exitStopped = 143
