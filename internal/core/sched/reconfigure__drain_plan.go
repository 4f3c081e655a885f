package sched

import (
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// draining runs a copy of the state forward, on which a node is drained.
type draining struct {
	forward
	node cell.NodeName
	plan *model.DrainPlan
	over map[model.AttemptID]model.Time // when those ended that are told of
	runs map[model.AttemptID]bool       // these run again
}

// PlanDrain says what a drain of a node by a time would do to each job that runs there, and to
// those that give way to them. The copy is run forward: what runs ends at the latest time that its
// limit allows, what is stopped after its grace. It must not be called in the loop.
func (s planner) PlanDrain(c Cordon) (*model.DrainPlan, *Refusal) {
	events, _, no := s.checkCordon(c)
	if no != nil {
		return nil, no
	}
	p := &model.DrainPlan{Node: c.Node, By: max(c.Drain, s.now), Jobs: []model.DrainEffect{}}
	d := draining{forward: ahead(s.explainer, slow, nil), node: c.Node, plan: p,
		over: map[model.AttemptID]model.Time{}, runs: map[model.AttemptID]bool{}}
	d.draw.Of = 0
	d.declared = true
	for _, on := range s.On(c.Node) {
		p.Jobs = append(p.Jobs, d.effect(s.live(on.Attempt), on.Leaves))
	}
	d.tell(events...)
	d.run()
	return p, nil
}

// effect is what is known of an attempt before anything happens.
func (d *draining) effect(a *attempt, leaves int32) model.DrainEffect {
	j := &d.jobs[a.job]
	e := model.DrainEffect{Attempt: a.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Leaves: leaves,
		Guaranteed: j.spec.Priority >= cell.MinGuaranteed && !a.lazy}
	if a.state == model.AttemptUnknown {
		e.Fate = model.StaysUnsure
	}
	if end := attemptEnd(&d.fold, a); a.cause == 0 && !end.Last && end.Ends > d.now && end.Ends <= d.plan.By {
		e.Likely = end.Ends
	}
	return e
}

// said is what is said of a job's gang.
func (d *draining) said(id model.AttemptID) *model.DrainEffect {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Attempt.Job == id.Job && e.Attempt.Gang == id.Gang {
				return e
			}
		}
	}
	return nil
}

// run lets time pass until all that were stopped run again, or nothing changes any more.
func (d *draining) run() {
	d.seen, d.began = map[model.AttemptID]model.AttemptState{}, map[model.JobID]model.Time{}
	for d.steps < d.most {
		d.steps++
		d.note(d.look())
		next := d.Wake()
		if len(d.ends) > 0 && (next == 0 || d.ends[0].at < next) {
			next = d.ends[0].at
		}
		if next == 0 || next > d.at+bookedSlack { // what ends now has ended, and all is decided
			d.wait()
		}
		if next == 0 || d.settled() {
			break
		}
		d.at = max(d.at, next)
		for len(d.ends) > 0 && d.ends[0].at <= d.at {
			d.end(d.ends.Pop())
		}
	}
}

// settled reports whether it is known of each what becomes of it.
func (d *draining) settled() bool {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Fate == "" || e.Fate == model.WaitsThere && e.Starts == 0 {
				return false
			}
		}
	}
	return true
}

// note takes from decisions what they mean for those that are told of.
func (d *draining) note(log []Record) {
	for i := range log {
		switch e := log[i].Event.(type) {
		case StopSent:
			d.stopped(&e)
		case AttemptEnded:
			d.ended(&e)
		case Reserved:
			d.begins(e.Attempt, e.Placement.Tasks, e.Victims, false)
		case Unreserved:
			if t := d.said(e.Attempt); t != nil && t.Fate == model.StartsAgain && !d.runs[t.Attempt] {
				t.Fate, t.Nodes, t.After = model.WaitsThere, nil, nil
			}
		case Placed:
			d.begins(e.Attempt, e.Placement.Tasks, nil, true)
		case Joined:
			d.begins(e.Attempt, e.Placement.Tasks, nil, true)
		case JobEnded:
			for k := range d.plan.Jobs {
				if t := &d.plan.Jobs[k]; t.Attempt.Job == e.Job && (t.Fate == model.WaitsThere && t.Starts == 0 || t.Fate == "") {
					t.Fate = model.EndsThen
				}
			}
		}
	}
}

// wait tells of those that wait now for the first time. One that started again, and was stopped
// once more, is told of no more.
func (d *draining) wait() {
	for _, list := range [][]model.DrainEffect{d.plan.Jobs, d.plan.Others} {
		for i := range list {
			if e := &list[i]; e.Fate == model.WaitsThere && e.Starts == 0 && e.Reason == "" && !e.Back {
				d.waits(e)
			}
		}
	}
}

// stopped notes that an attempt is told to stop: for the drain, or for one that goes on elsewhere.
func (d *draining) stopped(e *StopSent) {
	a := d.live(e.Attempt)
	if a == nil {
		return
	}
	t := d.said(e.Attempt)
	switch {
	case !e.Cause.Resumes(): // its limit is over, or its job
		return
	case t == nil && e.By != nil && d.said(*e.By) != nil:
		by := planner{d.explainer}.caller(e.By)
		d.plan.Others = append(d.plan.Others, d.effect(a, 0))
		t = &d.plan.Others[len(d.plan.Others)-1]
		t.For, t.Likely = by, 0
	case t == nil || t.Attempt != e.Attempt:
		return
	}
	t.Stopped = d.at
	j := &d.jobs[a.job]
	t.Unsaved, t.Devices, t.ZeroEnds = unsavedBy(&d.index, a), j.gangs[a.id.Gang].leaves, whyZeroEnds(j,
		a.id.Gang)
}

// ended notes that an attempt is over.
func (d *draining) ended(e *AttemptEnded) {
	t := d.said(e.Attempt)
	if t == nil || t.Attempt != e.Attempt {
		return
	}
	d.over[e.Attempt] = d.at
	switch {
	case t.Stopped == 0:
		t.Fate, t.Ends = model.EndsBefore, d.at
	case t.Fate == "":
		t.Fate = model.WaitsThere
	}
}

// begins notes where one goes on that was stopped: it has cells, or a promise of them.
func (d *draining) begins(id model.AttemptID, tasks []cell.Task, victims []model.AttemptID, now bool) {
	t := d.said(id)
	if t == nil || t.Attempt == id || t.Stopped == 0 || d.runs[t.Attempt] {
		return
	}
	over, ended := d.over[t.Attempt]
	switch {
	case t.Fate == model.StartsAgain:
	case !ended || d.at <= over+bookedSlack: // decisions follow each other
		t.Fate = model.StartsAgain
	case !now:
		return // it is told of when it starts
	default:
		t.Starts = d.at
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
		if by := (planner{d.explainer}).caller(&v); by != nil && v.Job != id.Job && !slices.Contains(t.After, *by) {
			t.After = append(t.After, *by)
		}
	}
}

// waits says why a gang waits that was stopped, and whether it would start if the node were back.
func (d *draining) waits(t *model.DrainEffect) {
	j := d.find(t.Attempt.Job)
	if j == nil || !j.gangs[t.Attempt.Gang].waiting {
		return
	}
	why := d.reason(j, t.Attempt.Gang)
	t.Reason = why.Message
	t.There = t.Guaranteed && why.Code == BadHardware && slices.Contains(why.Nodes, d.node)
	back := &whatIf{explainer: d.copy(), at: d.at}
	back.tell(NodeCordoned{Node: d.node})
	back.decide()
	t.Back = back.placed(t.Attempt.Job, t.Attempt.Gang)
	t.There = t.There && t.Back
}
