package script_test

import (
	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// guaranteed asks on a copy of the state for every part of every VC's guarantee
// with the highest priority there is: it must be placed or promised at once,
// whatever the others do (I1, I5).
func (c *checker) guaranteed() {
	if !c.sound() {
		return
	}
	config := c.state.Config()
	for _, v := range c.state.VCs() {
		for _, q := range v.Cells {
			tasks, leaves, sku := whole(&config.Cluster, q)
			if tasks > 0 {
				c.probe(v.Name, q, &model.Job{
					Name: "probe", User: "probe", VC: v.Name, Priority: cell.MaxGuaranteed,
					Roles: []model.Role{{Name: "r", Tasks: tasks, Leaves: leaves, SKUs: []cell.TypeName{sku}, Pinned: q.Pinned, MinFailed: 1, MinSucceeded: -1}},
				})
			}
		}
	}
}

// whole gives the tasks that fill a part of a guarantee.
func whole(spec *cell.Spec, q model.QuotaUse) (tasks, leaves int32, sku cell.TypeName) {
	for _, chain := range spec.Chains {
		if chain.Name != q.Chain {
			continue
		}
		tasks, leaves = q.Total, 1
		above := false
		for i := 1; i < int(q.Level); i++ {
			if above {
				tasks *= chain.Levels[i].Fanout
			} else {
				leaves *= chain.Levels[i].Fanout
			}
			above = above || chain.Levels[i].IsNode
		}
		return tasks, leaves, chain.Levels[0].Type
	}
	return 0, 0, ""
}

func (c *checker) probe(vc cell.VCName, q model.QuotaUse, j *model.Job) {
	j.Gangs = []model.Gang{{Name: "all"}}
	for t := range j.Roles[0].Tasks {
		j.Gangs[0].Tasks = append(j.Gangs[0].Tasks, t)
	}
	c.probes++
	s := c.state.Clone()
	now := c.s.World().Now()
	events, answer, refusal := s.Check(model.Submit{Meta: model.Meta{Subject: "probe"}, Job: j}, now)
	if refusal != nil {
		c.fail("I1: VC %s may not ask for its own %d %s: %s", vc, q.Total, q.Type, refusal.Message)
		return
	}
	for _, e := range events {
		s.Apply(model.Record{Seq: s.Seq() + 1, Time: now, Event: e})
	}
	p := probing{c: c, s: s, now: now, job: answer.Job}
	if p.decide() {
		return
	}
	why := p.reason()
	switch held := p.heldBack(vc, why); {
	case !held:
		c.fail("I1: VC %s cannot get its own %d %s %s: %s %s", vc, q.Total, q.Type, q.Pinned, why.Code, why.Message)
	case !p.drained(func(j *model.JobStatus) bool { return j.VC == vc }) && (p.reason().Until > 0 || !p.drained(func(*model.JobStatus) bool { return true })):
		why = p.reason()
		c.fail("I1: VC %s, of which nobody else uses anything, is kept from its own %d %s %s: %s %s", vc, q.Total, q.Type, q.Pinned, why.Code, why.Message)
	}
}

// probing is a job that asks for a part of a VC's guarantee, on a copy of the state.
type probing struct {
	c   *checker
	s   *core.State
	now model.Time
	job model.JobID
}

// decide reports whether the job got cells or was promised them.
func (p *probing) decide() bool {
	for _, r := range p.s.Decide(p.now) {
		switch e := r.Event.(type) {
		case model.Placed:
			if e.Attempt.Job == p.job {
				return true
			}
		case model.Reserved:
			if e.Attempt.Job == p.job {
				return true
			}
		}
	}
	return false
}

func (p *probing) reason() model.Reason {
	if e, ok := p.s.Why(p.job); ok && len(e.Gangs) > 0 {
		return e.Gangs[0].Reason
	}
	return model.Reason{}
}

// heldBack reports whether the VC's own policy makes the job wait: it says so, or it
// insists on places near each other, which the cells that are in use are not.
func (p *probing) heldBack(vc cell.VCName, why model.Reason) bool {
	if why.Code == model.HeldBack {
		return why.Message != ""
	}
	for _, v := range p.s.VCs() {
		if v.Name == vc {
			return v.Policy == "philly"
		}
	}
	return false
}

// patience is how many looks the job has to start once some jobs are gone: limits
// in time end with the policy's next looks. Those before the instant that the job's own
// policy names are not counted, up to a bound: others look every few seconds.
const patience, allLooks = 64, 4096

// drained reports whether the job gets its cells within its policy's time when some
// jobs are stopped.
func (p *probing) drained(of func(*model.JobStatus) bool) bool {
	for _, j := range p.s.Jobs() {
		if j.ID != p.job && of(&j) {
			events, _, _ := p.s.Check(model.Stop{Meta: model.Meta{Subject: "probe"}, Job: j.ID}, p.now)
			p.apply(events...)
		}
	}
	for all, looks := 0, 0; looks < patience && all < allLooks; all++ {
		if p.decide() {
			return true
		}
		if p.reason().Until <= p.now {
			looks++
		}
		if p.buried() {
			continue
		}
		wake := p.s.Wake()
		if wake == 0 {
			return false
		}
		p.now = max(wake, p.now+1)
	}
	return false
}

// buried ends the tasks of all attempts that are to stop; false if there are none.
func (p *probing) buried() bool {
	some := false
	for _, j := range p.s.Jobs() {
		for _, a := range j.Attempts {
			for t := range j.Tasks {
				if a.State == model.AttemptStopping && j.Tasks[t].Gang == a.ID.Gang {
					events := p.s.Accept(model.TaskExited{Attempt: a.ID, Task: int32(t), Exit: model.Exit{Code: 143}})
					some = some || len(events) > 0
					p.apply(events...)
				}
			}
		}
	}
	return some
}

func (p *probing) apply(events ...model.Event) {
	for _, e := range events {
		p.s.Apply(model.Record{Seq: p.s.Seq() + 1, Time: p.now, Event: e})
	}
}
