package sched

import (
	"github.com/combsched/comb/internal/core/model"
)

// DryRun says what would become of a job that is submitted now: it is submitted
// to a copy of the state, and decided on. The explanation's Places say where it
// would start and Preempts who would have to leave first; when it would wait, or
// could never start, its gangs have the reasons, and the estimate is there. A
// refusal comes with an explanation only when the job can never fit.
func (s *explainer) DryRun(spec *model.Job, m MeasuredRuns) (Explanation, *Refusal) {
	w := &whatIf{explainer: s.cloneIn(&s.copies().with), at: s.now}
	w.copyMemory = s.copyMemory
	events, ans, no := w.admit(Submit{Job: spec, Meta: Meta{Subject: spec.User}})
	id := ans.Job
	if no != nil {
		if no.Kind != Never {
			return Explanation{}, no
		}
		id = w.nextJob
		events = []Event{JobSubmitted{ID: id, Job: spec}}
	}
	w.tell(events...)
	if no != nil {
		e, _ := w.Explain(id)
		// It would not be in the queue.
		e.Position, e.Order, e.Waiting, e.Ahead, e.AheadMore = 0, "", 0, nil, 0
		return e, no
	}
	all := w.copy() // still undecided: the estimate begins here
	all.copyMemory = s.copyMemory
	preempts, _ := w.starts(id, 0)
	e, ok := w.Explain(id)
	if !ok {
		e = Explanation{Job: id, Name: spec.Name, VC: spec.VC, Phase: Waiting, Gangs: []model.GangReason{}}
	}
	e.Places, e.Preempts = w.places(id), preempts
	if len(e.Gangs) > 0 {
		if e.Starting() > 0 {
			all = w.explainer // of what does not start with the rest
		}
		if est, known := all.Estimate(id, m); known {
			e.Estimate = &est
		}
	}
	return e, nil
}

// places tells where the gangs of a job are.
func (s *explainer) places(id model.JobID) []model.GangPlace {
	j := s.find(id)
	if j == nil {
		return nil
	}
	var out []model.GangPlace
	for g := range j.gangs {
		at := j.gangs[g].attempt
		if at == none {
			continue
		}
		p := model.GangPlace{Gang: int32(g), Name: j.spec.Gangs[g].Name}
		for i, t := range s.cl.Alloc(s.attempts[at].alloc).Placement.Tasks {
			run := &j.tasks[j.spec.Gangs[g].Tasks[i]]
			p.Tasks = append(p.Tasks, model.TaskPlace{Role: j.spec.Roles[run.role].Name, Index: run.index,
				Node: t.Node, SKU: t.SKU, Devices: t.Devices, Parts: t.Parts, Limits: s.mayUse(j, run)})
		}
		out = append(out, p)
	}
	return out
}

// later is At of what explains.
func (s *explainer) later(memory *CopyMemory, now model.Time) *explainer {
	c := s.cloneIn(&memory.state)
	c.now, c.copyMemory = max(c.now, now), memory
	return c
}
