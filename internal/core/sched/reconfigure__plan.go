package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// planner says what becomes of jobs where the configuration changes, or a node is drained.
type planner struct{ *explainer }

// PlanConfig says every effect that a command would have, and changes nothing: it is carried out
// on a copy, and all is decided there that follows at once.
func (s planner) PlanConfig(c Reconfigure) (*model.ConfigPlan, *Refusal) {
	ch, no := s.change(&c, s.now)
	if no != nil {
		return nil, no
	}
	p, after := s.planEffects(ch)
	if p.Changed {
		planner{after}.aftermath(p, after.Settle(after.now))
	}
	return p, nil
}

// planEffects compares the present with what comes of a change before anything is decided on it,
// which is the second result.
func (s planner) planEffects(ch *change) (*model.ConfigPlan, *explainer) {
	p := &model.ConfigPlan{Changed: len(ch.events) > 0, VCs: []model.VCChange{}, Chains: []model.ChainChange{}, SKUs: []model.SKUChange{},
		Nodes: []model.NodeChange{}, Rules: []model.RuleChange{}, Throughputs: []model.ThroughputChange{},
		Running: []model.RunningEffect{}, Starting: []model.StartEffect{}, Waiting: []model.WaitingEffect{}, Effects: []string{}}
	if !p.Changed {
		p.Running, p.Waiting = s.unmoved(), s.waitingEffects(s.explainer)
		return p, s.explainer
	}
	before := cmp.Or(s.cfg, &model.Config{})
	d := model.ModelPair{Before: before, After: ch.ev.Config, Was: s.cl, Is: ch.next, Renamed: ch.ev.Renamed, RenamedNodes: ch.ev.RenamedNodes, Served: s.serving}
	c := d.Compare()
	p.VCs, p.SKUs, p.Chains, p.Nodes, p.Rules, p.Throughputs, p.Storages = c.VCs, c.SKUs, c.Chains, c.Nodes, c.Rules, c.Throughputs, c.Others
	after := s.planned(ch)
	p.Running = s.runningEffects(ch, after)
	p.Waiting = s.waitingEffects(after)
	p.Shape, p.Reader, p.First, p.Seq = c.Sentences(), ch.ev.Meta.Subject, s.cfg == nil, after.seq
	return p, after
}

