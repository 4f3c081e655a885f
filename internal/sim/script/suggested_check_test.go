package script_test

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// suggested checks that what an explanation suggests comes true: on a copy of the state
// somebody does it, and the job gets its cells.
func (c *checker) suggested(id model.JobID) {
	now := c.state.At(c.s.World().Now())
	e, _ := now.Explain(id)
	for _, g := range e.Gangs {
		for _, s := range g.Suggestions {
			if why := c.unfollowed(now, id, g.Gang, s); why != nil {
				c.fail("S1: job %s waits for %s; after %q it is %s: %+v", e.Name, g.Reason.Message, s.Message, why.Phase, why.Gangs)
			}
		}
	}
}

// unfollowed follows a suggestion, and returns why the job waits even so; nil where it does not.
// Who is first of several that end within microseconds is not told, so each way will do.
func (c *checker) unfollowed(now *core.State, id model.JobID, gang int32, s model.Suggestion) *model.Explanation {
	var f *future
	var what model.JobID
	for _, early := range []model.Duration{0, 1, -1, 2, -2} {
		f = c.future(now)
		f.early = early
		if what = f.follow(id, s); what == 0 {
			return nil
		}
		f.obey(what)
		f.wait(f.now.Add(model.Second)) // a microsecond later an order may have changed by itself
		f.obey(what)
		if f.placed[gangKey{what, gang}] || what != id && f.starts[what] || f.before(gangKey{what, gang}) {
			c.met.followed++
			return nil
		}
		if f.suspects || s.Kind == model.AfterTime && (f.shared || f.ended > maxEnds) {
			return nil
		}
	}
	why, _ := f.s.Why(what)
	return &why
}

// before reports whether a gang of a job was placed that stands before another one of it: each is
// told what would let it start, were it the only one.
func (f *future) before(k gangKey) bool {
	for g := range k.gang {
		if f.placed[gangKey{k.job, g}] {
			return true
		}
	}
	return false
}

// maxEnds is behind how many ends a start time is not judged: who goes next may hang each time
// on who is first within microseconds.
const maxEnds = 3

// future is a copy of the state on which somebody follows a suggestion.
type future struct {
	s        *core.State
	now      model.Time
	placed   map[gangKey]bool
	starts   map[model.JobID]bool
	began    map[model.AttemptID]model.Time // less what they stood still
	due      map[model.AttemptID]model.Time
	obeys    map[model.AttemptID]bool
	ended    int            // attempts whose time came
	early    model.Duration // by which stops end before their grace is over
	shared   bool           // somebody takes turns: when he ends depends on the others
	suspects bool           // a node takes nobody new any more
}

func (c *checker) future(now *core.State) *future {
	f := &future{s: now.Clone(), now: now.Now(), placed: map[gangKey]bool{}, starts: map[model.JobID]bool{},
		began: map[model.AttemptID]model.Time{}, due: map[model.AttemptID]model.Time{}, obeys: map[model.AttemptID]bool{}}
	for id, a := range c.live {
		f.shared = f.shared || a.turns != nil
		if a.started > 0 {
			f.began[id] = f.now.Add(-c.had(id, a, f.now))
		}
	}
	return f
}

// follow does what a suggestion says, and returns the job that should start then; 0 where
// it does not know how.
func (f *future) follow(id model.JobID, g model.Suggestion) model.JobID {
	switch g.Kind {
	case model.AfterJobs, model.WithoutAhead:
		f.withdraw(g.Jobs...)
	case model.AfterTime:
		f.decide()
		f.wait(g.At.Add(model.Second)) // it is told in seconds
	case model.HardwareFixed:
		for _, n := range g.Nodes {
			f.mend(n)
		}
		f.withdraw(g.Jobs...)
	default:
		return f.instead(id, g)
	}
	f.decide()
	return id
}

// instead withdraws a job and submits it as a suggestion says.
func (f *future) instead(id model.JobID, g model.Suggestion) model.JobID {
	spec, _ := f.s.Spec(id)
	next := *spec
	next.Roles = slices.Clone(spec.Roles)
	switch g.Kind {
	case model.SmallerTasks:
		i := slices.IndexFunc(spec.Roles, func(r model.Role) bool { return r.Name == g.Role })
		next.Roles[i].Leaves = g.Leaves
	case model.AnotherVC:
		next.VC = g.VC
	case model.AsBorrower:
		next.Priority = cell.Opportunistic
	case model.ShorterLimit:
		next.TimeLimit = g.TimeLimit
	case model.HigherPriority:
		next.Priority = g.Priority
	case model.PinnedCell:
		for i := range next.Roles {
			next.Roles[i].Pinned = g.Pinned
		}
	case model.AnyNode:
		next.AllowedNodes, next.AvoidedNodes = nil, nil
	default:
		return 0
	}
	f.withdraw(id)
	f.look() // and no more: a microsecond later a back-off may have ended
	events, answer, refusal := f.s.Check(model.Submit{Meta: model.Meta{Subject: "probe"}, Job: &next}, f.now)
	if refusal != nil {
		return -1
	}
	f.apply(events...)
	f.decide()
	return answer.Job
}

func (f *future) apply(events ...model.Event) {
	for _, e := range events {
		f.s.Apply(model.Record{Seq: f.s.Seq() + 1, Time: f.now, Event: e})
	}
}

// decide decides, and again when that asks for another look at once.
func (f *future) decide() {
	for f.look(); f.s.Wake() == f.now+1; f.look() {
		f.now++
	}
}

