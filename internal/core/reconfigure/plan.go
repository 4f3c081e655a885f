package reconfigure

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/explain"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/status"
	"github.com/combsched/comb/internal/core/tables"
	"github.com/combsched/comb/internal/core/timeline"
)

// Planner says what becomes of jobs when the configuration changes or a node is drained.
type Planner struct{ *explain.Explainer }

// PlanConfig says every effect that a command would have, and changes nothing: the command is
// carried out on a copy, with every decision that follows at once.
func (s Planner) PlanConfig(c model.Reconfigure) (*model.ConfigPlan, *model.Refusal) {
	ch, no := s.change(&c, s.Now)
	if no != nil {
		return nil, no
	}
	p, after := s.planEffects(ch)
	if p.Changed {
		Planner{after}.aftermath(p, after.Settle(after.Now))
	}
	return p, nil
}

// planEffects compares the present with the state after a change, before any decision on that, and
// returns that state as well.
func (s Planner) planEffects(ch *change) (*model.ConfigPlan, *explain.Explainer) {
	p := &model.ConfigPlan{Changed: len(ch.events) > 0, VCs: []model.VCChange{}, Chains: []model.ChainChange{},
		SKUs:  []model.SKUChange{},
		Nodes: []model.NodeChange{}, Rules: []model.RuleChange{}, Throughputs: []model.ThroughputChange{},
		Running: []model.RunningEffect{}, Starting: []model.StartEffect{}, Waiting: []model.WaitingEffect{}, Effects: []string{}}
	if !p.Changed {
		p.Running, p.Waiting = s.unmoved(), s.waitingEffects(s.Explainer)
		return p, s.Explainer
	}
	before := cmp.Or(s.Config, &model.Config{})
	d := model.ConfigPair{Before: before, After: ch.ev.Config, OldCluster: s.Cluster, NewCluster: ch.next,
		Renamed:      ch.ev.Renamed,
		RenamedNodes: ch.ev.RenamedNodes, OldVCConfig: s.ServingConfig}
	c := d.Compare()
	p.VCs, p.SKUs, p.Chains, p.Nodes, p.Rules, p.Throughputs, p.Storages = c.VCs, c.SKUs, c.Chains, c.Nodes, c.Rules, c.Throughputs, c.Others
	after := s.planned(ch)
	p.Running = s.runningEffects(ch, after)
	p.Waiting = s.waitingEffects(after)
	p.ConfigTexts, p.Reader, p.First, p.Seq = c.Sentences(), ch.ev.Meta.Subject, s.Config == nil, after.Seq
	return p, after
}

// unmoved says of all attempts and reservations that they stay as they are.
func (s Planner) unmoved() []model.RunningEffect {
	out := []model.RunningEffect{}
	for _, slot := range s.carryOrder(s.mayReturn) {
		a := &s.Attempts[slot]
		e := s.runningEffect(a)
		if a.Orphaned {
			e.Fate, e.Already = model.Drains, true
			e.Lost = lostOf(&s.Jobs[a.Job], a, s.Cluster.Alloc(a.Alloc).Placement.Tasks)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b model.RunningEffect) int { return model.CompareAttempts(a.Attempt, b.Attempt) })
	return out
}

// runningEffect is the effect on an attempt that stays as it is.
func (s Planner) runningEffect(a *tables.Attempt) model.RunningEffect {
	j := &s.Jobs[a.Job]
	owed := j.Spec.Priority >= cell.MinGuaranteed
	e := model.RunningEffect{Attempt: a.ID, Name: j.Spec.Name, User: j.Spec.User, VC: j.Spec.VC, Fate: model.Keeps,
		Guaranteed: owed && !a.Lazy, Lazy: owed && a.Lazy}
	if a.Cause != 0 {
		e.Fate = model.Leaves
	}
	return e
}

// lostOf is how many leaves of an attempt's live tasks a configuration lacks; now is where the
// tasks stand in it.
func lostOf(j *tables.Job, a *tables.Attempt, now []cell.Task) (n int32) {
	for k, o := range j.Spec.Gangs[a.ID.Gang].Tasks {
		if t := &j.Tasks[o]; !t.Dead {
			n += int32(len(status.LostDevices(t, &now[k])))
		}
	}
	return n
}

