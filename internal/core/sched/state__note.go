package sched

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// policyOf is the name of a VC's policy.
func (s *fold) policyOf(name cell.VCName) string {
	if _, failed := s.findFailed(name); failed {
		return fallback
	}
	return cmp.Or(model.OfVC(s.cfg, name).Policy, fallback)
}

func (s *fold) note(vc cell.VCName, id model.JobID) []byte {
	policy := s.policyOf(vc)
	if id == 0 {
		if i, found := s.findNote(vc); found && s.notes[i].Policy == policy {
			return s.notes[i].Data
		}
		return nil
	}
	if j := s.find(id); j != nil && j.noted() != nil && j.noted().Policy == policy && j.spec.VC == vc {
		return j.noted().Data
	}
	return nil
}

func (s *fold) findNote(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.notes, vc, func(n Noted, k cell.VCName) int { return cmp.Compare(n.VC, k) })
}

// applyJobNote keeps a note about a job. A key may depend on it, so gangs that wait
// leave their lines for that moment.
func (s *fold) applyJobNote(slot int32, e Noted) {
	j := &s.jobs[slot]
	var listed []queued
	_, keyed := s.pol[j.space].(Keyed)
	if _, keeps := s.pol[j.space].(Keeper); keyed || keeps {
		for g := range j.gangs {
			if q := (queued{prio: j.spec.Priority, job: j.id, gang: int32(g), slot: slot}); j.gangs[g].listed {
				listed = append(listed, q)
				s.unlist(j.space, q)
			}
		}
	}
	if len(e.Data) > 0 {
		alter(&j.odd).note = &note{Policy: e.Policy, Data: e.Data}
	} else if j.noted() != nil {
		alter(&j.odd).note = nil
	}
	for _, q := range listed {
		s.list(j.space, q)
	}
	for g := range j.gangs {
		if at := j.gangs[g].attempt; at != none {
			s.rerun(&s.attempts[at])
		}
	}
}

func (s *fold) applyNoted(e Noted) {
	if space := s.space(e.VC); space > 0 {
		s.stir(space)
	}
	if e.Job != 0 {
		if slot, ok := s.slots.Get(e.Job); ok {
			s.applyJobNote(slot, e)
		}
		return
	}
	i, found := s.findNote(e.VC)
	switch {
	case found && len(e.Data) == 0:
		s.notes = slices.Delete(s.notes, i, i+1)
	case found:
		s.notes[i] = e
	case len(e.Data) > 0:
		s.notes = slices.Insert(s.notes, i, e)
	}
}

// forgetNotes drops the notes of policies that a configuration has replaced, and when gangs of
// VCs moved that are no more: another one may get that name.
func (s *fold) forgetNotes() {
	s.moved = slices.DeleteFunc(s.moved, func(m moved) bool { return s.space(m.VC) == 0 })
	s.notes = slices.DeleteFunc(s.notes, func(n Noted) bool {
		return s.space(n.VC) == 0 || s.policyOf(n.VC) != n.Policy
	})
	for i := range s.jobs {
		if j := &s.jobs[i]; j.spec != nil && j.noted() != nil && s.policyOf(j.spec.VC) != j.noted().Policy {
			alter(&j.odd).note = nil
		}
	}
}
