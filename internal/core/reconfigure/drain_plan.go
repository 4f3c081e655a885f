package reconfigure

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
)

// draining runs a copy of the state forward on which a node is drained.
type draining struct {
	explain.Forecast
	node cell.NodeName
	plan *model.DrainPlan
	over map[model.AttemptID]model.Time // when attempts of the plan ended
	runs map[model.AttemptID]bool       // whether their gangs run again
}

// PlanDrain says what a drain of a node by a deadline would do to each job that runs there, and to
// the jobs that give way to those. It runs a copy forward: what runs ends at its limit, what is
// stopped ends after its grace. It must not be called in the loop.
func (s Planner) PlanDrain(c model.Cordon) (*model.DrainPlan, *model.Refusal) {
	events, _, no := s.CheckCordon(c)
	if no != nil {
		return nil, no
	}
	p := &model.DrainPlan{Node: c.Node, By: max(c.Drain, s.Now), Jobs: []model.DrainEffect{}}
	d := draining{Forecast: explain.NewForecast(s.Explainer, explain.Slow, nil), node: c.Node, plan: p,
		over: map[model.AttemptID]model.Time{}, runs: map[model.AttemptID]bool{}}
	d.Draw.Of = 0
	d.DeclaredOnly = true
	for _, on := range s.On(c.Node) {
		p.Jobs = append(p.Jobs, d.effect(s.Live(on.Attempt), on.Leaves))
	}
	d.ApplyEvents(events...)
	d.run()
	return p, nil
}

// effect is what is known of an attempt before anything happens.
func (d *draining) effect(a *tables.Attempt, leaves int32) model.DrainEffect {
	j := &d.Jobs[a.Job]
	e := model.DrainEffect{Attempt: a.ID, Name: j.Spec.Name, User: j.Spec.User, VC: j.Spec.VC, Leaves: leaves,
		Guaranteed: j.Spec.Priority >= cell.MinGuaranteed && !a.Lazy}
	if a.State == model.AttemptUnknown {
		e.Fate = model.StaysUnsure
	}
	if end := status.AttemptEnd(&d.Status, a); a.Cause == 0 && !end.Last && end.Ends > d.Now && end.Ends <= d.plan.By {
		e.Likely = end.Ends
	}
	return e
}

// entryOf is the plan's entry for the gang of an attempt; nil if there is none.
func (d *draining) entryOf(id model.AttemptID) *model.DrainEffect {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Attempt.Job == id.Job && e.Attempt.Gang == id.Gang {
				return e
			}
		}
	}
	return nil
}

// run lets time pass until every gang that was stopped runs again, or nothing changes any more.
func (d *draining) run() {
	d.PlannedIn, d.Began = map[model.AttemptID]model.AttemptState{}, map[model.JobID]model.Time{}
	for d.Steps < d.MaxSteps {
		d.Steps++
		d.note(d.Look())
		next := d.Wake()
		if len(d.Ends) > 0 && (next == 0 || d.Ends[0].At < next) {
			next = d.Ends[0].At
		}
		if next == 0 || next > d.At+explain.BookedSlack { // all that ends now has, and all is decided
			d.wait()
		}
		if next == 0 || d.allKnown() {
			break
		}
		d.At = max(d.At, next)
		for len(d.Ends) > 0 && d.Ends[0].At <= d.At {
			d.End(d.Ends.Pop())
		}
	}
}

// allKnown reports whether the fate of every job in the plan is known.
func (d *draining) allKnown() bool {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Fate == "" || e.Fate == model.WaitsThere && e.Starts == 0 {
				return false
			}
		}
	}
	return true
}

// note takes from decisions what they mean for the jobs in the plan.
func (d *draining) note(log []model.Record) {
	for i := range log {
		switch e := log[i].Event.(type) {
		case model.StopSent:
			d.stopped(&e)
		case model.AttemptEnded:
			d.ended(&e)
		case model.Reserved:
			d.begins(e.Attempt, e.Placement.Tasks, e.Victims, false)
		case model.Unreserved:
			if t := d.entryOf(e.Attempt); t != nil && t.Fate == model.StartsAgain && !d.runs[t.Attempt] {
				t.Fate, t.Nodes, t.After = model.WaitsThere, nil, nil
			}
		case model.Placed:
			d.begins(e.Attempt, e.Placement.Tasks, nil, true)
		case model.Joined:
			d.begins(e.Attempt, e.Placement.Tasks, nil, true)
		case model.JobEnded:
			for k := range d.plan.Jobs {
				if t := &d.plan.Jobs[k]; t.Attempt.Job == e.Job &&
					(t.Fate == model.WaitsThere && t.Starts == 0 || t.Fate == "") {
					t.Fate = model.EndsThen
				}
			}
		}
	}
}