func (s Planner) runningEffects(ch *change, after *explain.Explainer) []model.RunningEffect {
	out := []model.RunningEffect{}
	for _, ev := range ch.events {
		if u, ok := ev.(model.Unreserved); ok {
			a := s.Live(u.Attempt)
			e := s.runningEffect(a)
			e.VC, e.Fate = model.NewVCName(ch.ev.Renamed, e.VC), model.WaitsAgain
			for _, t := range s.Cluster.Alloc(a.Alloc).Placement.Tasks {
				t.Node = model.NewNodeName(ch.ev.RenamedNodes, t.Node)
				e.Promised = append(e.Promised, t)
			}
			out = append(out, e)
		}
	}
	for i := range ch.ev.Moves {
		out = append(out, s.movedEffect(ch, after, &ch.ev.Moves[i]))
	}
	slices.SortFunc(out, func(a, b model.RunningEffect) int { return model.CompareAttempts(a.Attempt, b.Attempt) })
	return out
}

// movedEffect is what a change alone, without later decisions, does to one attempt.
func (s Planner) movedEffect(ch *change, after *explain.Explainer, m *model.Move) model.RunningEffect {
	a := s.Live(m.Attempt)
	j := &s.Jobs[a.Job]
	e := s.runningEffect(a)
	e.VC, e.Lost = model.NewVCName(ch.ev.Renamed, e.VC), lostOf(j, a, m.Placement.Tasks)
	if g := int(m.Attempt.Gang); !j.Stop && !j.Spec.Gangs[g].Extra && !s.NeverFits(j, g) {
		if why := after.WhyNeverFits(after.Find(j.ID), g); why != nil {
			e.Never = why.Message
		}
	}
	demoted := m.Lazy && !a.Lazy
	e.DrainEnded = a.Orphaned && !m.Orphaned
	e.Guaranteed = e.Guaranteed && !demoted || m.Regained
	switch {
	case m.Orphaned && demoted:
		e.Fate = model.DrainsLazily
	case m.Orphaned:
		e.Fate = model.Drains
		e.Already = a.Orphaned && e.Lost == lostOf(j, a, s.Cluster.Alloc(a.Alloc).Placement.Tasks)
	case a.Cause != 0:
	case demoted:
		e.Fate = model.Opportunistic
	case m.Regained:
		e.Fate = model.Regains
	case a.Orphaned:
		e.Fate = model.DrainsNoMore
	}
	return e
}

// planned is a copy to which a change is applied.
func (s Planner) planned(ch *change) *explain.Explainer {
	after := s.Copy()
	for _, e := range ch.events {
		after.Apply(model.Record{Seq: after.Seq + 1, Time: after.Now, Event: e})
	}
	return after
}

// waitingEffects compares, for each job with waiting gangs, whether these could ever start before
// and after a change.
func (s Planner) waitingEffects(after *explain.Explainer) []model.WaitingEffect {
	out := []model.WaitingEffect{}
	if s.Cluster == nil {
		return out
	}
	for slot := range s.Jobs {
		if s.Jobs[slot].Spec == nil || s.Jobs[slot].Stop || s.Jobs[slot].Completing != nil {
			continue
		}
		if e, ok := s.waitingEffect(after, slot); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b model.WaitingEffect) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

// waitingEffect judges the waiting gangs of one job.
func (s Planner) waitingEffect(after *explain.Explainer, slot int) (model.WaitingEffect, bool) {
	was, is := &s.Jobs[slot], &after.Jobs[slot]
	var then, now *model.Reason
	booked := false
	for g := range is.Gangs {
		// Members above a minimum wait only beside it; full gangs wait, or will again.
		if gg := &is.Gangs[g]; !gg.Waiting && (gg.Attempt != tables.None || gg.Done || is.Spec.Gangs[g].Extra) {
			continue
		}
		now = cmp.Or(now, after.WhyNeverFits(is, g))
		then = cmp.Or(then, s.WhyNeverFits(was, g))
		booked = booked || tables.RareOf(was.Gangs[g].Rare).Booked != nil
	}
	e := model.WaitingEffect{Job: is.ID, Name: is.Spec.Name, User: is.Spec.User, VC: is.Spec.VC,
		Fate: model.NeverStarts, Already: then != nil}
	switch {
	case now != nil:
		e.Reason = now.Message
		return e, true
	case then != nil:
		return model.WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: model.CanStart}, true
	case booked && !timeline.Books(model.ConfigOfVC(after.Config, is.Spec.VC)):
		return model.WaitingEffect{Job: e.Job, Name: e.Name, User: e.User, VC: e.VC, Fate: model.Unbooked}, true
	}
	return e, false
}