// unmoved says of all attempts and reservations that they stay as they are.
func (s planner) unmoved() []model.RunningEffect {
	out := []model.RunningEffect{}
	for _, slot := range s.carryOrder(s.mayReturn) {
		a := &s.attempts[slot]
		e := s.runningEffect(a)
		if a.orphaned {
			e.Fate, e.Already = model.Drains, true
			e.Lost = lostOf(&s.jobs[a.job], a, s.cl.Alloc(a.alloc).Placement.Tasks)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b model.RunningEffect) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}

// runningEffect is what is said of an attempt that stays as it is.
func (s planner) runningEffect(a *attempt) model.RunningEffect {
	j := &s.jobs[a.job]
	owed := j.spec.Priority >= cell.MinGuaranteed
	e := model.RunningEffect{Attempt: a.id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Fate: model.Keeps, Guaranteed: owed && !a.lazy, Lazy: owed && a.lazy}
	if a.cause != 0 {
		e.Fate = model.Leaves
	}
	return e
}

// lostOf is how many leaves of an attempt's tasks that live a configuration lacks,
// where they stand in it.
func lostOf(j *job, a *attempt, now []cell.Task) (n int32) {
	for k, o := range j.spec.Gangs[a.id.Gang].Tasks {
		if t := &j.tasks[o]; !t.dead {
			n += int32(len(lostDevices(t, &now[k])))
		}
	}
	return n
}

func (s planner) runningEffects(ch *change, after *explainer) []model.RunningEffect {
	out := []model.RunningEffect{}
	for _, ev := range ch.events {
		if u, ok := ev.(Unreserved); ok {
			a := s.live(u.Attempt)
			e := s.runningEffect(a)
			e.VC, e.Fate = model.VCNow(ch.ev.Renamed, e.VC), model.WaitsAgain
			for _, t := range s.cl.Alloc(a.alloc).Placement.Tasks {
				t.Node = model.NodeNow(ch.ev.RenamedNodes, t.Node)
				e.Promised = append(e.Promised, t)
			}
			out = append(out, e)
		}
	}
	for i := range ch.ev.Moves {
		out = append(out, s.movedEffect(ch, after, &ch.ev.Moves[i]))
	}
	slices.SortFunc(out, func(a, b model.RunningEffect) int { return compareAttempts(a.Attempt, b.Attempt) })
	return out
}

// movedEffect is what a change alone makes of one attempt.
func (s planner) movedEffect(ch *change, after *explainer, m *Move) model.RunningEffect {
	a := s.live(m.Attempt)
	j := &s.jobs[a.job]
	e := s.runningEffect(a)
	e.VC, e.Lost = model.VCNow(ch.ev.Renamed, e.VC), lostOf(j, a, m.Placement.Tasks)
	if g := int(m.Attempt.Gang); !j.stop && !j.spec.Gangs[g].Extra && !s.neverFits(j, g) {
		if why := after.whyNeverFits(after.find(j.id), g); why != nil {
			e.Never = why.Message
		}
	}
	demoted := m.Lazy && !a.lazy
	e.Settled = a.orphaned && !m.Orphaned
	e.Guaranteed = e.Guaranteed && !demoted || m.Regained
	switch {
	case m.Orphaned && demoted:
		e.Fate = model.DrainsLazily
	case m.Orphaned:
		e.Fate = model.Drains
		e.Already = a.orphaned && e.Lost == lostOf(j, a, s.cl.Alloc(a.alloc).Placement.Tasks)
	case a.cause != 0:
	case demoted:
		e.Fate = model.Opportunistic
	case m.Regained:
		e.Fate = model.Regains
	case a.orphaned:
		e.Fate = model.DrainsNoMore
	}
	return e
}

// planned is a copy to which a change is applied.
func (s planner) planned(ch *change) *explainer {
	after := s.copy()
	for _, e := range ch.events {
		after.Apply(Record{Seq: after.seq + 1, Time: after.now, Event: e})
	}
	return after
}

// waitingEffects asks the present and what follows, for each gang that waits, whether
// it could ever start.
func (s planner) waitingEffects(after *explainer) []model.WaitingEffect {
	out := []model.WaitingEffect{}
	if s.cl == nil {
		return out
	}
	for slot := range s.jobs {
		if s.jobs[slot].spec == nil || s.jobs[slot].stop || s.jobs[slot].completing != nil {
			continue
		}
		if e, ok := s.waitingEffect(after, slot); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b model.WaitingEffect) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

// waitingEffect judges the gangs of one job that wait.
func (s planner) waitingEffect(after *explainer, slot int) (model.WaitingEffect, bool) {
	was, is := &s.jobs[slot], &after.jobs[slot]
	var then, now *model.Reason
	booked := false
	for g := range is.gangs {
		// Extra members wait only beside their minimum; others wait, or will again.
		if gg := &is.gangs[g]; !gg.waiting && (gg.attempt != none || gg.done || is.spec.Gangs[g].Extra) {
			continue
		}
		now = cmp.Or(now, after.whyNeverFits(is, g))
		then = cmp.Or(then, s.whyNeverFits(was, g))
		booked = booked || rare(was.gangs[g].odd).booked != nil
	}
	e := model.WaitingEffect{Job: is.id, Name: is.spec.Name, User: is.spec.User, VC: is.spec.VC, Fate: model.NeverStarts, Already: then != nil}
	switch {
	case now != nil:
		e.Reason = now.Message
		return e, true
	case then != nil:
		return model.WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: model.CanStart}, true
	case booked && !books(model.OfVC(after.cfg, is.spec.VC)):
		return model.WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: model.Unbooked}, true
	}
	return e, false
}

