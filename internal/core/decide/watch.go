package decide

import (
	"bytes"

	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// watch shows a VC's policy what a job reported. The policy may end the job.
func (s *Pass) watch(slot int32) {
	j := &s.Jobs[slot]
	w, ok := s.Policies[max(j.Space, 0)].(model.ProgressWatcher)
	if !ok || len(j.Spec.Gangs) == 0 {
		return
	}
	g := s.GangView(index.Queued{Prio: j.Spec.Priority, Job: j.ID, Slot: slot})
	if g.Progress == nil || g.Started == 0 {
		return
	}
	vc := s.Cluster.Space(j.Space).Name
	was := s.EnterPolicy(j.Space)
	note, why := w.Watch(&g)
	s.EnterPolicy(was)
	if note != nil && !bytes.Equal(note, s.Note(vc, j.ID)) {
		s.emit(model.Noted{VC: vc, Policy: s.PolicyOf(vc), Job: j.ID, Data: note})
	}
	if why != "" {
		s.emit(model.JobCompleting{Job: s.Jobs[slot].ID, Phase: model.Stopped, Cause: model.EndEarly,
			Task: tables.None, Message: why})
	}
}

// learn lets a VC's policy learn from a job that ends.
func (s *Pass) learn(slot int32) {
	j := &s.Jobs[slot]
	l, ok := s.Policies[max(j.Space, 0)].(model.Learner)
	if !ok {
		return
	}
	vc := s.Cluster.Space(j.Space).Name
	was := s.Note(vc, 0)
	note := was
	for g := range j.Gangs {
		v := s.GangView(index.Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: int32(g), Slot: slot})
		before := s.EnterPolicy(j.Space)
		if now := l.Learn(note, &v); now != nil {
			note = now
		}
		s.EnterPolicy(before)
	}
	if !bytes.Equal(was, note) {
		s.emit(model.Noted{VC: vc, Policy: s.PolicyOf(vc), Data: note})
	}
}
