package state

import (
	"cmp"
	"slices"

	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/index"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/tables"
)

// PolicyOf is the name of the policy that serves a VC: the fallback if its own failed.
func (s *State) PolicyOf(name cell.VCName) string {
	if _, failed := s.findFailed(name); failed {
		return model.Fallback
	}
	return cmp.Or(model.ConfigOfVC(s.Config, name).Policy, model.Fallback)
}

// Note is what a policy remembers about a job of its VC, or, for job 0, about the VC; nil for
// nothing.
func (s *State) Note(vc cell.VCName, id model.JobID) []byte {
	policy := s.PolicyOf(vc)
	if id == 0 {
		if i, found := s.findNote(vc); found && s.Notes[i].Policy == policy {
			return s.Notes[i].Data
		}
		return nil
	}
	if j := s.Find(id); j != nil && j.PolicyNote() != nil && j.PolicyNote().Policy == policy && j.Spec.VC == vc {
		return j.PolicyNote().Data
	}
	return nil
}

func (s *State) findNote(vc cell.VCName) (int, bool) {
	return slices.BinarySearchFunc(s.Notes, vc, func(n model.Noted, k cell.VCName) int { return cmp.Compare(n.VC, k) })
}

// applyJobNote keeps a note about a job. Its gangs' keys may depend on the note, so gangs that
// wait leave their wait groups meanwhile.
func (s *State) applyJobNote(slot int32, e model.Noted) {
	j := &s.Jobs[slot]
	var listed []index.Queued
	_, keyed := s.Policies[j.Space].(model.Keyed)
	if _, keeps := s.Policies[j.Space].(model.WaitIndexer); keyed || keeps {
		for g := range j.Gangs {
			if q := (index.Queued{Prio: j.Spec.Priority, Job: j.ID, Gang: int32(g), Slot: slot}); j.Gangs[g].Listed {
				listed = append(listed, q)
				s.DropFromGroup(j.Space, q)
			}
		}
	}
	if len(e.Data) > 0 {
		tables.SetRare(&j.Rare).Note = &tables.Note{Policy: e.Policy, Data: e.Data}
	} else if j.PolicyNote() != nil {
		tables.SetRare(&j.Rare).Note = nil
	}
	for _, q := range listed {
		s.AddToGroup(j.Space, q)
	}
	for g := range j.Gangs {
		if at := j.Gangs[g].Attempt; at != tables.None {
			s.NoteChanged(&s.Attempts[at])
		}
	}
}

func (s *State) applyNoted(e model.Noted) {
	if space := s.Space(e.VC); space > 0 {
		s.ForgetNextChange(space)
	}
	if e.Job != 0 {
		if slot, ok := s.Slots.Get(e.Job); ok {
			s.applyJobNote(slot, e)
		}
		return
	}
	i, found := s.findNote(e.VC)
	switch {
	case found && len(e.Data) == 0:
		s.Notes = slices.Delete(s.Notes, i, i+1)
	case found:
		s.Notes[i] = e
	case len(e.Data) > 0:
		s.Notes = slices.Insert(s.Notes, i, e)
	}
}

// forgetNotes drops the notes of policies that a configuration has replaced. It also forgets when
// gangs moved of VCs that are gone: another VC may get that name.
func (s *State) forgetNotes() {
	s.Moved = slices.DeleteFunc(s.Moved, func(m moved) bool { return s.Space(m.VC) == 0 })
	s.Notes = slices.DeleteFunc(s.Notes, func(n model.Noted) bool {
		return s.Space(n.VC) == 0 || s.PolicyOf(n.VC) != n.Policy
	})
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Spec != nil && j.PolicyNote() != nil && s.PolicyOf(j.Spec.VC) != j.PolicyNote().Policy {
			tables.SetRare(&j.Rare).Note = nil
		}
	}
}