// Report completes the answer to a configuration, when all is decided that follows it at once: its
// effects are what these records of it say, and those that a plan of the same configuration names.
func (s planner) Report(a *Answer, records []Record) {
	if a.plan == nil {
		return
	}
	p := a.plan
	a.plan = nil
	if p.Changed {
		i, _ := slices.BinarySearchFunc(records, p.Seq+1, func(r Record,
			seq uint64) int {
			return int(r.Seq) - int(seq)
		})
		s.aftermath(p, records[i:])
	}
	a.Effects, a.Warnings = p.Effects, p.Renamed()
}

// aftermath adds to a plan what was decided on it: s is what came of that.
func (s planner) aftermath(p *model.ConfigPlan, records []Record) {
	for i := range records {
		switch e := records[i].Event.(type) {
		case StopSent:
			s.stopEffect(p, &e)
		case LazilyPreempted:
			for _, id := range append([]model.AttemptID{e.Attempt}, e.With...) {
				p.Demote(id, s.caller(e.By))
			}
		case Upgraded:
			for _, id := range append([]model.AttemptID{e.Attempt}, e.With...) {
				p.Upgrade(id)
			}
		case Placed:
			p.Drop(e.Attempt)
			s.startEffect(p, e.Attempt, e.Placement.Tasks, nil)
		case Joined:
			s.startEffect(p, e.Attempt, e.Placement.Tasks, nil)
		case Reserved:
			s.startEffect(p, e.Attempt, e.Placement.Tasks, e.Victims)
		case Unreserved:
			p.Drop(e.Attempt)
		}
	}
	p.Complete()
}

// stopEffect says of an attempt that it is told to stop.
func (s planner) stopEffect(p *model.ConfigPlan, e *StopSent) {
	a, r := s.live(e.Attempt), p.Find(e.Attempt)
	if a == nil || r == nil {
		return
	}
	r.Demoted = r.Fate == model.Opportunistic || r.Fate == model.DrainsLazily
	r.Fate, r.Cause, r.For, r.Lender = model.IsStopped, e.Cause.String(), s.caller(e.By), e.For
	if e.Cause == model.EndMigrated {
		r.Fate = model.Moves
	}
	j := &s.jobs[a.job]
	r.Unsaved, r.Devices = unsavedBy(&s.index, a), j.gangs[a.id.Gang].leaves
	if e.Cause.Resumes() {
		r.ZeroEnds = whyZeroEnds(j, a.id.Gang)
	}
}

// startEffect says of a gang where it starts, maybe when others have stopped.
func (s planner) startEffect(p *model.ConfigPlan, id model.AttemptID, tasks []cell.Task, victims []model.AttemptID) {
	j := s.find(id.Job)
	if j == nil {
		return
	}
	e := model.StartEffect{Attempt: id, Name: j.spec.Name, User: j.spec.User, VC: j.spec.VC, Guaranteed: j.spec.Priority >= cell.MinGuaranteed, Tasks: tasks}
	for _, t := range tasks {
		if !slices.Contains(e.Nodes, t.Node) {
			e.Nodes = append(e.Nodes, t.Node)
		}
	}
	slices.Sort(e.Nodes)
	for _, v := range victims {
		if by := s.caller(&v); by != nil && !slices.Contains(e.After, *by) {
			e.After = append(e.After, *by)
		}
	}
	p.Starting = append(p.Starting, e)
}

// caller names the job of an attempt; nil for none.
func (s planner) caller(id *model.AttemptID) *model.JobCalled {
	if id == nil {
		return nil
	}
	j := s.find(id.Job)
	if j == nil {
		return nil
	}
	return &model.JobCalled{Job: j.id, Name: j.spec.Name, User: j.spec.User}
}
