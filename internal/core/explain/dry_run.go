package explain

import (
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// DryRun says what would happen to a job that is submitted now: it is submitted
// to a copy of the state, and decided on. Places of the explanation says where it
// would start, and Preempts which jobs would be preempted first. If it would wait, or
// could never start, its gangs have reasons, and there is an estimate. A
// refusal comes with an explanation only when the job can never fit.
func (s *Explainer) DryRun(spec *model.Job, m model.MeasuredRuns) (model.Explanation, *model.Refusal) {
	w := &WhatIf{Explainer: s.CloneIn(&s.memoryForCopies().with), At: s.Now}
	w.CopyMemory = s.CopyMemory
	events, ans, no := w.Admit(model.Submit{Job: spec, Meta: model.Meta{Subject: spec.User}})
	id := ans.Job
	if no != nil {
		if no.Kind != model.Never {
			return model.Explanation{}, no
		}
		id = w.NextJob
		events = []model.Event{model.JobSubmitted{ID: id, Job: spec}}
	}
	w.ApplyEvents(events...)
	if no != nil {
		e, _ := w.Explain(id)
		// A refused job is in no queue.
		e.Position, e.Order, e.Waiting, e.Ahead, e.AheadMore = 0, "", 0, nil, 0
		return e, no
	}
	all := w.Copy() // still undecided: the estimate begins here
	all.CopyMemory = s.CopyMemory
	preempts, _ := w.starts(id, 0)
	e, ok := w.Explain(id)
	if !ok {
		e = model.Explanation{Job: id, Name: spec.Name, VC: spec.VC, Phase: model.Waiting, Gangs: []model.GangReason{}}
	}
	e.Places, e.Preempts = w.places(id), preempts
	if len(e.Gangs) > 0 {
		if e.Starting() > 0 {
			all = w.Explainer // some tasks start: the estimate is for the others
		}
		if est, known := all.Estimate(id, m); known {
			e.Estimate = &est
		}
	}
	return e, nil
}

// places returns where the gangs of a job are placed.
func (s *Explainer) places(id model.JobID) []model.GangPlace {
	j := s.Find(id)
	if j == nil {
		return nil
	}
	var out []model.GangPlace
	for g := range j.Gangs {
		at := j.Gangs[g].Attempt
		if at == tables.None {
			continue
		}
		p := model.GangPlace{Gang: int32(g), Name: j.Spec.Gangs[g].Name}
		for i, t := range s.Cluster.Alloc(s.Attempts[at].Alloc).Placement.Tasks {
			run := &j.Tasks[j.Spec.Gangs[g].Tasks[i]]
			p.Tasks = append(p.Tasks, model.TaskPlace{Role: j.Spec.Roles[run.Role].Name, Index: run.Index,
				Node: t.Node, SKU: t.SKU, Devices: t.Devices, Parts: t.Parts, Limits: s.MayUse(j, run)})
		}
		out = append(out, p)
	}
	return out
}

// CopyAt returns a copy of the state as of a time, in memory that is used again.
func (s *Explainer) CopyAt(memory *CopyMemory, now model.Time) *Explainer {
	c := s.CloneIn(&memory.state)
	c.Now, c.CopyMemory = max(c.Now, now), memory
	return c
}