// wait fills in why gangs wait that were stopped. A gang that started again, and was stopped once
// more, is not looked at again.
func (d *draining) wait() {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Fate == model.WaitsThere && e.Starts == 0 && e.Reason == "" && !e.Back {
				d.waits(e)
			}
		}
	}
}

// stopped notes that an attempt is told to stop: for the drain, or for a gang of the plan that
// goes on elsewhere.
func (d *draining) stopped(e *model.StopSent) {
	a := d.Live(e.Attempt)
	if a == nil {
		return
	}
	t := d.entryOf(e.Attempt)
	switch {
	case !e.Cause.Resumes(): // its limit is over, or its job is
		return
	case t == nil && e.By != nil && d.entryOf(*e.By) != nil:
		by := Planner{d.Explainer}.caller(e.By)
		d.plan.Others = append(d.plan.Others, d.effect(a, 0))
		t = &d.plan.Others[len(d.plan.Others)-1]
		t.For, t.Likely = by, 0
	case t == nil || t.Attempt != e.Attempt:
		return
	}
	t.Stopped = d.At
	j := &d.Jobs[a.Job]
	t.Unsaved, t.Devices, t.ZeroEnds = status.UnsavedBy(&d.Index, a), j.Gangs[a.ID.Gang].Leaves, status.WhyZeroEnds(j,
		a.ID.Gang)
}

// ended notes that an attempt is over.
func (d *draining) ended(e *model.AttemptEnded) {
	t := d.entryOf(e.Attempt)
	if t == nil || t.Attempt != e.Attempt {
		return
	}
	d.over[e.Attempt] = d.At
	switch {
	case t.Stopped == 0:
		t.Fate, t.Ends = model.EndsBefore, d.At
	case t.Fate == "":
		t.Fate = model.WaitsThere
	}
}

// begins notes where a gang goes on that was stopped: it has cells, or a promise of them.
func (d *draining) begins(id model.AttemptID, tasks []cell.Task, victims []model.AttemptID, now bool) {
	t := d.entryOf(id)
	if t == nil || t.Attempt == id || t.Stopped == 0 || d.runs[t.Attempt] {
		return
	}
	over, ended := d.over[t.Attempt]
	switch {
	case t.Fate == model.StartsAgain:
	case !ended || d.At <= over+explain.BookedSlack: // the decision follows its end at once
		t.Fate = model.StartsAgain
	case !now:
		return // its start will be noted
	default:
		t.Starts = d.At
	}
	d.runs[t.Attempt] = now
	t.Nodes, t.Reason = nil, ""
	for _, task := range tasks {
		if !slices.Contains(t.Nodes, task.Node) {
			t.Nodes = append(t.Nodes, task.Node)
		}
	}
	slices.Sort(t.Nodes)
	for _, v := range victims {
		if by := (Planner{d.Explainer}).caller(&v); by != nil && v.Job != id.Job && !slices.Contains(t.After, *by) {
			t.After = append(t.After, *by)
		}
	}
}

// waits says why a stopped gang waits, and whether it would start if the node were back in
// service.
func (d *draining) waits(t *model.DrainEffect) {
	j := d.Find(t.Attempt.Job)
	if j == nil || !j.Gangs[t.Attempt.Gang].Waiting {
		return
	}
	why := d.Reason(j, t.Attempt.Gang)
	t.Reason = why.Message
	away := why.Code == model.BadHardware || why.Code == model.Cordoned
	t.There = t.Guaranteed && away && slices.Contains(why.Nodes, d.node)
	back := &explain.WhatIf{Explainer: d.Copy(), At: d.At}
	back.ApplyEvents(model.NodeCordoned{Node: d.node})
	back.Decide()
	t.Back = back.Placed(t.Attempt.Job, t.Attempt.Gang)
	t.There = t.There && t.Back
}
