package sched

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

// What policies remember: the last note about each job, and about each VC. A note
// belongs to the policy that wrote it; another policy of the VC does not see it.

// note is what a policy noted about a job.
type note struct {
	Policy string `json:"policy"`
	Data   []byte `json:"data"`
}

// policyOf is the name of a VC's policy.
func (s *fold) policyOf(name cell.VCName) string {
	if _, failed := s.findFailed(name); failed {
		return fallback
	}
	return cmp.Or(model.OfVC(s.cfg, name).Policy, fallback)
}

// Note implements View.
func (v view) Note(id model.JobID) []byte { return v.s.note(v.VC(), id) }

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

// remember writes a policy's note down, unless that is what it noted last. It is
// no change for those who wait.
func (w *walker) remember(n *Note) {
	s := w.s
	vc := s.cl.Space(w.space).Name
	if bytes.Equal(s.note(vc, n.Job), n.Data) || n.Job != 0 && s.find(n.Job) == nil {
		return
	}
	if w.passed > 0 {
		w.passed++
	}
	s.emit(Noted{VC: vc, Policy: s.policyOf(vc), Job: n.Job, Data: n.Data})
}

// applyJobNote keeps a note about a job. A key may depend on it, so gangs that wait
// leave their lines for that moment.
func (s *index) applyJobNote(slot int32, e Noted) {
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
		alter(&j.odd).note = &note{e.Policy, e.Data}
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