// look decides once.
func (f *future) look() {
	for _, r := range f.s.Decide(f.now) {
		switch e := r.Event.(type) {
		case model.Placed:
			f.placed[gangKey{e.Attempt.Job, e.Attempt.Gang}], f.starts[e.Attempt.Job] = true, true
		case model.NodeSuspected: // who leaves tells that he was refused there
			f.suspects = f.suspects || e.Until > 0
		case model.Joined:
			f.placed[gangKey{e.Attempt.Job, e.Attempt.Gang}], f.starts[e.Attempt.Job], f.shared = true, true, true
		}
	}
}

// buries proves all tasks of an attempt dead.
func (f *future) buries(id model.AttemptID, x model.Exit) {
	j, _ := f.s.Job(id.Job)
	for o := range j.Tasks {
		if j.Tasks[o].Gang == id.Gang {
			f.apply(f.s.Accept(model.TaskExited{Attempt: id, Task: int32(o), Exit: x})...)
		}
	}
}

// withdraw lets jobs end: they are stopped, and nothing of them lives on.
func (f *future) withdraw(ids ...model.JobID) {
	for _, id := range ids {
		events, _, _ := f.s.Check(model.Stop{Meta: model.Meta{Subject: "probe"}, Job: id}, f.now)
		f.apply(events...)
		j, _ := f.s.Job(id)
		for _, a := range j.Attempts {
			f.buries(a.ID, model.Exit{})
		}
	}
}

// obey lets the victims of a job leave, those of one gang at one instant, and then those
// of the next: who leaves and waits again may stand before it.
func (f *future) obey(id model.JobID) {
	j, _ := f.s.Job(id)
	for _, a := range j.Attempts {
		for _, v := range a.Victims {
			f.buries(v, model.Exit{Code: 143})
		}
		f.decide()
	}
}

// mend brings a node and all that is on it back into service.
func (f *future) mend(node cell.NodeName) {
	f.apply(f.s.Accept(model.NodeHealth{Node: node, Up: true})...)
	f.apply(model.NodeCordoned{Node: node})
	nodes := f.s.Nodes()
	i := slices.IndexFunc(nodes, func(n model.NodeStatus) bool { return n.Name == node })
	for _, k := range nodes[i].SKUs {
		for leaf := range int32(16 * 8) {
			f.apply(f.s.Accept(model.LeafHealth{Node: node, SKU: k.SKU, Device: leaf / 8, Part: leaf % 8, Good: true})...)
		}
	}
	f.apply(model.NodeSuspected{Node: node})
}

// wait lets time pass: what is placed starts at once, ends as its job declares, and
// takes its whole grace where it is stopped.
func (f *future) wait(end model.Time) {
	for steps, calm := 0, 0; calm < 2 && steps < 4000; steps++ { // twice, for a stop without grace ends at once
		f.watch()
		next := end
		if wake := f.s.Wake(); wake > 0 {
			next = min(next, wake)
		}
		for _, at := range f.due {
			next = min(next, at)
		}
		f.now = max(f.now, next)
		if f.end(); f.now >= end {
			calm++
		}
		f.decide()
	}
}

// watch starts the tasks that are to start, and sees when attempts end.
func (f *future) watch() {
	for _, j := range f.s.Jobs() {
		spec, _ := f.s.Spec(j.ID)
		for _, a := range j.Attempts {
			switch a.State {
			case model.AttemptStarting, model.AttemptRunning:
				f.start(&j, a.ID)
				at := f.began[a.ID].Add(max(spec.Hints.Duration-f.saved(&j, spec, a.ID), 1))
				if spec.Hints.Duration > 0 && spec.TimeLimit == 0 && f.due[a.ID] == 0 && at >= f.now {
					f.due[a.ID] = at
				}
			case model.AttemptStopping:
				if !f.obeys[a.ID] {
					f.due[a.ID], f.obeys[a.ID] = max(f.now, a.Told.Add(max(spec.Grace-f.early, 0))), true
				}
			}
		}
	}
}

// saved is how long the attempts of a job before its present one ran, where what they did is kept.
// Of a job of several gangs that is not known: when it ends is not judged.
func (f *future) saved(j *model.JobStatus, spec *model.Job, id model.AttemptID) model.Duration {
	if !spec.Hints.Checkpoint || id.N == 1 {
		return 0
	}
	if len(spec.Gangs) > 1 {
		f.shared = true
		return 0
	}
	ran := model.Duration(0) // of the present one
	if now := f.s.Now(); f.began[id] < now {
		ran = model.Duration(now - f.began[id])
	}
	return max(j.Ran-ran, 0)
}

// start starts the tasks of an attempt that do not run yet.
func (f *future) start(j *model.JobStatus, id model.AttemptID) {
	for o := range j.Tasks {
		if j.Tasks[o].Gang == id.Gang {
			f.apply(f.s.Accept(model.TaskStarted{Attempt: id, Task: int32(o)})...)
		}
	}
	if _, some := f.began[id]; !some {
		f.began[id] = f.now
	}
}

// end ends the attempts whose time has come, in order.
func (f *future) end() {
	var over []model.AttemptID
	for id, at := range f.due {
		if at <= f.now {
			over = append(over, id)
			delete(f.due, id)
		}
	}
	slices.SortFunc(over, compareIDs)
	f.ended += len(over)
	for _, id := range over {
		x := model.Exit{}
		if f.obeys[id] {
			x.Code = 143 // with 0 it would have done all its work, and not wait again
		}
		f.buries(id, x)
	}
}

func compareIDs(a, b model.AttemptID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gang, b.Gang), cmp.Compare(a.N, b.N))
}
