package sched

import (
	"bytes"

	"github.com/combsched/comb/internal/core/model"
)

// watch lets a VC's policy see what a job reported.
func (s *pass) watch(slot int32) {
	j := &s.jobs[slot]
	w, ok := s.pol[max(j.space, 0)].(Watcher)
	if !ok || len(j.spec.Gangs) == 0 {
		return
	}
	g := s.gangView(queued{prio: j.spec.Priority, job: j.id, slot: slot})
	if g.Progress == nil || g.Started == 0 {
		return
	}
	vc := s.cl.Space(j.space).Name
	was := s.ask(j.space)
	note, why := w.Watch(&g)
	s.ask(was)
	if note != nil && !bytes.Equal(note, s.note(vc, j.id)) {
		s.emit(Noted{VC: vc, Policy: s.policyOf(vc), Job: j.id, Data: note})
	}
	if why != "" {
		s.emit(JobCompleting{Job: s.jobs[slot].id, Phase: Stopped, Cause: model.EndEarly, Task: none, Message: why})
	}
}

// learn lets a VC's policy learn from a job that ends.
func (s *pass) learn(slot int32) {
	j := &s.jobs[slot]
	l, ok := s.pol[max(j.space, 0)].(Learner)
	if !ok {
		return
	}
	vc := s.cl.Space(j.space).Name
	was := s.note(vc, 0)
	note := was
	for g := range j.gangs {
		v := s.gangView(queued{prio: j.spec.Priority, job: j.id, gang: int32(g), slot: slot})
		before := s.ask(j.space)
		if now := l.Learn(note, &v); now != nil {
			note = now
		}
		s.ask(before)
	}
	if !bytes.Equal(was, note) {
		s.emit(Noted{VC: vc, Policy: s.policyOf(vc), Data: note})
	}
}
