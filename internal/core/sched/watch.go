package sched

import "bytes"

import (
	"github.com/combsched/comb/internal/core/model"
)

// Watcher is a Policy that watches what jobs report.
type Watcher interface {
	Policy
	// Watch is asked when a job's first gang reported its progress, and maybe again: what
	// it is to remember of that, nil for nothing new, and why the job is to be stopped, ""
	// where it goes on.
	Watch(*GangView) (note []byte, stop string)
}

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

// Learner is a Policy that learns from the jobs of its VC that end.
type Learner interface {
	Policy
	// Learn is asked once for each gang of a job that ends. It returns what is to be noted
	// about the VC, given what is, or nil for nothing new.
	Learn(note []byte, g *GangView) []byte
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