// Report completes the answer to a configuration, once every decision is taken that follows it at
// once. Its effects are what these records say, and those that a plan of the same configuration
// names.
func (s Planner) Report(a *model.Answer, records []model.Record) {
	if a.Plan == nil {
		return
	}
	p := a.Plan
	a.Plan = nil
	if p.Changed {
		i, _ := slices.BinarySearchFunc(records, p.Seq+1, func(r model.Record,
			seq uint64) int {
			return int(r.Seq) - int(seq)
		})
		s.aftermath(p, records[i:])
	}
	a.Effects, a.Warnings = p.Effects, p.LikelyRenames()
}

// aftermath adds to a plan what was decided after the change; s is the state with these records.
func (s Planner) aftermath(p *model.ConfigPlan, records []model.Record) {
	for i := range records {
		switch e := records[i].Event.(type) {
		case model.StopSent:
			s.stopEffect(p, &e)
		case model.LazilyPreempted:
			for _, id := range append([]model.AttemptID{e.Attempt}, e.With...) {
				p.Demote(id, s.caller(e.By))
			}
		case model.Upgraded:
			for _, id := range append([]model.AttemptID{e.Attempt}, e.With...) {
				p.Upgrade(id)
			}
		case model.Placed:
			p.Drop(e.Attempt)
			s.startEffect(p, e.Attempt, e.Placement.Tasks, nil)
		case model.Joined:
			s.startEffect(p, e.Attempt, e.Placement.Tasks, nil)
		case model.Reserved:
			s.startEffect(p, e.Attempt, e.Placement.Tasks, e.Victims)
		case model.Unreserved:
			p.Drop(e.Attempt)
		}
	}
	p.Complete()
}

// stopEffect says of an attempt that it is told to stop.
func (s Planner) stopEffect(p *model.ConfigPlan, e *model.StopSent) {
	a, r := s.Live(e.Attempt), p.Find(e.Attempt)
	if a == nil || r == nil {
		return
	}
	r.Demoted = r.Fate == model.Opportunistic || r.Fate == model.DrainsLazily
	r.Fate, r.Cause, r.For, r.Lender = model.IsStopped, e.Cause.String(), s.caller(e.By), e.For
	if e.Cause == model.EndMigrated {
		r.Fate = model.Moves
	}
	j := &s.Jobs[a.Job]
	r.Unsaved, r.Devices = status.UnsavedBy(&s.Index, a), j.Gangs[a.ID.Gang].Leaves
	if e.Cause.Resumes() {
		r.ZeroEnds = status.WhyZeroEnds(j, a.ID.Gang)
	}
}

// startEffect says where a gang starts: at once, or after the victims have stopped.
func (s Planner) startEffect(p *model.ConfigPlan, id model.AttemptID, tasks []cell.Task, victims []model.AttemptID) {
	j := s.Find(id.Job)
	if j == nil {
		return
	}
	e := model.StartEffect{Attempt: id, Name: j.Spec.Name, User: j.Spec.User, VC: j.Spec.VC,
		Guaranteed: j.Spec.Priority >= cell.MinGuaranteed, Tasks: tasks}
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

// caller names the job of an attempt; nil for no attempt, or an ended job.
func (s Planner) caller(id *model.AttemptID) *model.JobCalled {
	if id == nil {
		return nil
	}
	j := s.Find(id.Job)
	if j == nil {
		return nil
	}
	return &model.JobCalled{Job: j.ID, Name: j.Spec.Name, User: j.Spec.User}
}
